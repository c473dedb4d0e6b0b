"""In how many coordinates vectors are put into lists and coded, measured on a sample before training."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from pcpq.config import IndexConfig
from pcpq.io.arrays import Float32Array, FloatArray
from pcpq.io.streams import Sample
from pcpq.ivf.partition import fit_partition
from pcpq.ivf.projection import PrincipalAxes
from pcpq.segment.trained import WorkingSample, in_units, sample_unit
from pcpq.segment.training import default_lists, new_quantizer
from pcpq.util.threads import one_blas_thread

logger = logging.getLogger("pcpq")
# Fewer vectors are searched fast anyway; fewer dimensions are too few to leave some out. The axes of more
# dimensions take minutes.
LEAST_VECTORS = 40_000
DIMENSIONS = range(96, 2049)
# Rows that the axes are found from, and per dimension; rows whose lists are searched, at most so many elements;
# and queries, which are other rows or those of the user.
AXES_ROWS, ROWS_PER_DIMENSION = 8192, 4
ROWS, ELEMENTS, QUERIES = 16_384, 1 << 23, 500
# Coordinates are chosen until they have so much of the variance of scores within lists. Codes lose far more
# than the rest.
ENOUGH = 0.985
# Numbers of coordinates that are considered: whole registers, and whole sections.
STEP = 48
# With more coordinates than that, the product with the matrix takes what shorter codes save.
LARGEST_PART = 0.5


def projection_for(
    config: IndexConfig,
    sample: Sample,
    n: int | None,
    queries: FloatArray | None,
    threads: int | None,
) -> Float32Array | None:
    """Return the projection of an index of n vectors to the coordinates of its codes; None for no projection.

    Parameters
    ----------
    config : settings of the index
    sample : vectors to train on
    n : number of vectors; None if it is unknown
    queries : (m, d) floats, queries that the index will serve; None: vectors of the sample are taken
    threads : number of threads; None: all CPUs of the process
    """
    d, given = sample.dimensions, config.code_dimensions
    if given is not None and given > d:
        raise ValueError(f"code_dimensions is {given}, but vectors have {d} dimensions")
    if given == d or (given is None and not is_open(config, d, n or len(sample))) or len(sample) == 0:
        return None
    # Draws of its own: lists are the same whether this was chosen or given.
    generator = np.random.default_rng([config.seed, 3])
    unit = sample_unit(sample, config.metric)
    working = WorkingSample(sample, config.metric, unit)
    drawn = generator.permutation(len(sample))
    axes = PrincipalAxes.of(working[np.sort(drawn[: max(AXES_ROWS, ROWS_PER_DIMENSION * d)])])
    if given is None:
        count = min(ROWS, ELEMENTS // d, len(sample) - QUERIES)
        rows, held_out = working[np.sort(drawn[:count])], drawn[count : count + QUERIES]
        if queries is None:
            asked = working[np.sort(held_out)]
        else:
            asked = in_units(queries[:QUERIES], config.metric, unit, "queries", 0)
        given = enough_of(shares(axes, rows, asked, config.metric, generator, threads))
        if given > LARGEST_PART * d:
            return None
        logger.info("of %d dimensions, codes have the %d principal ones", d, given)
    size = new_quantizer(config, given, n, threads).get_params()["section_size"]
    return axes.matrix(given, size)


def is_open(config: IndexConfig, dimensions: int, n: int) -> bool:
    """Return whether fewer coordinates may be chosen for n vectors."""
    free = config.quantizer is None and config.rotation is None and config.keep is not None
    return free and dimensions in DIMENSIONS and n >= LEAST_VECTORS


@one_blas_thread
def shares(
    axes: PrincipalAxes,
    rows: Float32Array,
    queries: Float32Array,
    metric: str,
    generator: np.random.Generator,
    threads: int | None,
) -> NDArray[np.float64]:
    """Return the (d,) shares of the variance of scores within lists that the first axes have.

    The rest is what scores of codes cannot tell, however accurate codes are.
    """
    partition = fit_partition(rows, default_lists(len(rows)), metric, generator, threads)
    residuals = rows - partition.centroids[partition.assign(rows, threads)]
    if metric == "euclidean":
        queries = queries - partition.mean_centroid
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    directions = queries / np.maximum(lengths, np.finfo(np.float32).tiny)
    matrix = axes.axes.astype(np.float32)
    of_rows, of_queries = (
        np.square(some @ matrix).mean(axis=0, dtype=np.float64) for some in (residuals, directions)
    )
    variances: NDArray[np.float64] = np.cumsum(of_rows * of_queries)
    variances /= max(variances[-1], np.finfo(np.float64).tiny)
    return variances


def enough_of(found: NDArray[np.float64]) -> int:
    """Return the number of coordinates that have enough of the variance."""
    least = int(np.argmax(found >= ENOUGH)) + 1
    return min(-(-least // STEP) * STEP, len(found))
