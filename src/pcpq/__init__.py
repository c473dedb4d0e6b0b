"""pcpq: vector search with projective clustering product quantization."""

import importlib
from typing import Any

from pcpq.building import build
from pcpq.building import open_index as open
from pcpq.config import IndexConfig
from pcpq.errors import FormatError, LockedError, NotDurableError, NotFittedError, RecallWarning
from pcpq.index import Index
from pcpq.quantizers import APCPQ, APQ, PCPQ, PQ, QAPCPQ, QPCPQ, Codes, Quantizer
from pcpq.search.filters import Bitmap
from pcpq.search.recall_curve import Choice, RecallCurve
from pcpq.search.result import Result
from pcpq.search.where import WhereLimits

__version__ = "0.1.0"

__all__ = [
    "APCPQ",
    "APQ",
    "PCPQ",
    "PQ",
    "QAPCPQ",
    "QPCPQ",
    "Bitmap",
    "Choice",
    "Codes",
    "FormatError",
    "Index",
    "IndexConfig",
    "LockedError",
    "NotDurableError",
    "NotFittedError",
    "Quantizer",
    "RecallCurve",
    "RecallWarning",
    "Result",
    "WhereLimits",
    "build",
    "open",
]


def __getattr__(name: str) -> Any:
    """Import `from_faiss`, which needs Faiss, at first use."""
    if name == "from_faiss":
        return importlib.import_module("pcpq.integrations.faiss").from_faiss
    raise AttributeError(f"module 'pcpq' has no attribute {name!r}")
