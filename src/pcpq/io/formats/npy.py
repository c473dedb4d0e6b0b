"""NumPy files: .npy is memory-mapped, arrays of .npz are read in batches. Pickles are never loaded."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np

from pcpq.errors import FormatError
from pcpq.io.arrays import FloatArray
from pcpq.io.formats.files import mapped, parsing, plain_size
from pcpq.io.formats.vector_file import (
    Batches,
    VectorFile,
    Wanted,
    array_or_batches,
    as_floats,
    check_kind,
    chosen,
    chosen_ids,
    is_real,
    rows_at_once,
)

MAGIC = b"\x93NUMPY"
# NumPy's own limit, which protects the parser from malicious headers.
MOST_HEADER = 10_000
SUFFIX = ".npy"


@dataclass(frozen=True)
class Header:
    """The header of an array in a .npy file."""

    dtype: np.dtype[Any]
    by_column: bool
    shape: tuple[int, ...]
    start: int  # of the array, in bytes

    @property
    def size(self) -> int:
        """Number of bytes of header and array, as a Python integer, which cannot overflow."""
        return self.start + prod(self.shape) * self.dtype.itemsize


def read_npy(path: Path, format: str, wanted: Wanted) -> VectorFile:
    """Read a file of one (n, d) array."""
    content = mapped(path)
    with parsing(path):
        header = read_header(io.BytesIO(content[: MOST_HEADER + 12].tobytes()))
    check_kind(path, "an array", header.dtype, header.shape)
    if header.size != len(content):
        raise FormatError(f"{path}: has {len(content)} bytes, but shape {header.shape} needs {header.size}")
    values = content[header.start :].view(header.dtype)
    rows = values.reshape(header.shape, order="F" if header.by_column else "C")
    count, dimensions = header.shape
    return VectorFile(path, format, array_or_batches(path, rows), count, dimensions)


def read_npz(path: Path, format: str, wanted: Wanted) -> VectorFile:
    """Read an archive of arrays: one (n, d) array of vectors, and optionally an array of ids."""
    plain_size(path)
    with parsing(path), ZipFile(path) as archive:
        headers, sizes = {}, {}
        for member in archive.infolist():
            if member.filename.endswith(SUFFIX):
                with archive.open(member) as file:
                    header = read_header(file)
                name = member.filename.removesuffix(SUFFIX)
                headers[name], sizes[name] = header, member.file_size
    names = list(headers)
    matrices = [name for name in names if len(headers[name].shape) == 2 and is_real(headers[name].dtype)]
    column = chosen(path, "array", wanted.column, matrices, names)
    id_column = chosen_ids(path, "array", wanted.id_column, names)
    header = headers[column]
    check_kind(path, f"{column!r} is an array", header.dtype, header.shape)
    if header.by_column:
        raise ValueError(
            f"{path}: {column!r} is stored column by column, which cannot be read in batches; "
            "store np.ascontiguousarray of it, or an .npy file"
        )
    for name in filter(None, (column, id_column)):
        if headers[name].size != sizes[name]:
            raise FormatError(
                f"{path}: {name!r} has {sizes[name]} bytes, "
                f"but shape {headers[name].shape} needs {headers[name].size}"
            )
    rows, dimensions = header.shape
    vectors = Batches(path, lambda: batches_of(path, column), dimensions, rows)
    read_ids = None if id_column is None else lambda: ids_of(path, id_column, rows)
    return VectorFile(path, format, vectors, rows, dimensions, read_ids=read_ids)


def read_header(file: IO[bytes]) -> Header:
    """Read the header of an array; no memory is allocated based on the sizes in it."""
    start = file.read(8)
    if start[:6] != MAGIC or start[6:7] not in (b"\x01", b"\x02", b"\x03"):
        raise ValueError(f"it begins with {start!r}, not with {MAGIC!r} and a version from 1 to 3")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > MOST_HEADER:
        raise ValueError(f"the header has {length} bytes; at most {MOST_HEADER} are expected")
    text = file.read(length)
    if len(text) < length:
        raise ValueError(f"the header has {length} bytes, the file only {len(text)} for it")
    fields = ast.literal_eval(text.decode("latin1" if start[6] < 3 else "utf-8").strip())
    descriptor, shape = fields["descr"], fields["shape"]
    if not (isinstance(shape, tuple) and all(type(number) is int and number >= 0 for number in shape)):
        raise ValueError(f"the header says shape {shape}; expected lengths from 0 on")
    # Structured dtypes are not supported; any void dtype is rejected later.
    dtype = np.dtype(descriptor if isinstance(descriptor, str) else "V")
    return Header(dtype, bool(fields["fortran_order"]), shape, 8 + width + length)


def batches_of(path: Path, column: str) -> Iterator[FloatArray]:
    """Yield the vectors of an array in an archive, in batches."""
    with ZipFile(path) as archive, archive.open(column + SUFFIX) as file:
        header = read_header(file)
        row_bytes = header.shape[1] * header.dtype.itemsize
        while content := file.read(rows_at_once(header.shape[1]) * row_bytes):
            yield as_floats(np.frombuffer(content, header.dtype).reshape(-1, header.shape[1]))


def ids_of(path: Path, column: str, rows: int) -> Any:
    """Return an array in an archive as ids: (rows,) int64 or a list of strings."""
    with ZipFile(path) as archive, archive.open(column + SUFFIX) as file:
        header = read_header(file)
        if header.shape != (rows,) or header.dtype.kind not in "iuU":
            raise FormatError(
                f"{path}: ids {column!r} are {header.dtype} of shape {header.shape}; "
                f"expected integers or strings, ({rows},)"
            )
        found = np.frombuffer(file.read(), header.dtype)
    if found.dtype.kind == "U":
        return found.tolist()
    if found.dtype.kind == "u" and found.max() >= 2**63:
        raise FormatError(f"{path}: ids {column!r} hold {found.max()}; the largest id is {2**63 - 1}")
    return found.astype(np.int64)
