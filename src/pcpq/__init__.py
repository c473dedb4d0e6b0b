"""pcpq: vector search with projective clustering product quantization.

The way of a vector, in the order of the modules:

foreign.py     tensors, frames and columns of other libraries, as arrays
arrays.py      vectors in: dtype, shape, finiteness, unit
streams.py     arrays, memory maps and iterators, batch by batch
partition.py   lists: fit, assign, and what ranks them
sections.py    d coordinates cut into m sections
clustering.py  plain and projective clustering of one section
quantizers/    codes: loss, scales, trainer, encoder, scorer, the six named classes
rotation.py    how vectors are turned before they are cut
packing.py     codes as blocks of 32
names.py       ids, numbers or words
attributes.py  what else is known of vectors
condition.py   what an SQL condition on that may say
where.py       conditions evaluated, within limits
codebooks.py   one quantizer for all lists, or one for each
rerank.py      vectors kept to judge candidates by
rows.py        encoded vectors while they are gathered and sorted
trained.py     what fit learns, and how vectors become rows by it
fitting.py     what an index is trained on
recall.py      what searches find, and what to ask for so much
scan.py        segments: the arrays that a search reads, and its native call
snapshot.py    segments, and what is still there of them
lookup.py      vectors and attributes by id
refit.py       their vectors once more, to learn from
search.py      what a search is asked for, and how it goes on until that is found
truth.py       queries to measure by, and their exact answers
tuning.py      what searches find, measured
storage/       segments in files, and which of them count
state.py       the snapshot that counts now, and who may replace it
index.py       Index, which composes the above
budget.py      what fits a number of bytes
opening.py     build and open
formats/       vectors from files, results to files
datasets.py    the word vectors that come with the package
paper/         the paper's experiments, and some that it could not run
report/        results as a page to be read in a browser
integrations/  pcpq inside other libraries
cli/           the command line
"""

import importlib
from typing import Any

from pcpq.errors import FormatError, LockedError, NotDurableError, NotFittedError
from pcpq.index import Index
from pcpq.opening import build
from pcpq.opening import open_index as open
from pcpq.quantizers import APCPQ, APQ, PCPQ, PQ, QAPCPQ, QPCPQ, Codes, Quantizer
from pcpq.search import Bitmap, Result
from pcpq.where import WhereLimits

__version__ = "0.1.0"

__all__ = [
    "APCPQ",
    "APQ",
    "PCPQ",
    "PQ",
    "QAPCPQ",
    "QPCPQ",
    "Bitmap",
    "Codes",
    "FormatError",
    "Index",
    "LockedError",
    "NotDurableError",
    "NotFittedError",
    "Quantizer",
    "Result",
    "WhereLimits",
    "build",
    "open",
]


def __getattr__(name: str) -> Any:
    """What needs another library, imported when it is wanted."""
    if name == "from_faiss":
        return importlib.import_module("pcpq.integrations.faiss").from_faiss
    raise AttributeError(f"module 'pcpq' has no attribute {name!r}")
