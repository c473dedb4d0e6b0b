"""The current snapshot of an index, and the changes that replace it while searches continue."""

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
from pcpq.io.arrays import FloatArray
from pcpq.io.streams import Sample, Stream
from pcpq.search.recall_curve import RecallCurve
from pcpq.search.snapshot import Snapshot
from pcpq.search.where import WhereLimits
from pcpq.segment.part import Part
from pcpq.segment.trained import Trained, check_sample
from pcpq.segment.training import training_rows
from pcpq.store.changes import (
    ConditionalRemoval,
    GivenRows,
    Insertion,
    Observe,
    Progress,
    Removal,
    Update,
    encode,
)
from pcpq.store.manifest import Manifest
from pcpq.store.merging import merge
from pcpq.store.refit import encode_again
from pcpq.store.store import Contents, Store
from pcpq.tuning.choices import train_on
from pcpq.tuning.ground_truth import rows_apart
from pcpq.util.threads import available_threads

logger = logging.getLogger(__name__)
# At least LEAST_MERGED parts are merged, smallest first, as long as the next part has at most SIMILAR times the
# rows of those before it. Sizes of parts then grow geometrically, and a row is copied once per size.
LEAST_MERGED = 3
SIMILAR = 4
# Share of deleted rows above which all parts are merged.
REMOVED = 0.25
# Largest number of rows that are merged while the writer waits; larger merges run in the background.
MERGED_AT_ONCE = 20_000
# Rounds of work without the lock, before the rest is done with it: a refit encodes rows that are added
# meanwhile, and an update is prepared again if other changes were faster.
ROUNDS = 3


class State:
    """The mutable state of an index. Searches read `snapshot` once; writers hold `writing` only to replace it.

    No thread waits for `writing` while it holds another lock, because the thread that holds `writing` may be in
    a signal handler and wait for that other lock.
    """

    def __init__(self, trained: Trained) -> None:
        self.contents = Contents(Snapshot(trained), None, 0)
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
        queries: FloatArray | None = None,
    ) -> tuple[State, Sample]:
        """Train on a sample for `expected` vectors; return the state, and the rows held out of training.

        `queries` are those that the index will serve, if they are known.
        """
        n = stream.length if expected is None else expected
        generator = np.random.default_rng(config.seed)
        sample = stream.sample(training_rows(config, n), generator)
        apart = rows_apart(len(sample), config.seed) if hold_out else np.empty(0, np.intp)
        held_out, rest = sample.split(apart)
        check_sample(held_out, config.metric)
        return cls(train_on(config, rest, n, queries, generator, threads)), held_out

    def __getstate__(self) -> dict[str, Any]:
        """Return the contents without locks, which copies do not share."""
        return self.contents._asdict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the contents, with new locks."""
        self.contents = Contents(**state)
        self._make_locks()

    def _make_locks(self) -> None:
        # Locks are reentrant, because a signal handler may change the index in the middle of a change.
        self.writing = threading.RLock()
        # Used inside `with self.writing`: `with self._merge_ended` runs Python code, and an interruption of it
        # would leave the lock taken.
        self._merge_ended = threading.Condition(self.writing)
        self._measuring = threading.RLock()
        self._measured: tuple[RecallCurve, Trained] | None = None  # not yet in the snapshot
        # By name of a segment that is being merged, the thread that merges it; None: a background thread.
        self._merging: dict[str, int | None] = {}
        every_state.add(self)

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that searches use."""
        return self.contents.snapshot

    @property
    def kind(self) -> str | None:
        """The kind of ids, "int" or "str"; None if no vector was ever added."""
        return self.contents.kind

    @property
    def next_id(self) -> int:
        """The next id that the index assigns."""
        return self.contents.next_id

    def _change(self, make: Callable[[Contents], Contents | None]) -> bool:
        """Replace the contents by `make(contents)`, unless that is None; return whether they were replaced.

        `make` is called again if a signal handler changed the contents meanwhile: the lock is reentrant.
        """
        with self.writing:
            while True:
                before = self.contents
                after = make(before)
                if after is None:
                    return False
                if self.contents is before:  # Python handles no signal between this line and the next
                    self.contents = after
                    return True

    def add(
        self,
        stream: Stream,
        ids: Any,
        attributes: Any,
        *,
        replacing: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
        observe: Observe | None = None,
    ) -> NDArray[Any]:
        """Encode vectors batch by batch, add them as a new part, and return their ids.

        Other changes continue meanwhile, and an iterator of batches may wait for them. `progress` is called
        with the number of encoded vectors and the total, `observe` with a batch in working units and the number
        of its first vector. `ids` may be GivenRows that were checked before, with their attributes.
        """
        available_threads(threads)
        empty = stream.is_empty
        length, kind = (0, None) if empty else (stream.length, self.kind)
        given = ids if isinstance(ids, GivenRows) else GivenRows.of(ids, attributes, length, kind)
        if empty:
            return np.empty(0, object if self.kind == "str" else np.int64)
        if not replacing:
            given.refuse_known(self.snapshot)
        trained = self.snapshot.trained
        rows = encode(trained, stream, threads, progress, observe)
        insertion = Insertion.of(trained, *rows, given, replacing)
        del rows  # copied into a segment
        insertion.prepare(self.contents, threads)
        while not self._change(insertion.apply):  # refitted meanwhile
            insertion.prepare(self.contents, threads)
        self._compact_if_needed()
        return insertion.given

    def remove(self, ids: Any) -> int:
        """Delete vectors by their ids, and return how many of the ids existed."""
        removal = Removal(ids)
        removal.prepare(self.contents)
        self._change(removal.apply)
        self._compact_if_needed()
        return removal.removed

    def remove_where(self, where: str, limits: WhereLimits | None) -> int:
        """Delete the vectors for which an SQL condition holds, and return their number."""
        removal = ConditionalRemoval(where, limits)
        self._make_change(removal)
        return removal.removed

    def update(self, ids: Any, attributes: Any) -> None:
        """Change attributes of existing vectors."""
        self._make_change(Update(ids, attributes, self.kind))

    def _make_change(self, change: ConditionalRemoval | Update) -> None:
        """Prepare a change without the lock; after changes in between, again, and in the end with the lock."""
        for _ in range(ROUNDS):
            change.prepare(self.contents)
            if self._change(change.apply):
                break
        else:

            def make(now: Contents) -> Contents | None:
                change.prepare(now)
                return change.apply(now)

            self._change(make)
        self._compact_if_needed()

    def set_recall_curve(self, curve: RecallCurve, trained: Trained) -> RecallCurve:
        """Store a recall curve, unless the index was trained again since it was measured; return the curve."""

        def make(now: Contents) -> Contents | None:
            if now.snapshot.trained is not trained:
                return None
            return now._replace(snapshot=replace(now.snapshot, recall=curve))

        self._change(make)
        return curve

    def measure_once(self, measure: Callable[[Snapshot], RecallCurve]) -> None:
        """Measure recall, unless it was measured before."""
        snapshot = self.snapshot
        if snapshot.recall is not None:
            return
        with self._measuring:
            if self._measured is None or self._measured[1] is not snapshot.trained:
                snapshot = self.snapshot
                if snapshot.recall is not None:
                    return
                self._measured = measure(snapshot), snapshot.trained
            curve, trained = self._measured
        if self.snapshot.recall is None:  # `tune` may have set it meanwhile
            self.set_recall_curve(curve, trained)
        self._measured = None

    def replace(self, snapshot: Snapshot, kind: str | None, next_id: int) -> None:
        """Replace the contents by those of a stored generation."""
        self._change(lambda _: Contents(snapshot, kind, next_id))

    def commit(self, store: Store, config: IndexConfig, known: Manifest | None) -> tuple[Manifest, Snapshot]:
        """Commit the contents, and use the written files instead of memory from then on.

        Changes continue while files are written; they are part of the next commit. `known` is the generation
        whose files are in use. Returns the new generation, or `known` if nothing has changed.
        """
        manifest, written, opened = store.commit(lambda: self.contents, config, reopen=True, known=known)
        if opened is None:
            return manifest, written
        self._use_files(written, opened)
        return manifest, opened

    def _use_files(self, written: Snapshot, opened: Snapshot) -> None:
        self._change(lambda now: now._replace(snapshot=reopened(now.snapshot, written, opened)))

    def compact(self) -> None:
        """Wait for running merges, and merge all parts into one."""
        with self._released_at_end() as claimed:
            self._merge(self._claim_all(claimed).parts)

    def refit(
        self,
        train: Callable[[Snapshot], Trained],
        measure: Callable[[Snapshot], RecallCurve | None],
        threads: int | None,
    ) -> Future[None]:
        """Train again on the current vectors, encode and measure them in a background thread."""
        done: Future[None] = Future()

        def work() -> None:
            try:
                with self._released_at_end() as claimed:
                    self._refit(self._claim_all(claimed), train, measure, threads)
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
        done = [(before.parts, encoded)]

        def make(now: Contents) -> Contents:
            after = now.snapshot
            if after.trained is not before.trained:
                raise ValueError("the index was fitted again in the meantime")
            known = {part.segment.name for parts, _ in done for part in parts}
            new = tuple(part for part in after.parts if part.segment.name not in known)
            if new:
                done.append((new, encode_again(trained, new, threads)))
            for parts, segment in done:
                after = after.replaced(parts, segment, trained)
            return now._replace(snapshot=replace(after, recall=curve))

        for _ in range(ROUNDS):
            make(self.contents)
        self._change(make)

    @contextmanager
    def _released_at_end(self) -> Iterator[set[str]]:
        """Yield an empty set for names of claimed segments; release the claims when the block ends."""
        claimed: set[str] = set()
        try:
            yield claimed
        finally:
            try:
                self._release(claimed)
            except BaseException:  # such as a KeyboardInterrupt
                self._release(claimed)
                raise

    def _release(self, names: set[str]) -> None:
        if not names:
            return
        with self.writing:
            for name in names:
                self._merging.pop(name, None)
            self._merge_ended.notify_all()

    def _claim_all(self, claimed: set[str]) -> Snapshot:
        """Wait until no part is being merged, claim all parts, and return the snapshot."""
        thread = threading.get_ident()
        with self.writing:
            if thread in self._merging.values():  # this is a signal handler that interrupted a merge
                raise ValueError("parts of the index are being merged by this thread; try again afterwards")
            self._merge_ended.wait_for(lambda: not self._merging)
            before = self.snapshot
            claimed |= before.names
            self._merging.update(dict.fromkeys(claimed, thread))
            return before

    def _compact_if_needed(self) -> None:
        """Merge parts if there are many, or many deleted rows; large merges run in the background."""
        with self._released_at_end() as claimed:
            with self.writing:
                free = [part for part in self.snapshot.parts if part.segment.name not in self._merging]
                parts = worth_merging(free)
                in_background = sum(part.count for part in parts) > MERGED_AT_ONCE
                claimed |= {part.segment.name for part in parts}
                thread = None if in_background else threading.get_ident()
                self._merging.update(dict.fromkeys(claimed, thread))
            if in_background:
                threading.Thread(target=self._merge_in_background, args=(parts,), daemon=True).start()
                claimed.clear()
            elif parts:
                self._merge_or_log(parts)

    def _merge_in_background(self, parts: tuple[Part, ...]) -> None:
        with self._released_at_end() as claimed:
            claimed |= {part.segment.name for part in parts}
            self._merge_or_log(parts)

    def _merge_or_log(self, parts: tuple[Part, ...]) -> None:
        try:
            self._merge(parts)
        except Exception:  # parts are unchanged, and so is the addition or removal before the merge
            logger.exception("%d parts could not be merged", len(parts))

    def _merge(self, parts: tuple[Part, ...]) -> None:
        if not parts or (len(parts) == 1 and not parts[0].has_tombstones):
            return
        merged = merge(parts)

        def make(now: Contents) -> Contents | None:
            if now.snapshot.trained is not parts[0].segment.trained:
                return None
            return now._replace(snapshot=now.snapshot.replaced(parts, merged))

        make(self.contents)  # without the lock: fills caches, such as the order of ids, that `_change` needs
        self._change(make)


def reopened(now: Snapshot, written: Snapshot, opened: Snapshot) -> Snapshot:
    """Return the snapshot `now` with parts in memory replaced by those opened from files.

    `now` is `written` with later changes, `opened` is `written` opened from its files.
    """
    if now.trained is not opened.trained:  # refitted meanwhile: no part of `written` is left
        return now
    files = {old.segment.name: (old, new) for old, new in zip(written.parts, opened.parts, strict=True)}

    def newest(part: Part) -> Part:
        old, new = files.get(part.segment.name, (part, part))
        return new if part.not_removed is old.not_removed else Part(new.segment, part.count, part.not_removed)

    recall = opened.recall if now.recall is written.recall else now.recall
    return Snapshot(now.trained, tuple(newest(part) for part in now.parts), recall)


def worth_merging(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts that should be merged to limit their number and their deleted rows; may be empty."""
    rows, left = sum(len(part.segment) for part in parts), sum(part.count for part in parts)
    if rows - left > REMOVED * rows:
        return tuple(parts)
    group: list[Part] = []
    for part in sorted(parts, key=lambda part: part.count):
        if group and part.count > SIMILAR * sum(other.count for other in group):
            break
        group.append(part)
    return tuple(group) if len(group) >= LEAST_MERGED else ()


def _renew_locks() -> None:
    for state in list(every_state):
        state._make_locks()


# Locks are made anew in a forked process, where the threads that held them do not exist.
every_state: WeakSet[State] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
