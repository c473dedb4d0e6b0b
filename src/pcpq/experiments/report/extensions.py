"""Panels of results beyond the paper: equal bits, ablation, operations, joint codeword and scale."""

from __future__ import annotations

import math
from collections.abc import Callable

from pcpq.experiments.paper.extensions import present_label
from pcpq.experiments.report.measures import ERRORS, SIZES, TIMES, PaperFile, method_name, recall_at, total_bits
from pcpq.experiments.report.model import (
    COUNT,
    NONE,
    ONE_DIGIT,
    SHARE,
    SIGNIFICANT,
    Axis,
    Bar,
    BarGroup,
    Bars,
    Cell,
    Chart,
    Column,
    Panel,
    Point,
    Series,
    Table,
    View,
    as_text,
    figure,
)
from pcpq.experiments.report.parts import Part, optional_number, optional_rows, optional_text

CODEBOOKS = {"per_list": "one per list", "shared": "shared"}
TRAINING = (("training_loss", "training loss", SIGNIFICANT),)
MEASURES = ERRORS + TRAINING + SIZES + TIMES
RECALL_COLUMNS = (
    ("all", 1, Column("1@1, all lists", SHARE, bar=True)),
    ("all", 10, Column("1@10, all lists", SHARE)),
    ("probed", 10, Column("1@10, lists probed", SHARE)),
    ("reranked", 10, Column("1@10, reranked", SHARE)),
)
OPERATIONS = (
    Column("method"),
    Column("vectors", COUNT),
    Column("distinct codewords"),
    Column("operations, formula", COUNT),
    Column("operations, counted", COUNT),
    Column("query, µs", SIGNIFICANT),
    Column("index, bits", COUNT),
    Column("index, bits, formula", COUNT),
)


def extension_panels(files: list[PaperFile]) -> list[Panel]:
    """Return the panels for which at least one file has results."""
    wanted = (
        (
            "Equal bits",
            "Codes with scales beside codes without scales of equal size: more codewords, or more sections. "
            "The bits of codebooks are divided by the number of vectors.",
            equal_bits_view,
        ),
        (
            "Ablation",
            "Our additions to each method, one after the other: each bar includes the additions above it.",
            ablation_view,
        ),
        (
            "Operations",
            "Operations per query, counted during execution, beside the paper's formulas, and the time on one "
            "thread.",
            operations_view,
        ),
        (
            "Codeword and scale together",
            "The paper's authors suspect that their anisotropic methods would gain if codeword and scale were "
            "solved for together. These runs do so, with two rules of assignment and several thresholds.",
            joint_view,
        ),
    )
    panels = []
    for title, about, view in wanted:
        views = [found for file in files if (found := view(file)) is not None]
        if views:
            panels.append(Panel(title, about, "paper", ("Data",), views))
    return panels


def view_of(file: PaperFile, charts: list[Chart], tables: list[Table]) -> View:
    """Return a view of one file."""
    return View((file.label,), [], charts, tables, file.sources())


def bits_charts(file: PaperFile, named: list[tuple[str, str, Part]]) -> list[Chart]:
    """Return charts of recall and error by total bits; `named` has methods, descriptions and rows."""
    measures: tuple[tuple[str, str, Callable[[Part], float | None]], ...] = (
        ("Recall by bits", "Recall1@1, all lists", lambda row: recall_at(file, row, "all", 1)),
        ("Error by bits", "relative error", lambda row: optional_number(row, "relative_error")),
    )
    charts = []
    for title, label, measure in measures:
        by_name: dict[tuple[str, str], list[Point]] = {}
        for method, special, row in named:
            bits, value = total_bits(row), measure(row)
            if bits is not None and value is not None:
                tip = [("what", special), ("codebooks", codebooks(row))]
                tip += [(label, figure(value, SHARE)), ("bits per vector", figure(bits, ONE_DIGIT))]
                hollow = optional_text(row, "codebooks") == "shared"
                point = Point(bits, value, tip, filled=not hollow)
                by_name.setdefault((method, codebooks(row)), []).append(point)
        series = [
            Series(f"{method}, codebooks {books}", points, False, method, not points[0].filled)
            for (method, books), points in by_name.items()
        ]
        bits_axis = Axis("bits per vector, with its share of codebooks", "log")
        if series:
            charts.append(Chart(title, bits_axis, Axis(label, "linear"), series))
    return charts


def measured_table(
    file: PaperFile, caption: str, rows: list[Part], names: tuple[str, ...], texts: Callable[[Part], list[Cell]]
) -> Table:
    """Return a table of all measures; `texts` gives the first cells of a row, `names` their columns."""
    columns = [*(Column(name) for name in names), *(column for _, _, column in RECALL_COLUMNS)]
    columns += [Column(label, form, bar=name == "relative_error") for name, label, form in MEASURES]
    cells = []
    for row in rows:
        recalls = [recall_at(file, row, protocol, at) for protocol, at, _ in RECALL_COLUMNS]
        cells.append([*texts(row), *recalls, *(optional_number(row, name) for name, _, _ in MEASURES)])
    return Table(caption, columns, cells)


def codebooks(row: Part) -> str:
    """Return the kind of codebooks as text."""
    found = optional_text(row, "codebooks")
    return NONE if found is None else CODEBOOKS.get(found, found)


def label_of(row: Part) -> str:
    """Return the label of a row."""
    return present_label(row.part("label").text())


def equal_bits_view(file: PaperFile) -> View | None:
    """Return the view of codes of equal size; None if the file has none."""
    rows = optional_rows(file.root, "equal_bits")
    if not rows:
        return None
    named = [(method_name(row), label_of(row), row) for row in rows]
    table = measured_table(
        file,
        "Equal bits",
        rows,
        ("method", "settings", "codebooks"),
        lambda row: [method_name(row), label_of(row), codebooks(row)],
    )
    return view_of(file, bits_charts(file, named), [table])


def ablation_view(file: PaperFile) -> View | None:
    """Return the view of the ablation; None if the file has none."""
    rows = optional_rows(file.root, "ablation")
    if not rows:
        return None
    table = measured_table(
        file,
        "One addition after the other",
        rows,
        ("family", "codebooks", "step"),
        lambda row: [row.part("family").text(), codebooks(row), row.part("step").text()],
    )
    return View((file.label,), [], [], [table], file.sources(), ablation_bars(file, rows))


def ablation_bars(file: PaperFile, rows: list[Part]) -> list[Bars]:
    """Return charts of recall and error, with one group of bars per family and kind of codebooks."""
    queries = optional_number(file.root.part("data"), "queries")
    about = "" if queries is None else f" Thin lines: 95 % intervals over {queries:,.0f} queries."
    measures: tuple[tuple[str, str, Callable[[Part], float | None], bool], ...] = (
        ("Recall1@1, all lists", f"Longer is better.{about}", lambda row: recall_at(file, row, "all", 1), True),
        ("Relative error", "Shorter is better.", lambda row: optional_number(row, "relative_error"), False),
    )
    charts = []
    for title, note, measure, is_share in measures:
        groups: dict[tuple[str, str], list[Bar]] = {}
        for row in rows:
            step, value = row.part("step").text(), measure(row)
            if value is not None:
                interval = share_interval(value, queries) if is_share and queries else None
                hollow = optional_text(row, "codebooks") == "shared"
                bar = Bar(step, value, interval, hollow)
                groups.setdefault((row.part("family").text(), codebooks(row)), []).append(bar)
        if groups:
            found = [
                BarGroup(f"{name}, codebooks {books}", name, some) for (name, books), some in groups.items()
            ]
            charts.append(Bars(title, SHARE, found, note))
    return charts


def share_interval(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of `n` queries."""
    z = 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def joint_view(file: PaperFile) -> View | None:
    """Return the view of codeword and scale solved alternately and jointly; None if the file has none."""
    rows = optional_rows(file.root, "joint")
    if not rows:
        return None
    table = measured_table(file, "Codeword and scale", rows, ("method",), lambda row: [label_of(row)])
    return view_of(file, [], [table, *single_table(file)])


def single_table(file: PaperFile) -> list[Table]:
    """Return the table of single clusters, whose least loss is known; an empty list if the file has none."""
    part = file.root.maybe("single_clusters")
    if part is None:
        return []
    rows: list[list[Cell]] = [[name.replace("_", " "), as_text(value)] for name, value in part.fields().items()]
    return [Table("Single clusters", (Column("what"), Column("value")), rows)]


def operations_view(file: PaperFile) -> View | None:
    """Return the view of operations; None if the file has none."""
    rows = optional_rows(file.root, "operations")
    if not rows:
        return None
    names = ("formula", "counted", "microseconds", "index_bits", "index_bits_formula")
    cells: list[list[Cell]] = [
        [
            label_of(row),
            optional_number(row, "vectors"),
            optional_text(row, "centers"),
            *(optional_number(row, name) for name in names),
        ]
        for row in rows
    ]
    return view_of(file, [], [Table("Operations per query", OPERATIONS, cells)])
