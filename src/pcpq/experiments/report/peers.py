"""Panels of the peers benchmark: queries per second, recall and bytes of all methods."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pcpq.experiments.report.model import (
    COUNT,
    NONE,
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
    Table,
    View,
    as_text,
    data_line,
    figure,
    labels,
    source,
)
from pcpq.experiments.report.parts import Part, optional_number, optional_rows

MODES = {"batch": "all at once", "single": "one per call"}
RECALL = Axis("recall 10@10", "recall")
SPEED = Axis("queries per second", "log")
BYTES = Axis("bytes per vector, the whole index", "log")
MEASURED = (
    Column("method"),
    Column("target recall", ".2f"),
    Column("recall", SHARE),
    Column("queries per second", COUNT),
    Column("bytes per vector", ONE_DIGIT),
    Column("on the frontier"),
    Column("of these, code", ONE_DIGIT),
    Column("lists", COUNT),
    Column("width", COUNT),
    Column("reranked", COUNT),
    Column("build, s", SIGNIFICANT),
    Column("kind"),
)
RATIOS = (
    Column("ours"),
    Column("peer"),
    Column("target recall", ".2f"),
    Column("our recall", SHARE),
    Column("peer's recall", SHARE),
    Column("our speed over the peer's", ".2f", bar=True),
)


@dataclass(frozen=True)
class Result:
    """Result of one method at one recall in one mode."""

    name: str
    mode: str
    target: float
    recall: float
    speed: float
    size: float
    part: Part

    def beats(self, other: Result) -> bool:
        """Return whether this is at least as good in recall, speed and bytes, and better in one of them."""
        mine = (self.recall, self.speed, -self.size)
        theirs = (other.recall, other.speed, -other.size)
        return mine != theirs and all(a >= b for a, b in zip(mine, theirs, strict=True))


def is_peers(part: Part) -> bool:
    """Return whether a file is a result of the peers benchmark."""
    runs = part.value.get("runs")
    return isinstance(runs, list) and any(isinstance(run, dict) and "contestants" in run for run in runs)


def peers_panels(files: list[Part]) -> list[Panel]:
    """Return the panel of speed; an empty list without files."""
    if not files:
        return []
    files = sorted(files, key=lambda file: (file.part("data").part("name").text(), -len(all_results(file))))
    names = labels([file.part("data").part("name").text() for file in files], [file.file for file in files])
    views = [view for name, file in zip(names, files, strict=True) for view in file_views(name, file)]
    about = (
        "Queries per second, recall and bytes of pcpq and of other libraries, each with its best settings. A "
        "filled marker is on the frontier: no other method in the chart has at least its recall and its speed "
        "in no more bytes."
    )
    return [Panel("Speed, recall and bytes", about, "peers", ("Data", "Queries"), views)]


def readable_name(name: str) -> str:
    """Return a readable name of a method: "pcpq PQ, scales 8" for "pcpq quantizer=(method=PQ, scales=8)"."""
    settings = r"\w+=\((?:method=)?([^()]*)\)"
    return re.sub(settings, lambda found: found[1].replace("=", " ").replace("_", " "), name)


def file_views(name: str, file: Part) -> list[View]:
    """Return one view per mode of a file."""
    found = all_results(file)
    modes = dict.fromkeys(one.mode for one in found)
    return [mode_view(name, file, mode, [one for one in found if one.mode == mode]) for mode in modes]


def all_results(file: Part) -> list[Result]:
    """Return the results of all methods in all runs of a file."""
    return [one for run in file.part("runs").rows() for one in results(run)]


def results(run: Part) -> list[Result]:
    """Return the results of all methods in a run."""
    mode, target = run.part("mode").text(), run.part("target").share()
    return [
        Result(
            readable_name(name),
            mode,
            target,
            row.part("recall").share(),
            row.part("qps").positive(),
            row.part("bytes_per_vector").positive(),
            row,
        )
        for name, row in run.part("contestants").fields().items()
    ]


def mode_view(name: str, file: Part, mode: str, found: list[Result]) -> View:
    """Return the charts and tables of one mode."""
    about = [data_line(file.part("data")) + "."]
    if (trial := file.maybe("try")) is not None and trial.value:
        about.append("A quick trial: fewer settings were compared, and few rounds were timed.")
    tables = [
        Table("Results of all methods", MEASURED, [measured_row(one, found) for one in found]),
        Table("pcpq beside each peer; below 1 the peer is faster", RATIOS, ratio_rows(file, mode)),
        absent_table(file),
    ]
    return View(
        (name, MODES.get(mode, mode)),
        about,
        charts(found),
        [table for table in tables if table.rows],
        source(file, "environment", optional_number(file, "threads")),
    )


def charts(found: list[Result]) -> list[Chart]:
    """Return charts of every pair of recall, speed and bytes."""
    names = list(dict.fromkeys(one.name for one in found))

    def series(x: str, y: str, line: bool) -> list[Series]:
        return [
            Series(name, [point(one, found, x, y) for one in found if one.name == name], line) for name in names
        ]

    return [
        Chart("Speed by recall", RECALL, SPEED, series("recall", "speed", True)),
        Chart("Speed by bytes", BYTES, SPEED, series("size", "speed", False)),
        Chart("Recall by bytes", BYTES, RECALL, series("size", "recall", False)),
    ]


def point(one: Result, found: list[Result], x: str, y: str) -> Point:
    """Return the point of a result in a chart of two of its measures."""
    tip = [
        ("recall", figure(one.recall, SHARE)),
        ("queries per second", figure(one.speed, COUNT)),
        ("bytes per vector", figure(one.size, ONE_DIGIT)),
        ("settings", settings(one.part)),
        ("kind", as_text(one.part.maybe("kind"))),
    ]
    return Point(getattr(one, x), getattr(one, y), tip, filled=on_frontier(one, found))


def on_frontier(one: Result, found: list[Result]) -> bool:
    """Return whether no other result beats this one."""
    return not any(other.beats(one) for other in found)


def settings(row: Part) -> str:
    """Return the search settings of a method as text."""
    named = (("lists", "lists"), ("width", "width"), ("rerank", "reranked"))
    given = ((label, row.maybe(name)) for name, label in named)
    return ", ".join(f"{label} {as_text(part)}" for label, part in given if part is not None) or NONE


def measured_row(one: Result, found: list[Result]) -> list[Cell]:
    """Return a row of the table of results."""
    counts = [optional_number(one.part, name) for name in ("code_bytes", "lists", "width", "rerank")]
    kind = as_text(one.part.maybe("kind"))
    frontier = "yes" if on_frontier(one, found) else "no"
    seconds = optional_number(one.part, "build_seconds")
    return [one.name, one.target, one.recall, one.speed, one.size, frontier, *counts, seconds, kind]


def ratio_rows(file: Part, mode: str) -> list[list[Cell]]:
    """Return the rows of the ratios of our speed to that of each peer in one mode."""
    return [
        [
            readable_name(row.part("ours").text()),
            readable_name(row.part("rival").text()),
            row.part("target").share(),
            row.part("recall").share(),
            row.part("rival_recall").share(),
            row.part("ratio").positive(),
        ]
        for row in optional_rows(file, "pcpq_over_peer")
        if row.part("mode").text() == mode
    ]


def absent_table(file: Part) -> Table:
    """Return the table of methods that did not reach a recall or were not measured."""
    absent = file.maybe("absent")
    rows: list[list[Cell]] = (
        [] if absent is None else [[readable_name(name), as_text(why)] for name, why in absent.fields().items()]
    )
    return Table("Left out", (Column("method"), Column("why")), rows)
