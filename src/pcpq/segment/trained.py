"""The trained part of an index: lists, codebooks, rotation and units; and the encoding of vectors by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import (
    Float32Array,
    FloatArray,
    refuse_long_rows,
    typical_unit,
    unit_rows,
    working_rows,
)
from pcpq.io.streams import Sample
from pcpq.ivf.coarse_ranking import Coarse
from pcpq.ivf.partition import Partition, fit_partition
from pcpq.ivf.projection import project
from pcpq.quantizers import Quantizer
from pcpq.quantizers.codes import Codes
from pcpq.quantizers.encoder import anchored_corrections
from pcpq.quantizers.rotation import fit_rotation, rotate
from pcpq.segment.codebooks import Codebooks
from pcpq.segment.encoded_rows import EncodedRows
from pcpq.segment.kept_vectors import keep_rows
from pcpq.segment.list_statistics import ListStatistics
from pcpq.segment.packing import bias_bytes, bias_range
from pcpq.util.lazy import lazy
from pcpq.util.threads import map_ahead

# Rows that determine the unit of lengths, and rows that determine the range of the scan's bias.
UNIT_ROWS = 16_384
BIAS_ROWS = 20_000
# Rows that a shared codebook is trained on, unless its quantizer needs more.
CODEBOOK_ROWS = 16_384


class Encoded(NamedTuple):
    """Codes, the decoded residuals, and the bias that the scan adds."""

    codes: Codes
    decoded: Float32Array
    bias: Float32Array | None


class Coded(NamedTuple):
    """Rows encoded in given lists."""

    residuals: Float32Array
    decoded: Float32Array
    bias: Float32Array | None
    columns: dict[str, Any]  # of EncodedRows
    spread: ListStatistics


@dataclass(frozen=True, eq=False)
class Trained:
    """Trained lists and codebooks. All rows of an index are encoded by the same ones, which never change."""

    metric: str
    keep: str | None
    dimensions: int
    unit: float  # vectors are divided by it
    partition: Partition
    matrix: Float32Array | None  # (p, p) rotation of residuals before they are split into sections
    codebooks: Codebooks
    residual: float  # mean squared distance of training rows from their centroids
    bias_low: float = 0.0
    bias_step: float = 0.0
    lists_per_vector: int = 1
    projection: Float32Array | None = None  # (d, p)  lists and codes are made of p coordinates; None: of all

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
        lists_per_vector: int,
        projection: Float32Array | None,
        generator: np.random.Generator,
        threads: int | None,
    ) -> Trained:
        """Train on a sample of the vectors."""
        unit = sample_unit(sample, metric)
        working = WorkingSample(sample, metric, unit, projection)
        partition = fit_partition(working, n_lists, metric, generator, threads)
        _core.release_memory()
        chosen = np.arange(len(sample))
        if codebooks == "shared":
            count = max(CODEBOOK_ROWS, quantizer.training_rows or 0, 40 * quantizer.n_centers)
            chosen = np.sort(generator.permutation(len(sample))[:count])
        whole = WorkingSample(sample, metric, unit)[chosen]
        rows = project(whole, projection)
        left_out = squares_left_out(whole, rows)
        del whole
        if lists_per_vector == 2:
            # Residuals are longer in second lists; the codebook serves both.
            lists = np.stack(partition.assign_two(rows, threads), axis=1).ravel()
            rows = np.repeat(rows, 2, axis=0)
        else:
            lists = partition.assign(rows, threads)
        residuals = rows - partition.centroids[lists]
        first_residuals = residuals[:: len(rows) // len(chosen)]
        matrix = fit_rotation(rotation, residuals, quantizer, generator)
        rotated, directions = rotate(residuals, matrix), rotate(rows, matrix)
        try:
            books = Codebooks.fit(codebooks, quantizer, rotated, directions, lists, len(partition), threads)
        except ValueError:
            # Lengths that differ too much are noticed in residuals; name the vector that causes it.
            refuse_long_rows(sample.read(chosen), "vectors", sample.numbers_of(chosen))
            raise
        squares = np.einsum("ij,ij->", first_residuals, first_residuals, dtype=np.float64)
        residual = (float(squares) + left_out) / len(first_residuals)
        trained = cls(
            metric=metric,
            keep=keep,
            dimensions=sample.dimensions,
            unit=unit,
            partition=partition,
            matrix=matrix,
            codebooks=books,
            residual=residual,
            lists_per_vector=lists_per_vector,
            projection=projection,
        )
        bias = trained.encode(residuals[:BIAS_ROWS], rows[:BIAS_ROWS], lists[:BIAS_ROWS], threads).bias
        if bias is None:
            return trained
        low, step = bias_range(bias)
        return replace(trained, bias_low=low, bias_step=step)

    @lazy
    def coarse(self) -> Coarse:
        """The centroids rounded for the ranking of lists."""
        return Coarse.of(self.partition)

    @property
    def code_dimensions(self) -> int:
        """The number of coordinates that lists and codes are made of."""
        return int(self.partition.centroids.shape[1])

    @lazy
    def mean(self) -> Float32Array:
        """The (d,) mean of the centroids as a vector, in working units."""
        mean = self.partition.mean_centroid
        return mean if self.projection is None else self.projection @ mean

    @property
    def second_lists(self) -> bool:
        """Whether vectors are in two lists."""
        return self.lists_per_vector == 2

    @property
    def euclidean(self) -> bool:
        """Whether the metric is Euclidean distance."""
        return self.metric == "euclidean"

    @property
    def query_unit(self) -> float:
        """The unit of queries: distances need queries in the unit of the vectors, inner products do not."""
        return self.unit if self.euclidean else 1.0

    def rows(
        self, vectors: FloatArray, first_row: int, threads: int | None
    ) -> tuple[EncodedRows, ListStatistics]:
        """Return a batch of vectors as encoded rows, with ids of zero, and the statistics of its lists."""
        return self.encoded(self.working(vectors, first_row), threads)

    def working(self, vectors: FloatArray, first_row: int) -> Float32Array:
        """Return a batch of vectors as float32 in working units."""
        return in_units(vectors, self.metric, self.unit, "vectors", first_row)

    def encoded(self, rows: Float32Array, threads: int | None) -> tuple[EncodedRows, ListStatistics]:
        """Return rows in working units as encoded rows, with ids of zero, and the statistics of their lists."""
        coordinates, second = project(rows, self.projection), None
        if self.second_lists:
            lists, second = self.partition.assign_two(coordinates, threads)
        else:
            lists = self.partition.assign(coordinates, threads)
        residuals, decoded, bias, columns, spread = self._coded(coordinates, lists, threads)
        spread = spread._replace(residuals=spread.residuals + squares_left_out(rows, coordinates))
        if second is not None:
            *_, again, other = self._coded(coordinates, second, threads)
            columns |= {f"second_{name}": column for name, column in again.items()}
            # Drift is measured in first lists.
            spread = spread.joined(other)._replace(residuals=spread.residuals)
        gains, biases = None, None
        if self.keep is None and self.euclidean:
            biases = bias
        elif self.keep is None:
            anchors = self.partition.centroids[lists]
            gains, shares = anchored_corrections(residuals, anchors, decoded, True)
            biases = shares.astype(np.float32)
        kept, units = keep_rows(rows, self.keep)
        encoded = EncodedRows(
            **columns, gains=gains, biases=biases, kept=kept, units=units, ids=np.zeros(len(rows), np.int64)
        )
        return encoded, spread

    def _coded(self, rows: Float32Array, lists: NDArray[np.int32], threads: int | None) -> Coded:
        """Return rows encoded in these lists."""
        residuals = rows - self.partition.centroids[lists]
        codes, decoded, bias = self.encode(residuals, rows, lists, threads)
        rounded_bias = np.zeros(len(rows), np.uint8)
        if bias is not None:
            rounded_bias = bias_bytes(bias, self.bias_low, self.bias_step)
        shrunk = self.codebooks.shrink(codes)
        columns = {"lists": lists, "codes": shrunk.codes, "scales": shrunk.scales, "bias_bytes": rounded_bias}
        spread = ListStatistics.of(len(self.partition), lists, residuals, decoded, bias)
        return Coded(residuals, decoded, bias, columns, spread)

    def all_rows(
        self,
        batches: Iterable[FloatArray],
        threads: int | None,
        observe: Callable[[Float32Array, int], None] | None = None,
    ) -> Iterator[tuple[EncodedRows, ListStatistics]]:
        """Yield batches as encoded rows and statistics, one batch per thread.

        `observe` is called first with each batch in working units and the number of its first row.
        """

        def working() -> Iterator[Float32Array]:
            first = 0
            for batch in batches:
                rows = self.working(batch, first)
                del batch  # free its memory before the next batch is read
                if observe is not None:
                    observe(rows, first)
                yield rows
                first += len(rows)

        return map_ahead(lambda rows: self.encoded(rows, 1), working(), threads)

    def encode(
        self, residuals: Float32Array, rows: Float32Array, lists: NDArray[np.int32], threads: int | None
    ) -> Encoded:
        """Return the codes of residuals, the decoded residuals, and the bias that the scan adds.

        Residuals and rows are in the coordinates of the projection.
        """
        codes = self.codebooks.encode(rotate(residuals, self.matrix), rotate(rows, self.matrix), lists, threads)
        decoded = self._decoded_residuals(codes, lists)
        bias: Any = codes.biases
        if self.euclidean:
            anchors = rows - residuals - self.partition.mean_centroid
            bias = -0.5 * np.einsum("ij,ij->i", residuals, residuals) - np.einsum("ij,ij->i", anchors, decoded)
        return Encoded(codes, decoded, bias)

    def decode(self, codes: Codes, lists: NDArray[np.int32]) -> Float32Array:
        """Return the (n, p) coordinates that codes in these lists represent, in working units."""
        return self.partition.centroids[lists] + self._decoded_residuals(codes, lists)

    def _decoded_residuals(self, codes: Codes, lists: NDArray[np.int32]) -> Float32Array:
        inverse = None if self.matrix is None else self.matrix.T
        return rotate(self.codebooks.decode(codes, lists), inverse)


def squares_left_out(rows: Float32Array, coordinates: Float32Array) -> float:
    """Return by how much rows are longer than their projections, in squares, summed over rows."""
    if rows is coordinates:
        return 0.0
    whole, rest = (float(np.einsum("ij,ij->", some, some, dtype=np.float64)) for some in (rows, coordinates))
    return max(whole - rest, 0.0)


def in_units(vectors: FloatArray, metric: str, unit: float, name: str, first_row: int) -> Float32Array:
    """Return vectors as float32 in working units; with length 1 if the metric is cosine."""
    if metric == "cosine":
        return unit_rows(vectors, name, first_row)
    return working_rows(vectors, unit, name, first_row)


def sample_unit(sample: Sample, metric: str) -> float:
    """Return the unit of lengths by which the vectors of a sample are divided."""
    first = slice(0, UNIT_ROWS)
    return 1.0 if metric == "cosine" else typical_unit(sample.read(first), "vectors", sample.numbers_of(first))


class WorkingSample:
    """A sample as float32 in working units, converted on demand, so that training holds no second copy.

    With a projection, rows are the coordinates in it.
    """

    def __init__(
        self, sample: Sample, metric: str, unit: float, projection: Float32Array | None = None
    ) -> None:
        self.sample, self.metric, self.unit, self.projection = sample, metric, unit, projection

    def __len__(self) -> int:
        return len(self.sample)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Float32Array:
        """Return some rows in working units; raise a ValueError that names the first invalid row of all."""
        vectors = self.sample.read(rows)
        if len(vectors) == 0:
            return project(np.empty(vectors.shape, np.float32), self.projection)
        try:
            return project(in_units(vectors, self.metric, self.unit, "vectors", 0), self.projection)
        except ValueError:
            for number in self.sample.numbers_of(slice(None)):
                in_units(self.sample.array[number : number + 1], self.metric, self.unit, "vectors", int(number))
            raise


def check_sample(sample: Sample, metric: str) -> None:
    """Raise a ValueError that names the first invalid row of a sample that is not trained on."""
    if len(sample) == 0:
        return
    unit = (
        1.0
        if metric == "cosine"
        else typical_unit(sample.read(slice(None)), "vectors", sample.numbers_of(slice(None)))
    )
    WorkingSample(sample, metric, unit)[:]
