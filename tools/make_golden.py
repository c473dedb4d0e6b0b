"""Write the stored indexes that every later version must open: python tools/make_golden.py tests/golden

The files of a released format version never change; run this only for a new version.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

import pcpq
from pcpq.store.manifest import read_manifest

N, D = 300, 6


def vectors() -> np.ndarray:
    """Return vectors that are the same in every version of NumPy."""
    numbers = np.arange((N + 10) * D, dtype=np.float64).reshape(-1, D)
    return np.sin(numbers * 12.9898 + 78.233).astype(np.float32)


def indexes() -> dict[str, pcpq.Index]:
    """Return indexes that cover every kind of file, by name."""
    rows = vectors()
    words = [f"wörd-{i}" for i in range(N)]
    plain = pcpq.build(rows[:N], metric="cosine", n_lists=5)
    plain.add(rows[:7] + 0.01)
    plain.remove([3, 250, 303])
    scaled = pcpq.build(
        rows[:N], words, metric="dot", keep=None, n_lists=4, attributes={"number": np.arange(N), "word": words}
    )
    exact = pcpq.build(
        rows[:N],
        metric="euclidean",
        keep="float32",
        n_lists=3,
        codebooks="per_list",
        rotation="random",
        quantizer=pcpq.PCPQ(section_size=3, n_centers=8),
    )
    largest = pcpq.build(rows[:N], 2**63 - 1 - np.arange(N), metric="dot", n_lists=4)
    largest.remove([2**63 - 3])
    wide = pcpq.build(rows[:N], metric="euclidean", n_lists=4, quantizer=pcpq.PQ(section_size=2, n_centers=40))
    wide.add(rows[:7] + 0.01)
    wide.remove([3, 250, 303])
    projective = pcpq.QPCPQ(section_size=3, n_centers=16, n_scales=4)
    pairs = pcpq.build(rows[:N], words, metric="dot", keep=None, n_lists=4, quantizer=projective)
    two_lists = pcpq.build(rows[:N], metric="cosine", n_lists=5, lists_per_vector=2)
    two_lists.add(rows[:7] + 0.01)
    two_lists.remove([3, 250, 303])
    projected = pcpq.build(rows[:N], metric="cosine", n_lists=5, code_dimensions=4)
    projected.add(rows[:7] + 0.01)
    projected.remove([3, 250, 303])
    return {
        "plain": plain,
        "scaled": scaled,
        "exact": exact,
        "largest": largest,
        "wide": wide,
        "wide-scaled": pairs,
        "two-lists": two_lists,
        "projected": projected,
    }


def answers(index: pcpq.Index) -> dict[str, Any]:
    """Return search results; 9 digits identify a float32."""
    found = index.search(vectors()[-5:], k=6, probes=2, rerank=30)
    return {
        "ids": found.ids.tolist(),
        "scores": [[float(f"{score:.9g}") for score in row] for row in found.scores],
    }


def main() -> None:
    """Write the indexes that do not exist yet, to one folder per version."""
    for name, index in indexes().items():
        new = Path(sys.argv[1]) / "new"
        index.save(new)
        (new / "lock").unlink()
        folder = Path(sys.argv[1]) / f"v{read_manifest(new).version}"
        if (folder / name).exists():
            shutil.rmtree(new)
            continue
        folder.mkdir(exist_ok=True)
        new.rename(folder / name)
        (folder / f"{name}.json").write_text(json.dumps(answers(index), indent=1) + "\n")


if __name__ == "__main__":
    main()
