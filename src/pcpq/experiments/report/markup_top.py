"""The top and the end of the page as HTML: large numbers, contents, legend, files. All text is escaped here."""

from __future__ import annotations

from html import escape
from itertools import groupby

from pcpq.experiments.report.headline import Large
from pcpq.experiments.report.looks import Look
from pcpq.experiments.report.model import Panel
from pcpq.experiments.report.parts import Part


def large_html(larges: list[Large], panels: list[Panel]) -> str:
    """Return the large numbers, each with a link to its section."""
    numbers = {panel.title: number for number, panel in enumerate(panels)}
    return "\n".join(
        f'<li><a href="#panel-{numbers[large.panel]}"><strong>{escape(large.number)}</strong>'
        f"<span>{escape(large.label)}</span></a>\n<p>{escape(large.detail)}</p>\n"
        f'<p class="file">{escape(", ".join(large.files))}</p></li>'
        for large in larges
    )


def contents_html(panels: list[Panel]) -> str:
    """Return links to the sections."""
    return "\n".join(f'<a href="#panel-{i}">{escape(panel.title)}</a>' for i, panel in enumerate(panels))


def legend_html(looks: list[Look]) -> str:
    """Return the buttons of all methods; the script draws their markers."""
    parts = []
    for kind, some in groupby(looks, key=lambda look: look.kind):
        names = [escape(look.name) for look in some]
        buttons = "".join(
            f'<button type="button" aria-pressed="true" data-look="{name}">{name}</button>' for name in names
        )
        parts.append(f'<div role="group" aria-label="{kind}"><span>{kind}</span>{buttons}</div>')
    return "\n".join(parts)


def files_html(known: list[Part]) -> str:
    """Return the list of files that the page is made from."""
    return "".join(f"<li>{escape(part.file)}</li>" for part in known)
