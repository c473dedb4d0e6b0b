"""Tables in HTML for notebooks, which take their colours from the page, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = (
    ".pcpq-view,.pcpq-view table,.pcpq-view tr,.pcpq-view th,.pcpq-view td"
    "{color:inherit;background:none;border:0;text-align:left}"
    ".pcpq-view table{border-collapse:collapse;margin:4px 0}"
    ".pcpq-view th,.pcpq-view td{padding:2px 16px 2px 0;border-bottom:1px solid rgba(128,128,128,.35)}"
    ".pcpq-view tbody th{font-weight:400;opacity:.75}"
    ".pcpq-view td.number{text-align:right;font-variant-numeric:tabular-nums}"
    ".pcpq-view small{opacity:.75}"
)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """Return a table as HTML without scripts or external resources; all texts are escaped.

    Parameters
    ----------
    title : the line above the table
    head : names of the columns; empty: the first cell of each row is its name
    rows : the cells as texts
    note : the line below the table
    """
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    lines = [f'<div class="pcpq-view"><style>{STYLE}</style><strong>{escape(title)}</strong><table>']
    lines.append(f"<thead><tr>{names}</tr></thead><tbody>" if head else "<tbody>")
    for row in rows:
        name = "" if head else f'<th scope="row">{escape(row[0])}</th>'
        lines.append(f"<tr>{name}{''.join(map(cell, row if head else row[1:]))}</tr>")
    below = f"<small>{escape(note)}</small>" if note else ""
    lines.append(f"</tbody></table>{below}</div>")
    return "\n".join(lines)


def cell(text: str) -> str:
    """Return a cell of a table; numbers are aligned at the right."""
    kind = ' class="number"' if is_number(text) else ""
    return f"<td{kind}>{escape(text)}</td>"


def is_number(text: str) -> bool:
    """Return whether a text is a number, as it is shown."""
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
