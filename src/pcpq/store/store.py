"""The stored index: a directory of immutable files, and a manifest that names the files in use."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from pcpq.config import IndexConfig
from pcpq.errors import FormatError, NotDurableError
from pcpq.io.arrays import Bytes
from pcpq.search.snapshot import Snapshot
from pcpq.segment.part import Part
from pcpq.segment.segment import Segment
from pcpq.segment.trained import Trained
from pcpq.segment.training import choices_made
from pcpq.store.files import LOCK, Maps, WriterLock, map_file, read_text, remove_unread
from pcpq.store.manifest import (
    MANIFEST,
    Manifest,
    ManifestFile,
    StoredPart,
    is_index_file,
    read_manifest,
    readable,
)
from pcpq.store.serialization import file_of, read_segment, read_trained, write_segment, write_trained
from pcpq.store.tables import read_attributes, write_attributes
from pcpq.store.tensors import FileEntry, Tensors, checksum, write_tensors
from pcpq.util.durable_files import (
    directory_sync,
    make_directory,
    remove_empty_directory,
    remove_if_there,
    replace_file,
    sync_directory,
    write_new,
)

logger = logging.getLogger(__name__)
# Attempts to open a generation. Commits of a fast writer can remove its files before they are opened.
MOST_TRIES = 100


class Contents(NamedTuple):
    """The contents of an index at one moment."""

    snapshot: Snapshot
    kind: str | None  # of ids: "int" or "str"; None: no ids yet
    next_id: int


class Committed(NamedTuple):
    """The result of a commit: the new generation, or the last one if nothing had changed."""

    manifest: Manifest
    written: Snapshot
    opened: Snapshot | None  # `written`, opened from its files


@dataclass
class OnDisk:
    """The files of objects that are stored already and need not be written again."""

    trained: dict[Trained, FileEntry] = field(default_factory=dict)
    segments: dict[str, FileEntry] = field(default_factory=dict)  # by name
    live: dict[str, tuple[NDArray[np.uint32], FileEntry]] = field(default_factory=dict)  # by segment
    attributes: dict[str, FileEntry] = field(default_factory=dict)  # by segment


@dataclass
class Pending:
    """A commit in progress. Its files must stay until the manifest on disk shows whether they are in use."""

    disk: OnDisk = field(default_factory=OnDisk)
    written: list[Path] = field(default_factory=list)  # added before the file is written
    manifest: Manifest | None = None
    text: bytes = b""
    thread: int = field(default_factory=threading.get_ident)


class Store:
    """The directory of an index, opened by a reader or, with a lock, by its only writer."""

    def __init__(self, directory: Path, lock: WriterLock | None = None) -> None:
        self.directory, self.lock = directory, lock
        self.manifest: Manifest | None = None  # of the newest known generation
        self._read: ManifestFile | None = None
        self._disk = OnDisk()
        self._opened: WeakValueDictionary[str, Any] = WeakValueDictionary()  # by file name
        # Keep the trained file mapped, and so marked as being read, although its arrays are used from memory.
        self._marks: WeakKeyDictionary[Snapshot, Bytes] = WeakKeyDictionary()
        self._pending: Pending | None = None
        self._made = False  # whether this object created the directory
        self._confirmed = False  # whether the manifest is known to survive a power loss
        self._committer: int | None = None  # the thread of the last commit
        self.loads = self.shown = 0  # the number of loads, and the number of the load in use
        self.maps = Maps()
        self._make_lock()

    def _make_lock(self) -> None:
        self._writing = threading.Lock()
        self.loading = threading.RLock()  # reentrant, because a signal handler may load too
        self._within: dict[int, str] = {}  # by thread, the work for which it holds or awaits `_writing`
        every_store.add(self)

    def _leave_to_parent(self) -> None:
        """Forget, in a forked process, a commit that the parent process has in progress."""
        self._make_lock()
        self._pending = None

    def _begin(self, what: str) -> None:
        """Register the work that this thread is about to do under the lock `_writing`.

        Raise a ValueError in a signal handler that interrupted such work, because it would wait forever.
        Callers write `with self._writing` themselves: an interruption while a context manager written in Python
        is entered would leave the lock taken.
        """
        thread = threading.get_ident()
        if thread in self._within and self._writing.locked():
            work = self._within[thread]
            raise ValueError(f"{self.directory} is being {work} by this thread; try again afterwards")
        self._within[thread] = what

    def _end(self) -> None:
        self._within.pop(threading.get_ident(), None)

    def _refuse_without_lock(self) -> None:
        if self.lock is None or not self.lock.held:
            raise ValueError(f"{self.directory} was not opened for writing by this process")
        self.lock.refuse_if_lost()

    @classmethod
    def create(cls, directory: Path) -> Store:
        """Open a directory for writing; it is created if needed, and must be empty or an index."""
        made = make_directory(directory)
        try:
            strangers = [path.name for path in directory.iterdir() if not is_index_file(path.name)]
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
        """Open an existing index for writing."""
        known = ManifestFile.read(directory, None)
        store = cls._locked(directory, known)
        try:
            # The last writer may have been killed before the new manifest was on disk, and a commit without
            # changes does not sync.
            sync_directory(directory)
            store._confirmed = True
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def _locked(cls, directory: Path, known: ManifestFile | None = None) -> Store:
        store = cls(directory, WriterLock(directory))
        try:
            if (directory / MANIFEST).exists():
                store._read = known
                store.manifest = store.newest()
                store.tidy()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Wait for a commit in another thread, and release the writer's lock.

        Without the wait, the next writer would remove files that the manifest is about to name. A directory
        that was created for a failed commit is removed.
        """
        if self._within.get(threading.get_ident()) == "closed" and self._writing.locked():
            return  # in a signal handler that interrupted `close`
        self._begin("closed")
        try:
            with self._writing:
                self._disk, self._read = OnDisk(), None
                if self.lock is None:
                    return
                if self._made and self.lock.held and not (self.directory / MANIFEST).exists():
                    self.empty()
                    remove_if_there(self.lock.path)
                    remove_empty_directory(self.directory)
                self.lock.release()
        finally:
            self._end()

    def empty(self) -> None:
        """Remove all files of a directory that has no manifest."""
        for path in self._files_not_named(b""):
            remove_if_there(path)

    def newest(self) -> Manifest:
        """Return the manifest on disk; it is read only if the file was replaced since the last call."""
        self._read = ManifestFile.read(self.directory, self._read)
        return self._read.manifest

    def load(self) -> tuple[Manifest, Snapshot]:
        """Open the newest generation; files that are open already are not opened again."""
        for _ in range(MOST_TRIES):
            manifest = self.newest()
            try:
                snapshot = self.snapshot_of(manifest)
            except FileNotFoundError as error:
                if self.newest() is manifest:
                    raise FormatError(f"{error.filename}: is missing") from error
                continue
            self.manifest = manifest
            self.loads += 1
            return manifest, snapshot
        raise FormatError(f"{self.directory}: files disappear while they are opened")

    def commit(
        self,
        contents: Callable[[], Contents],
        config: IndexConfig,
        *,
        reopen: bool = False,
        known: Manifest | None = None,
    ) -> Committed:
        """Store what `contents` returns as a new generation, unless the newest one is equal.

        New files are written first, then the manifest is replaced by a rename. A reader sees the complete old
        generation or the complete new one, also after a crash. An exception means that the old generation
        stays, unless it is a NotDurableError or its notes say that the new one was committed: an interruption
        can come after the rename.

        `contents` is called when no other commit is in progress, so that no commit stores contents older than
        those of the commit before it. With `reopen`, the files of a generation other than `known` are opened.
        """
        self._begin("committed")
        try:
            with self.noting_commits(), self._writing:
                self._refuse_without_lock()
                self._settle()
                now = contents()
                manifest = self._same_manifest(now, config)
                if manifest is None:
                    with self._settling(), directory_sync(self.directory) as sync:
                        manifest = self._commit(now, config, sync)
                opened = self._reopened(manifest) if reopen and manifest is not known else None
                return Committed(manifest, now.snapshot, opened)
        finally:
            self._end()

    def _same_manifest(self, contents: Contents, config: IndexConfig) -> Manifest | None:
        """Return the newest manifest if it is on disk and describes exactly these contents, else None."""
        last, snapshot = self.manifest, contents.snapshot
        trained = self._disk.trained.get(snapshot.trained)
        found = [self._stored_part(part) for part in snapshot.parts]
        parts = tuple(part for part in found if part is not None)
        if last is None or not self._confirmed or trained is None or len(parts) < len(found):
            return None
        new = manifest_of(contents, config, last.generation, trained, parts)
        return last if new == last and (self.directory / MANIFEST).exists() else None

    def _commit(self, contents: Contents, config: IndexConfig, sync: Callable[[], None]) -> Manifest:
        snapshot = contents.snapshot
        self._pending = pending = Pending()
        new_manifest = self._new_file(f"manifest-{uuid4().hex}", pending)
        generation = 1 if self.manifest is None else self.manifest.generation + 1
        trained = self._store_trained(snapshot.trained, pending)
        parts = tuple(self._store_part(part, pending) for part in snapshot.parts)
        manifest = manifest_of(contents, config, generation, trained, parts)
        pending.text = manifest.text()
        manifest = readable(pending.text, self.directory)
        write_new(new_manifest, [pending.text])
        sync()
        # Check again: the lock file may have been removed, or a signal handler may have forked this process.
        self._refuse_without_lock()
        pending.manifest = manifest
        self._confirmed = False
        replace_file(self.directory / MANIFEST, new_manifest)
        self._accept(pending)
        try:
            sync()
        except OSError as error:
            reason = f"generation {generation} was committed, but the disk did not confirm it: {error.strerror}"
            raise NotDurableError(error.errno, reason, str(self.directory)) from error
        self._confirmed = True
        return manifest

    def _new_file(self, name: str, pending: Pending) -> Path:
        """Return the path of a new file, which is removed if the commit fails."""
        self._refuse_without_lock()  # a process forked during the commit has no lock
        pending.written.append(self.directory / name)
        return pending.written[-1]

    def _accept(self, pending: Pending) -> None:
        self._read, self._committer = None, pending.thread
        self.manifest, self._disk, self._pending = pending.manifest, pending.disk, None

    @contextlib.contextmanager
    def _settling(self) -> Iterator[None]:
        """If the commit in this block is interrupted, keep files that are in use and remove the others."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError, FormatError):  # then all files stay until the next commit
                self._settle()
            raise

    @contextlib.contextmanager
    def noting_commits(self) -> Iterator[None]:
        """Add a note to an exception that is raised after a commit of this thread has taken place."""
        before, thread = self.manifest, threading.get_ident()
        try:
            yield
        except BaseException as error:
            if self._pending is not None and self._pending.thread == thread:
                add_note(error, f"whether {self.directory} was committed is not known: open it to see")
            elif self.manifest is not None and self.manifest is not before and self._committer == thread:
                generation = self.manifest.generation
                add_note(error, f"generation {generation} of {self.directory} was committed before")
            raise

    def _settle(self) -> None:
        """Accept or undo an interrupted commit, depending on the manifest on disk."""
        pending = self._pending
        if pending is None or self.lock is None or not self.lock.held:
            return
        on_disk = self._manifest_text()
        if pending.manifest is not None and on_disk == pending.text:
            self._accept(pending)
            return
        for path in pending.written:
            if path.name.encode() not in on_disk:
                remove_if_there(path)
        self._pending = None

    def _reopened(self, manifest: Manifest) -> Snapshot | None:
        """Open a generation from its files; return None if file descriptors or memory do not suffice."""
        try:
            return self.snapshot_of(manifest)
        except OSError as error:
            logger.warning("%s: stays in memory, because its files cannot be opened: %s", self.directory, error)
            return None

    def verify(self, manifest: Manifest) -> None:
        """Read every file of a generation again and compare it with its checksums."""
        read_manifest(self.directory)
        try:
            snapshot = Store(self.directory).snapshot_of(manifest)
        except FileNotFoundError as error:
            raise FormatError(f"{error.filename}: is missing") from error
        for part in snapshot.parts:
            part.segment.verify()
            if part.segment.attributes is not None:
                part.segment.attributes.table.validate(full=True)
        self.maps.refuse_replaced()

    def adopt(self, name: str, entry: FileEntry) -> None:
        """Register a segment file that another process wrote here, so that a commit does not write it again."""
        self._disk.segments[name] = entry

    def tidy(self) -> None:
        """Remove index files that the manifest does not name and no process reads. Needs the writer's lock."""
        self._begin("tidied")
        try:
            with self._writing:
                for path in self._files_not_named(self._manifest_text()):
                    if self.lock is not None and self.lock.held:
                        remove_unread(path)
        except OSError as error:  # the next commit tries again
            logger.warning("%s: unused files were not removed: %s", self.directory, error)
        finally:
            self._end()

    def _manifest_text(self) -> bytes:
        """Return the manifest file on disk, which may be newer than `manifest`; empty if there is none."""
        try:
            return read_text(self.directory / MANIFEST)
        except FileNotFoundError:
            return b""

    def _files_not_named(self, manifest: bytes) -> list[Path]:
        needed = (MANIFEST, LOCK)
        found = (path for path in self.directory.iterdir() if is_index_file(path.name))
        return [path for path in found if path.name not in needed and path.name.encode() not in manifest]

    def _store_trained(self, trained: Trained, pending: Pending) -> FileEntry:
        entry = self._disk.trained.get(trained)
        if entry is None:
            entry = write_trained(self._new_file(new_name("trained"), pending), trained)
        pending.disk.trained[trained] = entry
        self._opened[entry.file] = trained  # parts of one index share this object
        return entry

    def _store_part(self, part: Part, pending: Pending) -> StoredPart:
        new = pending.disk
        segment, name = part.segment, part.segment.name
        entry = self._disk.segments.get(name)
        if entry is None:
            if (self.directory / file_of(segment)).exists():
                # Written by an earlier save; its content cannot be relied on.
                segment = replace(segment, name=(name := uuid4().hex))
            entry = write_segment(self._new_file(file_of(segment), pending), segment)
        new.segments[name] = entry
        known = self._disk.attributes.get(name)
        if segment.attributes is not None:
            if known is None:
                path = self._new_file(f"attributes-{name}.arrow", pending)
                known = write_attributes(path, segment.attributes)
            new.attributes[name] = known
        if part.not_removed is None:
            return StoredPart(entry, part.count, None, known)
        stored = self._disk.live.get(name)
        if stored is None or stored[0] is not part.not_removed:
            path = self._new_file(new_name("live"), pending)
            check = {"check": str(checksum(part.not_removed))}
            stored = (part.not_removed, write_tensors(path, {"words": part.not_removed}, check))
        new.live[name] = stored
        return StoredPart(entry, part.count, stored[1], known)

    def _stored_part(self, part: Part) -> StoredPart | None:
        """Return the entry of a part whose files are all stored, else None."""
        name = part.segment.name
        entry, attributes = self._disk.segments.get(name), self._disk.attributes.get(name)
        mask, live = self._disk.live.get(name, (None, None))
        if (
            entry is None
            or mask is not part.not_removed
            or (attributes is None) != (part.segment.attributes is None)
        ):
            return None
        return StoredPart(entry, part.count, live, attributes)

    def snapshot_of(self, manifest: Manifest) -> Snapshot:
        """Open all files of a generation; raise a FormatError if sizes or headers do not match."""
        disk = OnDisk()
        trained = self._once(manifest.trained, lambda entry: read_trained(self.directory, entry))
        disk.trained[trained] = manifest.trained
        config = manifest.config
        settings = [
            (some.metric, some.keep, some.lists_per_vector or 1, dimensions)
            for some, dimensions in (
                (config, config.code_dimensions or trained.dimensions),
                (trained, trained.code_dimensions),
            )
        ]
        if settings[0] != settings[1]:
            raise FormatError(
                f"{self.directory / MANIFEST}: metric, keep, lists_per_vector and code_dimensions are"
                f" {settings[0]}; trained for {settings[1]}"
            )
        if manifest.wide != trained.codebooks.wide:
            kinds = [f"codes are {'' if wide else 'not '}wide" for wide in (manifest.wide, not manifest.wide)]
            raise FormatError(f"{self.directory / MANIFEST}: {kinds[0]}; in {manifest.trained.file} {kinds[1]}")
        parts = tuple(self._part(part, trained, disk) for part in manifest.parts)
        for part in parts:
            if (part.segment.names is not None) != (manifest.kind == "str"):
                raise FormatError(
                    f"{self.directory}: ids are of kind {manifest.kind}, but not in {file_of(part.segment)}"
                )
        self._disk = disk
        self.maps.add(self.directory / name for name in manifest.files)
        recall = manifest.recall
        if recall is not None and recall.probes[-1] != len(trained.partition):
            raise FormatError(
                f"{self.directory}: recall of {recall.probes[-1]} lists; expected {len(trained.partition)}"
            )
        snapshot = Snapshot(trained, parts, recall)
        self._marks[snapshot] = map_file(self.directory / manifest.trained.file, manifest.trained.bytes)
        return snapshot

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
                raise FormatError(f"{self.directory}: {stored.count} of {len(segment)} rows without tombstones")
            return Part.whole(segment)

        def read_live(entry: FileEntry) -> Part:
            tensors = Tensors(self.directory, entry)
            live = tensors.shaped("words", "U32", (segment.blocks.mask_words,))
            tensors.check("words", tensors.metadata.get("check"))
            return Part(segment, Part(segment, 0, live).only(segment.every_row).count, live)

        part: Part = self._once(stored.live, read_live)
        if part.not_removed is None or part.count != stored.count or part.segment is not segment:
            raise FormatError(f"{self.directory / stored.live.file}: does not leave {stored.count} rows")
        disk.live[stored.name] = (part.not_removed, stored.live)
        return part

    def _once(self, entry: FileEntry, read: Callable[[FileEntry], Any]) -> Any:
        found = self._opened.get(entry.file)
        if found is None:
            found = self._opened[entry.file] = read(entry)
        return found


def manifest_of(
    contents: Contents, config: IndexConfig, generation: int, trained: FileEntry, parts: tuple[StoredPart, ...]
) -> Manifest:
    """Return the manifest of contents whose files are written."""
    snapshot, kind, next_id = contents
    config = settled(config, snapshot.trained)
    return Manifest(
        generation=generation,
        config=config,
        kind=kind,
        next_id=next_id,
        trained=trained,
        parts=parts,
        recall=snapshot.recall,
        wide=snapshot.trained.codebooks.wide,
    )


def settled(config: IndexConfig, trained: Trained) -> IndexConfig:
    """Return a config that says what was chosen in training, where readers need to know it."""
    found: dict[str, Any] = {}
    if trained.second_lists and config.lists_per_vector is None:
        found["lists_per_vector"] = 2
    if trained.projection is not None and config.code_dimensions is None:
        found["code_dimensions"] = trained.code_dimensions
    return replace(config, **found, chosen=choices_made(config, trained)) if found else config


def new_name(kind: str) -> str:
    """Return the name of a new file."""
    return f"{kind}-{uuid4().hex}.safetensors"


def add_note(error: BaseException, text: str) -> None:
    """Add a note to an exception, once; BaseException.add_note does not exist in Python 3.10."""
    notes = getattr(error, "__notes__", [])
    if text not in notes:
        error.__notes__ = [*notes, text]  # type: ignore[attr-defined]


def _leave_to_parent() -> None:
    for store in list(every_store):
        store._leave_to_parent()


# Locks are made anew in a forked process, where the threads that held them do not exist.
every_store: WeakSet[Store] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
