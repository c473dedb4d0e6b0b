"""The manifest: the files that make up an index. To replace it is to replace the index."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcpq.config import IndexConfig
from pcpq.errors import FormatError
from pcpq.io.ids import KINDS
from pcpq.search.recall_curve import RecallCurve
from pcpq.store.files import LOCK, MOST_TEXT, OpenFile, open_plain, reading
from pcpq.store.serialization import json_text
from pcpq.store.tensors import FileEntry, checksum, parse_object
from pcpq.util.system import patiently

MANIFEST = "manifest.json"
FORMAT = "pcpq"
# Version 2 is version 1 with a `next_id` that readers of version 1 refuse; written only where there is one.
VERSIONS = (1, 2)
LARGEST_NUMBER = (1 << 62) - 1  # that counts something
LARGEST_NEXT_ID = 1 << 63  # when the largest id is taken
# Every file of an index but the manifest and the lock.
FILE_NAME = re.compile(r"(?:(segment|trained|live)-[0-9a-f]{32}\.safetensors|(attributes)-[0-9a-f]{32}\.arrow)")
# A manifest on its way.
NEW_MANIFEST = re.compile(r"manifest-[0-9a-f]{32}")


@dataclass(frozen=True)
class StoredPart:
    """A segment, which of its rows are there if not all are, and their attributes."""

    segment: FileEntry
    count: int
    live: FileEntry | None
    attributes: FileEntry | None

    @property
    def name(self) -> str:
        """The segment's."""
        return self.segment.file.removeprefix("segment-").removesuffix(".safetensors")


@dataclass(frozen=True, eq=False)
class Manifest:
    """One generation of an index. Manifests that would be written alike are equal."""

    generation: int
    config: IndexConfig
    kind: str | None
    next_id: int
    trained: FileEntry
    parts: tuple[StoredPart, ...]
    recall: RecallCurve | None  # what searches find, as far as it was measured

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Manifest) and self.text() == other.text())

    def __hash__(self) -> int:
        return hash((self.generation, self.trained.file))

    @property
    def files(self) -> set[str]:
        """All that it needs."""
        entries = [self.trained]
        for part in self.parts:
            entries += [entry for entry in (part.segment, part.live, part.attributes) if entry is not None]
        return {entry.file for entry in entries}

    @property
    def version(self) -> int:
        """The least that can say it."""
        return 1 if self.next_id <= LARGEST_NUMBER else 2

    def text(self) -> bytes:
        """As it is written."""
        recall = None if self.recall is None else self.recall.to_json()
        content = {
            "format": FORMAT,
            "version": self.version,
            "generation": self.generation,
            "settings": self.config.to_json(),
            "kind": self.kind,
            "next_id": self.next_id,
            "trained": asdict(self.trained),
            "parts": [asdict(part) for part in self.parts],
            "recall": recall,
        }
        return json_text(content | {"check": check_of(content)}).encode()


def check_of(content: dict[str, Any]) -> int:
    """The checksum of all but itself."""
    plain = json.loads(json_text(content))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return checksum(np.frombuffer(text.encode(), np.uint8))


class ManifestFile(NamedTuple):
    """A manifest that was read, and which file that was."""

    manifest: Manifest
    # A manifest is replaced by another file, never changed, and another file has another inode. The inode of a
    # file that is gone may be given to a new one, even within one tick of the clock that files have their times
    # from; but not as long as the file is open. So it stays open.
    identity: tuple[int, int, int, int]
    file: OpenFile

    @classmethod
    def read(cls, directory: Path, known: ManifestFile | None) -> ManifestFile:
        """The manifest that counts now: `known`, without reading anything, if it is that of the same file.

        The file is opened, not only looked at by its name: NFS may answer that from memory, but asks the server
        when a file is opened.
        """
        path = directory / MANIFEST
        try:
            file = OpenFile(patiently(lambda: open_plain(path)))
        except FileNotFoundError:
            kind = "is not an index: it has no manifest" if directory.is_dir() else "is not there"
            raise FileNotFoundError(f"{directory} {kind}") from None
        except NotADirectoryError:
            raise FormatError(f"{directory}: is not a directory, as an index is") from None
        try:
            identity = file.identity()
            if known is not None and known.identity == identity:
                file.close()
                return known
            manifest = parse_manifest(file.read_text(path), path)
        except BaseException:
            file.close()
            raise
        if sys.platform == "win32":  # where an open file cannot be replaced, and no inode comes again
            file.close()
        if known is not None and known.manifest == manifest:  # as in a copy of the directory
            manifest = known.manifest
        return cls(manifest, identity, file)


def read_manifest(directory: Path) -> Manifest:
    """The manifest that counts now."""
    return ManifestFile.read(directory, None).manifest


def readable(text: bytes, directory: Path) -> Manifest:
    """A manifest as it will be read; a ValueError if it would be refused: it must not take another's place."""
    try:
        if len(text) > MOST_TEXT:
            raise FormatError(f"has {len(text)} bytes; at most {MOST_TEXT} are read")
        return parse_manifest(text, directory / MANIFEST)
    except FormatError as error:
        raise ValueError(
            f"the index cannot be stored: its manifest could not be read again: {error}"
        ) from error


def parse_manifest(text: bytes, path: Path) -> Manifest:
    """A manifest, looked at."""
    content = parse_object(text, path)
    if content.get("format") != FORMAT:
        raise FormatError(f"{path}: the format is {content.get('format')!r}, not {FORMAT!r}")
    if content.get("version") not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        raise FormatError(f"{path}: version {content.get('version')!r}; this pcpq reads versions {known}")
    check = content.pop("check", None)
    with reading(path):
        if check_of(content) != check:
            raise FormatError(f"{path}: does not match its checksum")
        if not isinstance(content["parts"], list):
            raise FormatError(f"{path}: parts are {content['parts']!r}, not a list")
        parts = tuple(
            StoredPart(
                entry_of(part["segment"], "segment", path),
                whole(part["count"], path),
                maybe_entry_of(part["live"], "live", path),
                maybe_entry_of(part["attributes"], "attributes", path),
            )
            for part in content["parts"]
        )
        if len({part.segment.file for part in parts}) < len(parts) or (parts and content["kind"] is None):
            raise FormatError(f"{path}: a segment is there twice, or ids have no kind")
        if content["kind"] not in (None, *KINDS) or not isinstance(content["settings"], dict):
            raise FormatError(f"{path}: ids are of kind {content['kind']!r}, settings {content['settings']!r}")
        return Manifest(
            whole(content["generation"], path),
            IndexConfig.from_json(content["settings"]),
            content["kind"],
            # Of version 1 too: earlier releases wrote what they then refused to read.
            whole(content["next_id"], path, LARGEST_NEXT_ID),
            entry_of(content["trained"], "trained", path),
            parts,
            None if content.get("recall") is None else RecallCurve.from_json(content["recall"]),
        )


def entry_of(found: dict[str, Any], kind: str, path: Path) -> FileEntry:
    """A file that may be named: one of our own, in this directory."""
    name = found["file"]
    match = FILE_NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or kind not in match.groups():
        raise FormatError(f"{path}: {name!r} is no name of a {kind} file")
    return FileEntry(name, whole(found["bytes"], path), whole(found["check"], path))


def maybe_entry_of(found: dict[str, Any] | None, kind: str, path: Path) -> FileEntry | None:
    """The same, of a file that need not be there."""
    return None if found is None else entry_of(found, kind, path)


def whole(number: Any, path: Path, most: int = LARGEST_NUMBER) -> int:
    """A number that counts something."""
    if type(number) is not int or not 0 <= number <= most:
        raise FormatError(f"{path}: {number!r} is not a whole number from 0 to {most}")
    return number


def is_ours(name: str) -> bool:
    """Whether a file of that name belongs to an index."""
    return name in (MANIFEST, LOCK) or any(known.fullmatch(name) for known in (NEW_MANIFEST, FILE_NAME))
