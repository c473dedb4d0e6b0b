"""Vectors from files and to files, and results of searches to files."""

from pcpq.io.formats import (
    FORMATS,
    RESULT_FORMATS,
    WRITTEN_FORMATS,
    VectorFile,
    format_of,
    read_vectors,
    write_results,
    write_vectors,
)

__all__ = [
    "FORMATS",
    "RESULT_FORMATS",
    "WRITTEN_FORMATS",
    "VectorFile",
    "format_of",
    "read_vectors",
    "write_results",
    "write_vectors",
]
