"""The HTML page of the results in a folder."""

from __future__ import annotations

from datetime import date
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from pcpq.experiments.report.codes import codes_panels, is_codes
from pcpq.experiments.report.contestants import is_peers
from pcpq.experiments.report.extensions import extension_panels
from pcpq.experiments.report.headline import headline
from pcpq.experiments.report.looks import legend
from pcpq.experiments.report.markup import embedded, panel_html
from pcpq.experiments.report.markup_top import contents_html, files_html, large_html, legend_html
from pcpq.experiments.report.measures import PaperFile, is_paper, paper_files
from pcpq.experiments.report.model import Panel
from pcpq.experiments.report.paper import paper_panel
from pcpq.experiments.report.parts import Part, read
from pcpq.experiments.report.peers import peers_panels
from pcpq.util.durable_files import write_whole

SCRIPTS = ("axes.js", "elements.js", "charts.js", "tables.js", "page.js")


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Write a page of the results in a folder; return its path, by default `report.html` in the folder.

    It shows every *.json file that is a result of `pcpq paper` or of the benchmarks of peers and quantizers.
    Other files are ignored. A ValueError is raised if a file is damaged or if there are no results.
    """
    folder = Path(folder)
    parts = [read(path) for path in sorted(folder.glob("*.json"))]
    known = [part for part in parts if is_known(part)]
    if not known:
        raise ValueError(
            f"{folder}: has no results of pcpq paper, nor of the benchmarks of peers and quantizers"
        )
    path = folder / "report.html" if out is None else Path(out)
    write_whole(path, page(known).encode("utf-8", "replace"))
    return path


def is_known(part: Part) -> bool:
    """Return whether a file is one of the three kinds of results."""
    return isinstance(part.value, dict) and (is_paper(part) or is_peers(part) or is_codes(part))


def all_panels(peers: list[Part], codes: list[Part], papers: list[PaperFile]) -> list[Panel]:
    """Return the sections of the page in order."""
    return [*peers_panels(peers), *codes_panels(codes), *paper_panel(papers), *extension_panels(papers)]


def page(known: list[Part]) -> str:
    """Return the page as HTML."""
    papers = paper_files([part for part in known if is_paper(part)])
    peers = [part for part in known if not is_paper(part) and is_peers(part)]
    codes = [part for part in known if not is_paper(part) and not is_peers(part)]
    panels = all_panels(peers, codes, papers)
    looks = legend(panels)
    sentence, larges = headline(peers, papers)
    return Template(resource("page.html")).substitute(
        style=resource("page.css") + resource("charts.css"),
        script="".join(resource(name) for name in SCRIPTS),
        made=date.today().isoformat(),
        sentence=escape(sentence),
        larges=large_html(larges, panels),
        files=files_html(known),
        contents=contents_html(panels),
        legend=legend_html(looks),
        panels="\n".join(panel_html(panel, number, looks) for number, panel in enumerate(panels)),
        data=embedded(panels, looks),
    )


def resource(name: str) -> str:
    """Return the text of a file of this package."""
    return files("pcpq.experiments.report").joinpath(name).read_text("utf-8")
