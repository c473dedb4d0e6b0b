"""Codes for vectors: the paper's six quantizers.

loss.py     how much the parts of an error count
scales.py   the best s values for numbers
options.py  parameters, settled
codes.py    what encoding and training leave behind
encoder.py  vectors to codes and back
trainer.py  centers and scales
corrections.py  gain and bias, chosen on a sample
scorer.py   inner products from codes
family.py   the six named classes
"""

from pcpq.quantizers.codes import Codes
from pcpq.quantizers.family import APCPQ, APQ, PCPQ, PQ, QAPCPQ, QPCPQ, Quantizer

METHODS = {method.__name__: method for method in (PQ, APQ, PCPQ, APCPQ, QPCPQ, QAPCPQ)}

__all__ = ["APCPQ", "APQ", "PCPQ", "PQ", "QAPCPQ", "QPCPQ", "Codes", "Quantizer"]


def refuse_subclass(quantizer: Quantizer) -> None:
    """A ValueError unless it is of one of these classes: an index of another could be saved, but not opened."""
    if METHODS.get(type(quantizer).__name__) is not type(quantizer):
        known = ", ".join(METHODS)
        raise ValueError(f"quantizer is of class {type(quantizer).__qualname__}; expected one of {known}")
