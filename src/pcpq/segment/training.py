"""Training of an index: from its config, a sample and the number of vectors."""

from __future__ import annotations

import math

import numpy as np

from pcpq import _core
from pcpq.config import IndexConfig
from pcpq.io.streams import Sample
from pcpq.ivf.kmeans import ROWS_PER_LIST
from pcpq.quantizers import PQ, QPCPQ, Quantizer
from pcpq.segment.codebooks import never_packed
from pcpq.segment.trained import Trained
from pcpq.util.threads import one_blas_thread

# Training rows, at least; and if the number of vectors is unknown.
LEAST_TRAINING_ROWS = 65_536
TRAINING_ROWS = 1 << 18
# Lists have at least so many training rows on average, unless n_lists is given.
LEAST_ROWS_PER_LIST = 8


def default_lists(n: int, lists_per_vector: int = 1) -> int:
    """Return the default number of lists: twice the square root of the number of vectors.

    For vectors in two lists it is four times, so that lists hold as many codes.
    """
    return max(1, round(2 * lists_per_vector * math.sqrt(n)))


def wanted_lists(config: IndexConfig, n: int | None) -> int | None:
    """Return the number of lists for n vectors; None if n is unknown and the config does not say."""
    return config.n_lists or (None if n is None else default_lists(n, config.lists_per_vector))


def training_rows(config: IndexConfig, n: int | None) -> int:
    """Return the number of training vectors for an index of n vectors; n is None if unknown."""
    n_lists = wanted_lists(config, n)
    return TRAINING_ROWS if n_lists is None else max(LEAST_TRAINING_ROWS, ROWS_PER_LIST * n_lists)


@one_blas_thread
def train(
    config: IndexConfig, sample: Sample, n: int | None, generator: np.random.Generator, threads: int | None
) -> Trained:
    """Train the lists and codebooks of an index of n vectors on a sample."""
    n_lists = wanted_lists(config, n)
    quantizer = new_quantizer(config, sample.dimensions, threads)
    if config.lists_per_vector == 2 and never_packed(quantizer):
        raise ValueError(f"lists_per_vector=2 needs codes in blocks, which those of {quantizer} are not")
    if config.n_lists is None:
        default = n_lists or default_lists(len(sample), config.lists_per_vector)
        n_lists = min(default, max(1, len(sample) // LEAST_ROWS_PER_LIST))
    trained = Trained.fit(
        sample,
        metric=config.metric,
        keep=config.keep,
        n_lists=n_lists or 1,
        quantizer=quantizer,
        rotation=config.rotation,
        codebooks=config.codebooks,
        lists_per_vector=config.lists_per_vector,
        generator=generator,
        threads=threads,
    )
    _core.release_memory()
    return trained


def new_quantizer(config: IndexConfig, dimensions: int, threads: int | None) -> Quantizer:
    """Return the quantizer of the config, or the default one, not fitted."""
    quantizer = config.quantizer
    if quantizer is None:
        size = min(2, dimensions)
        quantizer = QPCPQ(section_size=size) if config.keep is None else PQ(section_size=size)
    # The scan adds a bias along the vector; with Euclidean distances the bias comes from the distance itself.
    bias = False if config.metric == "euclidean" else "auto"
    parameters = quantizer.get_params() | {"gain": False, "bias": bias, "threads": threads}
    return type(quantizer)(**parameters)
