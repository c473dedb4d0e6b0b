"""Word vectors as text: a word and its numbers per line (GloVe), possibly after a line of counts (word2vec)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pcpq.errors import FormatError
from pcpq.io.formats.files import GZIP_GAIN, is_gzip, numbered_lines, parsing, plain_size
from pcpq.io.formats.vector_file import Batches, VectorFile, Wanted, check_dimensions, gathered


def read_text(path: Path, format: str, wanted: Wanted) -> VectorFile:
    """Read a text file of word vectors; the first line determines the number of dimensions."""
    size, rows = plain_size(path), None
    with parsing(path):
        number, line = next(numbered_lines(path), (0, b""))
        fields = line.split()
        if not fields:
            raise FormatError(f"{path}: has no lines: there are no vectors")
        if is_header(fields):
            rows, dimensions = int(fields[0]), int(fields[1])
        else:
            dimensions = trailing_numbers(fields)
            if dimensions == 0:
                raise FormatError(f"{path}, line {number}: ends in no number; expected a word and numbers")
    check_dimensions(path, dimensions)
    # A row takes at least two bytes per number.
    room = size * (GZIP_GAIN if is_gzip(path) else 1) // (2 * dimensions)
    if rows is not None and not 1 <= rows <= room:
        raise FormatError(f"{path}: says it has {rows} vectors; {size} bytes hold at most {room}")
    first = 0 if rows is None else 1
    vectors = Batches(path, lambda: gathered(rows_of(path, first, dimensions), dimensions), dimensions, rows)
    return VectorFile(
        path, format, vectors, rows, dimensions, read_ids=lambda: words_of(path, first, dimensions)
    )


def is_header(fields: list[bytes]) -> bool:
    """Return whether fields are a header of word2vec: the numbers of words and of dimensions."""
    return len(fields) == 2 and all(field.isdigit() for field in fields)


def trailing_numbers(fields: list[bytes]) -> int:
    """Return how many of the last fields are numbers; a word can contain blanks."""
    count = 0
    while count < len(fields) - 1 and is_number(fields[-1 - count]):
        count += 1
    return count


def is_number(field: bytes) -> bool:
    """Return whether a field can be read as a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def is_word(word: bytes) -> bool:
    """Return whether a word can be distinguished from the numbers after it."""
    parts = word.split()
    return len(parts) == 1 or (len(parts) > 1 and not is_number(parts[-1]))


def split_lines(path: Path, first: int, dimensions: int) -> Iterator[tuple[int, bytes, list[bytes]]]:
    """Yield line number, word and numbers of each line, from line index `first` on."""
    for number, line in islice(numbered_lines(path), first, None):
        word, *numbers = line.strip().rsplit(None, dimensions)
        if len(numbers) < dimensions or not is_word(word):
            fields = len(line.split())
            raise FormatError(
                f"{path}, line {number}: has {fields} fields; expected a word and {dimensions} numbers"
            )
        yield number, word, numbers


def rows_of(path: Path, first: int, dimensions: int) -> Iterator[array[float]]:
    """Yield the vectors, one by one."""
    for number, _, numbers in split_lines(path, first, dimensions):
        try:
            yield array("f", map(float, numbers))
        except ValueError as error:
            raise FormatError(f"{path}, line {number}: {error}") from error


def words_of(path: Path, first: int, dimensions: int) -> list[str]:
    """Return the words of all lines."""
    words = []
    for number, word, _ in split_lines(path, first, dimensions):
        try:
            words.append(word.decode())
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}, line {number}: the word is not UTF-8: {error}") from error
    return words
