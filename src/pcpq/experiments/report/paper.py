"""The panel of the paper's experiments: tables and charts, with published numbers beside ours."""

from __future__ import annotations

from pcpq.experiments.report.measures import (
    ERRORS,
    PROTOCOLS,
    SIZES,
    TIMES,
    PaperFile,
    method_name,
    recall_at,
    recall_charts,
    tips,
)
from pcpq.experiments.report.model import (
    SHARE,
    Axis,
    Cell,
    Chart,
    Column,
    Mark,
    Panel,
    Point,
    Series,
    Table,
    View,
    figure,
)
from pcpq.experiments.report.parts import Part, optional_share, optional_text

# Number of points per curve of sorted errors.
DRAWN_ERRORS = 41
ERROR_AXIS = Axis("relative error of the top inner product", "linear")


def paper_panel(files: list[PaperFile]) -> list[Panel]:
    """Return the panel of the six methods; an empty list without files."""
    about = (
        "The six methods of Projective Clustering Product Quantization, as described in the paper. Differences "
        "in the data are noted below. The paper does not state how many lists its queries probe, nor whether "
        "candidates are reranked, so recall is given under three protocols."
    )
    views = [file_view(file) for file in files]
    return [Panel("The paper's experiments", about, "paper", ("Data",), views)] if views else []


def file_view(file: PaperFile) -> View:
    """Return the tables and charts of one result."""
    rows = file.root.part("methods").rows()
    named = [(method_name(row), row) for row in rows]
    charts = [*recall_charts(file, named), *error_chart(named), *probe_chart(file, named)]
    tables = [error_table(rows), recall_table(file, rows), cost_table(rows)]
    return View((file.label,), file.about(), charts, tables, file.sources())


def published(row: Part, name: str) -> float | None:
    """Return a published number; None if there is none."""
    part = row.maybe("published")
    found = None if part is None else part.maybe(name)
    return None if found is None else found.number()


def error_table(rows: list[Part]) -> Table:
    """Return the table of errors, ours and published."""
    columns = [Column("method"), Column("paper's name")]
    for _, label, form in ERRORS:
        columns += [Column(f"{label}, ours", form), Column(f"{label}, published", form)]
    cells: list[list[Cell]] = []
    for row in rows:
        line: list[Cell] = [method_name(row), optional_text(row, "paper_name")]
        for name, _, _ in ERRORS:
            found = row.maybe(name)
            line += [None if found is None else found.number(), published(row, name)]
        cells.append(line)
    return Table("Errors", columns, cells)


def recall_table(file: PaperFile, rows: list[Part]) -> Table:
    """Return the table of Recall1@1 and Recall1@10, ours under three protocols and published."""
    columns = [Column("method"), Column("paper's name")]
    for at in (1, 10):
        columns += [Column(f"1@{at}, published", SHARE)]
        columns += [Column(f"1@{at}, {short}", SHARE) for short, _ in PROTOCOLS.values()]
    cells: list[list[Cell]] = []
    for row in rows:
        line: list[Cell] = [method_name(row), optional_text(row, "paper_name")]
        for at in (1, 10):
            line += [published(row, f"recall_1_at_{at}")]
            line += [recall_at(file, row, protocol, at) for protocol in PROTOCOLS]
        cells.append(line)
    return Table("Recall1@1 and Recall1@10", columns, cells)


def cost_table(rows: list[Part]) -> Table:
    """Return the table of bits and times."""
    measures = SIZES + TIMES
    columns = [Column("method"), *(Column(label, form) for _, label, form in measures)]
    cells: list[list[Cell]] = [
        [method_name(row), *(None if (p := row.maybe(name)) is None else p.number() for name, _, _ in measures)]
        for row in rows
    ]
    return Table("Size and time", columns, cells)


def error_chart(named: list[tuple[str, Part]]) -> list[Chart]:
    """Return the chart of the sorted errors of all queries."""
    series = []
    for name, row in named:
        part = row.maybe("errors")
        errors = [] if part is None else sorted(one.number() for one in part.rows())
        if errors:
            positions = sorted({round(i * (len(errors) - 1) / (DRAWN_ERRORS - 1)) for i in range(DRAWN_ERRORS)})
            points = [error_point(i / max(1, len(errors) - 1), errors[i]) for i in positions]
            series.append(Series(name, points))
    share = Axis("share of queries with at most this error", "linear")
    return [Chart("Sorted errors", share, ERROR_AXIS, series)] if series else []


def error_point(share: float, error: float) -> Point:
    """Return a point of a curve of sorted errors."""
    return Point(share, error, [("share of queries", f"{share:.1%}"), ("relative error", figure(error, SHARE))])


def probe_chart(file: PaperFile, named: list[tuple[str, Part]]) -> list[Chart]:
    """Return the chart of recall by the number of probed lists, with the published plateau."""
    probes = file.root.maybe("probes")
    if probes is None:
        return []
    swept = [one.positive() for one in probes.part("swept").rows()]
    curves = [(name, row.maybe("recall_at_10_by_probes")) for name, row in named]
    curves.append(("ceiling", probes.maybe("ceiling")))
    series = [
        Series(name, [probe_point(x, y) for x, y in zip(swept, part.shares(len(swept)), strict=True)])
        for name, part in curves
        if part is not None
    ]
    marks = []
    if (plateau := optional_share(probes, "published_plateau")) is not None:
        marks.append(Mark("y", plateau, f"published plateau {plateau:.3f}"))
    if (chosen := probes.maybe("chosen")) is not None:
        marks.append(Mark("x", chosen.positive(), f"used above: {chosen.positive():.0f}"))
    note = "Ceiling: the share of queries whose true nearest vector is in the probed lists."
    lists, recall = Axis("lists probed", "log"), Axis("Recall1@10, codes only", "linear")
    return [Chart("Recall by lists probed", lists, recall, series, marks, note)] if series else []


def probe_point(probes: float, recall: float) -> Point:
    """Return a point of the sweep of probes."""
    return Point(probes, recall, tips({"lists probed": f"{probes:.0f}", "Recall1@10": figure(recall, SHARE)}))
