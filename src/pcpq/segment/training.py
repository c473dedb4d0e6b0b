"""What an index is trained on, and how, from its settings and the number of vectors."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from pcpq import _core
from pcpq.io.streams import Sample
from pcpq.ivf.kmeans import ROWS_A_LIST
from pcpq.quantizers import PQ, QPCPQ, Quantizer
from pcpq.quantizers.rotation import ROTATIONS
from pcpq.segment.codebooks import CODEBOOKS
from pcpq.segment.kept_vectors import KEEPS
from pcpq.segment.trained import Trained

METRICS = ("dot", "cosine", "euclidean")
# What parameters of an index may be.
CHOICES = {"metric": METRICS, "rotation": ROTATIONS, "codebooks": CODEBOOKS, "keep": KEEPS}
# Rows to train on: where lists need fewer, and where nobody knows how many vectors there will be.
LEAST_TRAINING_ROWS = 65_536
TRAINING_ROWS = 1 << 18
LEAST_ROWS_A_LIST = 8


class Settings(Protocol):
    """The parameters of an index."""

    metric: str
    quantizer: Quantizer | None
    n_lists: int | None
    rotation: str | None
    codebooks: str
    keep: str | None


def check_choices(**chosen: str | None) -> None:
    """A ValueError that names a parameter which is none of what it may be."""
    for name, value in chosen.items():
        if value not in CHOICES[name]:
            allowed = ", ".join(map(repr, CHOICES[name]))
            raise ValueError(f"{name} is {value!r}; expected one of {allowed}")


def default_lists(n: int) -> int:
    """Twice the root of the number of vectors."""
    return max(1, round(2 * math.sqrt(n)))


def wanted_lists(settings: Settings, n: int | None) -> int | None:
    """Lists for n vectors; None: nobody knows how many there will be."""
    return settings.n_lists or (None if n is None else default_lists(n))


def training_rows(settings: Settings, n: int | None) -> int:
    """Vectors to look at."""
    n_lists = wanted_lists(settings, n)
    return TRAINING_ROWS if n_lists is None else max(LEAST_TRAINING_ROWS, ROWS_A_LIST * n_lists)


def train(
    settings: Settings, sample: Sample, n: int | None, generator: np.random.Generator, threads: int | None
) -> Trained:
    """Lists and codes for n vectors, learned from some of them."""
    n_lists = wanted_lists(settings, n)
    if settings.n_lists is None:
        n_lists = min(n_lists or default_lists(len(sample)), max(1, len(sample) // LEAST_ROWS_A_LIST))
    trained = Trained.fit(
        sample,
        metric=settings.metric,
        keep=settings.keep,
        n_lists=n_lists or 1,
        quantizer=new_quantizer(settings, sample.dimensions, threads),
        rotation=settings.rotation,
        codebooks=settings.codebooks,
        generator=generator,
        threads=threads,
    )
    _core.release_memory()
    return trained


def new_quantizer(settings: Settings, dimensions: int, threads: int | None) -> Quantizer:
    """The one asked for, not fitted, or the default."""
    quantizer = settings.quantizer
    if quantizer is None:
        size = min(2, dimensions)
        quantizer = QPCPQ(section_size=size) if settings.keep is None else PQ(section_size=size)
    # The scan has a bias along the vector; distances have one of their own.
    bias = False if settings.metric == "euclidean" else "auto"
    parameters = quantizer.get_params() | {"gain": False, "bias": bias, "threads": threads}
    return type(quantizer)(**parameters)
