"""The six quantizers by name, and their settings as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcpq.quantizers.family import APCPQ, APQ, PCPQ, PQ, QAPCPQ, QPCPQ, Quantizer, options_of

METHODS = {method.__name__: method for method in (PQ, APQ, PCPQ, APCPQ, QPCPQ, QAPCPQ)}


def refuse_subclass(quantizer: Quantizer) -> None:
    """Raise a ValueError unless the quantizer is one of the six: an index stores the name of the class."""
    if METHODS.get(type(quantizer).__name__) is not type(quantizer):
        known = ", ".join(METHODS)
        raise ValueError(f"quantizer is of class {type(quantizer).__qualname__}; expected one of {known}")


def quantizer_to_json(quantizer: Quantizer) -> dict[str, Any]:
    """Return the name and parameters of a quantizer as JSON values; raise a ValueError for a subclass."""
    refuse_subclass(quantizer)
    parameters = quantizer.get_params()
    if isinstance(parameters["init"], np.ndarray):
        parameters["init"] = parameters["init"].tolist()
    return {"name": type(quantizer).__name__, "parameters": parameters}


def quantizer_from_json(settings: Any) -> Quantizer:
    """Return the unfitted quantizer that `quantizer_to_json` wrote; raise a ValueError if it is not valid."""
    try:
        name, parameters = settings["name"], dict(settings["parameters"])
        if name not in METHODS:
            raise ValueError(f"there is no quantizer {name!r}")
        if isinstance(parameters.get("init"), list):
            parameters["init"] = np.array(parameters["init"], np.float32)
        quantizer = METHODS[name](**parameters)
        options_of(quantizer)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"the settings of a quantizer cannot be read: {error}") from error
    return quantizer
