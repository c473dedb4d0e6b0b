"""Data sets that are bundled with the package."""

from __future__ import annotations

from importlib import resources

import numpy as np

from pcpq.io.arrays import Float32Array


def load_words() -> tuple[Float32Array, list[str]]:
    """Load the 20,000 most frequent English words and their GloVe vectors (Pennington et al.; public domain).

    Returns
    -------
    vectors : (20000, 100) float32, not normalised
    words : 20,000 strings, the most frequent first
    """
    folder = resources.files("pcpq") / "data"
    with (folder / "glove20k.npy").open("rb") as file:
        vectors = np.load(file, allow_pickle=False).astype(np.float32)
    words = (folder / "glove20k_words.txt").read_text(encoding="utf-8").split("\n")
    return vectors, words[: len(vectors)]
