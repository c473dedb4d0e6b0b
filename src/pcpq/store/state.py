"""The snapshot that counts now, and who may replace it: one writer at a time, while searches go on."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from pcpq.config import IndexConfig
from pcpq.io.arrays import Ids
from pcpq.io.streams import Sample, Stream
from pcpq.search.recall_curve import RecallCurve
from pcpq.search.snapshot import Snapshot
from pcpq.segment.attributes import Attributes, as_table, same_rows
from pcpq.segment.encoded_rows import Rows
from pcpq.segment.ids import new_ids
from pcpq.segment.list_statistics import Spread
from pcpq.segment.part import Part
from pcpq.segment.segment import Segment
from pcpq.segment.trained import Trained
from pcpq.segment.training import train, training_rows
from pcpq.store.merging import merge
from pcpq.store.refit import encode_again
from pcpq.store.store import Store
from pcpq.tuning.ground_truth import rows_apart

logger = logging.getLogger(__name__)
# Parts of similar size that are made one: sizes then grow by as much from one part to the next, and a row is
# written once for every such step.
ALIKE = 3
SIMILAR = 4
# Of the rows of all parts: so many removed, and everything is made anew.
REMOVED = 0.25
# So many rows are made one part while the writer waits; more in the background.
MERGED_AT_ONCE = 20_000


class State:
    """Searches read `snapshot` once; writers hold `writing` while they make the next."""

    def __init__(self, trained: Trained) -> None:
        self.snapshot = Snapshot(trained)
        self.kind: str | None = None  # of ids
        self.next_id = 0
        self._make_locks()

    @classmethod
    def fit(
        cls,
        config: IndexConfig,
        stream: Stream,
        expected: int | None,
        threads: int | None,
        *,
        hold_out: bool = False,
    ) -> tuple[State, Sample]:
        """Train on a sample of the vectors, `expected` of which will be added; also returns rows held out."""
        n = stream.length if expected is None else expected
        generator = np.random.default_rng(config.seed)
        sample = stream.sample(training_rows(config, n), generator)
        apart = rows_apart(len(sample), config.seed) if hold_out else np.empty(0, np.intp)
        held_out, rest = sample.split(apart)
        return cls(train(config, rest, n, generator, threads)), held_out

    def __getstate__(self) -> dict[str, Any]:
        """Without locks: pickles and copies get their own."""
        return {"snapshot": self.snapshot, "kind": self.kind, "next_id": self.next_id}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """With locks of its own."""
        vars(self).update(state)
        self._make_locks()

    def _make_locks(self) -> None:
        self.writing = threading.RLock()
        self._free = threading.Condition(self.writing)
        self.measuring = threading.Lock()
        self._busy: set[str] = set()  # segments that are being made one with others
        everyone.add(self)

    def insert(self, rows: Rows, spread: Spread, ids: Any, attributes: Any, replacing: bool) -> NDArray[Any]:
        """Rows become a part of their own; returns their ids."""
        with self.writing:
            given, numbers, names, kind = new_ids(ids, len(rows), self.kind, self.next_id)
            if replacing:
                before = self.snapshot.without(given)
            else:
                before = self.snapshot
                refuse_known(before, given)
            rows.ids[:] = numbers
            known = None if attributes is None else known_attributes(before, attributes, numbers)
            segment = Segment.of(before.trained, rows, spread, names, known)
            self.kind, self.next_id = kind, max(self.next_id, int(numbers.max()) + 1)
            self.snapshot = before.including(segment)  # at last: searches read it, and then the kind
        self._tend()
        return given

    def remove(self, ids: Any) -> int:
        """Less some ids; returns how many were there."""
        with self.writing:
            before = self.snapshot
            self.snapshot = before.without(ids)
            removed = len(before) - len(self.snapshot)
        self._tend()
        return removed

    def know(self, curve: RecallCurve, trained: Trained) -> RecallCurve:
        """What searches find; measured with lists that may have been replaced since, and then worth nothing."""
        with self.writing:
            if self.snapshot.trained is trained:
                self.snapshot = replace(self.snapshot, recall=curve)
        return curve

    def measure_once(self, measure: Callable[[Snapshot], RecallCurve]) -> None:
        """Unless it is known already what searches find."""
        if self.snapshot.recall is None:
            with self.measuring:
                snapshot = self.snapshot
                if snapshot.recall is None:
                    self.know(measure(snapshot), snapshot.trained)

    def show(self, snapshot: Snapshot, kind: str | None, next_id: int) -> None:
        """What somebody else wrote."""
        with self.writing:
            self.kind, self.next_id = kind, next_id
            self.snapshot = snapshot

    def store(self, store: Store, config: IndexConfig, adopt: bool) -> Snapshot:
        """Commit what there is to a store; if asked, go on with the files instead of what is in memory."""
        with self.writing:
            stored = store.commit(self.snapshot, config, self.kind, self.next_id, reopen=adopt)
            if stored is not None:
                self.snapshot = stored
            return self.snapshot

    def compact(self) -> None:
        """Make everything one part, after what is being merged already."""
        with self._all_parts() as before:
            self._merge(before.parts)

    def refit(
        self,
        train: Callable[[Snapshot], Trained],
        measure: Callable[[Snapshot], RecallCurve | None],
        threads: int | None,
    ) -> Future[None]:
        """Train anew on what there is, encode everything by it and measure that, in the background."""
        done: Future[None] = Future()

        def work() -> None:
            try:
                with self._all_parts() as before:
                    self._refit(before, train, measure, threads)
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)

        done.set_running_or_notify_cancel()
        threading.Thread(target=work, daemon=True).start()
        return done

    def _refit(
        self,
        before: Snapshot,
        train: Callable[[Snapshot], Trained],
        measure: Callable[[Snapshot], RecallCurve | None],
        threads: int | None,
    ) -> None:
        if len(before) == 0:
            raise ValueError("there are no vectors to learn from")
        trained = train(before)
        encoded = encode_again(trained, before.parts, threads)
        curve = measure(Snapshot(trained, () if encoded is None else (Part.whole(encoded),)))
        with self.writing:
            if self.snapshot.trained is not before.trained:
                raise ValueError("the index was fitted anew in the meantime")
            new = [part for part in self.snapshot.parts if part.segment.name not in before.names]
            after = self.snapshot.replaced(before.parts, encoded, trained)
            after = after.replaced(new, encode_again(trained, new, threads), trained) if new else after
            self.snapshot = replace(after, recall=curve)

    @contextmanager
    def _all_parts(self) -> Iterator[Snapshot]:
        """All parts for oneself, as soon as nobody else merges any; additions go on."""
        claimed: set[str] = set()
        try:
            with self._free:
                self._free.wait_for(lambda: not self._busy)
                before = self.snapshot
                claimed = before.names
                self._busy |= claimed
            yield before
        finally:
            try:
                self._release(claimed)
            except BaseException:  # an interruption as well
                self._release(claimed)
                raise

    def _release(self, names: set[str]) -> None:
        if not names:
            return
        with self._free:
            self._busy -= names
            self._free.notify_all()

    def _tend(self) -> None:
        """Make parts one if that is worth it; large ones in the background, beside which small ones go on."""
        claimed: set[str] = set()
        try:  # an interruption, wherever it comes, must not leave parts claimed for ever
            with self.writing:
                free = [part for part in self.snapshot.parts if part.segment.name not in self._busy]
                parts = worth_merging(free)
                claimed = {part.segment.name for part in parts}
                self._busy |= claimed
            if sum(part.count for part in parts) > MERGED_AT_ONCE:
                threading.Thread(target=self._merge_and_release, args=(parts, claimed), daemon=True).start()
                claimed = set()
            elif parts:
                self._merge_or_log(parts)
        finally:
            try:
                self._release(claimed)
            except BaseException:  # an interruption as well
                self._release(claimed)
                raise

    def _merge_and_release(self, parts: tuple[Part, ...], claimed: set[str]) -> None:
        try:
            self._merge_or_log(parts)
        finally:
            self._release(claimed)

    def _merge_or_log(self, parts: tuple[Part, ...]) -> None:
        try:
            self._merge(parts)
        except Exception:  # parts stay as they are: the addition or removal before it is done
            logger.exception("%d parts could not be made one", len(parts))

    def _merge(self, parts: tuple[Part, ...]) -> None:
        if not parts or (len(parts) == 1 and parts[0].live is None):
            return
        merged = merge(parts)
        with self.writing:
            if self.snapshot.trained is parts[0].segment.trained:
                self.snapshot = self.snapshot.replaced(parts, merged)


def worth_merging(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts to make one, so that there are few and little of them is gone; none if all is well."""
    rows, there = sum(len(part.segment) for part in parts), sum(part.count for part in parts)
    if rows - there > REMOVED * rows:
        return tuple(parts)
    group: list[Part] = []
    for part in sorted(parts, key=lambda part: part.count):
        if group and part.count > SIMILAR * sum(other.count for other in group):
            break
        group.append(part)
    return tuple(group) if len(group) >= ALIKE else ()


def known_attributes(snapshot: Snapshot, attributes: Any, numbers: Ids) -> Attributes:
    """A table for new numbers, or a ValueError if it does not go with those that are there."""
    table = as_table(attributes, len(numbers))
    there = [part.segment.attributes for part in snapshot.parts if part.segment.attributes is not None]
    same_rows([(table, len(table)), *((one.table.slice(0, 0), 0) for one in there)])
    return Attributes.of(table.take(np.argsort(numbers)))


def refuse_known(snapshot: Snapshot, ids: NDArray[Any]) -> None:
    """A ValueError that names the first id that is there."""
    for rows in snapshot.find(ids):
        if (rows >= 0).any():
            raise ValueError(f"id {ids[rows >= 0][0]!s} is in the index already; upsert replaces it")


def _renew_locks() -> None:
    for state in list(everyone):
        state._make_locks()


# A thread that held a lock is not there any more in a forked process; the lock would be held for ever.
everyone: WeakSet[State] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
