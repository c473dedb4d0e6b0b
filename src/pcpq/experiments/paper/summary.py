"""Text tables of a result for the terminal, beside the published numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pcpq.experiments.paper.protocols import PROTOCOLS


def summary(result: Mapping[str, Any]) -> str:
    """Return the tables of the paper as text."""
    data, settings, probes = result["data"], result["settings"], result["probes"]
    head = (
        f"{data['name']}: {data['n']:,} x {data['d']}, {data['queries']:,} queries, {settings['lists']} lists, "
        f"{settings['sections']} sections, {settings['centers']} codewords, {settings['scales']} scales"
    )
    lines = [head, *([data["note"]] if data["note"] else []), ""]
    lines += table(
        ("method", "error", "paper", "lost", "bits", "build, s", "µs per query"),
        [
            (
                method["paper_name"],
                f"{method['relative_error']:.3f}",
                shown(method, "relative_error"),
                f"{method['residual_error']:.3f}",
                f"{method['code_bits']}",
                f"{method['build_seconds']:.1f}",
                f"{method['query_microseconds']:,.0f}",
            )
            for method in result["methods"]
        ],
    )
    ceiling = f"{probes['chosen']} of {settings['lists']}"
    for protocol, title in PROTOCOLS.items():
        lines += ["", title if protocol == "all" else f"{title} ({ceiling})"]
        lines += table(
            ("method", "Recall1@1", "paper", "Recall1@10", "paper"),
            [
                (
                    method["paper_name"],
                    *(
                        cell
                        for at in (1, 10)
                        for cell in (
                            f"{method['recall'][protocol][result['recall_at'].index(at)]:.3f}",
                            shown(method, f"recall_1_at_{at}"),
                        )
                    ),
                )
                for method in result["methods"]
            ],
        )
    return "\n".join(lines)


def shown(method: Mapping[str, Any], field: str) -> str:
    """Return the published number of a field; an empty string if there is none."""
    value = (method["published"] or {}).get(field)
    return "" if value is None else f"{value:.3f}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return lines with aligned columns; empty columns are left out."""
    cells = [tuple(head), *(tuple(row) for row in rows)]
    # Columns of numbers that the paper does not have are empty.
    shown = [0, *(column for column in range(1, len(cells[0])) if any(row[column] for row in cells[1:]))]
    cells = [tuple(row[column] for column in shown) for row in cells]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in cells
    ]
