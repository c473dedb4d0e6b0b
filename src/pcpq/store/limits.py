"""What numbers in a file may be: everything that training and additions can make, and nothing else."""

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
# Units are powers of two whose inverse is a float32 too.
LEAST_UNIT, MOST_UNIT = 2.0**-126, 2.0**126
# Vectors in working units are at most LARGEST in size; their means may be more by rounding.
MOST_CENTROID = 2 * LARGEST
# Rows of a rotation have length 1.
MOST_ROTATION = 1.01
# Rows of a segment are numbered in 32 bits.
MOST_ROWS = (1 << 31) - 1
MOST_CODEWORDS, MOST_SCALES = 1 << 16, 1 << 8
# Of all codebooks, as searches hold them: a small file may name one large codebook for each of many lists.
MOST_TABLE_BYTES = 1 << 36
# Numbers of a trained file, of each of its codebooks, and of a segment: the least and the most.
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
    """A ValueError unless each of these is a number, and within its range."""
    for name, (least, most) in ranges.items():
        value = found[name]
        # NaN fails this comparison as well.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise ValueError(f"{name} is {shortly(value)}; expected a number from {least:g} to {most:g}")


def check_truths(found: Any, names: Sequence[str]) -> None:
    """A ValueError unless each of these is true or false."""
    for name in names:
        if type(found[name]) is not bool:
            raise ValueError(f"{name} is {shortly(found[name])}; expected true or false")


def floats(
    tensors: Tensors,
    name: str,
    shape: tuple[int | None, ...],
    least: float = -MOST_FLOAT,
    most: float = MOST_FLOAT,
) -> Float32Array:
    """An array of float32 of this shape that is not empty, and within a range."""
    array: Float32Array = tensors.shaped(name, "F32", shape)
    if array.size == 0:
        raise FormatError(f"{tensors.path}: {name} is empty")
    for value in (float(array.min()), float(array.max())):  # which are NaN if anything is
        if not least <= value <= most:
            raise FormatError(f"{tensors.path}: {name} holds {value}; expected {least:g} to {most:g}")
    return array


def check_book(tensors: Tensors, number: int, book: Quantizer, model: Model) -> None:
    """A FormatError unless the arrays of a codebook go together."""
    scale = options_of(book).scale
    k, codes = model.codewords.shape[1], model.readout.shape[1]
    if codes != (2 * k if scale == "vector" else k) or codes > MOST_CODEWORDS:
        raise FormatError(f"{tensors.path}: codebook {number} has {k} codewords for {codes} codes")
    for levels in (model.scales, model.vector_levels):
        if levels is not None and levels.shape[-1] > MOST_SCALES:
            raise FormatError(f"{tensors.path}: codebook {number} has {levels.shape[-1]} scales")


def check_alike(tensors: Tensors, books: Sequence[Quantizer], n: int) -> None:
    """A FormatError unless n lists can have these codebooks: native code has all of them in one array."""
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
    if n * m * size * max(k, 16) * 4 > MOST_TABLE_BYTES:
        raise FormatError(f"{tensors.path}: {n} codebooks of {m} x {k} x {size} numbers are too many")


def levels_of(book: Quantizer) -> tuple[Float32Array | None, Float32Array | None]:
    """Scales of sections, and of vectors."""
    return book.model_.scales, book.model_.vector_levels


def check_ids(tensors: Tensors, ids: NDArray[np.int64]) -> None:
    """A FormatError unless all ids differ and none is negative: -1 stands for no result."""
    ordered = np.sort(ids)
    if ordered[0] < 0:
        raise FormatError(f"{tensors.path}: id {ordered[0]} is negative")
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        raise FormatError(f"{tensors.path}: id {ordered[twice[0]]} is there twice")


def check_strings_differ(tensors: Tensors, names: StringIds) -> None:
    """The same for words, by their hashes: one that has not its own hash is not found by it."""
    order = np.argsort(names.hashes, kind="stable")
    equal = names.hashes[order[1:]] == names.hashes[order[:-1]]
    words = [names[place] for place in order[np.append(equal, False) | np.append(False, equal)]]
    if len(set(words)) < len(words):
        word = next(word for word, count in Counter(words).items() if count > 1)
        raise FormatError(f"{tensors.path}: id {shortly(word)} is there twice")


def shortly(value: Any) -> str:
    """A value for a message, whatever its length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
