"""The index: partition, codes, scan, re-rank. It composes the modules before it and has no mathematics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.arrays import (
    Float32Array,
    Ids,
    as_ids,
    as_vectors,
    handy,
    refuse_duplicates,
    typical_unit,
    unit_rows,
    working_rows,
)
from pcpq.codebooks import CODEBOOKS
from pcpq.errors import NotFittedError
from pcpq.parallel import available_threads
from pcpq.partition import ROWS_A_LIST
from pcpq.quantizers import PQ, QPCPQ, Quantizer
from pcpq.quantizers.options import whole_number
from pcpq.rerank import KEEPS, read_rows
from pcpq.rotation import ROTATIONS
from pcpq.rows import RowsBuilder
from pcpq.scan import Asked, Snapshot
from pcpq.search import Result, find, find_one, find_range, make_plan, nothing
from pcpq.streams import Stream
from pcpq.trained import Trained

METRICS = ("dot", "cosine", "euclidean")
# Rows to train on: where lists need fewer, and where nobody knows how many vectors there will be.
LEAST_TRAINING_ROWS = 65_536
TRAINING_ROWS = 1 << 18
LEAST_ROWS_A_LIST = 8

Progress = Callable[[int, int | None], None]


class Index:
    """Vectors in lists, as codes to scan and, if kept, in a precision to judge candidates by.

    Parameters
    ----------
    metric : "dot", "cosine" or "euclidean"
    quantizer : of the residuals; scanned fastest with at most 16 centers and 16 scales a section. None: PQ of
        section size 2 where vectors are kept, QPCPQ with 16 scales where codes are all there is
    n_lists : None: twice the square root of the number of vectors
    rotation : turn vectors before they are cut into sections: None, "random", or "learned" from their codes
    codebooks : one quantizer, "shared" by all lists, or one of its own for each, "per_list"
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
        codebooks: str = "shared",
        keep: str | None = "int16",
        seed: int = 0,
    ) -> None:
        for name, value, allowed in (
            ("metric", metric, METRICS),
            ("rotation", rotation, ROTATIONS),
            ("codebooks", codebooks, CODEBOOKS),
            ("keep", keep, KEEPS),
        ):
            if value not in allowed:
                raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(repr, allowed))}")
        if n_lists is not None:
            whole_number("n_lists", n_lists, 1, 1 << 24)
        self.metric, self.quantizer, self.n_lists = metric, quantizer, n_lists
        self.rotation, self.codebooks, self.keep = rotation, codebooks, keep
        self.seed = whole_number("seed", seed, 0, (1 << 63) - 1)
        self._snapshot: Snapshot | None = None

    def fit(self, vectors: Any, *, expected: int | None = None, threads: int | None = None) -> Index:
        """Learn lists and codes from a sample of the vectors; `expected` is how many will be added."""
        stream = Stream.of(vectors)
        n = stream.length if expected is None else expected
        n_lists = self.n_lists or (None if n is None else default_lists(n))
        wanted = TRAINING_ROWS if n_lists is None else max(LEAST_TRAINING_ROWS, ROWS_A_LIST * n_lists)
        generator = np.random.default_rng(self.seed)
        sample = stream.sample(wanted, generator)
        if self.n_lists is None:
            n_lists = min(n_lists or default_lists(len(sample)), max(1, len(sample) // LEAST_ROWS_A_LIST))
        self._trained = Trained.fit(
            sample,
            metric=self.metric,
            keep=self.keep,
            n_lists=n_lists or 1,
            quantizer=self._new_quantizer(sample.dimensions, threads),
            rotation=self.rotation,
            codebooks=self.codebooks,
            generator=generator,
            threads=threads,
        )
        _core.release_memory()
        self._snapshot = None
        self._next_id = 0
        return self

    def add(
        self, vectors: Any, ids: Any = None, *, threads: int | None = None, progress: Progress | None = None
    ) -> Ids:
        """Add vectors, or an iterable of batches; returns their ids, counted up from 0 if none are given."""
        before, trained, stream = self._fitted(), self._trained, Stream.of(vectors)
        start = len(self)
        builder = RowsBuilder(None if before is None else (before.rows(), before.spread), stream.length)
        for batch in stream.batches(trained.dimensions, available_threads(threads)):
            builder.append(*trained.rows(batch, builder.count - start, threads))
            if progress is not None:
                progress(builder.count - start, stream.length)
        count = builder.count - start
        given = np.arange(self._next_id, self._next_id + count) if ids is None else as_ids(ids, count)
        refuse_duplicates(given if before is None else np.concatenate([before.ids, given]))
        self._snapshot = Snapshot.of(trained, *builder.finish(start, given))
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
        if filter is None and exclude is None and self._snapshot is not None:
            found = find_one(self._snapshot, queries, k, probes, rerank)
            if found is not None:
                return found
        k = whole_number("k", k, 1, 1 << 30)
        single = np.ndim(queries) == 1
        threads = 1 if single and threads is None else threads
        asked, snapshot = self._queries(queries), self._fitted()
        if snapshot is None:
            scores, ids = nothing(len(asked.rows), k)
        else:
            plan = make_plan(snapshot, k, probes, rerank, filter, exclude, threads)
            scores, ids = find(snapshot, asked, plan)
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
        least = float(bound) / (self._trained.unit * asked.unit)
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
            find(snapshot, Asked(asked.rows[:1], asked.unit), plan, counts, seconds)
        probed, scanned, judged = (int(count) for count in counts[0])
        stages = ("rank lists", "tables", "scan", "judge")
        return {
            "lists": len(self._trained.partition),
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
            codes, _ = self._trained.codebooks.unpack(snapshot.blocks, snapshot.packed)
            codes = self._trained.codebooks.expand(codes[rows])
            found = self._trained.decode(codes, snapshot.lists[rows])
        found *= np.float32(self._trained.unit)
        return found

    def stats(self) -> dict[str, Any]:
        """Bytes a vector by part, and how lists are filled."""
        snapshot = self._fitted()
        parts = {"lists": self._trained.partition.centers.nbytes}
        sizes = np.zeros(len(self._trained.partition), np.int64)
        if snapshot is not None:
            parts |= snapshot.bytes_by_part()
            sizes = np.diff(snapshot.blocks.rows)
        mean = sizes.mean()
        return {
            "vectors": len(self),
            "dimensions": self._trained.dimensions,
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
        if not hasattr(self, "_trained"):
            raise NotFittedError("this Index is not fitted: call fit first, or use pcpq.build")
        return self._snapshot

    def _new_quantizer(self, dimensions: int, threads: int | None) -> Quantizer:
        quantizer = self.quantizer
        if quantizer is None:
            size = min(2, dimensions)
            quantizer = QPCPQ(section_size=size) if self.keep is None else PQ(section_size=size)
        # The scan has a bias along the vector; distances have one of their own.
        bias = False if self.metric == "euclidean" else "auto"
        parameters = quantizer.get_params() | {"gain": False, "bias": bias, "threads": threads}
        return type(quantizer)(**parameters)

    def _queries(self, queries: Any) -> Asked:
        self._fitted()
        queries = np.asarray(queries)
        queries = as_vectors(queries[None] if queries.ndim == 1 else queries, "queries")
        if queries.shape[1] != self._trained.dimensions:
            raise ValueError(
                f"queries have {queries.shape[1]} dimensions, the index has {self._trained.dimensions}"
            )
        unit = self._trained.query_unit
        if self.metric == "cosine":
            rows = unit_rows(queries, "queries", 0)
        elif unit == 1.0 and handy(queries):
            rows = queries
        else:
            unit = unit if self.metric == "euclidean" else typical_unit(queries, "queries")
            rows = working_rows(queries, unit, "queries")
        return Asked(rows, unit)

    def _scores(self, scores: Float32Array, unit: float) -> Float32Array:
        """Scores of the scan in the user's units; squared distances where the metric is one."""
        if self.metric == "euclidean":
            scores = np.maximum(-scores, 0)
        if self._trained.unit * unit != 1.0:
            scores = scores * np.float32(self._trained.unit) * np.float32(unit)
        return scores


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
    index.fit(stream, threads=threads)
    index.add(stream, ids, threads=threads, progress=progress)
    return index


def default_lists(n: int) -> int:
    """Twice the root of the number of vectors."""
    return max(1, round(2 * math.sqrt(n)))
