"""An index on disk: a directory of files that never change, and a manifest that says which of them count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from pcpq.errors import FormatError
from pcpq.recall import RecallCurve
from pcpq.scan import Segment
from pcpq.snapshot import Part, Snapshot
from pcpq.storage.files import (
    LOCK,
    WriterLock,
    remove_if_there,
    remove_unread,
    replace_file,
    sync_directory,
    write_new,
)
from pcpq.storage.manifest import FILE_NAME, MANIFEST, Manifest, StoredPart, read_manifest
from pcpq.storage.objects import file_of, read_segment, read_trained, write_segment, write_trained
from pcpq.storage.tables import read_attributes, write_attributes
from pcpq.storage.tensors import FileEntry, Tensors, checksum, write_tensors
from pcpq.trained import Trained

# A manifest on its way.
NEW_MANIFEST = "manifest-"
# Readings of a manifest whose files are gone before they could be opened: a writer is in a hurry.
MOST_TRIES = 100


@dataclass
class OnDisk:
    """What files hold, so that nothing is written twice."""

    trained: dict[Trained, FileEntry] = field(default_factory=dict)
    segments: dict[str, FileEntry] = field(default_factory=dict)  # by name
    live: dict[str, tuple[NDArray[np.uint32], FileEntry]] = field(default_factory=dict)  # by segment
    attributes: dict[str, FileEntry] = field(default_factory=dict)  # by segment


class Store:
    """One directory, as one reader or the one writer sees it."""

    def __init__(self, directory: Path, lock: WriterLock | None = None) -> None:
        self.directory, self.lock = directory, lock
        self.manifest: Manifest | None = None
        self._disk = OnDisk()
        self._opened: WeakValueDictionary[str, Any] = WeakValueDictionary()  # by file

    @classmethod
    def create(cls, directory: Path) -> Store:
        """As the writer of a directory that is an index, or will be one."""
        directory.mkdir(parents=True, exist_ok=True)
        strangers = [path.name for path in directory.iterdir() if not is_ours(path.name)]
        if strangers and not (directory / MANIFEST).exists():
            raise FileExistsError(f"{directory} is not an index: it holds {strangers[0]}")
        return cls._locked(directory)

    @classmethod
    def writable(cls, directory: Path) -> Store:
        """As the writer of an index."""
        read_manifest(directory)
        store = cls._locked(directory)
        if store.manifest is not None:
            store.tidy(store.manifest)
        return store

    @classmethod
    def _locked(cls, directory: Path) -> Store:
        store = cls(directory, WriterLock(directory))
        try:
            if (directory / MANIFEST).exists():
                store.manifest = read_manifest(directory)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Let others write."""
        if self.lock is not None:
            self.lock.release()

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

    def commit(self, snapshot: Snapshot, settings: dict[str, Any], kind: str | None, next_id: int) -> Snapshot:
        """Make a snapshot the newest generation; returns it as it is on disk.

        New files first, then the manifest by a rename: a reader, or whoever comes after a crash, sees the old
        generation or the new one, whole.
        """
        if self.lock is None or not self.lock.held:
            raise ValueError(f"{self.directory} was not opened for writing by this process")
        new, written = OnDisk(), list[Path]()
        new_manifest = self.directory / f"{NEW_MANIFEST}{uuid4().hex}"
        generation = 1 if self.manifest is None else self.manifest.generation + 1
        try:
            trained = self._store_trained(snapshot.trained, new, written)
            parts = tuple(self._store_part(part, new, written) for part in snapshot.parts)
            recall = None if snapshot.recall is None else snapshot.recall.as_words()
            manifest = Manifest(generation, settings, kind, next_id, trained, parts, recall)
            write_new(new_manifest, [manifest.text()])
            sync_directory(self.directory)
            replace_file(self.directory / MANIFEST, new_manifest)
        except BaseException:
            for path in (*written, new_manifest):
                remove_if_there(path)
            raise
        # From here on readers see it, so its files stay whatever happens.
        self.manifest, self._disk = manifest, new
        self._opened[trained.file] = snapshot.trained  # parts know by it that they go together
        sync_directory(self.directory)
        self.tidy(manifest)
        return self._snapshot(manifest)

    def adopt(self, name: str, entry: FileEntry) -> None:
        """A segment that others wrote here: a commit of it has nothing to write."""
        self._disk.segments[name] = entry

    def tidy(self, manifest: Manifest | None) -> None:
        """Remove files of ours that no generation needs and nobody reads. Only the writer may."""
        needed = (set() if manifest is None else manifest.files) | {MANIFEST, LOCK}
        for path in self.directory.iterdir():
            if is_ours(path.name) and path.name not in needed:
                remove_unread(path)

    def _store_trained(self, trained: Trained, new: OnDisk, written: list[Path]) -> FileEntry:
        entry = self._disk.trained.get(trained)
        if entry is None:
            path = self.directory / new_name("trained")
            entry = write_trained(path, trained)
            written.append(path)
        new.trained[trained] = entry
        return entry

    def _store_part(self, part: Part, new: OnDisk, written: list[Path]) -> StoredPart:
        segment, name = part.segment, part.segment.name
        entry = self._disk.segments.get(name)
        if entry is None:
            if (self.directory / file_of(segment)).exists():
                # Saved before: who knows what became of it.
                segment = replace(segment, name=(name := uuid4().hex))
            path = self.directory / file_of(segment)
            entry = write_segment(path, segment)
            written.append(path)
        new.segments[name] = entry
        known = self._disk.attributes.get(name)
        if segment.attributes is not None:
            if known is None:
                path = self.directory / f"attributes-{name}.arrow"
                known = write_attributes(path, segment.attributes)
                written.append(path)
            new.attributes[name] = known
        if part.live is None:
            return StoredPart(entry, part.count, None, known)
        stored = self._disk.live.get(name)
        if stored is None or stored[0] is not part.live:
            path = self.directory / new_name("live")
            check = {"check": str(checksum(part.live))}
            stored = (part.live, write_tensors(path, {"words": part.live}, check))
            written.append(path)
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


def is_ours(name: str) -> bool:
    """Whether a file of that name belongs to an index."""
    return name in (MANIFEST, LOCK) or name.startswith(NEW_MANIFEST) or FILE_NAME.fullmatch(name) is not None
