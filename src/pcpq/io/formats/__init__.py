"""Vectors from files and into files, and results of searches in forms that other programs read.

files.py        plain files, lines of them, files that are there as a whole or not at all
vector_file.py  what was found in a file: VectorFile; batches that can be read again
npy.py          .npy and .npz of NumPy
binary.py       .fvecs .bvecs .ivecs, .fbin .u8bin .i8bin
hdf5.py         the files of ann-benchmarks
columns.py      parquet and Arrow: a column of vectors, and one of ids
jsonl.py        one JSON object a line
text.py         one word a line, and its vector: GloVe, word2vec
reading.py      read_vectors: all of these by their suffix
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
