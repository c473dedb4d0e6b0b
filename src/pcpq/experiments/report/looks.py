"""The legend of the page: every library and quantizer has one color and one shape in all charts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pcpq.experiments.report.model import Panel
from pcpq.experiments.report.titles import LIBRARIES, QUANTIZERS

KNOWN = (*LIBRARIES.values(), *QUANTIZERS)


@dataclass(frozen=True)
class Look:
    """An entry of the legend; `style` is the number of its color and shape."""

    name: str
    style: int
    kind: str


def legend(panels: list[Panel]) -> list[Look]:
    """Return the entries for all methods in charts, libraries first; known ones always look the same."""
    found = dict.fromkeys(name for panel in panels for name in names_in(panel))
    quantizers = {name for panel in panels if panel.group != "peers" for name in names_in(panel)}
    unknown = [name for name in found if name not in KNOWN]
    looks = [Look(name, style, kind_of(name, quantizers)) for style, name in enumerate(KNOWN) if name in found]
    looks += [Look(name, len(KNOWN) + i, kind_of(name, quantizers)) for i, name in enumerate(unknown)]
    return sorted(looks, key=lambda look: look.kind)


def kind_of(name: str, quantizers: set[str]) -> str:
    """Return the heading under which a method stands in the legend."""
    return "Quantizers" if name in quantizers and name not in LIBRARIES.values() else "Libraries"


def names_in(panel: Panel) -> Iterator[str]:
    """Yield the methods in the charts of a panel."""
    for view in panel.views:
        for chart in view.charts:
            yield from (series.look or series.name for series in chart.series)
        for bars in view.bars:
            yield from (group.look for group in bars.groups)
