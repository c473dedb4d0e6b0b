"""Embeddings without a model: the mean of the bundled vectors of a text's words."""

from functools import cache

import numpy as np

from pcpq.datasets import load_words

UNKNOWN = "the"


@cache
def word_vectors():
    vectors, words = load_words()
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return dict(zip(words, unit, strict=True))


def embed(text):
    """(100,) floats."""
    known = word_vectors()
    return np.mean([known.get(word, known[UNKNOWN]) for word in text.lower().split() or [UNKNOWN]], axis=0)


def common_words(count):
    """Return the most frequent words that consist of letters."""
    return [word for word in word_vectors() if word.isalpha()][:count]


# Keys of metadata that are special to SQL, to Arrow, to paths in JSON or to this library.
STRANGE_KEYS = [
    "__PCPQ_ROW", "__pcpq_row", "A", "a", "", " ", "a.b", 'a"b', "a'b", "a b", "$.a", "/a/b", "a~b", "a*b",
    "*", "[0]",
    "\U0001f600", "\u00c4", "\u00e4", "select", "from", "rowid", "user", "text", "TEXT", "metadata", "node",
    "null", "--",
    "a\\b", "a\nb", "ARROW:extension:name", "\u0130", "x" * 500,
]  # fmt: skip
