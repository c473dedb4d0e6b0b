"""Attributes in files of the Arrow IPC format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pcpq.attributes import Attributes, arrow
from pcpq.errors import FormatError
from pcpq.storage.files import map_file, write_new
from pcpq.storage.tensors import FileEntry, checksum

if TYPE_CHECKING:
    import pyarrow


def write_attributes(path: Path, attributes: Attributes) -> FileEntry:
    """Write a new file; its checksum is of all of it."""
    pa = arrow()
    sink = pa.BufferOutputStream()
    table = attributes.table.combine_chunks()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    content = np.frombuffer(sink.getvalue(), np.uint8)
    write_new(path, [content])
    return FileEntry(path.name, content.nbytes, checksum(content))


def read_attributes(directory: Path, entry: FileEntry, count: int) -> Attributes:
    """A table that is mapped, and checked when it is wanted."""
    path = directory / entry.file
    content = map_file(path, entry.bytes)

    def read() -> pyarrow.Table:
        if checksum(content) != entry.check:
            raise FormatError(f"{path}: does not match its checksum")
        pa = arrow()
        try:
            table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
            table.validate(full=True)
        except (pa.ArrowException, ValueError, OSError) as error:
            raise FormatError(f"{path}: cannot be read: {error}") from error
        if len(table) != count:
            raise FormatError(f"{path}: has {len(table)} rows for {count} vectors")
        return table

    return Attributes(read)
