"""Files of attributes in the Arrow IPC format."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pcpq.errors import FormatError
from pcpq.segment.attributes import EXTENSION, Attributes, arrow, storable
from pcpq.store.files import map_file
from pcpq.store.tensors import FileEntry, checksum
from pcpq.util.durable_files import write_new

if TYPE_CHECKING:
    import pyarrow

# An Arrow file begins with MAGIC and ends with the length of its footer and MAGIC. The first message begins two
# bytes after the first MAGIC, with -1 and its length, or with its length alone.
MAGIC, TAIL, MESSAGE = b"ARROW1", struct.Struct("<i6s"), struct.Struct("<ii")
# Exceptions other than Arrow's own that a damaged or malicious file can cause.
UNREADABLE = (ValueError, TypeError, KeyError, OSError, OverflowError, MemoryError, RecursionError)


def write_attributes(path: Path, attributes: Attributes) -> FileEntry:
    """Write attributes to a new file; the checksum of its entry covers the whole file."""
    pa = arrow()
    sink = pa.BufferOutputStream()
    table = attributes.table.combine_chunks()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    content = np.frombuffer(sink.getvalue(), np.uint8)
    write_new(path, [content])
    return FileEntry(file=path.name, bytes=content.nbytes, check=checksum(content))


def read_attributes(directory: Path, entry: FileEntry, count: int) -> Attributes:
    """Map a file of attributes; it is read and checked at first use."""
    path = directory / entry.file
    content = map_file(path, entry.bytes)

    def read() -> pyarrow.Table:
        if checksum(content) != entry.check:
            raise FormatError(f"{path}: does not match its checksum")
        pa = arrow()
        try:
            # Before Arrow reads the schema, because it runs code that is registered for extension types.
            refuse_extensions(content)
            table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
            table.validate(full=True)
            table = storable(table)
        except (pa.ArrowException, *UNREADABLE) as error:
            raise FormatError(f"{path}: cannot be read: {error}") from error
        if len(table) != count:
            raise FormatError(f"{path}: has {len(table)} rows for {count} vectors")
        return table

    return Attributes(read)


def refuse_extensions(content: NDArray[np.uint8]) -> None:
    """Raise a ValueError if a file has a column of an extension type, at any depth.

    The bytes are searched without Arrow: the footer, which has the schema that Arrow reads, and the first
    message, which has the schema that other readers use. Metadata of columns is not compressed.
    """
    size = len(content)
    if size < len(MAGIC) + 2 + TAIL.size or content[: len(MAGIC)].tobytes() != MAGIC:
        raise ValueError("it is not an Arrow file")
    length, magic = TAIL.unpack(content[size - TAIL.size :].tobytes())
    first, end = len(MAGIC) + 2, size - TAIL.size
    if magic != MAGIC or not 0 < length <= end - first:
        raise ValueError("it has no Arrow footer")
    # The message follows its length, which most versions precede with -1.
    mark, message = MESSAGE.unpack(content[first : first + MESSAGE.size].tobytes().ljust(MESSAGE.size, b"\0"))
    start = first + MESSAGE.size if mark == -1 else first + MESSAGE.size // 2
    last = start + max(message if mark == -1 else mark, 0)
    for part in (content[end - length : end], content[start : min(last, end)]):
        if EXTENSION in part.tobytes():
            raise ValueError("it has a column of an extension type, for which Arrow might run code")
