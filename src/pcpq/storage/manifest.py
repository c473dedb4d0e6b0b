"""The manifest: which files make up an index. Whoever replaces it, replaces the index."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pcpq.errors import FormatError
from pcpq.names import KINDS
from pcpq.recall import RecallCurve
from pcpq.storage.files import read_text, reading
from pcpq.storage.objects import in_words
from pcpq.storage.tensors import FileEntry, checksum, parse_object

MANIFEST = "manifest.json"
FORMAT, VERSION = "pcpq", 1
# Every file of an index but the manifest and the lock.
FILE_NAME = re.compile(r"(?:(segment|trained|live)-[0-9a-f]{32}\.safetensors|(attributes)-[0-9a-f]{32}\.arrow)")


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


@dataclass(frozen=True)
class Manifest:
    """One generation of an index."""

    generation: int
    settings: dict[str, Any]  # the parameters of Index
    kind: str | None
    next_id: int
    trained: FileEntry
    parts: tuple[StoredPart, ...]
    recall: dict[str, Any] | None  # what searches find, as far as it was measured

    @property
    def files(self) -> set[str]:
        """All that it needs."""
        entries = [self.trained]
        for part in self.parts:
            entries += [entry for entry in (part.segment, part.live, part.attributes) if entry is not None]
        return {entry.file for entry in entries}

    def text(self) -> bytes:
        """As it is written."""
        content = {"format": FORMAT, "version": VERSION, **asdict(self)}
        return in_words(content | {"check": check_of(content)}).encode()


def check_of(content: dict[str, Any]) -> int:
    """The checksum of all but itself."""
    plain = json.loads(in_words(content))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return checksum(np.frombuffer(text.encode(), np.uint8))


def read_manifest(directory: Path) -> Manifest:
    """The one that counts now."""
    path = directory / MANIFEST
    try:
        text = read_text(path)
    except FileNotFoundError:
        kind = "is not an index: it has no manifest" if directory.is_dir() else "is not there"
        raise FileNotFoundError(f"{directory} {kind}") from None
    except NotADirectoryError:
        raise FormatError(f"{directory}: is not a directory, as an index is") from None
    content = parse_object(text, path)
    if content.get("format") != FORMAT:
        raise FormatError(f"{path}: the format is {content.get('format')!r}, not {FORMAT!r}")
    if content.get("version") != VERSION:
        raise FormatError(f"{path}: version {content.get('version')!r}; this pcpq reads version {VERSION}")
    check = content.pop("check", None)
    with reading(path):
        if check_of(content) != check:
            raise FormatError(f"{path}: does not match its checksum")
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
            content["settings"],
            content["kind"],
            whole(content["next_id"], path),
            entry_of(content["trained"], "trained", path),
            parts,
            maybe_recall(content.get("recall")),
        )


def entry_of(found: dict[str, Any], kind: str, path: Path) -> FileEntry:
    """A file that may be named: one of our own, in this directory."""
    name = found["file"]
    match = FILE_NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or kind not in match.groups():
        raise FormatError(f"{path}: {name!r} is no name of a {kind} file")
    return FileEntry(name, whole(found["bytes"], path), whole(found["check"], path))


def maybe_recall(found: Any) -> dict[str, Any] | None:
    """What was measured, looked at."""
    return None if found is None else RecallCurve.of_words(found).as_words()


def maybe_entry_of(found: dict[str, Any] | None, kind: str, path: Path) -> FileEntry | None:
    """The same, of a file that need not be there."""
    return None if found is None else entry_of(found, kind, path)


def whole(number: Any, path: Path) -> int:
    """A number that counts something."""
    if type(number) is not int or not 0 <= number < 1 << 62:
        raise FormatError(f"{path}: {number!r} is not a number that counts something")
    return number
