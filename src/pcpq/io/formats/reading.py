"""Reading of vector files of all formats."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pcpq.io.formats.binary import read_bin, read_vecs
from pcpq.io.formats.columns import read_columns
from pcpq.io.formats.hdf5 import read_hdf5
from pcpq.io.formats.jsonl import read_jsonl
from pcpq.io.formats.npy import read_npy, read_npz
from pcpq.io.formats.text import read_text
from pcpq.io.formats.vector_file import VectorFile, Wanted

# Suffixes of file names, by format.
FORMATS: dict[str, tuple[str, ...]] = {
    "npy": (".npy",),
    "npz": (".npz",),
    "fvecs": (".fvecs",),
    "bvecs": (".bvecs",),
    "ivecs": (".ivecs",),
    "fbin": (".fbin",),
    "u8bin": (".u8bin",),
    "i8bin": (".i8bin",),
    "hdf5": (".hdf5", ".h5"),
    "parquet": (".parquet",),
    "arrow": (".arrow", ".feather", ".ipc"),
    "jsonl": (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"),
    "text": (".txt", ".vec", ".glove", ".txt.gz", ".vec.gz", ".glove.gz"),
}
READERS: dict[str, Callable[[Path, str, Wanted], VectorFile]] = {
    "npy": read_npy,
    "npz": read_npz,
    **dict.fromkeys(("fvecs", "bvecs", "ivecs"), read_vecs),
    **dict.fromkeys(("fbin", "u8bin", "i8bin"), read_bin),
    "hdf5": read_hdf5,
    **dict.fromkeys(("parquet", "arrow"), read_columns),
    "jsonl": read_jsonl,
    "text": read_text,
}
WITH_COLUMNS = ("npz", "parquet", "arrow", "jsonl")
WITH_PARTS = ("hdf5",)


def format_of(path: str | os.PathLike[str], format: str | None = None) -> str:
    """Return the name of a file's format: `format` if it is given, otherwise by the suffix of the path."""
    if format is not None:
        if format not in FORMATS:
            raise ValueError(f"format is {format!r}; expected one of {', '.join(FORMATS)}")
        return format
    for name, suffixes in FORMATS.items():
        if Path(path).name.lower().endswith(suffixes):
            return name
    known = " ".join(suffix for suffixes in FORMATS.values() for suffix in suffixes)
    raise ValueError(f"{os.fspath(path)}: unknown format: the name ends in none of {known}")


def read_vectors(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    column: str | None = None,
    id_column: str | None = None,
    part: str | None = None,
) -> VectorFile:
    """Open a file of vectors. Vectors are read later, in batches.

    Parameters
    ----------
    path : the file
    format : one of FORMATS; None: by the suffix of the name
    column : name of the column (parquet, Arrow), field (JSONL) or array (.npz) of vectors; None: the only one
    id_column : name of the column, field or array of ids; None: "id" if it exists
    part : the dataset of an HDF5 file; None: "train" (ann-benchmarks stores queries in "test")

    Returns
    -------
    file : a VectorFile; pass `file.vectors` and `file.ids()` to pcpq.build
    """
    found = format_of(path, format)
    for name, value, formats in (
        ("column", column, WITH_COLUMNS),
        ("id_column", id_column, WITH_COLUMNS),
        ("part", part, WITH_PARTS),
    ):
        if value is not None and found not in formats:
            raise ValueError(
                f"{os.fspath(path)}: {name} is {value!r}, but only files of {', '.join(formats)} have "
                f"{name}s; this one is of {found}"
            )
    return READERS[found](Path(path), found, Wanted(column, id_column, part))
