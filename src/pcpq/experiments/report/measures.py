"""Measures of quantizers in a result of `pcpq paper`."""

from __future__ import annotations

from dataclasses import dataclass

from pcpq.experiments.paper import protocols
from pcpq.experiments.paper.extensions import present_label
from pcpq.experiments.report.model import (
    COUNT,
    SHARE,
    SIGNIFICANT,
    Axis,
    Chart,
    Point,
    Series,
    Source,
    as_text,
    data_line,
    figure,
    source,
)
from pcpq.experiments.report.parts import Part, optional_number
from pcpq.experiments.report.titles import distinct, set_title, stem

# Name in the file, label in the report, and format of the number.
ERRORS = (
    ("relative_error", "relative error", SHARE),
    ("signed_error", "signed error", SHARE),
    ("reconstruction_error", "reconstruction error", SHARE),
    ("residual_error", "residual error", SHARE),
)
SIZES = (
    ("code_bits", "code, bits per vector", COUNT),
    ("codebook_bits", "codebooks, bits per vector", SIGNIFICANT),
)
TIMES = (
    ("build_seconds", "build, s", SIGNIFICANT),
    ("query_microseconds", "query, µs", SIGNIFICANT),
)
# Short labels for tables; charts have the full ones.
SHORT = {"all": "all lists", "probed": "lists probed", "reranked": "reranked"}
PROTOCOLS = {protocol: (SHORT[protocol], title) for protocol, title in protocols.PROTOCOLS.items()}


@dataclass(frozen=True)
class PaperFile:
    """A result of `pcpq paper` and its label on the page."""

    root: Part
    label: str

    def recall_places(self) -> list[float]:
        """Return the values of N in Recall1@N."""
        return [one.positive() for one in self.root.part("recall_at").rows()]

    def about(self) -> list[str]:
        """Return lines that describe the data, the settings and the run time."""
        data = self.root.part("data")
        note = data.maybe("note")
        lines = [data_line(data) + ".", "" if note is None else note.text()]
        settings = self.root.part("settings").fields()
        lines.append(
            ", ".join(
                f"{present_label(name).replace('_', ' ')} {as_text(value)}" for name, value in settings.items()
            )
            + "."
        )
        seconds = self.root.maybe("seconds")
        lines.append("" if seconds is None else f"Run time in seconds: {as_text(seconds)}.")
        return [line for line in lines if line]

    def sources(self) -> list[Source]:
        """Return the command and its environment."""
        return source(self.root, "environment", optional_number(self.root.part("settings"), "threads"))


def is_paper(part: Part) -> bool:
    """Return whether a file is a result of `pcpq paper`."""
    return bool(part.value.get("kind") == "paper")


def paper_files(parts: list[Part]) -> list[PaperFile]:
    """Return results with labels that name the data set and the bits."""
    names = []
    for part in parts:
        bits = part.part("settings").part("bits").positive()
        names.append(set_title(part.part("data"), f"{bits:.0f} bits"))
    shown = distinct(names, [stem(part) for part in parts])
    return [PaperFile(part, label) for part, label in zip(parts, shown, strict=True)]


def method_name(row: Part) -> str:
    """Return the name of the method of a row."""
    return row.part("method").text()


def tips(fields: dict[str, str]) -> list[tuple[str, str]]:
    """Return the lines of a tooltip."""
    return list(fields.items())


def recalls(file: PaperFile, row: Part, protocol: str) -> list[tuple[float, float]]:
    """Return pairs of N and Recall1@N under one protocol; an empty list if the file has none."""
    recall = row.maybe("recall")
    part = None if recall is None else recall.maybe(protocol)
    if part is None:
        return []
    places = file.recall_places()
    return list(zip(places, part.shares(len(places)), strict=True))


def recall_at(file: PaperFile, row: Part, protocol: str, at: int) -> float | None:
    """Return Recall1@N for one N; None if the file has none."""
    return dict(recalls(file, row, protocol)).get(at)


def recall_charts(file: PaperFile, named: list[tuple[str, Part]]) -> list[Chart]:
    """Return charts of Recall1@N by N, one per protocol."""
    curves = {protocol: {name: recalls(file, row, protocol) for name, row in named} for protocol in PROTOCOLS}
    every = [recall for some in curves.values() for curve in some.values() for _, recall in curve]
    if not every:
        return []
    # All charts have the same axis, so that protocols can be compared.
    axes = Axis("N", "log"), Axis("Recall1@N", "linear", (min(every), max(every)))
    charts = []
    for protocol, (_, title) in PROTOCOLS.items():
        found = {name: curve for name, curve in curves[protocol].items() if curve}
        series = [Series(name, [recall_point(*one) for one in curve]) for name, curve in found.items()]
        if series:
            charts.append(Chart(f"Recall1@N: {title}", *axes, series))
    return charts


def recall_point(at: float, recall: float) -> Point:
    """Return a point of a recall curve."""
    return Point(at, recall, tips({"N": f"{at:.0f}", "Recall1@N": figure(recall, SHARE)}))


def total_bits(row: Part) -> float | None:
    """Return the bits per vector including its share of the codebooks; None if the file has none."""
    code, codebooks = row.maybe("code_bits"), optional_number(row, "codebook_bits")
    return None if code is None else code.positive() + max(0.0, codebooks or 0.0)
