"""Files of arrays in the safetensors format. Arrays are aligned to 64 bytes and mapped, not copied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.errors import FormatError
from pcpq.io.arrays import Bytes
from pcpq.store.files import MOST_TEXT, map_file, reading
from pcpq.util.durable_files import write_new

ALIGNED = 64
PADDING = "padding."  # prefix of the names of arrays of zeros between other arrays
METADATA = "__metadata__"
DTYPES: dict[str, np.dtype[Any]] = {
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}
NAMES: dict[np.dtype[Any], str] = {dtype: name for name, dtype in DTYPES.items()}

Shape = tuple[np.dtype[Any], tuple[int, ...]]


@dataclass(frozen=True)
class FileEntry:
    """The entry of a file in a manifest: name, size, and checksum of the header."""

    file: str
    bytes: int
    check: int


def checksum(array: NDArray[Any]) -> int:
    """Return the CRC-32C of the bytes of an array."""
    return int(_core.crc32c(as_bytes(array)))


def as_bytes(array: NDArray[Any]) -> Bytes:
    """Return the bytes of an array as a flat array."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def write_tensors(path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> FileEntry:
    """Write arrays and metadata to a new file, and return its entry."""
    header, chunks = lay_out(arrays, metadata)
    write_new(path, [header, *chunks])
    size = len(header) + sum(chunk.nbytes for chunk in chunks)
    return FileEntry(file=path.name, bytes=size, check=checksum(np.frombuffer(header, np.uint8)))


def lay_out(arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> tuple[bytes, list[Bytes]]:
    """Return the header of a file and all bytes after it."""
    stored = {name: array.astype(array.dtype.newbyteorder("<"), copy=False) for name, array in arrays.items()}
    header, places = header_for({name: (array.dtype, array.shape) for name, array in stored.items()}, metadata)
    chunks: list[Bytes] = []
    end = len(header)
    for name, array in stored.items():
        if places[name] > end:
            chunks.append(np.zeros(places[name] - end, np.uint8))
        chunks.append(as_bytes(array))
        end = places[name] + array.nbytes
    return header, chunks


def header_for(shapes: dict[str, Shape], metadata: dict[str, str]) -> tuple[bytes, dict[str, int]]:
    """Return the header of a file with arrays of these shapes, and the offset of each array."""
    entries: dict[str, Any] = {METADATA: metadata}
    starts: dict[str, int] = {}
    end = 0
    for name, (dtype, shape) in shapes.items():
        if -end % ALIGNED:
            padding = -end % ALIGNED
            entries[f"{PADDING}{len(entries)}"] = _entry(np.dtype(np.uint8), (padding,), end)
            end += padding
        entries[name], starts[name] = _entry(dtype, shape, end), end
        end += prod(shape) * dtype.itemsize
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNED)
    if len(text) > MOST_TEXT:
        raise ValueError(
            f"the index cannot be stored: a header has {len(text)} bytes; at most {MOST_TEXT} are read"
        )
    header = len(text).to_bytes(8, "little") + text
    return header, {name: len(header) + start for name, start in starts.items()}


def _entry(dtype: np.dtype[Any], shape: tuple[int, ...], start: int) -> dict[str, Any]:
    return {
        "dtype": NAMES[dtype],
        "shape": list(shape),
        "data_offsets": [start, start + prod(shape) * dtype.itemsize],
    }


class Tensors:
    """The arrays of a file, which are mapped and read when they are used."""

    def __init__(self, directory: Path, entry: FileEntry) -> None:
        self.path = directory / entry.file
        content = map_file(self.path, entry.bytes)
        length = int.from_bytes(content[:8].tobytes(), "little")
        if not 2 <= length <= min(len(content) - 8, MOST_TEXT):
            raise FormatError(f"{self.path}: the header has {length} bytes, the file {len(content)}")
        header = content[: 8 + length]
        if checksum(header) != entry.check:
            raise FormatError(f"{self.path}: the header does not match its checksum")
        self._data, self._first = content[8 + length :], 8 + length
        entries = parse_object(header[8:].tobytes(), self.path)
        self.metadata: dict[str, str] = entries.pop(METADATA, {})
        if not isinstance(self.metadata, dict):
            raise FormatError(f"{self.path}: the metadata is {type(self.metadata).__name__}, not an object")
        with reading(self.path):
            self._arrays = dict(self._checked(entries))
        for name, array in self._arrays.items():
            if name.startswith(PADDING) and array.any():
                raise FormatError(f"{self.path}: {name} is not all zeros")

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return an array; raise a FormatError if it does not exist."""
        if name not in self._arrays:
            raise FormatError(f"{self.path}: there is no array {name!r}")
        return self._arrays[name]

    def get(self, name: str) -> NDArray[Any] | None:
        """Return an array, or None if it does not exist."""
        return self._arrays.get(name)

    def shaped(self, name: str, dtype: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """Return an array; raise a FormatError unless it has this dtype and shape (None: any length)."""
        array = self[name]
        fits = array.ndim == len(shape) and all(
            wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
        )
        if NAMES[array.dtype] != dtype or not fits:
            raise FormatError(
                f"{self.path}: {name} is {NAMES[array.dtype]} {array.shape}; expected {dtype} {shape}"
            )
        return array

    def check(self, name: str, expected: Any) -> None:
        """Raise a FormatError unless an array has the expected checksum."""
        found = checksum(self[name])
        if isinstance(expected, bool) or expected not in (found, str(found)):
            raise FormatError(f"{self.path}: {name} does not match its checksum")

    def _checked(self, entries: dict[str, Any]) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the arrays; raise a FormatError unless they fill the data without gaps or overlaps."""
        end = 0
        for name, entry in sorted(entries.items(), key=lambda item: tuple(item[1]["data_offsets"])):
            dtype, shape, (start, stop) = self._fields(name, entry)
            if start != end or stop - start != prod(shape) * dtype.itemsize or stop > len(self._data):
                raise FormatError(
                    f"{self.path}: {name} of shape {shape} lies at {start} to {stop}; the array before"
                    f" it ends at {end}, the file at {len(self._data)}"
                )
            if (self._first + start) % dtype.itemsize:
                raise FormatError(
                    f"{self.path}: {name} lies at {start}, which is not aligned for {entry['dtype']}"
                )
            end = stop
            yield name, self._data[start:stop].view(dtype).reshape(shape)
        if end != len(self._data):
            raise FormatError(f"{self.path}: arrays end at {end}, the file at {len(self._data)}")

    def _fields(self, name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], tuple[int, int]]:
        dtype, shape, (start, stop) = DTYPES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
        if not all(type(number) is int and 0 <= number < 1 << 48 for number in (*shape, start, stop)):
            raise FormatError(f"{self.path}: {name} has shape {shape} and lies at {start} to {stop}")
        return dtype, shape, (start, stop)


def parse_object(text: bytes, path: Path) -> dict[str, Any]:
    """Parse a JSON object; raise a FormatError if the text is not one or has a repeated name."""

    def refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a name occurs twice")
        return found

    try:
        found = json.loads(text, object_pairs_hook=refuse_repeated)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise FormatError(f"{path}: is not a JSON object")
    return found
