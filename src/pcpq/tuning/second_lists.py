"""Whether a second list per vector pays, measured on a sample before training."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from pcpq.config import IndexConfig
from pcpq.io.arrays import Float32Array, FloatArray
from pcpq.io.streams import Sample
from pcpq.ivf.coarse_ranking import Coarse
from pcpq.ivf.partition import Partition, fit_partition
from pcpq.ivf.probing import RankedLists
from pcpq.ivf.projection import project
from pcpq.search.recall_curve import USUAL_TARGET
from pcpq.segment.codebooks import never_packed
from pcpq.segment.trained import WorkingSample, in_units, sample_unit
from pcpq.segment.training import default_lists
from pcpq.util.batches import slices
from pcpq.util.threads import one_blas_thread

logger = logging.getLogger("pcpq")
# Indexes of fewer vectors are searched in a few microseconds; the choice would take longer than they need.
LEAST_VECTORS = 100_000
# Rows of the sample, at most so many elements, in twice as many lists as an index of them would have; and
# queries, which are other rows or those of the user.
ROWS, ELEMENTS, QUERIES, MORE_LISTS = 40_000, 1 << 24, 500, 2
NEIGHBOURS = 10
# A second list takes memory for a second code and time to build: it must save so much of the rows scanned.
# Shares of many sets: docs/design/index.md. Embeddings of text are below, sets that hardly gain above.
LARGEST_SHARE = 0.78


def lists_per_vector(
    config: IndexConfig,
    sample: Sample,
    n: int | None,
    queries: FloatArray | None,
    projection: Float32Array | None,
    threads: int | None,
) -> int:
    """Return in how many lists each of n vectors should be, if the config leaves that open.

    Parameters
    ----------
    config : settings of the index
    sample : vectors to train on
    n : number of vectors; None if it is unknown
    queries : (m, d) floats, queries that the index will serve; None: vectors of the sample are taken
    projection : (d, p) floats, to the coordinates that lists are made of; None: those of vectors
    threads : number of threads; None: all CPUs of the process
    """
    if config.lists_per_vector is not None:
        return config.lists_per_vector
    packed = config.quantizer is None or not never_packed(config.quantizer)
    rows = sample_rows(sample)
    if config.keep is None or not packed or (n or len(sample)) < LEAST_VECTORS or rows < 1:
        return 1
    # Draws of its own: lists are the same whether this was chosen or given.
    generator = np.random.default_rng([config.seed, 2])
    share = rows_share(config.metric, sample, rows, queries, projection, generator, threads)
    logger.info("with a second list per vector, a sample needs %.0f %% of the rows", 100 * share)
    return 2 if share <= LARGEST_SHARE else 1


def sample_rows(sample: Sample) -> int:
    """Return the number of rows to measure with; not positive if the sample is too small."""
    return min(ROWS, ELEMENTS // sample.dimensions, len(sample) - QUERIES)


@one_blas_thread
def rows_share(
    metric: str,
    sample: Sample,
    count: int,
    queries: FloatArray | None,
    projection: Float32Array | None,
    generator: np.random.Generator,
    threads: int | None,
) -> float:
    """Return the rows to scan with two lists per vector relative to one, at the usual recall."""
    drawn = generator.permutation(len(sample))[: count + QUERIES]
    unit = sample_unit(sample, metric)
    working = WorkingSample(sample, metric, unit, projection)
    rows = working[np.sort(drawn[:count])]
    if queries is None:
        asked = working[np.sort(drawn[count:])]
    else:
        asked = project(in_units(queries[:QUERIES], metric, unit, "queries", 0), projection)
    partition = fit_partition(rows, MORE_LISTS * default_lists(count), metric, generator, threads)
    return share_in(partition, rows, asked, metric, threads)


def share_in(
    partition: Partition, rows: Float32Array, asked: Float32Array, metric: str, threads: int | None
) -> float:
    """Return the codes to scan with rows in two lists of a partition relative to one, for some queries."""
    nearest = best_rows(rows, asked, metric)
    first, second = partition.assign_two(rows, threads)
    places = RankedLists.of(partition, Coarse.of(partition), metric, asked).places
    one, two = (rows_needed(places, nearest, lists) for lists in ((first,), (first, second)))
    return two / one


def best_rows(rows: Float32Array, queries: Float32Array, metric: str) -> NDArray[np.intp]:
    """Return the (m, NEIGHBOURS) rows with the best scores of every query, unordered."""
    penalty = 0.5 * np.einsum("ij,ij->i", rows, rows) if metric == "euclidean" else np.float32(0)
    found = []
    for some in slices(len(queries), 64):
        scores = queries[some] @ rows.T - penalty
        found.append(np.argpartition(-scores, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS])
    return np.concatenate(found)


def rows_needed(
    places: NDArray[np.intp], nearest: NDArray[np.intp], lists: tuple[NDArray[np.int32], ...]
) -> float:
    """Return the mean number of codes to scan for the usual recall; `lists` are those of each row."""
    n_lists = places.shape[1]
    met = np.minimum.reduce([np.take_along_axis(places, some[nearest], axis=1) for some in lists])
    probes = int(np.quantile(met, USUAL_TARGET, method="inverted_cdf")) + 1
    sizes = np.bincount(np.concatenate(lists), minlength=n_lists)
    return float(((places < probes) * sizes).sum() / len(places))
