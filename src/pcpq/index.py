"""The index: partition, codes, scan, re-rank. It composes the modules before it and has no mathematics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.arrays import (
    Float32Array,
    FloatArray,
    Ids,
    as_ids,
    as_vectors,
    handy,
    refuse_duplicates,
    typical_unit,
    unit_rows,
    working_rows,
)
from pcpq.errors import NotFittedError
from pcpq.packing import bias_bytes, bias_range
from pcpq.parallel import available_threads
from pcpq.partition import fit_partition
from pcpq.quantizers import PQ, QPCPQ, Quantizer
from pcpq.quantizers.codes import Codes
from pcpq.quantizers.encoder import anchored_corrections
from pcpq.quantizers.options import whole_number
from pcpq.rerank import KEEPS, keep_rows, read_rows
from pcpq.rotation import ROTATIONS, fit_rotation
from pcpq.scan import Asked, Rows, Snapshot, fits
from pcpq.search import Result, find, find_range, make_plan, nothing
from pcpq.streams import Stream

METRICS = ("dot", "cosine", "euclidean")
TRAINING_ROWS = 200_000
# Rows whose biases set the range of the scan's.
BIAS_ROWS = 20_000

Progress = Callable[[int, int | None], None]


class Index:
    """Vectors in lists, as codes to scan and, if kept, in a precision to judge candidates by.

    Parameters
    ----------
    metric : "dot", "cosine" or "euclidean"
    quantizer : of the residuals; at most 16 centers and 16 scales a section. None: PQ of section size 2 where
        vectors are kept, QPCPQ with 16 scales where codes are all there is
    n_lists : None: twice the square root of the number of vectors
    rotation : turn vectors before they are cut into sections: None, "random", or "learned" from their codes
    keep : vectors kept for re-ranking: None, "int8", "int16", "float16" or "float32"
    seed : of every random choice
    """

    def __init__(
        self,
        *,
        metric: str,
        quantizer: Quantizer | None = None,
        n_lists: int | None = None,
        rotation: str | None = None,
        keep: str | None = "int16",
        seed: int = 0,
    ) -> None:
        for name, value, allowed in (
            ("metric", metric, METRICS),
            ("rotation", rotation, ROTATIONS),
            ("keep", keep, KEEPS),
        ):
            if value not in allowed:
                raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(repr, allowed))}")
        if n_lists is not None:
            whole_number("n_lists", n_lists, 1, 1 << 24)
        self.metric, self.quantizer, self.n_lists = metric, quantizer, n_lists
        self.rotation, self.keep, self.seed = rotation, keep, whole_number("seed", seed, 0, (1 << 63) - 1)
        self._snapshot: Snapshot | None = None

    def fit(self, vectors: Any, *, expected: int | None = None, threads: int | None = None) -> Index:
        """Learn lists and codes from a sample of the vectors; `expected` is how many will be added."""
        generator = np.random.default_rng(self.seed)
        sample = Stream(vectors).sample(TRAINING_ROWS, generator)
        n = len(sample) if expected is None else expected
        self._dimensions = sample.shape[1]
        self._unit = 1.0 if self.metric == "cosine" else typical_unit(sample, "vectors")
        rows = self._working(sample, "vectors")
        lists = self.n_lists or max(1, min(round(2 * np.sqrt(n)), len(rows) // 8))
        partition = fit_partition(rows, lists, self.metric, generator, threads)
        residuals = rows - partition.centers[partition.assign(rows, threads)]
        quantizer = self._new_quantizer(threads)
        self._matrix = fit_rotation(self.rotation, residuals, quantizer, generator)
        quantizer.fit(self._turn(residuals), directions=self._turn(rows))
        if not fits(quantizer.model_):
            raise ValueError(f"{quantizer!r} has codes the index cannot scan: at most 16 centers and 16 scales")
        self._quantizer, self._partition = quantizer, partition
        self._bias_range = (0.0, 0.0)
        parts = self._encode(residuals[:BIAS_ROWS], rows[:BIAS_ROWS])
        if parts.bias is not None:
            self._bias_range = bias_range(parts.bias)
        self._snapshot = None
        self._next_id = 0
        return self

    def add(
        self, vectors: Any, ids: Any = None, *, threads: int | None = None, progress: Progress | None = None
    ) -> Ids:
        """Add vectors, or an iterable of batches; returns their ids, counted up from 0 if none are given."""
        self._fitted()
        stream, added, count = Stream(vectors), [], 0
        for batch in stream.batches(self._dimensions, available_threads(threads)):
            added.append(self._rows(batch, count, threads))
            count += len(batch)
            if progress is not None:
                progress(count, stream.length)
        given = np.arange(self._next_id, self._next_id + count) if ids is None else as_ids(ids, count)
        rows = Rows.joined([some.rows for some in added])
        rows = replace(rows, ids=given)
        reach = max(some.reach for some in added)
        before = self._snapshot
        if before is not None:
            refuse_duplicates(np.concatenate([before.ids, given]))
            rows = Rows.joined([before.rows(), rows])
            reach = max(reach, before.reach)
        else:
            refuse_duplicates(given)
        euclidean = self.metric == "euclidean"
        model = self._quantizer.model_
        self._snapshot = Snapshot.of(self._partition, model, euclidean, self._bias_range, rows, reach)
        self._next_id = max(self._next_id, int(given.max()) + 1)
        return given

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        probes: int | None = None,
        rerank: int | None = None,
        filter: Any = None,
        exclude: Any = None,
        threads: int | None = None,
    ) -> Result:
        """The k best vectors for each query.

        Parameters
        ----------
        queries : (n, d) or (d,) floats
        probes : lists to scan; None: a twentieth
        rerank : candidates to judge, at least k; None: 100, or 10 k if that is more
        filter : ids that may be found, an array or a Bitmap; None: all
        exclude : ids that may not
        threads : None: every CPU of the process, one for a single query
        """
        k = whole_number("k", k, 1, 1 << 30)
        single = np.ndim(queries) == 1
        threads = 1 if single and threads is None else threads
        asked, snapshot = self._queries(queries), self._fitted()
        if snapshot is None:
            scores, ids, _ = nothing(len(asked.rows), k)
        else:
            plan = make_plan(snapshot, k, probes, rerank, filter, exclude, threads)
            scores, ids, _ = find(snapshot, asked, plan)
        scores = self._scores(scores, asked.unit)
        return Result(scores[0], ids[0]) if single else Result(scores, ids)

    def search_range(
        self,
        queries: Any,
        *,
        min_score: float | None = None,
        max_distance: float | None = None,
        probes: int | None = None,
        filter: Any = None,
        exclude: Any = None,
        threads: int | None = None,
    ) -> tuple[NDArray[np.int64], Float32Array, Ids]:
        """All vectors that score at least `min_score`, or lie within the squared `max_distance`.

        Returns
        -------
        limits : (n + 1,) int64; the results of query i are limits[i] to limits[i + 1]
        scores, ids : of all queries one after the other, each best first
        """
        wanted, other = (
            ("max_distance", "min_score") if self.metric == "euclidean" else ("min_score", "max_distance")
        )
        bounds = {"min_score": min_score, "max_distance": max_distance}
        bound = bounds[wanted]
        if bound is None or bounds[other] is not None:
            raise ValueError(f"a search by range in a {self.metric} index takes {wanted}, and not {other}")
        asked, snapshot = self._queries(queries), self._fitted()
        if snapshot is None:
            return np.zeros(len(asked.rows) + 1, np.int64), np.empty(0, np.float32), np.empty(0, np.int64)
        plan = make_plan(snapshot, 1, probes, None, filter, exclude, threads)
        least = float(bound) / (self._unit * asked.unit)
        limits, scores, ids = find_range(snapshot, asked, plan, -least if max_distance is not None else least)
        return limits, self._scores(scores, asked.unit), ids

    def explain(self, query: Any, k: int = 10, **options: Any) -> dict[str, Any]:
        """What a search for one query does: lists, rows and candidates, and the seconds of each stage."""
        k = whole_number("k", k, 1, 1 << 30)
        asked, snapshot = self._queries(query), self._fitted()
        counts, seconds = np.zeros((1, 3), np.int64), np.zeros(4)
        if snapshot is not None:
            given = {name: options.pop(name, None) for name in ("probes", "rerank", "filter", "exclude")}
            if options:
                raise ValueError(f"explain has no option {next(iter(options))!r}")
            plan = make_plan(snapshot, k, **given, threads=1)
            counts = find(snapshot, Asked(asked.rows[:1], asked.turned[:1], asked.unit), plan, seconds)[2]
        probed, scanned, judged = (int(count) for count in counts[0])
        stages = ("rank lists", "tables", "scan", "judge")
        return {
            "lists": len(self._partition),
            "lists_probed": probed,
            "rows": len(self),
            "rows_scanned": scanned,
            "candidates_judged": judged,
            "judged_by": self.keep or "codes",
            "seconds": dict(zip(stages, seconds.tolist(), strict=True)),
        }

    def reconstruct(self, ids: Any) -> Float32Array:
        """(n, d) the vectors of ids, as kept, or decoded where none are."""
        snapshot = self._fitted()
        wanted = np.atleast_1d(np.asarray(ids))
        if snapshot is None:
            raise KeyError(f"id {wanted[0]} is not in the index" if len(wanted) else "the index is empty")
        rows = snapshot.rows_of(wanted)
        if self.keep is not None:
            units = None if snapshot.units is None else snapshot.units[rows]
            found = read_rows(snapshot.kept[rows], units)
        else:
            some = snapshot.rows().take(rows)
            decoded = self._quantizer.decode(Codes(some.centers, some.scales))
            found = self._partition.centers[some.lists] + self._unturn(decoded)
        found *= np.float32(self._unit)
        return found

    def stats(self) -> dict[str, Any]:
        """Bytes a vector by part, and how lists are filled."""
        snapshot = self._fitted()
        parts = {"lists": self._partition.centers.nbytes}
        sizes = np.zeros(len(self._partition), np.int64)
        if snapshot is not None:
            parts |= snapshot.bytes_by_part()
            sizes = np.diff(snapshot.blocks.rows)
        mean = sizes.mean()
        return {
            "vectors": len(self),
            "dimensions": self._dimensions,
            "lists": len(sizes),
            "bytes_per_vector": {name: size / max(len(self), 1) for name, size in parts.items()},
            "largest_list": int(sizes.max()),
            "empty_lists": int((sizes == 0).sum()),
            # 1 where all lists are equal: how many times more a random vector's list holds than the mean list.
            "imbalance": float((sizes**2).mean() / mean**2) if mean > 0 else 1.0,
        }

    def __len__(self) -> int:
        return 0 if self._snapshot is None else len(self._snapshot)

    def __contains__(self, some_id: Any) -> bool:
        return self._snapshot is not None and bool((self._snapshot.ids == some_id).any())

    def __repr__(self) -> str:
        return f"Index(metric={self.metric!r}, keep={self.keep!r}, vectors={len(self)})"

    def _fitted(self) -> Snapshot | None:
        if not hasattr(self, "_quantizer"):
            raise NotFittedError("this Index is not fitted: call fit first, or use pcpq.build")
        return self._snapshot

    def _new_quantizer(self, threads: int | None) -> Quantizer:
        quantizer = self.quantizer
        if quantizer is None:
            size = min(2, self._dimensions)
            quantizer = QPCPQ(section_size=size) if self.keep is None else PQ(section_size=size)
        # The scan has a bias along the vector; distances have one of their own.
        bias = False if self.metric == "euclidean" else "auto"
        parameters = quantizer.get_params() | {"gain": False, "bias": bias, "threads": threads}
        return type(quantizer)(**parameters)

    def _working(self, vectors: FloatArray, name: str, first_row: int = 0) -> Float32Array:
        """Vectors as float32 in the index's unit; of length 1 where the metric is cosine."""
        if self.metric != "cosine":
            return working_rows(vectors, self._unit, name, first_row)
        return unit_rows(vectors, name, first_row)

    def _turn(self, rows: Float32Array) -> Float32Array:
        return rows if self._matrix is None else rows @ self._matrix

    def _unturn(self, rows: Float32Array) -> Float32Array:
        return rows if self._matrix is None else rows @ self._matrix.T

    def _encode(self, residuals: Float32Array, rows: Float32Array) -> Encoded:
        """Codes of residuals, and the bias that the scan adds."""
        turned = self._turn(residuals)
        codes = self._quantizer.encode(turned, directions=self._turn(rows))
        decoded = self._unturn(self._quantizer.decode(codes))
        if self.metric == "euclidean":
            anchors = rows - residuals
            bias = -0.5 * np.einsum("ij,ij->i", residuals, residuals) - np.einsum("ij,ij->i", anchors, decoded)
            return Encoded(codes, decoded, bias)
        if codes.biases is None:
            return Encoded(codes, decoded, None)
        return Encoded(codes, decoded, codes.biases.astype(np.float32) * np.float32(self._quantizer.unit_))

    def _rows(self, vectors: FloatArray, first_row: int, threads: int | None) -> Added:
        rows = self._working(vectors, "vectors", first_row)
        lists = self._partition.assign(rows, threads)
        anchors = self._partition.centers[lists]
        residuals = rows - anchors
        encoded = self._encode(residuals, rows)
        codes, decoded = encoded.codes, encoded.decoded
        low, step = self._bias_range
        bias = np.zeros(len(rows), np.uint8) if encoded.bias is None else bias_bytes(encoded.bias, low, step)
        gains, biases = None, None
        if self.keep is None and self.metric == "euclidean":
            biases = encoded.bias
        elif self.keep is None:
            gains, shares = anchored_corrections(residuals, anchors, decoded, True)
            biases = shares.astype(np.float32)
        kept, units = keep_rows(rows, self.keep)
        reach = float(np.sqrt(np.einsum("ij,ij->i", decoded, decoded).max())) * 1.001
        ids = np.zeros(len(rows), np.int64)
        return Added(Rows(lists, codes.centers, codes.scales, bias, gains, biases, kept, units, ids), reach)

    def _queries(self, queries: Any) -> Asked:
        self._fitted()
        queries = np.asarray(queries)
        queries = as_vectors(queries[None] if queries.ndim == 1 else queries, "queries")
        if queries.shape[1] != self._dimensions:
            raise ValueError(f"queries have {queries.shape[1]} dimensions, the index has {self._dimensions}")
        # Distances need the index's own unit; products any that is near the queries' size.
        unit = self._unit if self.metric == "euclidean" else 1.0
        if self.metric == "cosine":
            rows = unit_rows(queries, "queries", 0)
        elif unit == 1.0 and handy(queries):
            rows = queries
        else:
            unit = unit if self.metric == "euclidean" else typical_unit(queries, "queries")
            rows = working_rows(queries, unit, "queries")
        return Asked(rows, self._quantizer.model_.layout.pad(self._turn(rows)), unit)

    def _scores(self, scores: Float32Array, unit: float) -> Float32Array:
        """Scores of the scan in the user's units; squared distances where the metric is one."""
        if self.metric == "euclidean":
            scores = np.maximum(-scores, 0)
        if self._unit * unit != 1.0:
            scores = scores * np.float32(self._unit) * np.float32(unit)
        return scores


class Encoded(NamedTuple):
    """Codes, what they stand for, and the bias of the scan."""

    codes: Codes
    decoded: Float32Array
    bias: Float32Array | None


class Added(NamedTuple):
    """Rows of a batch, ids to come, and the longest decoded one."""

    rows: Rows
    reach: float


def build(
    vectors: Any,
    ids: Any = None,
    *,
    metric: str,
    threads: int | None = None,
    progress: Progress | None = None,
    **parameters: Any,
) -> Index:
    """Fit an index on a sample of the vectors and add all of them. `parameters` are those of Index."""
    index = Index(metric=metric, **parameters)
    stream = Stream(vectors)
    generator = np.random.default_rng(index.seed)
    index.fit(stream.sample(TRAINING_ROWS, generator), expected=stream.length, threads=threads)
    index.add(stream, ids, threads=threads, progress=progress)
    return index
