"""Checks of numbers read from files: their limits are the values that training and additions can produce."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.errors import FormatError
from pcpq.io.arrays import LARGEST, Float32Array
from pcpq.quantizers import Quantizer, options_of
from pcpq.quantizers.codes import Model
from pcpq.segment.ids import StringIds
from pcpq.store.tensors import Tensors

MOST_FLOAT = float(np.finfo(np.float32).max)
# Units are powers of two; their inverses are float32 too.
LEAST_UNIT, MOST_UNIT = 2.0**-126, 2.0**126
# Vectors in working units are at most LARGEST in size; rounding may make their means larger.
MOST_CENTROID = 2 * LARGEST
# Rows of a rotation matrix have length 1.
MOST_ROTATION = 1.01
# Searches number the rows of a segment with 32 bits.
MOST_ROWS = (1 << 31) - 1
MOST_CODEWORDS, MOST_SCALES = 1 << 16, 1 << 8
# Memory of all codebooks in a search: a small file can name one large codebook for each of many lists.
MOST_TABLE_BYTES = 1 << 36
# Smallest and largest numbers in a trained file, in each of its codebooks, and in a segment.
TRAINED_RANGES = {
    "unit": (LEAST_UNIT, MOST_UNIT),
    "residual": (0.0, 1e300),
    "bias_low": (-MOST_FLOAT, MOST_FLOAT),
    "bias_step": (0.0, MOST_FLOAT),
}
BOOK_RANGES = {
    "unit": (LEAST_UNIT, MOST_UNIT),
    "vector_threshold": (0.0, MOST_FLOAT),
    "bias_weight": (0.0, MOST_FLOAT),
}
SEGMENT_RANGES = {"reach": (0.0, MOST_FLOAT), "residuals": (0.0, 1e300)}


def check_numbers(found: Any, ranges: dict[str, tuple[float, float]]) -> None:
    """Raise a ValueError unless each named value is a number within its range."""
    for name, (least, most) in ranges.items():
        value = found[name]
        # NaN fails this comparison as well.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise ValueError(f"{name} is {shortened(value)}; expected a number from {least:g} to {most:g}")


def check_booleans(found: Any, names: Sequence[str]) -> None:
    """Raise a ValueError unless each named value is a bool."""
    for name in names:
        if type(found[name]) is not bool:
            raise ValueError(f"{name} is {shortened(found[name])}; expected true or false")


def floats(
    tensors: Tensors,
    name: str,
    shape: tuple[int | None, ...],
    least: float = -MOST_FLOAT,
    most: float = MOST_FLOAT,
) -> Float32Array:
    """Return a float32 array; raise a FormatError if its shape or a value is wrong, or if it is empty."""
    array: Float32Array = tensors.shaped(name, "F32", shape)
    if array.size == 0:
        raise FormatError(f"{tensors.path}: {name} is empty")
    for value in (float(array.min()), float(array.max())):  # NaN if any value is
        if not least <= value <= most:
            raise FormatError(f"{tensors.path}: {name} holds {value}; expected {least:g} to {most:g}")
    return array


def check_codebook(tensors: Tensors, number: int, book: Quantizer, model: Model) -> None:
    """Raise a FormatError unless the arrays of a codebook have matching shapes."""
    scale = options_of(book).scale
    k, codes = model.codewords.shape[1], model.readout.shape[1]
    if codes != (2 * k if scale == "vector" else k) or codes > MOST_CODEWORDS:
        raise FormatError(f"{tensors.path}: codebook {number} has {k} codewords for {codes} codes")
    for levels in (model.scales, model.vector_levels):
        if levels is not None and levels.shape[-1] > MOST_SCALES:
            raise FormatError(f"{tensors.path}: codebook {number} has {levels.shape[-1]} scales")


def check_same_shapes(tensors: Tensors, books: Sequence[Quantizer], n: int, entries: int) -> None:
    """Raise a FormatError unless the codebooks of n lists fit into one array, as native code needs.

    It has at least so many entries per section.
    """
    shapes = {
        (
            options_of(book).scale,
            *(None if part is None else part.shape for part in (book.model_.readout, *levels_of(book))),
        )
        for book in books
    }
    if len(shapes) > 1:
        raise FormatError(f"{tensors.path}: codebooks differ in their shapes")
    m, k, size = books[0].model_.readout.shape
    if n * m * size * max(k, entries) * 4 > MOST_TABLE_BYTES:
        raise FormatError(f"{tensors.path}: {n} codebooks of {m} x {k} x {size} numbers are too many")


def levels_of(book: Quantizer) -> tuple[Float32Array | None, Float32Array | None]:
    """Return the scales of the sections and the scales of whole vectors."""
    return book.model_.scales, book.model_.vector_levels


def check_ids(tensors: Tensors, ids: NDArray[np.int64]) -> None:
    """Raise a FormatError if ids are negative (-1 means no result) or not distinct."""
    ordered = np.sort(ids)
    if ordered[0] < 0:
        raise FormatError(f"{tensors.path}: id {ordered[0]} is negative")
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        raise FormatError(f"{tensors.path}: id {ordered[twice[0]]} occurs twice")


def check_strings_differ(tensors: Tensors, names: StringIds) -> None:
    """Raise a FormatError if string ids are not distinct.

    Only ids with equal hashes are compared. An id with a wrong hash cannot be found, so it does no harm.
    """
    order = np.argsort(names.hashes, kind="stable")
    equal = names.hashes[order[1:]] == names.hashes[order[:-1]]
    candidates = [names[place] for place in order[np.append(equal, False) | np.append(False, equal)]]
    if len(set(candidates)) < len(candidates):
        repeated = next(name for name, count in Counter(candidates).items() if count > 1)
        raise FormatError(f"{tensors.path}: id {shortened(repeated)} occurs twice")


def shortened(value: Any) -> str:
    """Return a value as text of at most 60 characters, for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
