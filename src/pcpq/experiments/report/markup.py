"""Panels as HTML, and as JSON for the script that draws charts. All text from files is escaped here."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape

from pcpq.experiments.report.model import NONE, Cell, Chart, Column, Panel, Source, Table, View, figure

WIDE = 36  # cells with more letters are wrapped


def embedded(panels: list[Panel]) -> str:
    """Return the data of charts as JSON without characters that an HTML parser could read as a tag."""
    data = [
        {
            "group": panel.group,
            "choices": panel.choices,
            "views": [
                {"keys": view.keys, "charts": [asdict(chart) for chart in view.charts]} for view in panel.views
            ],
        }
        for panel in panels
    ]
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def panel_html(panel: Panel, number: int) -> str:
    """Return a section of the page."""
    views = "\n".join(view_html(view) for view in panel.views)
    return (
        f'<section class="panel" id="panel-{number}" aria-labelledby="title-{number}">\n'
        f'<h2 id="title-{number}">{escape(panel.title)}</h2>\n<p>{escape(panel.about)}</p>\n'
        f'<div class="choices"></div>\n<p class="nothing" hidden>This result has nothing here.</p>\n'
        f"{views}\n</section>"
    )


def contents_html(panels: list[Panel]) -> str:
    """Return links to the sections."""
    return "\n".join(f'<a href="#panel-{i}">{escape(panel.title)}</a>' for i, panel in enumerate(panels))


def view_html(view: View) -> str:
    """Return a view; the script shows one view at a time."""
    about = "".join(f"<p>{escape(line)}</p>\n" for line in view.about)
    charts = "".join(chart_html(chart) for chart in view.charts)
    tables = "".join(table_html(table) for table in view.tables)
    sources = "".join(source_html(source) for source in view.sources)
    return (
        f'<div class="view">\n<h3>{escape(", ".join(view.keys))}</h3>\n{about}'
        f'<div class="charts">\n{charts}</div>\n{tables}<div class="sources">\n{sources}</div>\n</div>'
    )


def chart_html(chart: Chart) -> str:
    """Return an empty figure in which the script draws."""
    note = f'<p class="note">{escape(chart.note)}</p>' if chart.note else ""
    return (
        f'<figure class="chart"><figcaption>{escape(chart.title)}</figcaption>{note}<div class="legend"></div>'
        f'<div class="plot"></div></figure>\n'
    )


def source_html(source: Source) -> str:
    """Return a paragraph with the command, its environment, and the file."""
    command = f"<code>{escape(source.command)}</code>, " if source.command else ""
    facts = f"{escape(source.facts)}, " if source.facts else ""
    return f"<p>{command}{facts}in {escape(source.file)}.</p>\n"


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
    caption = escape(table.caption)
    return (
        f'<h4>{caption}</h4>\n<div class="box" role="region" tabindex="0" aria-label="{caption}">\n'
        f'<table aria-label="{caption}">\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody>\n</table>\n</div>\n"
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
