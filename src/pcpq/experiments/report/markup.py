"""Panels as HTML, and as JSON for the script that draws charts. All text from files is escaped here."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape

from pcpq.experiments.report.looks import Look
from pcpq.experiments.report.model import (
    NONE,
    Bar,
    BarGroup,
    Bars,
    Cell,
    Chart,
    Column,
    Panel,
    Source,
    Table,
    View,
    figure,
)

COLORS = 14  # in charts.css
WIDE = 36  # cells with more letters are wrapped
FOLDED = 20  # tables with more rows are closed at first


def embedded(panels: list[Panel], looks: list[Look]) -> str:
    """Return the data of charts as JSON without characters that an HTML parser could read as a tag."""
    shown = [
        {
            "group": panel.group,
            "choices": panel.choices,
            "views": [
                {"keys": view.keys, "charts": [asdict(chart) for chart in view.charts]} for view in panel.views
            ],
        }
        for panel in panels
    ]
    data = {"looks": [asdict(look) for look in looks], "panels": shown}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def panel_html(panel: Panel, number: int, looks: list[Look]) -> str:
    """Return a section of the page."""
    styles = {look.name: look.style for look in looks}
    views = "\n".join(view_html(view, styles) for view in panel.views)
    return (
        f'<section class="panel" id="panel-{number}" aria-labelledby="title-{number}">\n'
        f'<h2 id="title-{number}">{escape(panel.title)}</h2>\n<p class="lead">{escape(panel.about)}</p>\n'
        f'<div class="choices"></div>\n<p class="nothing" hidden>This result has nothing here.</p>\n'
        f"{views}\n</section>"
    )


def view_html(view: View, styles: dict[str, int]) -> str:
    """Return a view; the script shows one view at a time."""
    about = "".join(f"<p>{escape(line)}</p>\n" for line in view.about)
    charts = "".join(chart_html(chart) for chart in view.charts)
    charts += "".join(bars_html(bars, styles) for bars in view.bars)
    tables = "".join(table_html(table) for table in view.tables)
    sources = "".join(source_html(source) for source in view.sources)
    return (
        f'<div class="view">\n<h3>{escape(", ".join(view.keys))}</h3>\n<div class="about">{about}</div>\n'
        f'<div class="charts">\n{charts}</div>\n{tables}<div class="sources">\n{sources}</div>\n</div>'
    )


def chart_html(chart: Chart) -> str:
    """Return an empty figure in which the script draws."""
    note = f'<p class="note">{escape(chart.note)}</p>' if chart.note else ""
    kind = "chart main" if chart.main else "chart"
    caption = f"<figcaption>{escape(chart.title)}</figcaption>{note}"
    return f'<figure class="{kind}">{caption}<div class="plot"></div></figure>\n'


def bars_html(bars: Bars, styles: dict[str, int]) -> str:
    """Return a chart of bars, which needs no script."""
    ends = [bar.interval[1] if bar.interval else bar.value for group in bars.groups for bar in group.bars]
    most = max(ends, default=0) or 1
    groups = "".join(bar_group_html(group, bars.form, most, styles[group.look]) for group in bars.groups)
    return (
        f'<figure class="chart bars"><figcaption>{escape(bars.title)}</figcaption>'
        f'<p class="note">{escape(bars.note)}</p>\n{groups}</figure>\n'
    )


def bar_group_html(group: BarGroup, form: str, most: float, style: int) -> str:
    """Return the bars of one method as a list, which the legend hides and shows."""
    bars = "".join(bar_html(bar, form, most) for bar in group.bars)
    return (
        f'<div class="bar-group" data-look="{escape(group.look)}" style="--bar:var(--color-{style % COLORS})">'
        f"<h4>{escape(group.title)}</h4><ul>{bars}</ul></div>\n"
    )


def bar_html(bar: Bar, form: str, most: float) -> str:
    """Return one bar with its label and number."""
    whisker = ""
    if bar.interval is not None:
        low, high = (100 * end / most for end in bar.interval)
        whisker = f'<span class="whisker" style="left:{low:.2f}%;width:{high - low:.2f}%"></span>'
    kind = ' class="hollow"' if bar.hollow else ""
    width = f"{max(0.0, 100 * bar.value / most):.2f}%"
    return (
        f"<li{kind}><span>{escape(bar.label)}</span>"
        f'<span class="track"><span class="fill" style="width:{width}"></span>{whisker}</span>'
        f"<span>{figure(bar.value, form)}</span></li>"
    )


def source_html(source: Source) -> str:
    """Return a paragraph with the command, its environment, and the file."""
    command = f"<code>{escape(source.command)}</code>, " if source.command else ""
    facts = f"{escape(source.facts)}, " if source.facts else ""
    return (
        f'<p>Source: <span class="file">{escape(source.file)}</span>, {command}{facts}'.rstrip(", ") + ".</p>\n"
    )


def table_html(table: Table) -> str:
    """Return a table that can be sorted by any column; empty columns are left out."""
    kept = [i for i in range(len(table.columns)) if any(row[i] is not None for row in table.rows)]
    columns = [table.columns[i] for i in kept]
    most = [largest(table, i) for i in kept]
    head = "".join(head_html(column) for column in columns)
    lines = []
    for row in table.rows:
        cells = zip((row[i] for i in kept), columns, most, strict=True)
        lines.append("<tr>" + "".join(cell_html(*cell) for cell in cells) + "</tr>")
    caption, count = escape(table.caption), len(table.rows)
    state, rows = "" if count > FOLDED else " open", "row" if count == 1 else "rows"
    return (
        f'<details class="table"{state}><summary>{caption} <small>{count} {rows}</small>'
        f'</summary>\n<div class="frame"><div class="box" role="region" tabindex="0" aria-label="{caption}">\n'
        f'<table aria-label="{caption}">\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody>\n</table>\n</div></div>\n</details>\n"
    )


def largest(table: Table, column: int) -> float:
    """Return the largest absolute number of a column, 0 if it has none."""
    return max((abs(row[column]) for row in table.rows if isinstance(row[column], float)), default=0)  # type: ignore[arg-type]


def head_html(column: Column) -> str:
    """Return the header of a column, with the button that sorts by it."""
    kind = ' class="number"' if column.form else ""
    return f'<th scope="col"{kind}><button type="button">{escape(column.name)}</button></th>'


def cell_html(cell: Cell, column: Column, most: float) -> str:
    """Return a cell; a number is formatted, with its full value for sorting."""
    if cell is None:
        return f"<td{' class=number' if column.form else ''}>{NONE}</td>"
    if isinstance(cell, str):
        return f"<td{' class=wide' if len(cell) > WIDE else ''}>{escape(cell)}</td>"
    bar = ""
    if column.bar and most > 0:
        bar = f'<span class="bar" style="width:{100 * abs(cell) / most:.1f}%"></span>'
    return f'<td class="number" data-value="{cell!r}">{figure(cell, column.form)}{bar}</td>'
