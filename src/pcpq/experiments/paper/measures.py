"""Training, encoding and measurement of one quantizer in the setting of the paper."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.experiments.paper.experiment import Experiment
from pcpq.experiments.paper.protocols import Ranks
from pcpq.experiments.paper.workers import Workers
from pcpq.io.arrays import Float32Array
from pcpq.quantizers import Codes, Quantizer
from pcpq.util.batches import slices
from pcpq.util.threads import map_threads

# Number of queries that are scored against a list at once.
QUERIES_TOGETHER = 256

Tick = Callable[[float], None]  # called with the share of a measurement that was done since the last call


@dataclass(frozen=True)
class Coded:
    """Quantizers and codes of all lists; lists may share one quantizer."""

    quantizers: list[Quantizer]
    codes: list[Codes]

    @property
    def distinct(self) -> list[Quantizer]:
        """All different quantizers, each once."""
        return list({id(quantizer): quantizer for quantizer in self.quantizers}.values())


@dataclass(frozen=True)
class Measured:
    """Measurements of a quantizer: numbers for tables, errors and ranks for curves."""

    numbers: dict[str, Any]
    errors: Float32Array  # (n_queries,) relative error of the largest inner product
    ranks: Ranks


def measure(
    experiment: Experiment, quantizer: Quantizer, codebooks: str, workers: Workers, tick: Tick
) -> Measured:
    """Train one quantizer for all lists ("shared") or one per list ("per_list"), encode, run all queries."""
    start = time.perf_counter()
    coded = encode_lists(experiment, quantizer, codebooks, workers, tick)
    build_seconds = time.perf_counter() - start
    estimates = top_estimates(experiment, coded)
    ahead, query_seconds = count_ahead(experiment, coded, estimates, tick)
    products = np.maximum(np.abs(experiment.top_products), np.finfo(np.float32).tiny)
    errors = (estimates - experiment.top_products) / products
    error, residual_energy, energy = reconstruction(experiment, coded)
    n = len(experiment.base)
    numbers = {
        "relative_error": round(float(np.abs(errors).mean()), 5),
        "signed_error": round(float(errors.mean()), 5),
        "reconstruction_error": round(error / energy, 5),
        "residual_error": round(error / residual_energy, 5),
        "training_loss": float(sum(loss[-1] for one in coded.distinct for loss in one.losses_)),
        "code_bits": max(one.bits_per_vector for one in coded.distinct),
        "codebook_bits": round(sum(codebook_bits(one) for one in coded.distinct) / n, 3),
        "build_seconds": round(build_seconds, 2),
        "query_microseconds": round(1e6 * query_seconds / len(experiment.queries), 1),
    }
    ranks = Ranks.of(experiment, ahead)
    return Measured(numbers, np.abs(errors), ranks)


def encode_lists(
    experiment: Experiment, quantizer: Quantizer, codebooks: str, workers: Workers, tick: Tick
) -> Coded:
    """Return quantizers and codes of all lists. `tick` counts this as half of a measurement."""
    fresh = type(quantizer)(**quantizer.get_params() | {"threads": 1})
    lists = filled_lists(experiment)
    if codebooks == "shared":
        fresh.set_params(threads=experiment.threads)
        fresh.fit(experiment.all_residuals(), directions=experiment.base).set_params(threads=1)
        codes = [fresh.encode(*experiment.parts(number)) for number in lists]
        tick(0.5)
        return Coded([fresh] * len(lists), codes)
    jobs = ((fresh, *experiment.parts(number)) for number in lists)
    found = workers.map(train_and_encode, jobs, lambda: tick(0.5 / len(lists)))
    return Coded([one for one, _ in found], [codes for _, codes in found])


def train_and_encode(job: tuple[Quantizer, Float32Array, Float32Array]) -> tuple[Quantizer, Codes]:
    """Return a quantizer that is trained on one list, and the codes of the list."""
    quantizer, residuals, rows = job
    own = type(quantizer)(**quantizer.get_params()).fit(residuals, directions=rows)
    return own, own.encode(residuals, directions=rows)


def filled_lists(experiment: Experiment) -> list[int]:
    """Return the numbers of the lists that are not empty."""
    return [int(number) for number in np.flatnonzero(np.diff(experiment.starts))]


def estimate(experiment: Experiment, coded: Coded, position: int, number: int, query_rows: Any) -> Float32Array:
    """Return (queries, rows of a list) inner products, estimated with lookup tables."""
    centroid = experiment.centroids[number][None]
    return coded.quantizers[position].scores(
        experiment.queries[query_rows], coded.codes[position], anchors=centroid
    )


def top_estimates(experiment: Experiment, coded: Coded) -> Float32Array:
    """Return the (n_queries,) estimated inner product of every query with its true nearest row."""
    found = np.empty(len(experiment.queries), np.float32)
    lists = experiment.top_lists
    for position, number in enumerate(filled_lists(experiment)):
        query_rows = np.flatnonzero(lists == number)
        if len(query_rows):
            scores = estimate(experiment, coded, position, number, query_rows)
            own = experiment.top[query_rows] - experiment.starts[number]
            found[query_rows] = scores[np.arange(len(query_rows)), own]
    return found


def count_ahead(
    experiment: Experiment, coded: Coded, estimates: Float32Array, tick: Tick
) -> tuple[NDArray[np.int32], float]:
    """Return (n_queries, L) counts of rows with a better estimate than the true nearest row, and CPU seconds.

    Rows with equal estimates are ordered by row number, as in searches.
    """
    ahead = np.zeros((len(experiment.queries), experiment.n_lists), np.int32)
    lists, own = experiment.top_lists, experiment.top - experiment.starts[experiment.top_lists]

    def count(item: tuple[int, int]) -> float:
        position, number = item
        seconds = 0.0
        for some in slices(len(experiment.queries), QUERIES_TOGETHER):
            start = time.thread_time()
            scores = estimate(experiment, coded, position, number, some)
            seconds += time.thread_time() - start
            better = scores > estimates[some, None]
            for query in some.start + np.flatnonzero(lists[some] == number):
                mine = scores[query - some.start]
                better[query - some.start] = mine > estimates[query]
                better[query - some.start, : own[query]] |= mine[: own[query]] == estimates[query]
                better[query - some.start, own[query]] = False
            ahead[some, number] = better.sum(axis=1)
        tick(0.5 / experiment.n_lists)
        return seconds

    return ahead, sum(map_threads(count, list(enumerate(filled_lists(experiment))), experiment.threads))


def reconstruction(experiment: Experiment, coded: Coded) -> tuple[float, float, float]:
    """Return the sums of squares of the errors of codes, of the residuals, and of the vectors."""

    def sum_squares(item: tuple[int, int]) -> NDArray[np.float64]:
        position, number = item
        residuals = experiment.residuals(number)
        error = residuals - coded.quantizers[position].decode(coded.codes[position])
        parts = (error, residuals, experiment.base[experiment.rows(number)])
        return np.array([np.square(part, dtype=np.float64).sum() for part in parts])

    found = map_threads(sum_squares, list(enumerate(filled_lists(experiment))), experiment.threads)
    error, residual, whole = np.sum(found, axis=0)
    return float(error), float(residual), float(whole)


def codebook_bits(quantizer: Quantizer) -> int:
    """Return the bits of codewords and scales in float32."""
    scales = quantizer.scales_
    return 32 * (quantizer.codewords_.size + (0 if scales is None else scales.size))
