"""Training of an index: from its config, a sample and the number of vectors."""

from __future__ import annotations

import math

import numpy as np

from pcpq import _core
from pcpq.config import IndexConfig
from pcpq.io.arrays import Float32Array
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
# Number of vectors from which on codes of six bits can be the default: lists of 100 rows fill blocks of 64.
LEAST_WIDE = 40_000
# The sizes of its sections, and the dimensions from which on they are used: fewer bytes for longer vectors.
WIDE_SECTIONS = ((6, 384), (4, 192), (3, 0))


def default_lists(n: int) -> int:
    """Return the default number of lists: twice the square root of the number of vectors."""
    return max(1, round(2 * math.sqrt(n)))


def wanted_lists(config: IndexConfig, n: int | None) -> int | None:
    """Return the number of lists for n vectors; None if n is unknown and the config does not say."""
    return config.n_lists or (None if n is None else default_lists(n))


def training_rows(config: IndexConfig, n: int | None) -> int:
    """Return the number of training vectors for an index of n vectors; n is None if unknown."""
    n_lists = wanted_lists(config, n)
    return TRAINING_ROWS if n_lists is None else max(LEAST_TRAINING_ROWS, ROWS_PER_LIST * n_lists)


@one_blas_thread
def train(
    config: IndexConfig,
    sample: Sample,
    n: int | None,
    projection: Float32Array | None,
    generator: np.random.Generator,
    threads: int | None,
) -> Trained:
    """Train lists and codebooks of an index of n vectors on a sample, in the coordinates of a projection."""
    n_lists = wanted_lists(config, n)
    dimensions = sample.dimensions if projection is None else projection.shape[1]
    quantizer = new_quantizer(config, dimensions, n, threads)
    if config.lists_per_vector == 2 and never_packed(quantizer):
        raise ValueError(f"lists_per_vector=2 needs codes in blocks, which those of {quantizer} are not")
    if config.n_lists is None:
        default = n_lists or default_lists(len(sample))
        n_lists = min(default, max(1, len(sample) // LEAST_ROWS_PER_LIST))
    trained = Trained.fit(
        sample,
        metric=config.metric,
        keep=config.keep,
        n_lists=n_lists or 1,
        quantizer=quantizer,
        rotation=config.rotation,
        codebooks=config.codebooks,
        lists_per_vector=config.lists_per_vector or 1,
        projection=projection,
        generator=generator,
        threads=threads,
    )
    _core.release_memory()
    return trained


def new_quantizer(config: IndexConfig, dimensions: int, n: int | None, threads: int | None) -> Quantizer:
    """Return the quantizer of the config, or the default one for n vectors (None: unknown), not fitted."""
    quantizer = config.quantizer or default_quantizer(config, dimensions, n)
    # The scan adds a bias along the vector; with Euclidean distances the bias comes from the distance itself.
    bias = False if config.metric == "euclidean" else "auto"
    parameters = quantizer.get_params() | {"gain": False, "bias": bias, "threads": threads}
    return type(quantizer)(**parameters)


def default_quantizer(config: IndexConfig, dimensions: int, n: int | None) -> Quantizer:
    """Return the code that this processor scans fastest for n vectors; n is None if unknown.

    Codes of six bits need AVX-512 to be faster, lists that fill blocks of 64 rows, and four times the codebook.
    """
    size = min(2, dimensions)
    if config.keep is None:
        return QPCPQ(section_size=size)
    large = n is None or n >= LEAST_WIDE
    if large and config.codebooks == "shared" and _core.simd_level() == "avx512":
        return wide_code(dimensions)
    return PQ(section_size=size)


def wide_code(dimensions: int) -> PQ:
    """Return the default code of six bits."""
    size = next(size for size, least in WIDE_SECTIONS if dimensions >= least)
    return PQ(section_size=min(size, dimensions), n_centers=64)


def choices_made(config: IndexConfig, trained: Trained) -> str | None:
    """Return what was chosen for an index because the config leaves it open, and why; None if nothing was."""
    if config.chosen is not None:
        return config.chosen
    found = []
    if config.quantizer is None and trained.codebooks.wide:
        used = trained.codebooks.quantizers[0].get_params()
        code = PQ(section_size=used["section_size"], n_centers=used["n_centers"])
        found.append(f"{code!r}: AVX-512 scans codes of six bits fastest")
    if config.lists_per_vector is None and trained.second_lists:
        found.append("lists_per_vector=2: with a second list, the same recall needs far fewer rows")
    if config.code_dimensions is None and trained.projection is not None:
        found.append(
            f"code_dimensions={trained.code_dimensions}: of {trained.dimensions} dimensions, these have nearly"
            " all of the variance of scores"
        )
    return "; ".join(found) or None
