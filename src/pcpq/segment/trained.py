"""What fit learns: lists, codebooks, rotation and units; and how vectors become rows by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array, FloatArray, typical_unit, unit_rows, working_rows
from pcpq.io.streams import Sample
from pcpq.ivf.coarse_ranking import Coarse
from pcpq.ivf.partition import Partition, fit_partition
from pcpq.quantizers import Quantizer
from pcpq.quantizers.codes import Codes
from pcpq.quantizers.encoder import anchored_corrections
from pcpq.quantizers.rotation import fit_rotation, turn
from pcpq.segment.codebooks import Codebooks
from pcpq.segment.encoded_rows import Rows
from pcpq.segment.kept_vectors import keep_rows
from pcpq.segment.list_statistics import Spread
from pcpq.segment.packing import bias_bytes, bias_range
from pcpq.util.lazy import once
from pcpq.util.threads import map_ahead

# Rows that say how long vectors are, and whose biases set the range of the scan's.
UNIT_ROWS = 16_384
BIAS_ROWS = 20_000
# Rows that a codebook for all lists is trained on, unless its quantizer asks for more.
CODEBOOK_ROWS = 16_384


class Encoded(NamedTuple):
    """Codes, what they stand for, and the bias of the scan."""

    codes: Codes
    decoded: Float32Array
    bias: Float32Array | None


@dataclass(frozen=True, eq=False)
class Trained:
    """Never changes once it is made; every row of an index was made by the same."""

    metric: str
    keep: str | None
    dimensions: int
    unit: float  # vectors are divided by it
    partition: Partition
    matrix: Float32Array | None  # (d, d) residuals are multiplied by it before they are cut into sections
    codebooks: Codebooks
    residual: float  # the mean squared distance of what it was trained on from the nearest center
    bias_low: float = 0.0
    bias_step: float = 0.0

    @classmethod
    def fit(
        cls,
        sample: Sample,
        *,
        metric: str,
        keep: str | None,
        n_lists: int,
        quantizer: Quantizer,
        rotation: str | None,
        codebooks: str,
        generator: np.random.Generator,
        threads: int | None,
    ) -> Trained:
        """Learn from a sample of the vectors."""
        first = slice(0, UNIT_ROWS)
        unit = 1.0
        if metric != "cosine":
            unit = typical_unit(sample.read(first), "vectors", sample.numbers_of(first))
        working = WorkingSample(sample, metric, unit)
        partition = fit_partition(working, n_lists, metric, generator, threads)
        _core.release_memory()
        trained_on = np.arange(len(working))
        if codebooks == "shared":
            some = max(CODEBOOK_ROWS, quantizer.training_rows or 0, 40 * quantizer.n_centers)
            trained_on = np.sort(generator.permutation(len(working))[:some])
        rows = working[trained_on]
        lists = partition.assign(rows, threads)
        residuals = rows - partition.centers[lists]
        matrix = fit_rotation(rotation, residuals, quantizer, generator)
        turned, towards = turn(residuals, matrix), turn(rows, matrix)
        books = Codebooks.fit(codebooks, quantizer, turned, towards, lists, len(partition), threads)
        residual = float(np.einsum("ij,ij->", residuals, residuals, dtype=np.float64)) / len(rows)
        trained = cls(metric, keep, sample.dimensions, unit, partition, matrix, books, residual)
        bias = trained.encode(residuals[:BIAS_ROWS], rows[:BIAS_ROWS], lists[:BIAS_ROWS], threads).bias
        if bias is None:
            return trained
        low, step = bias_range(bias)
        return replace(trained, bias_low=low, bias_step=step)

    @once
    def coarse(self) -> Coarse:
        """Centers of lists as searches have them."""
        return Coarse.of(self.partition)

    @property
    def euclidean(self) -> bool:
        """Are scores distances?"""
        return self.metric == "euclidean"

    @property
    def query_unit(self) -> float:
        """Distances need queries in the vectors' unit; products do in their own."""
        return self.unit if self.euclidean else 1.0

    def rows(self, vectors: FloatArray, first_row: int, threads: int | None) -> tuple[Rows, Spread]:
        """A batch encoded, ids to come, and how it spreads in its lists."""
        return self.encoded(self.working(vectors, first_row), threads)

    def working(self, vectors: FloatArray, first_row: int) -> Float32Array:
        """A batch in working units."""
        return in_units(vectors, self.metric, self.unit, "vectors", first_row)

    def encoded(self, rows: Float32Array, threads: int | None) -> tuple[Rows, Spread]:
        """The same of rows in working units."""
        lists = self.partition.assign(rows, threads)
        anchors = self.partition.centers[lists]
        residuals = rows - anchors
        codes, decoded, bias = self.encode(residuals, rows, lists, threads)
        spread = Spread.of(len(self.partition), lists, residuals, decoded, bias)
        small = np.zeros(len(rows), np.uint8)
        if bias is not None:
            small = bias_bytes(bias, self.bias_low, self.bias_step)
        gains, biases = None, None
        if self.keep is None and self.euclidean:
            biases = bias
        elif self.keep is None:
            gains, shares = anchored_corrections(residuals, anchors, decoded, True)
            biases = shares.astype(np.float32)
        shrunk = self.codebooks.shrink(codes)
        kept, units = keep_rows(rows, self.keep)
        ids = np.zeros(len(rows), np.int64)
        corrections = (small, gains, biases, kept, units, ids)
        return Rows(lists, shrunk.centers, shrunk.scales, *corrections), spread

    def all_rows(
        self,
        batches: Iterable[FloatArray],
        threads: int | None,
        observe: Callable[[Float32Array, int], None] | None = None,
    ) -> Iterator[tuple[Rows, Spread]]:
        """Batches encoded, one on each thread.

        `observe` is called before, with a batch in working units and the number of its first row.
        """

        def working() -> Iterator[Float32Array]:
            first = 0
            for batch in batches:
                rows = self.working(batch, first)
                del batch  # before the next is made: it may be part of much that nobody else holds
                if observe is not None:
                    observe(rows, first)
                yield rows
                first += len(rows)

        return map_ahead(lambda rows: self.encoded(rows, 1), working(), threads)

    def encode(
        self, residuals: Float32Array, rows: Float32Array, lists: NDArray[np.int32], threads: int | None
    ) -> Encoded:
        """Codes of residuals, and the bias that the scan adds."""
        codes = self.codebooks.encode(turn(residuals, self.matrix), turn(rows, self.matrix), lists, threads)
        decoded = self._decoded_residuals(codes, lists)
        bias: Any = codes.biases
        if self.euclidean:
            anchors = rows - residuals - self.partition.middle
            bias = -0.5 * np.einsum("ij,ij->i", residuals, residuals) - np.einsum("ij,ij->i", anchors, decoded)
        return Encoded(codes, decoded, bias)

    def decode(self, codes: Codes, lists: NDArray[np.int32]) -> Float32Array:
        """(n, d) the vectors that codes in these lists stand for, in working units."""
        return self.partition.centers[lists] + self._decoded_residuals(codes, lists)

    def _decoded_residuals(self, codes: Codes, lists: NDArray[np.int32]) -> Float32Array:
        back = None if self.matrix is None else self.matrix.T
        return turn(self.codebooks.decode(codes, lists), back)


def in_units(vectors: FloatArray, metric: str, unit: float, name: str, first_row: int) -> Float32Array:
    """Vectors as float32 in working units; of length 1 where the metric is cosine."""
    if metric == "cosine":
        return unit_rows(vectors, name, first_row)
    return working_rows(vectors, unit, name, first_row)


class WorkingSample:
    """A sample as float32 in working units, made when some of it is wanted: training holds no second copy."""

    def __init__(self, sample: Sample, metric: str, unit: float) -> None:
        self.sample, self.metric, self.unit = sample, metric, unit

    def __len__(self) -> int:
        return len(self.sample)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Float32Array:
        """Some rows, or a ValueError that names the first bad one of all."""
        vectors = self.sample.read(rows)
        if len(vectors) == 0:
            return np.empty(vectors.shape, np.float32)
        try:
            return in_units(vectors, self.metric, self.unit, "vectors", 0)
        except ValueError:
            for number in self.sample.numbers_of(slice(None)):
                in_units(self.sample.array[number : number + 1], self.metric, self.unit, "vectors", int(number))
            raise
