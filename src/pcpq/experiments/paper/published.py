"""Numbers published in the paper: its error table and its recall table."""

from __future__ import annotations

from typing import Any

# Names of methods in pcpq and in the paper, in the paper's order.
METHODS = {
    "PQ": "k-means++",
    "QPCPQ": "Q-PCPQ",
    "PCPQ": "PCPQ",
    "APQ": "ScaNN",
    "QAPCPQ": "Q-APCPQ",
    "APCPQ": "APCPQ",
}
# Average relative error of the top inner product, 4 bits.
ERRORS = {
    "glove": (0.286, 0.166, 0.164, 0.229, 0.199, 0.197),
    "lastfm": (0.191, 0.124, 0.114, 0.178, 0.153, 0.155),
}
# Recall1@1 and Recall1@10.
RECALLS = {
    ("glove", 4): (
        (0.448, 0.633, 0.634, 0.416, 0.529, 0.541),
        (0.825, 0.924, 0.925, 0.820, 0.889, 0.895),
    ),
    ("glove", 8): (
        (0.772, 0.829, 0.840, 0.741, 0.766, 0.770),
        (0.945, 0.947, 0.947, 0.944, 0.945, 0.945),
    ),
    ("lastfm", 4): (
        (0.584, 0.775, 0.757, 0.594, 0.667, 0.674),
        (0.984, 1.000, 1.000, 0.978, 1.000, 1.000),
    ),
    ("lastfm", 8): (
        (0.992, 0.919, 0.994, 0.989, 0.986, 0.986),
        (1.000, 1.000, 1.000, 1.000, 1.000, 1.000),
    ),
}
# Reconstruction error of k-means++ on Glove-100, from the paper's text.
RECONSTRUCTION = {("glove", 4): 0.3009, ("glove", 8): 0.0316}


def published(name: str, bits: int, method: str) -> dict[str, Any] | None:
    """Return the published numbers of a method on a set, or on the set that it stands for; None if none."""
    if (name, bits) not in RECALLS:
        return None
    column = list(METHODS).index(method)
    at_1, at_10 = RECALLS[name, bits]
    reconstruction = RECONSTRUCTION.get((name, bits)) if method == "PQ" else None
    return {
        "relative_error": ERRORS[name][column] if bits == 4 else None,
        "reconstruction_error": reconstruction,
        "recall_1_at_1": at_1[column],
        "recall_1_at_10": at_10[column],
    }


def plateau(name: str) -> float | None:
    """Return the highest published recall at 8 bits, which the number of probed lists limits; None if none."""
    return max(RECALLS[name, 8][1]) if (name, 8) in RECALLS else None
