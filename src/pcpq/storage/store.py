"""An index on disk: a directory of files that never change, and a manifest that says which of them count."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakSet, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from pcpq.errors import FormatError, NotDurableError
from pcpq.recall import RecallCurve
from pcpq.scan import Segment
from pcpq.snapshot import Part, Snapshot
from pcpq.storage.files import (
    LOCK,
    MappedFile,
    WriterLock,
    already_mapped,
    directory_sync,
    make_directory,
    read_text,
    remove_empty_directory,
    remove_if_there,
    remove_unread,
    replace_file,
    write_new,
)
from pcpq.storage.manifest import MANIFEST, Manifest, StoredPart, is_ours, read_manifest
from pcpq.storage.objects import file_of, read_segment, read_trained, write_segment, write_trained
from pcpq.storage.tables import read_attributes, write_attributes
from pcpq.storage.tensors import FileEntry, Tensors, checksum, write_tensors
from pcpq.trained import Trained

logger = logging.getLogger(__name__)
# Readings of a manifest whose files are gone before they could be opened: a writer is in a hurry.
MOST_TRIES = 100
# Seconds between two looks at the sizes of mapped files.
SIZES_EVERY = 0.05


@dataclass
class OnDisk:
    """What files hold, so that nothing is written twice."""

    trained: dict[Trained, FileEntry] = field(default_factory=dict)
    segments: dict[str, FileEntry] = field(default_factory=dict)  # by name
    live: dict[str, tuple[NDArray[np.uint32], FileEntry]] = field(default_factory=dict)  # by segment
    attributes: dict[str, FileEntry] = field(default_factory=dict)  # by segment


@dataclass
class Pending:
    """A commit under way. Until the manifest on disk was read again, its files may be those that count."""

    disk: OnDisk = field(default_factory=OnDisk)
    written: list[Path] = field(default_factory=list)  # named before they are written
    manifest: Manifest | None = None
    text: bytes = b""

    def new_file(self, path: Path) -> Path:
        """A file that goes if the commit fails."""
        self.written.append(path)
        return path


class Store:
    """One directory, as one reader or the one writer sees it."""

    def __init__(self, directory: Path, lock: WriterLock | None = None) -> None:
        self.directory, self.lock = directory, lock
        self.manifest: Manifest | None = None
        self._disk = OnDisk()
        self._opened: WeakValueDictionary[str, Any] = WeakValueDictionary()  # by file
        self._pending: Pending | None = None
        self._made = False  # the directory, for a first commit
        self._mapped: WeakSet[MappedFile] = WeakSet()
        self._sizes_at = 0.0
        self._make_lock()

    def _make_lock(self) -> None:
        self._commit_lock = threading.Lock()
        self._committers: set[int] = set()  # threads that hold it or wait for it
        every_store.add(self)

    @classmethod
    def create(cls, directory: Path) -> Store:
        """As the writer of a directory that is an index, or will be one."""
        made = make_directory(directory)
        try:
            strangers = [path.name for path in directory.iterdir() if not is_ours(path.name)]
            if strangers and not (directory / MANIFEST).exists():
                raise FileExistsError(f"{directory} is not an index: it holds {strangers[0]}")
            store = cls._locked(directory)
        except BaseException:
            if made:
                remove_empty_directory(directory)
            raise
        store._made = made
        return store

    @classmethod
    def writable(cls, directory: Path) -> Store:
        """As the writer of an index."""
        read_manifest(directory)
        return cls._locked(directory)

    @classmethod
    def _locked(cls, directory: Path) -> Store:
        store = cls(directory, WriterLock(directory))
        try:
            if (directory / MANIFEST).exists():
                store.manifest = read_manifest(directory)
                store.tidy()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Let others write, after a commit that another thread has under way.

        In the middle of it the next writer would remove its files, and then the manifest would name them. A
        directory that was made for a commit that failed is removed.
        """
        self._refuse_within_commit()
        with self._commit_lock:
            self._disk = OnDisk()
            if self.lock is None:
                return
            if self._made and self.lock.held and not (self.directory / MANIFEST).exists():
                self.empty()
                remove_if_there(self.lock.path)
                remove_empty_directory(self.directory)
            self.lock.release()

    def empty(self) -> None:
        """Remove all files of a directory that has no manifest."""
        for path in self._files_not_named(b""):
            remove_if_there(path)

    def _refuse_within_commit(self) -> None:
        """A ValueError in a signal handler that runs in the middle of a commit: to wait would be for ever."""
        if threading.get_ident() in self._committers and self._commit_lock.locked():
            raise ValueError(f"{self.directory} is being committed by this thread; try again afterwards")

    def refuse_changed_files(self) -> None:
        """A FormatError if a file that is mapped here was cut: cheap enough to be asked before every search."""
        now = time.monotonic()
        if now - self._sizes_at > SIZES_EVERY:
            for mapped in list(self._mapped):
                mapped.refuse_changed_size()
            self._sizes_at = now

    def load(self) -> tuple[Manifest, Snapshot]:
        """The newest generation; what is open already is not opened again."""
        for _ in range(MOST_TRIES):
            manifest = read_manifest(self.directory)
            try:
                snapshot = self._snapshot(manifest)
            except FileNotFoundError as error:
                if read_manifest(self.directory).generation == manifest.generation:
                    raise FormatError(f"{error.filename}: is missing") from error
                continue
            self.manifest = manifest
            return manifest, snapshot
        raise FormatError(f"{self.directory}: files disappear while they are opened")

    def commit(
        self, snapshot: Snapshot, settings: dict[str, Any], kind: str | None, next_id: int, *, reopen: bool
    ) -> Snapshot | None:
        """Make a snapshot the newest generation; returns it as it is on disk, if it is to be opened again.

        New files first, then the manifest by a rename: a reader, now or after a crash, sees the old generation
        or the new one, whole. An exception means that the old one stays, unless it is a NotDurableError or its
        notes say that the new one is there: an interruption may come after the rename.
        """
        self._refuse_within_commit()
        try:
            self._committers.add(threading.get_ident())
            with self._commit_lock:
                if self.lock is None or not self.lock.held:
                    raise ValueError(f"{self.directory} was not opened for writing by this process")
                self.lock.refuse_if_lost()
                self._settle()
                with self._noting_what_is_there(), directory_sync(self.directory) as sync:
                    self._commit(snapshot, settings, kind, next_id, sync)
                    return self._reopened() if reopen else None
        finally:
            self._committers.discard(threading.get_ident())

    def _commit(
        self,
        snapshot: Snapshot,
        settings: dict[str, Any],
        kind: str | None,
        next_id: int,
        sync: Callable[[], None],
    ) -> None:
        self._pending = pending = Pending()
        new_manifest = pending.new_file(self.directory / f"manifest-{uuid4().hex}")
        generation = 1 if self.manifest is None else self.manifest.generation + 1
        trained = self._store_trained(snapshot.trained, pending)
        parts = tuple(self._store_part(part, pending) for part in snapshot.parts)
        recall = None if snapshot.recall is None else snapshot.recall.as_words()
        manifest = Manifest(generation, settings, kind, next_id, trained, parts, recall)
        pending.text = manifest.text()
        write_new(new_manifest, [pending.text])
        sync()
        pending.manifest = manifest
        replace_file(self.directory / MANIFEST, new_manifest)
        self._accept(pending)
        self._opened[trained.file] = snapshot.trained  # parts know by it that they go together
        try:
            sync()
        except OSError as error:
            reason = f"generation {generation} is there, but the disk did not confirm it: {error.strerror}"
            raise NotDurableError(error.errno, reason, str(self.directory)) from error
        try:
            self.tidy()
        except OSError as error:  # the next commit tries again
            logger.warning("%s: files that are not needed were not removed: %s", self.directory, error)

    def _accept(self, pending: Pending) -> None:
        self.manifest, self._disk, self._pending = pending.manifest, pending.disk, None

    @contextlib.contextmanager
    def _noting_what_is_there(self) -> Iterator[None]:
        """Whatever interrupts a commit: files that count stay, all others go, and the exception says which."""
        before = self.manifest
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(OSError, FormatError):  # then all stay, and the next commit looks again
                self._settle()
            if self._pending is not None:
                add_note(error, f"whether {self.directory} was committed is not known: open it to see")
            elif self.manifest is not before and self.manifest is not None:
                add_note(
                    error, f"generation {self.manifest.generation} of {self.directory} was committed before"
                )
            raise

    def _settle(self) -> None:
        """Decide a commit that was interrupted by what the manifest on disk names."""
        pending = self._pending
        if pending is None:
            return
        there = self._manifest_text()
        if pending.manifest is not None and there == pending.text:
            self._accept(pending)
            return
        for path in pending.written:
            if path.name.encode() not in there:
                remove_if_there(path)
        self._pending = None

    def _reopened(self) -> Snapshot | None:
        """The generation on disk; None if it cannot be opened now, for want of descriptors or memory."""
        if self.manifest is None:
            return None
        try:
            return self._snapshot(self.manifest)
        except OSError as error:
            logger.warning("%s: is used from memory, not from its files: %s", self.directory, error)
            return None

    def verify(self) -> None:
        """Read every file of the generation again, and compare all of it with its checksums."""
        read_manifest(self.directory)
        if self.manifest is None:
            return
        try:
            snapshot = Store(self.directory)._snapshot(self.manifest)
        except FileNotFoundError as error:
            raise FormatError(f"{error.filename}: is missing") from error
        for part in snapshot.parts:
            part.segment.trust()
            if part.segment.attributes is not None:
                part.segment.attributes.table.validate(full=True)
        for mapped in list(self._mapped):
            mapped.refuse_replaced()

    def adopt(self, name: str, entry: FileEntry) -> None:
        """A segment that others wrote here: a commit of it has nothing to write."""
        self._disk.segments[name] = entry

    def tidy(self) -> None:
        """Remove files of ours that the manifest does not name and no process reads. Only the writer may."""
        for path in self._files_not_named(self._manifest_text()):
            remove_unread(path)

    def _manifest_text(self) -> bytes:
        """As it is on disk: what this object believes may be older."""
        try:
            return read_text(self.directory / MANIFEST)
        except FileNotFoundError:
            return b""

    def _files_not_named(self, manifest: bytes) -> list[Path]:
        needed = (MANIFEST, LOCK)
        ours = (path for path in self.directory.iterdir() if is_ours(path.name) and path.name not in needed)
        return [path for path in ours if path.name.encode() not in manifest]

    def _store_trained(self, trained: Trained, pending: Pending) -> FileEntry:
        entry = self._disk.trained.get(trained)
        if entry is None:
            entry = write_trained(pending.new_file(self.directory / new_name("trained")), trained)
        pending.disk.trained[trained] = entry
        return entry

    def _store_part(self, part: Part, pending: Pending) -> StoredPart:
        new = pending.disk
        segment, name = part.segment, part.segment.name
        entry = self._disk.segments.get(name)
        if entry is None:
            if (self.directory / file_of(segment)).exists():
                # Saved before: who knows what became of it.
                segment = replace(segment, name=(name := uuid4().hex))
            entry = write_segment(pending.new_file(self.directory / file_of(segment)), segment)
        new.segments[name] = entry
        known = self._disk.attributes.get(name)
        if segment.attributes is not None:
            if known is None:
                path = pending.new_file(self.directory / f"attributes-{name}.arrow")
                known = write_attributes(path, segment.attributes)
            new.attributes[name] = known
        if part.live is None:
            return StoredPart(entry, part.count, None, known)
        stored = self._disk.live.get(name)
        if stored is None or stored[0] is not part.live:
            path = pending.new_file(self.directory / new_name("live"))
            check = {"check": str(checksum(part.live))}
            stored = (part.live, write_tensors(path, {"words": part.live}, check))
        new.live[name] = stored
        return StoredPart(entry, part.count, stored[1], known)

    def _snapshot(self, manifest: Manifest) -> Snapshot:
        disk = OnDisk()
        trained = self._once(manifest.trained, lambda entry: read_trained(self.directory, entry))
        disk.trained[trained] = manifest.trained
        parts = tuple(self._part(part, trained, disk) for part in manifest.parts)
        for part in parts:
            if (part.segment.names is not None) != (manifest.kind == "str"):
                raise FormatError(
                    f"{self.directory}: ids are {manifest.kind}, but not those of {file_of(part.segment)}"
                )
        self._disk = disk
        found = (already_mapped(self.directory / name) for name in manifest.files)
        self._mapped.update(mapped for mapped in found if mapped is not None)
        recall = None if manifest.recall is None else RecallCurve.of_words(manifest.recall)
        if recall is not None and recall.probes[-1] != len(trained.partition):
            raise FormatError(
                f"{self.directory}: recall of {recall.probes[-1]} lists, not {len(trained.partition)}"
            )
        return Snapshot(trained, parts, recall)

    def _part(self, stored: StoredPart, trained: Trained, disk: OnDisk) -> Part:
        def read(entry: FileEntry) -> Segment:
            segment = read_segment(self.directory, entry, stored.name, trained)
            if stored.attributes is None:
                return segment
            return replace(segment, attributes=read_attributes(self.directory, stored.attributes, len(segment)))

        segment: Segment = self._once(stored.segment, read)
        disk.segments[stored.name] = stored.segment
        if stored.attributes is not None:
            disk.attributes[stored.name] = stored.attributes
        if stored.live is None:
            if stored.count != len(segment):
                raise FormatError(f"{self.directory}: {stored.count} of {len(segment)} rows are there")
            return Part.whole(segment)
        tensors = Tensors(self.directory, stored.live)
        live = tensors.shaped("words", "U32", (segment.blocks.count,))
        tensors.check("words", tensors.metadata.get("check"))
        part = Part(segment, stored.count, live)
        if part.only(segment.every_row).count != stored.count:
            raise FormatError(f"{tensors.path}: other than {stored.count} rows are there")
        disk.live[stored.name] = (live, stored.live)
        return part

    def _once(self, entry: FileEntry, read: Callable[[FileEntry], Any]) -> Any:
        found = self._opened.get(entry.file)
        if found is None:
            found = self._opened[entry.file] = read(entry)
        return found


def new_name(kind: str) -> str:
    """Of a file that is not there yet."""
    return f"{kind}-{uuid4().hex}.safetensors"


def add_note(error: BaseException, text: str) -> None:
    """As BaseException.add_note, which Python 3.10 does not have."""
    error.__notes__ = [*getattr(error, "__notes__", []), text]  # type: ignore[attr-defined]


def _renew_locks() -> None:
    for store in list(every_store):
        store._make_lock()


# In a forked process the thread that held a lock is not there to release it.
every_store: WeakSet[Store] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
