"""What every quantizer is measured by in a result of `pcpq paper`."""

from __future__ import annotations

from dataclasses import dataclass

from pcpq.experiments.paper import protocols
from pcpq.experiments.report.model import (
    COUNT,
    SHARE,
    SIGNIFICANT,
    Axis,
    Chart,
    Point,
    Series,
    Source,
    data_line,
    figure,
    labels,
    source,
    words,
)
from pcpq.experiments.report.parts import Part, optional_number

# The name in the file, ours, and how the number is written.
ERRORS = (
    ("relative_error", "relative error", SHARE),
    ("signed_error", "signed error", SHARE),
    ("reconstruction_error", "reconstruction error", SHARE),
    ("residual_error", "residual error", SHARE),
)
SIZES = (
    ("code_bits", "code, bits a vector", COUNT),
    ("codebook_bits", "codebooks, bits a vector", SIGNIFICANT),
)
TIMES = (
    ("build_seconds", "build, s", SIGNIFICANT),
    ("query_microseconds", "a query, µs", SIGNIFICANT),
)
# Short in a table, in full over a chart.
SHORT = {"all": "all lists", "probed": "lists probed", "reranked": "re-ranked"}
PROTOCOLS = {protocol: (SHORT[protocol], title) for protocol, title in protocols.PROTOCOLS.items()}


@dataclass(frozen=True)
class PaperFile:
    """A result of `pcpq paper` and what it is called on the page."""

    root: Part
    label: str

    def recall_places(self) -> list[float]:
        """The N of Recall1@N."""
        return [one.positive() for one in self.root.part("recall_at").rows()]

    def about(self) -> list[str]:
        """The data and the settings."""
        data = self.root.part("data")
        note = data.maybe("note")
        said = [data_line(data) + ".", "" if note is None else note.text()]
        settings = self.root.part("settings").fields()
        said.append(
            ", ".join(f"{name.replace('_', ' ')} {words(value)}" for name, value in settings.items()) + "."
        )
        seconds = self.root.maybe("seconds")
        said.append("" if seconds is None else f"Seconds it took: {words(seconds)}.")
        return [line for line in said if line]

    def sources(self) -> list[Source]:
        """The command and what it ran on."""
        return source(self.root, "environment", optional_number(self.root.part("settings"), "threads"))


def is_paper(part: Part) -> bool:
    """Whether a file is a result of `pcpq paper`."""
    return bool(part.value.get("kind") == "paper")


def paper_files(parts: list[Part]) -> list[PaperFile]:
    """Results with their labels: the data set and the bits."""
    names = []
    for part in parts:
        bits = part.part("settings").part("bits").positive()
        names.append(f"{part.part('data').part('name').text()}, {bits:.0f} bits")
    shown = labels(names, [part.file for part in parts])
    return [PaperFile(part, label) for part, label in zip(parts, shown, strict=True)]


def method_name(row: Part) -> str:
    """What a method is called."""
    return row.part("method").text()


def tips(said: dict[str, str]) -> list[tuple[str, str]]:
    """Lines of a tooltip."""
    return list(said.items())


def recalls(file: PaperFile, row: Part, protocol: str) -> list[tuple[float, float]]:
    """N and Recall1@N under one protocol, none if they are not in the file."""
    recall = row.maybe("recall")
    part = None if recall is None else recall.maybe(protocol)
    if part is None:
        return []
    places = file.recall_places()
    return list(zip(places, part.shares(len(places)), strict=True))


def recall_at(file: PaperFile, row: Part, protocol: str, at: int) -> float | None:
    """Recall1@N for one N, or None."""
    return dict(recalls(file, row, protocol)).get(at)


def recall_charts(file: PaperFile, named: list[tuple[str, Part]]) -> list[Chart]:
    """Recall1@N by N, one chart for each protocol."""
    curves = {protocol: {name: recalls(file, row, protocol) for name, row in named} for protocol in PROTOCOLS}
    every = [recall for some in curves.values() for curve in some.values() for _, recall in curve]
    if not every:
        return []
    # The same axis for all, so that protocols can be compared.
    axes = Axis("N", "log"), Axis("Recall1@N", "linear", (min(every), max(every)))
    charts = []
    for protocol, (_, title) in PROTOCOLS.items():
        found = {name: curve for name, curve in curves[protocol].items() if curve}
        series = [Series(name, [recall_point(*one) for one in curve]) for name, curve in found.items()]
        if series:
            charts.append(Chart(f"Recall1@N: {title}", *axes, series))
    return charts


def recall_point(at: float, recall: float) -> Point:
    """A place in a curve of recall."""
    return Point(at, recall, tips({"N": f"{at:.0f}", "Recall1@N": figure(recall, SHARE)}))


def total_bits(row: Part) -> float | None:
    """Bits a vector with its share of the codebooks, or None."""
    code, codebooks = row.maybe("code_bits"), optional_number(row, "codebook_bits")
    return None if code is None else code.positive() + max(0.0, codebooks or 0.0)
