"""Readers and writers of vector files, and writers of search results.

files.py        regular files: size, bytes, lines, errors of parsers
vector_file.py  VectorFile, the result of reading; batches that can be read more than once
npy.py          .npy and .npz files of NumPy
binary.py       .fvecs .bvecs .ivecs, .fbin .u8bin .i8bin
hdf5.py         HDF5 files of ann-benchmarks
columns.py      parquet and Arrow: a column of vectors, and one of ids
jsonl.py        one JSON object per line
text.py         one word and its vector per line: GloVe, word2vec
reading.py      read_vectors: all of these formats, by suffix
writing.py      write_vectors
results.py      write_results
"""

from pcpq.io.formats.reading import FORMATS, format_of, read_vectors
from pcpq.io.formats.results import RESULT_FORMATS, write_results
from pcpq.io.formats.vector_file import VectorFile
from pcpq.io.formats.writing import WRITTEN_FORMATS, write_vectors

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
