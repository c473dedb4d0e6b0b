"""The manifest: a JSON file that names all files of an index. Replacing it replaces the index."""

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
# Version 2 allows a larger `next_id`, wide codes and second lists; it is written only if needed.
VERSIONS = (1, 2)
LARGEST_NUMBER = (1 << 62) - 1  # of counts and sizes
LARGEST_NEXT_ID = 1 << 63  # after the largest int64 id was used
# Names of all files of an index except the manifest and the lock.
FILE_NAME = re.compile(r"(?:(segment|trained|live)-[0-9a-f]{32}\.safetensors|(attributes)-[0-9a-f]{32}\.arrow)")
# Name of a new manifest before it replaces the old one.
NEW_MANIFEST = re.compile(r"manifest-[0-9a-f]{32}")


@dataclass(frozen=True)
class StoredPart:
    """The files of one part: its segment, its tombstones if rows were deleted, and its attributes."""

    segment: FileEntry
    count: int
    live: FileEntry | None
    attributes: FileEntry | None

    @property
    def name(self) -> str:
        """The name of the segment."""
        return self.segment.file.removeprefix("segment-").removesuffix(".safetensors")


@dataclass(frozen=True, eq=False)
class Manifest:
    """One generation of an index. Manifests with equal text are equal."""

    generation: int
    config: IndexConfig
    kind: str | None
    next_id: int
    trained: FileEntry
    parts: tuple[StoredPart, ...]
    recall: RecallCurve | None  # None: not measured
    wide: bool = False  # whether codes are wide; the trained file says so too

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Manifest) and self.text() == other.text())

    def __hash__(self) -> int:
        return hash((self.generation, self.trained.file))

    @property
    def files(self) -> set[str]:
        """The names of all files of the generation."""
        entries = [self.trained]
        for part in self.parts:
            entries += [entry for entry in (part.segment, part.live, part.attributes) if entry is not None]
        return {entry.file for entry in entries}

    @property
    def version(self) -> int:
        """The smallest format version that can represent the manifest."""
        given = self.config.lists_per_vector is not None or self.config.code_dimensions is not None
        weighed = self.recall is not None and self.recall.margins is not None
        return 2 if self.wide or given or weighed or self.next_id > LARGEST_NUMBER else 1

    def text(self) -> bytes:
        """Return the content of the manifest file."""
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
            **({"wide": True} if self.wide else {}),
        }
        return json_text(content | {"check": check_of(content)}).encode()


def check_of(content: dict[str, Any]) -> int:
    """Return the checksum of a manifest's content."""
    plain = json.loads(json_text(content))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return checksum(np.frombuffer(text.encode(), np.uint8))


class ManifestFile(NamedTuple):
    """A manifest and the open file that it was read from."""

    manifest: Manifest
    # A manifest is never changed, only replaced by another file, which has another inode. The inode of a
    # deleted file can be reused for a new one, even with the same time stamp, but not while the old file is
    # open. So the file stays open.
    identity: tuple[int, int, int, int]
    file: OpenFile

    @classmethod
    def read(cls, directory: Path, known: ManifestFile | None) -> ManifestFile:
        """Read the current manifest; return `known`, without reading, if the file is still the same.

        The file is opened rather than examined with stat, which NFS may answer from a cache; when a file is
        opened, NFS asks the server.
        """
        path = directory / MANIFEST
        try:
            file = OpenFile(patiently(lambda: open_plain(path)))
        except FileNotFoundError:
            problem = "is not an index: it has no manifest" if directory.is_dir() else "does not exist"
            raise FileNotFoundError(f"{directory} {problem}") from None
        except NotADirectoryError:
            raise FormatError(f"{directory}: is not a directory; an index is one") from None
        try:
            identity = file.identity()
            if known is not None and known.identity == identity:
                file.close()
                return known
            manifest = parse_manifest(file.read_text(path), path)
        except BaseException:
            file.close()
            raise
        if sys.platform == "win32":  # an open file cannot be replaced, and inodes are not reused
            file.close()
        if known is not None and known.manifest == manifest:  # such as a copy of the directory
            manifest = known.manifest
        return cls(manifest, identity, file)


def read_manifest(directory: Path) -> Manifest:
    """Read the current manifest of a directory."""
    return ManifestFile.read(directory, None).manifest


def readable(text: bytes, directory: Path) -> Manifest:
    """Return a new manifest parsed from its text; raise a ValueError if readers would refuse it."""
    try:
        if len(text) > MOST_TEXT:
            raise FormatError(f"has {len(text)} bytes; at most {MOST_TEXT} are read")
        return parse_manifest(text, directory / MANIFEST)
    except FormatError as error:
        raise ValueError(
            f"the index cannot be stored: its manifest could not be read again: {error}"
        ) from error


def parse_manifest(text: bytes, path: Path) -> Manifest:
    """Parse and check a manifest."""
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
                segment=entry_of(part["segment"], "segment", path),
                count=whole(part["count"], path),
                live=optional_entry_of(part["live"], "live", path),
                attributes=optional_entry_of(part["attributes"], "attributes", path),
            )
            for part in content["parts"]
        )
        if len({part.segment.file for part in parts}) < len(parts) or (parts and content["kind"] is None):
            raise FormatError(f"{path}: a segment is named twice, or ids have no kind")
        if content["kind"] not in (None, *KINDS) or not isinstance(content["settings"], dict):
            raise FormatError(f"{path}: ids are of kind {content['kind']!r}, settings {content['settings']!r}")
        wide = content.get("wide", False)
        if type(wide) is not bool or (wide and content["version"] == 1):
            raise FormatError(f"{path}: wide is {wide!r} in version {content['version']}")
        config = IndexConfig.from_json(content["settings"])
        for name in ("lists_per_vector", "code_dimensions"):
            if getattr(config, name) is not None and content["version"] == 1:
                raise FormatError(f"{path}: {name} is {getattr(config, name)} in version 1")
        recall = None if content.get("recall") is None else RecallCurve.from_json(content["recall"])
        if recall is not None and recall.margins is not None and content["version"] == 1:
            raise FormatError(f"{path}: recall has margins in version 1")
        return Manifest(
            generation=whole(content["generation"], path),
            config=config,
            kind=content["kind"],
            # The larger limit also for version 1: earlier releases wrote numbers that they refused to read.
            next_id=whole(content["next_id"], path, LARGEST_NEXT_ID),
            trained=entry_of(content["trained"], "trained", path),
            parts=parts,
            recall=recall,
            wide=wide,
        )


def entry_of(found: dict[str, Any], kind: str, path: Path) -> FileEntry:
    """Return a file entry; raise a FormatError unless it has the name of an index file of this kind."""
    name = found["file"]
    match = FILE_NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or kind not in match.groups():
        raise FormatError(f"{path}: {name!r} is not the name of a {kind} file")
    return FileEntry(file=name, bytes=whole(found["bytes"], path), check=whole(found["check"], path))


def optional_entry_of(found: dict[str, Any] | None, kind: str, path: Path) -> FileEntry | None:
    """Return the entry of an optional file, or None."""
    return None if found is None else entry_of(found, kind, path)


def whole(number: Any, path: Path, most: int = LARGEST_NUMBER) -> int:
    """Return a number; raise a FormatError unless it is an int from 0 to `most`."""
    if type(number) is not int or not 0 <= number <= most:
        raise FormatError(f"{path}: {number!r} is not a whole number from 0 to {most}")
    return number


def is_index_file(name: str) -> bool:
    """Return whether a file of this name belongs to an index."""
    return name in (MANIFEST, LOCK) or any(known.fullmatch(name) for known in (NEW_MANIFEST, FILE_NAME))
