"""Names of data sets and methods as a reader knows them, and which methods share a color."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pcpq.experiments.report.parts import Part, optional_text

TIMES = "\N{MULTIPLICATION SIGN}"
SETS = {
    "glove": "GloVe word vectors",
    "lastfm": "Last.fm tracks",
    "lastfm48k": "Last.fm tracks",
    "minilm": "MiniLM sentence vectors",
    "npm": "npm packages",
    "words": "Common English words",
}
# Names of contestants in results, and the libraries they belong to.
LIBRARIES = {
    "pcpq": "pcpq",
    "faiss": "Faiss",
    "rabitq": "RaBitQ",
    "scann": "ScaNN",
    "hnswlib": "hnswlib",
    "usearch": "usearch",
    "turbovec": "turbovec",
}
QUANTIZERS = ("PQ", "APQ", "QPCPQ", "QAPCPQ", "PCPQ", "APCPQ")


def set_title(data: Part, *details: str) -> str:
    """Return the title of a data set: "GloVe word vectors, 340k x 100, cosine"."""
    name = data.part("name").text()
    parts = [SETS.get(name, name)]
    n, d = data.maybe("n"), data.maybe("d")
    if n is not None and d is not None:
        parts.append(f"{rounded_count(n.positive())} {TIMES} {d.positive():,.0f}")
    metric = optional_text(data, "metric")
    return ", ".join([*parts, *([metric] if metric else []), *details])


def rounded_count(n: float) -> str:
    """Return a count in three digits: 340k for 339,979."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if n >= size:
            unit = 1e3 if letter == "k" else size
            return f"{n / unit:.3g}{letter}"
    return f"{n:,.0f}"


def method_title(name: str) -> str:
    """Return a readable name: "pcpq PQ, scales 8" for "pcpq quantizer=(method=PQ, scales=8)"."""
    settings = r"\w+=\((?:method=)?([^()]*)\)"
    plain = re.sub(settings, lambda found: found[1].replace("=", " ").replace("_", " "), name)
    first, space, rest = plain.partition(" ")
    return LIBRARIES.get(first, first) + space + rest


def library_of(name: str) -> str:
    """Return the library of a contestant or code; the name itself if the library is not known."""
    if "rabitq" in name.lower():  # a quantizer of Faiss that is a contestant of its own
        return LIBRARIES["rabitq"]
    first = name.partition(" ")[0]
    return LIBRARIES.get(first.lower(), name)


def distinct(titles: Sequence[str], *details: Sequence[str]) -> list[str]:
    """Return titles, with details added one after the other to those that are still the same."""
    shown = list(titles)
    for detail in details:
        counts = [shown.count(title) for title in shown]
        shown = [
            f"{title}, {more}" if count > 1 and more else title
            for title, count, more in zip(shown, counts, detail, strict=True)
        ]
    return shown


def stem(part: Part) -> str:
    """Return the name of a file without its ending."""
    return part.file.removesuffix(".json")


def date_of(part: Part) -> str:
    """Return the date of a measurement; "" if the file has none."""
    environment = part.maybe("environment")
    return "" if environment is None else optional_text(environment, "date") or ""
