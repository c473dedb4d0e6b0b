"""pcpq for scikit-learn: quantizers as transformers, and graphs of nearest neighbors.

quantizing.py  QuantizerTransformer: decoded vectors or codes of any of the six quantizers
graphs.py      exact distances of the neighbors that were found, and sparse matrices of graphs
neighbors.py   PCPQNeighborsTransformer: a replacement for KNeighborsTransformer
"""

try:
    from sklearn.utils.validation import validate_data  # noqa: F401 (new in scikit-learn 1.6)
except ImportError as error:
    raise ImportError(
        "pcpq.integrations.sklearn needs scikit-learn 1.6 or newer: pip install pcpq[sklearn]"
    ) from error

from pcpq.integrations.sklearn.graphs import symmetric_graph
from pcpq.integrations.sklearn.neighbors import PCPQNeighborsTransformer
from pcpq.integrations.sklearn.quantizing import QuantizerTransformer

__all__ = ["PCPQNeighborsTransformer", "QuantizerTransformer", "symmetric_graph"]
