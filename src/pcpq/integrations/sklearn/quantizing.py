"""Quantizers as transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from pcpq.quantizers import METHODS, QPCPQ, Codes, Quantizer

OUTPUTS = ("vectors", "codes")
FLOATS = [np.float64, np.float32, np.float16]
# Coordinates per section if the quantizer has no sections set; with fewer features, there is one section.
SECTION_SIZE = 4


class QuantizerTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Transform vectors into their quantized form: decoded vectors, or codes.

    Parameters
    ----------
    quantizer : a pcpq.PQ, APQ, PCPQ, QPCPQ, APCPQ or QAPCPQ, which is not changed; None: QPCPQ(). A quantizer
        without section_size and n_sections gets sections of 4 features, or one section if there are fewer
    output : "vectors": transform returns the (n, d) decoded vectors, float64 or float32 like X. "codes": it
        returns (n, m) indices of codewords, followed by the scales if there are any; integers, or float32 if
        scales are exact (PCPQ, APCPQ)

    Attributes
    ----------
    quantizer_ : the fitted quantizer
    n_features_in_, feature_names_in_ : as in all estimators of scikit-learn
    """

    def __init__(self, quantizer: Quantizer | None = None, *, output: str = "vectors") -> None:
        self.quantizer = quantizer
        self.output = output

    def fit(self, X: Any, y: Any = None) -> QuantizerTransformer:
        """Train codewords and scales on (n, d) vectors; y is ignored."""
        self._check_output()
        X = validate_data(self, X, dtype=FLOATS)
        self.quantizer_ = new_quantizer(self.quantizer, X.shape[1]).fit(X)
        self._one_code = self.quantizer_.encode(X[:1])  # an example of the shape and types of codes
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Return (n, d) decoded vectors or (n, columns) codes, depending on `output`."""
        check_is_fitted(self)
        self._check_output()
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        codes = self.quantizer_.encode(X)
        if self.output == "codes":
            return as_columns(codes)
        return self.quantizer_.decode(codes).astype(np.promote_types(X.dtype, np.float32), copy=False)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return the (n, d) vectors that codes represent; with output="vectors", X itself."""
        check_is_fitted(self)
        self._check_output()
        if self.output == "codes":
            return self.quantizer_.decode(from_columns(check_array(X), self._one_code))
        X = check_array(X, dtype=FLOATS)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, the quantizer has {self.n_features_in_} dimensions")
        return np.asarray(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the (d,) names of features; for codes center0, center1, ..., scale0, scale1, ..."""
        names: NDArray[np.object_] = super().get_feature_names_out(input_features)
        if self.output == "vectors":
            return names
        one = self._one_code
        columns = [f"center{j}" for j in range(one.codes.shape[1])]
        columns += [f"scale{j}" for j in range(0 if one.scales is None else one.scales.shape[1])]
        return np.array(columns, object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [] if self.output == "codes" else ["float64", "float32"]
        return tags

    def _check_output(self) -> None:
        if self.output not in OUTPUTS:
            raise ValueError(f"output is {self.output!r}; expected one of {', '.join(map(repr, OUTPUTS))}")


def new_quantizer(quantizer: Quantizer | None, dimensions: int) -> Quantizer:
    """Return an unfitted copy of a quantizer, with a section size that suits the number of dimensions."""
    if quantizer is None:
        quantizer = QPCPQ()
    if not isinstance(quantizer, Quantizer):
        raise TypeError(f"quantizer is {quantizer!r}; expected one of pcpq's, {', '.join(METHODS)}, or None")
    parameters = quantizer.get_params()
    if parameters["section_size"] is None and parameters["n_sections"] is None:
        parameters["section_size"] = min(SECTION_SIZE, dimensions)
    return type(quantizer)(**parameters)


def as_columns(codes: Codes) -> NDArray[Any]:
    """Return the (n, columns) codes followed by scales, without gains and biases, which decoding ignores."""
    return codes.codes if codes.scales is None else np.hstack([codes.codes, codes.scales])


def from_columns(columns: NDArray[Any], one: Codes) -> Codes:
    """Return Codes from the columns of `as_columns`; `one` is an example of the shape and types."""
    m, expected = one.codes.shape[1], as_columns(one).shape[1]
    if columns.shape[1] != expected:
        raise ValueError(f"codes have {columns.shape[1]} columns; the quantizer's have {expected}")
    codes = as_indices(columns[:, :m], one.codes.dtype)
    scales = columns[:, m:]
    if one.scales is None:
        return Codes(codes)
    if one.scales.dtype == np.float32:
        return Codes(codes, scales.astype(np.float32))
    return Codes(codes, as_indices(scales, one.scales.dtype))


def as_indices(numbers: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return numbers as integers of a type; raise a ValueError that names the first number out of range."""
    largest = np.iinfo(dtype).max
    wrong = numbers[(numbers < 0) | (numbers > largest) | (numbers != np.floor(numbers))]
    if len(wrong):
        raise ValueError(f"codes hold {wrong[0]}; expected whole numbers from 0 to {largest}")
    return numbers.astype(dtype)
