"""Calls that read an index, and the outcome of a case."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from forged_cases import Case, apply
from good_indexes import QUERIES, STRANGE, Indexes, N

import pcpq
from pcpq import _core
from pcpq.ivf.probing import Probing
from pcpq.store import serialization as objects


def outcome(case: Case, indexes: Indexes) -> str:
    """Return "answered" or "refused" if all is well; otherwise what went wrong."""
    path = indexes.copy(case["variant"])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            for edit in case["edits"]:
                apply(path, edit)
        except Exception:
            return "unwritable"
        _core.set_simd_level(case["level"] if case["level"] in _core.simd_levels() else "auto")
        try:
            with unchecked() if case["unchecked"] else nullcontext():
                use(path, indexes.other)
        except pcpq.FormatError as error:
            return "refused" if str(path) in str(error) else f"wrong: names no file: {error!r}"
        except BaseException as error:
            return f"wrong: {error!r}"[:2000]
    return "answered"


@contextmanager
def unchecked() -> Iterator[None]:
    """Accept trained values of any range: native code then sees values that are refused otherwise."""

    def floats(tensors: Any, name: str, shape: Any, *_: float) -> Any:
        array = tensors.shaped(name, "F32", shape)
        if array.size == 0:
            raise pcpq.FormatError(f"{tensors.path}: {name} is empty")
        return array

    before, objects.floats = objects.floats, floats
    try:
        yield
    finally:
        objects.floats = before


PROBINGS = (Probing.exactly(2), Probing(2, 16, 0.1, -3.0), Probing(2, 16, 0.0, -0.5))


class Watched:
    """An index whose every answer is checked."""

    def __init__(self, index: Any, other: Any) -> None:
        self.index, self.other = index, other
        self.ids: dict[bool, set[Any]] = {}  # words, or numbers

    def search(self, queries: Any, **options: Any) -> Any:
        """Search, after a search of another index on this thread: nothing of that one may be left."""
        self.other.search(queries, k=options["k"], probes=8, rerank=60, threads=1)
        found = self.index.search(queries, **options, threads=1)
        self.check_ids(found.ids)
        return found

    def check_ids(self, found: Any) -> None:
        """Raise AssertionError if ids are not in the index; -1 and None are no ids."""
        found = set(np.asarray(found).reshape(-1).tolist())
        words = any(isinstance(one, str) for one in found)
        if words not in self.ids:
            # As they lie in files: whatever those call an id may be an answer.
            self.ids[words] = {-1, None}
            for part in self.index._state.snapshot.parts:
                names, count = part.segment.names, len(part.segment)
                own = (names[place] for place in range(count)) if words else part.segment.ids.tolist()
                self.ids[words].update(own)
        strange = found - self.ids[words]
        if strange:
            raise AssertionError(f"found {sorted(map(str, strange))[:5]}, which the index does not have")


def use(path: Path, other: Any) -> None:
    """Call everything that reads files; go on after a refusal, since each call checks other parts."""
    refused = []

    def attempt(function: Any) -> Any:
        try:
            return function()
        except pcpq.FormatError as error:
            refused.append(error)
            return None

    with pcpq.open(path) as index:
        watched = Watched(index, other)
        names = index._state.kind == "str"
        some = [f"wörd {i}" for i in range(30)] if names else list(range(30))
        bound = {"max_distance": 4.0} if index.metric == "euclidean" else {"min_score": 0.5}
        for queries in (QUERIES, QUERIES[:5], QUERIES[0]):
            for options in (
                {},
                {"probes": 1, "rerank": 5},
                {"probes": 2, "rerank": 10},
                {"probes": 40, "rerank": 500},
                *([] if index.keep is None else [{"exact": True}]),
            ):
                attempt(lambda queries=queries, options=options: watched.search(queries, k=5, **options))
        attempt(lambda: watched.search(QUERIES, k=N + 300, probes=100))
        # On threads that have searched nothing yet.
        attempt(lambda: watched.check_ids(index.search(QUERIES, k=5, probes=2, rerank=10, threads=2).ids))
        attempt(lambda: watched.search(QUERIES, k=5, filter=some))
        attempt(lambda: watched.search(QUERIES, k=5, exclude=some, probes=2))
        attempt(lambda: watched.check_ids(index.search_range(QUERIES, **bound, threads=1)[2]))
        attempt(lambda: index.explain(QUERIES[0], k=5, probes=2))
        for part in index._state.snapshot.parts:
            # As if another thread had changed the queries after they were checked.
            for some_queries, probing in product((STRANGE, STRANGE[:3], STRANGE[3:4]), PROBINGS):
                plan = {"k": 5, "probing": probing, "rerank": 10, "allowed": part.everything, "threads": 1}
                scan = partial(part.segment.search, some_queries, **plan)
                attempt(lambda scan=scan: watched.check_ids(scan()[1]))
        attempt(lambda: some[5] in index)
        attempt(lambda: index.reconstruct([one for one in some if one in index]))
        attempt(index.stats)
        attempt(index.verify)

        def read() -> None:
            for part in index._state.snapshot.parts:
                part.segment.rows()
                part.segment.vectors(np.arange(len(part.segment)))

        attempt(read)
        if index._state.snapshot.parts:
            attempt(lambda: pcpq.store.merging.merge(index._state.snapshot.parts))
    if refused:
        raise refused[0]
