"""Quantizers: sections, clustering, rotation, training, encoding, scoring, and the paper's six classes."""

from pcpq.quantizers.codes import Codes
from pcpq.quantizers.family import APCPQ, APQ, PCPQ, PQ, QAPCPQ, QPCPQ, Quantizer, options_of, restore_fitted
from pcpq.quantizers.registry import METHODS, quantizer_from_json, quantizer_to_json, refuse_subclass

__all__ = [
    "APCPQ",
    "APQ",
    "METHODS",
    "PCPQ",
    "PQ",
    "QAPCPQ",
    "QPCPQ",
    "Codes",
    "Quantizer",
    "options_of",
    "quantizer_from_json",
    "quantizer_to_json",
    "refuse_subclass",
    "restore_fitted",
]
