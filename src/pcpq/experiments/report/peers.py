"""The panel of the peers benchmark: queries per second, recall and bytes of all methods."""

from __future__ import annotations

from dataclasses import dataclass

from pcpq.experiments.report.compare import (
    COMPARED,
    AtRecall,
    at_recall,
    ratios_at,
    ratios_of_runs,
    said_of_peers,
)
from pcpq.experiments.report.contestants import Result, all_results, is_curves, on_frontier
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
    Source,
    Table,
    View,
    as_text,
    data_line,
    figure,
    source,
)
from pcpq.experiments.report.parts import Part, optional_number
from pcpq.experiments.report.titles import LIBRARIES, date_of, distinct, method_title, set_title, stem

MODES = {"batch": "all at once", "single": "one per call"}
RECALL = Axis("recall 10@10", "recall")
SPEED = Axis("queries per second", "log")
BYTES = Axis("bytes per vector, the whole index", "log")
MEASURED = (
    Column("method"),
    Column("target recall", ".2f"),
    Column("recall", SHARE),
    Column("queries per second", COUNT),
    Column("95 % interval"),
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
    Column("recall", ".2f"),
    Column("our recall", SHARE),
    Column("peer's recall", SHARE),
    Column("our speed over the peer's", ".2f", bar=True),
    Column("95 % interval"),
    Column("faster"),
)


@dataclass(frozen=True)
class Entry:
    """A result with its title, and the results at equal recall on the same data that are shown beside it."""

    title: str
    file: Part
    beside: list[Part]


def peers_panels(files: list[Part]) -> list[Panel]:
    """Return the panel of speed; an empty list without files."""
    if not files:
        return []
    views = [view for entry in entries(files) for view in file_views(entry)]
    about = (
        "Queries per second on one core at each recall, of pcpq and of other libraries. Settings are tuned on "
        "one half of the queries and reported on the other. Up and to the right is better. A filled marker is "
        "on the frontier: no other method in the chart has at least its recall and its speed in no more bytes."
    )
    return [Panel("Speed, recall and bytes", about, "peers", ("Data", "Queries"), views)]


def entries(files: list[Part]) -> list[Entry]:
    """Return the results to show: curves first, which replace results at a few recalls; largest data first."""
    curves = [file for file in files if is_curves(file)]
    runs = [file for file in files if not is_curves(file)]
    with_curves = {title_of(file) for file in curves}
    shown = curves + [file for file in runs if title_of(file) not in with_curves]
    # Newest first: an older one is kept for reference.
    shown.sort(key=lambda file: (len(all_results(file)), date_of(file)), reverse=True)
    shown.sort(key=lambda file: (not is_curves(file), -data_size(file), codes_only(file), title_of(file)))
    titles = distinct(
        [title_of(file) for file in shown],
        ["with " + ", ".join(peers_in(file)) if peers_in(file) else "" for file in shown],
        [date_of(file) for file in shown],
        [stem(file) for file in shown],
    )
    return [
        Entry(title, file, [run for run in runs if is_curves(file) and title_of(run) == title_of(file)])
        for title, file in zip(titles, shown, strict=True)
    ]


def data_size(file: Part) -> float:
    """Return the number of vectors; 0 if the file has none."""
    return optional_number(file.part("data"), "n") or 0


def codes_only(file: Part) -> bool:
    """Return whether a result compares codes without kept vectors: there every code size of ours has a name."""
    return any(one.name.startswith("pcpq ") for one in all_results(file))


def title_of(file: Part) -> str:
    """Return the title of the data of a result."""
    return set_title(file.part("data"), *(["codes only"] if codes_only(file) else []))


def peers_in(file: Part) -> list[str]:
    """Return the libraries in a result besides pcpq."""
    return [look for look in dict.fromkeys(one.look for one in all_results(file)) if look != LIBRARIES["pcpq"]]


def file_views(entry: Entry) -> list[View]:
    """Return one view per mode of a result."""
    found = all_results(entry.file)
    modes = dict.fromkeys(one.mode for one in found)
    return [mode_view(entry, mode, [one for one in found if one.mode == mode]) for mode in modes]


def mode_view(entry: Entry, mode: str, found: list[Result]) -> View:
    """Return the charts and tables of one mode."""
    file = entry.file
    about = [data_line(file.part("data")) + "."]
    if (trial := file.maybe("try")) is not None and trial.value:
        about.append("A quick trial: fewer settings were compared, and few rounds were timed.")
    aim, best = at_recall(found)
    sources = source(file, "environment", optional_number(file, "threads"))
    if is_curves(file):
        ratios = ratios_at(found)
        recalls = ", ".join(f"{recall:g}" for recall in COMPARED)
        caption = f"pcpq beside each peer at recall {recalls}, interpolated between points"
    else:
        ratios = ratios_of_runs(file, mode)
        caption = "pcpq beside each peer; below 1 the peer is faster"
        about.append(
            "Measured at a few recalls, without intervals of the rounds: small differences may be noise."
        )
    about += said_of_peers(aim, best, ratios)
    tables = [
        ratio_table(caption, ratios),
        *(ratio_table(earlier_caption(run), ratios_of_runs(run, mode)) for run in entry.beside),
        Table("Results of all methods", MEASURED, [measured_row(one, found) for one in found]),
        absent_table(file),
    ]
    sources += [one for run in entry.beside for one in run_source(run)]
    return View(
        (entry.title, MODES.get(mode, mode)),
        about,
        charts(found, aim, best),
        [table for table in tables if table.rows],
        sources,
    )


def earlier_caption(run: Part) -> str:
    """Return the caption of the ratios of a result at equal recall."""
    return f"At equal recall, measured separately on {date_of(run) or 'another day'} ({stem(run)})"


def run_source(run: Part) -> list[Source]:
    """Return the origin of a result at equal recall."""
    return source(run, "environment", optional_number(run, "threads"))


def charts(found: list[Result], aim: float, best: list[Result]) -> list[Chart]:
    """Return the charts of speed by recall, and of speed by bytes at one recall."""
    looks = list(dict.fromkeys(one.look for one in found))
    # Codes of several sizes belong to one library but are not points of one curve.
    line = not any(one.name != one.look for one in found)

    def series(some: list[Result], x: str, joined: bool) -> list[Series]:
        return [
            Series(look, [point(one, some, x) for one in some if one.look == look], joined, look)
            for look in looks
            if any(one.look == look for one in some)
        ]

    return [
        Chart("Speed by recall", RECALL, SPEED, series(found, "recall", line), main=True),
        Chart(f"Speed by bytes, recall {aim:g} or more", BYTES, SPEED, series(best, "size", False)),
    ]


def point(one: Result, found: list[Result], x: str) -> Point:
    """Return the point of a result in a chart of its speed."""
    tip = [("code", one.name)] if one.name != one.look else []
    tip += [("recall", figure(one.recall, SHARE)), ("queries per second", figure(one.speed, COUNT))]
    if one.interval is not None:
        tip.append(("95 % interval", interval_text(one.interval, COUNT)))
    tip += [
        ("bytes per vector", figure(one.size, ONE_DIGIT)),
        ("settings", settings(one.part)),
        ("kind", as_text(one.part.maybe("kind"))),
    ]
    if x == "size":  # all have the recall of the chart
        filled = not any(other.speed > one.speed and other.size <= one.size for other in found)
        return Point(one.size, one.speed, tip, filled, interval=one.interval)
    own = [other for other in found if other.look == one.look and one.target is None]
    joined = not any(other.outruns(one) for other in own)
    return Point(one.recall, one.speed, tip, on_frontier(one, found), joined, one.interval)


def interval_text(interval: tuple[float, float], form: str) -> str:
    """Return an interval as text."""
    return f"{figure(interval[0], form)} to {figure(interval[1], form)}"


def settings(row: Part) -> str:
    """Return the search settings of a method as text."""
    named = (("lists", "lists"), ("width", "width"), ("rerank", "reranked"))
    given = ((label, row.maybe(name)) for name, label in named)
    return ", ".join(f"{label} {as_text(part)}" for label, part in given if part is not None) or NONE


def measured_row(one: Result, found: list[Result]) -> list[Cell]:
    """Return a row of the table of results."""
    counts = [optional_number(one.part, name) for name in ("code_bytes", "lists", "width", "rerank")]
    interval = None if one.interval is None else interval_text(one.interval, COUNT)
    frontier = "yes" if on_frontier(one, found) else "no"
    seconds, kind = optional_number(one.part, "build_seconds"), as_text(one.part.maybe("kind"))
    speed: list[Cell] = [one.speed, interval, one.size, frontier]
    return [one.name, one.target, one.recall, *speed, *counts, seconds, kind]


def ratio_table(caption: str, ratios: list[AtRecall]) -> Table:
    """Return the table of our speed over that of each peer."""
    rows: list[list[Cell]] = [
        [
            one.ours,
            one.peer,
            one.recall,
            one.our_recall,
            one.peer_recall,
            one.ratio,
            None if one.interval is None else interval_text(one.interval, ".2f"),
            one.verdict(),
        ]
        for one in ratios
    ]
    return Table(caption, RATIOS, rows)


def absent_table(file: Part) -> Table:
    """Return the table of methods that did not reach a recall or were not measured."""
    absent = file.maybe("absent")
    rows: list[list[Cell]] = (
        [] if absent is None else [[method_title(name), as_text(why)] for name, why in absent.fields().items()]
    )
    return Table("Left out", (Column("method"), Column("why")), rows)
