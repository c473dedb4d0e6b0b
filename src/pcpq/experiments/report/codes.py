"""The panel of the quantizer benchmark: recall by bytes per code."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pcpq.experiments.report.model import (
    ONE_DIGIT,
    SHARE,
    SIGNIFICANT,
    Axis,
    Cell,
    Chart,
    Column,
    Panel,
    Point,
    Series,
    Source,
    Table,
    View,
    as_text,
    data_line,
    figure,
    source,
)
from pcpq.experiments.report.parts import Part, optional_number, optional_share, optional_text
from pcpq.experiments.report.titles import distinct, library_of, set_title, stem

OURS, SAMPLE = "pcpq ", ", query sample"
WIDER = ("recall_10_at_50", "recall_10_at_100")
COLUMNS = (
    Column("family"),
    Column("code"),
    Column("lists"),
    Column("query sample"),
    Column("bytes per vector", ONE_DIGIT),
    Column("10@10", SHARE, bar=True),
    Column("10@50", SHARE),
    Column("10@100", SHARE),
    Column("fit, s", SIGNIFICANT),
    Column("encode, s", SIGNIFICANT),
)


@dataclass(frozen=True)
class Code:
    """One quantizer with its settings."""

    family: str
    method: str
    size: float
    recall: float
    part: Part

    def beats(self, other: Code) -> bool:
        """Return whether this has at least the recall in no more bytes, and is better in one of them."""
        own, theirs = (self.recall, -self.size), (other.recall, -other.size)
        return own != theirs and own[0] >= theirs[0] and own[1] >= theirs[1]


def is_codes(part: Part) -> bool:
    """Return whether a file is a result of the quantizer benchmark on one data set."""
    found = [part.value.get(name) for name in ("ours", "peers")]
    return any(isinstance(rows, list) and any(is_code(row) for row in rows) for rows in found)


def is_code(row: object) -> bool:
    """Return whether a row describes a quantizer."""
    return isinstance(row, dict) and "bytes" in row and "method" in row


def codes_panels(files: list[Part]) -> list[Panel]:
    """Return the panel of codes; an empty list without files."""
    if not files:
        return []
    names = distinct([set_title(file.part("data")) for file in files], [stem(file) for file in files])
    about = (
        "The share of the true ten neighbors among the best ten estimates, by bytes per code; every list is "
        "scanned and nothing is reranked. A line joins the codes that no code of the same family beats in "
        "recall and bytes. A filled marker is a code that no code of any family beats."
    )
    views = [file_view(name, file) for name, file in zip(names, files, strict=True)]
    return [Panel("Codes by themselves", about, "codes", ("Data",), views)]


def file_view(name: str, file: Part) -> View:
    """Return the chart and the table of one data set."""
    codes = [
        code(row, ours)
        for part, ours in (("ours", True), ("peers", False))
        if (rows := file.maybe(part)) is not None
        for row in rows.rows()
    ]
    size, recall = Axis("bytes per vector, code only", "log"), Axis("recall 10@10", "recall")
    chart = Chart("Recall by bytes", size, recall, all_series(codes), main=True)
    table = Table("Every code", COLUMNS, [code_row(one) for one in codes])
    return View((name,), [data_line(file.part("data")) + "."], [chart], [table], sources(file))


def sources(file: Part) -> list[Source]:
    """Return the sources of our results and of those of peers."""
    found = [source(file, name, None) for name in ("environment", "peers_environment") if file.maybe(name)]
    return [one for some in found for one in some] or source(file, "environment", None)


def code(row: Part, ours: bool) -> Code:
    """Return the quantizer of a row of the file."""
    method = row.part("method").text()
    recall = row.part("recall_10_at_10").share()
    return Code(family(row, method, ours), method, row.part("bytes").positive(), recall, row)


def family(row: Part, method: str, ours: bool) -> str:
    """Return the name of a code without its settings: "Faiss IVF PQ" for "Faiss IVF PQ50x4"."""
    if not ours:
        return re.split(r"\s*\d", method, maxsplit=1)[0] or method
    sample = row.maybe("query_sample")
    return OURS + method.partition("(")[0] + (SAMPLE if sample is not None and sample.value else "")


def look(name: str) -> str:
    """Return the legend entry of a family: the quantizer of a code of pcpq, otherwise the library."""
    return name.removeprefix(OURS).removesuffix(SAMPLE) if name.startswith(OURS) else library_of(name)


def all_series(codes: list[Code]) -> list[Series]:
    """Return one series per family, with codes sorted by size."""
    found = []
    for name in dict.fromkeys(one.family for one in codes):
        own = sorted((one for one in codes if one.family == name), key=lambda one: (one.size, one.recall))
        variant = name.endswith(SAMPLE) or "OPQ" in name
        found.append(Series(name, [point(one, own, codes) for one in own], look=look(name), hollow=variant))
    return found


def point(one: Code, own: list[Code], all_codes: list[Code]) -> Point:
    """Return the point of a code in the chart."""
    tip = [("code", one.method), ("recall 10@10", figure(one.recall, SHARE))]
    tip += [("bytes per vector", figure(one.size, ONE_DIGIT)), ("lists", as_text(one.part.maybe("lists")))]
    filled = not any(other.beats(one) for other in all_codes)
    return Point(one.size, one.recall, tip, filled, joined=not any(other.beats(one) for other in own))


def code_row(one: Code) -> list[Cell]:
    """Return a row of the table."""
    return [
        one.family,
        one.method,
        optional_text(one.part, "lists"),
        as_text(one.part.maybe("query_sample")),
        one.size,
        one.recall,
        *(optional_share(one.part, name) for name in WIDER),
        *(optional_number(one.part, name) for name in ("fit_seconds", "encode_seconds")),
    ]
