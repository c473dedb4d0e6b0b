"""pcpq: vector search with projective clustering product quantization.

The way of a vector, in the order of the modules:

arrays.py      vectors in: dtype, shape, finiteness, unit
sections.py    d coordinates cut into m sections
clustering.py  plain and projective clustering of one section
quantizers/    codes: loss, scales, trainer, encoder, scorer, the six named classes
datasets.py    the word vectors that come with the package
"""

from pcpq.errors import NotFittedError
from pcpq.quantizers import APCPQ, APQ, PCPQ, PQ, QAPCPQ, QPCPQ, Codes, Quantizer

__version__ = "0.1.0"

__all__ = ["APCPQ", "APQ", "PCPQ", "PQ", "QAPCPQ", "QPCPQ", "Codes", "NotFittedError", "Quantizer"]
