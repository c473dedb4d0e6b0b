"""The snapshot that counts now, and the changes that replace it while searches go on."""

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
from pcpq.io.streams import Sample, Stream
from pcpq.search.recall_curve import RecallCurve
from pcpq.search.snapshot import Snapshot
from pcpq.segment.part import Part
from pcpq.segment.trained import Trained
from pcpq.segment.training import train, training_rows
from pcpq.store.changes import Insertion, Observe, Progress, Removal, encode
from pcpq.store.manifest import Manifest
from pcpq.store.merging import merge
from pcpq.store.refit import encode_again
from pcpq.store.store import Contents, Store
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
# So many times a refit encodes what was added meanwhile without the lock; the few rows that come then, with it.
ROUNDS = 3


class State:
    """What an index holds. Searches read `snapshot` once; a writer holds `writing` only to replace it.

    No thread waits for `writing` while it holds another lock: a thread that holds `writing` may be in a signal
    handler, and wait for that other lock.
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
    ) -> tuple[State, Sample]:
        """Train on a sample of the vectors, `expected` of which will be added; also returns rows held out."""
        n = stream.length if expected is None else expected
        generator = np.random.default_rng(config.seed)
        sample = stream.sample(training_rows(config, n), generator)
        apart = rows_apart(len(sample), config.seed) if hold_out else np.empty(0, np.intp)
        held_out, rest = sample.split(apart)
        return cls(train(config, rest, n, generator, threads)), held_out

    def __getstate__(self) -> dict[str, Any]:
        """Without locks: copies get their own."""
        return self.contents._asdict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """With locks of its own."""
        self.contents = Contents(**state)
        self._make_locks()

    def _make_locks(self) -> None:
        # Locks let their own thread in again: a signal handler may change the index in the middle of a change.
        self.writing = threading.RLock()
        # For use in `with self.writing`: `with self._merge_ended` is written in Python, and an interruption in
        # the middle of it would leave the lock taken.
        self._merge_ended = threading.Condition(self.writing)
        self._measuring = threading.RLock()
        self._measured: tuple[RecallCurve, Trained] | None = None  # on its way into the snapshot
        # Names of segments that are being merged, and the thread that merges them; None: one in the background.
        self._merging: dict[str, int | None] = {}
        every_state.add(self)

    @property
    def snapshot(self) -> Snapshot:
        """All vectors, as searches see them."""
        return self.contents.snapshot

    @property
    def kind(self) -> str | None:
        """The kind of ids, "int" or "str"; None: there were none yet."""
        return self.contents.kind

    @property
    def next_id(self) -> int:
        """The next number that the index chooses."""
        return self.contents.next_id

    def _change(self, make: Callable[[Contents], Contents | None]) -> bool:
        """Replace what there is by what `make` makes of it, unless that is None; whether it was replaced.

        `make` is called again if a signal handler changed the index meanwhile: the lock lets its thread in.
        """
        with self.writing:
            while True:
                before = self.contents
                after = make(before)
                if after is None:
                    return False
                if self.contents is before:  # and now: Python handles no signal between this line and the next
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
        """Encode vectors batch by batch and make them a part of their own; returns their ids.

        Other changes go on meanwhile: an iterator of batches may wait for them. `progress` is called with the
        number of vectors that are encoded and of all, `observe` with a batch in working units and the number of
        its first vector.
        """
        trained = self.snapshot.trained
        rows = encode(trained, stream, threads, progress, observe)
        insertion = Insertion.of(trained, *rows, ids, self.kind, attributes, replacing)
        del rows  # a segment of them is there
        insertion.prepare(self.contents, threads)
        while not self._change(insertion.apply):  # refitted meanwhile
            insertion.prepare(self.contents, threads)
        self._compact_if_needed()
        return insertion.given

    def remove(self, ids: Any) -> int:
        """Remove ids; returns how many were there."""
        removal = Removal(ids)
        removal.prepare(self.contents)
        self._change(removal.apply)
        self._compact_if_needed()
        return removal.removed

    def set_recall_curve(self, curve: RecallCurve, trained: Trained) -> RecallCurve:
        """Keep what was measured, unless the lists that it was measured with have been replaced since."""

        def make(now: Contents) -> Contents | None:
            if now.snapshot.trained is not trained:
                return None
            return now._replace(snapshot=replace(now.snapshot, recall=curve))

        self._change(make)
        return curve

    def measure_once(self, measure: Callable[[Snapshot], RecallCurve]) -> None:
        """Measure what searches find, unless it is known already."""
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
        if self.snapshot.recall is None:  # not given by `tune` meanwhile
            self.set_recall_curve(curve, trained)
        self._measured = None

    def replace(self, snapshot: Snapshot, kind: str | None, next_id: int) -> None:
        """Go on with what another process wrote."""
        self._change(lambda _: Contents(snapshot, kind, next_id))

    def commit(self, store: Store, config: IndexConfig, known: Manifest | None) -> tuple[Manifest, Snapshot]:
        """Commit what there is, and go on with the files instead of what is in memory.

        Changes go on while files are written; they are part of the next commit. `known` is the generation whose
        files are in use. Returns the new generation, or `known` if nothing has changed.
        """
        manifest, written, opened = store.commit(lambda: self.contents, config, reopen=True, known=known)
        if opened is None:
            return manifest, written
        self._use_files(written, opened)
        return manifest, opened

    def _use_files(self, written: Snapshot, opened: Snapshot) -> None:
        self._change(lambda now: now._replace(snapshot=reopened(now.snapshot, written, opened)))

    def compact(self) -> None:
        """Make everything one part, after what is being merged already."""
        with self._released_at_end() as claimed:
            self._merge(self._claim_all(claimed).parts)

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
                raise ValueError("the index was fitted anew in the meantime")
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
        """Names of segments to merge are put into the set; others may merge them again after this."""
        claimed: set[str] = set()
        try:
            yield claimed
        finally:
            try:
                self._release(claimed)
            except BaseException:  # an interruption as well
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
        """All parts, as soon as none is being merged; additions go on."""
        thread = threading.get_ident()
        with self.writing:
            if thread in self._merging.values():  # and will be until this signal handler returns
                raise ValueError("parts of the index are being merged by this thread; try afterwards")
            self._merge_ended.wait_for(lambda: not self._merging)
            before = self.snapshot
            claimed |= before.names
            self._merging.update(dict.fromkeys(claimed, thread))
            return before

    def _compact_if_needed(self) -> None:
        """Merge parts if they are many or little is left of them; large ones in the background."""
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
        except Exception:  # parts stay as they are: the addition or removal before it is done
            logger.exception("%d parts could not be made one", len(parts))

    def _merge(self, parts: tuple[Part, ...]) -> None:
        if not parts or (len(parts) == 1 and not parts[0].has_tombstones):
            return
        merged = merge(parts)

        def make(now: Contents) -> Contents | None:
            if now.snapshot.trained is not parts[0].segment.trained:
                return None
            return now._replace(snapshot=now.snapshot.replaced(parts, merged))

        make(self.contents)  # without the lock: what takes time, as the order of ids, is made once
        self._change(make)


def reopened(now: Snapshot, written: Snapshot, opened: Snapshot) -> Snapshot:
    """A snapshot with parts of files in the place of those that were written to them.

    `now` is `written` with what was changed since, `opened` is `written` as it was opened from its files.
    """
    if now.trained is not opened.trained:  # refitted meanwhile: none of these parts is left
        return now
    files = {old.segment.name: (old, new) for old, new in zip(written.parts, opened.parts, strict=True)}

    def newest(part: Part) -> Part:
        old, new = files.get(part.segment.name, (part, part))
        return new if part.not_removed is old.not_removed else Part(new.segment, part.count, part.not_removed)

    recall = opened.recall if now.recall is written.recall else now.recall
    return Snapshot(now.trained, tuple(newest(part) for part in now.parts), recall)


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


def _renew_locks() -> None:
    for state in list(every_state):
        state._make_locks()


# A thread that held a lock is not there any more in a forked process; the lock would be held for ever.
every_state: WeakSet[State] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
