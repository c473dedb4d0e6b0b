"""Update the tables and plots of docs from the committed results: `python tools/measured.py`. Needs matplotlib.

A table stands between `<!-- measured: NAME -->` and `<!-- end -->`. A plot is docs/plots/NAME.svg, and contains
the checksum of its data. A test fails if either is out of date.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from markdown_tables import RESULTS, markdown, ran_in  # noqa: E402

DOCS = ROOT / "docs"
PLOTS = DOCS / "plots"
SETS = ("glove", "lastfm48k", "npm", "minilm")
MODES = {"batch": "batched", "single": "single query"}
# Keys in the results of defaults.py; int16 is the default.
KEEPS = {
    "int8": "lists=2.0, keep=int8",
    "int16": "lists=2.0",
    "float16": "lists=2.0, keep=float16",
    "float32": "lists=2.0, keep=float32",
}
# Colours of Okabe and Ito, suitable for colour blindness, each with its own marker.
STYLES = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
)

Panel = dict[str, Any]


def committed(name: str) -> dict[str, Any]:
    """Return a committed result."""
    return json.loads((RESULTS / f"{name}.json").read_text())  # type: ignore[no-any-return]


def about(name: str) -> str:
    """Return a short description of a data set, by name."""
    return json_text(committed(f"defaults_{name}")["data"])


def json_text(data: dict[str, Any]) -> str:
    """Return a short description of the data of a result."""
    return f"{data['name']}: {data['n']:,} x {data['d']}, {data['metric']}"


# Tables.


def keeps() -> str:
    """Return the table of bytes, time and recall by precision of kept vectors."""
    sets = {name: committed(f"defaults_{name}") for name in SETS}
    lines = []
    for keep, key in KEEPS.items():
        rows = [sets[name]["choices"][key] for name in SETS]
        cells = [f"{r['bytes_per_vector']:.0f} B, {r['microseconds']:.1f} µs, {r['recall']:.3f}" for r in rows]
        lines.append((f'`"{keep}"`', *cells))
    return markdown(("keep", *map(about, SETS)), lines) + "\n\n" + ran_in(sets["glove"]["environment"])


def codes_alone() -> str:
    """Return the table of bytes and recall by quantizer, without kept vectors."""
    sets = {name: committed(f"defaults_{name}") for name in SETS}
    lines = []
    for method in sets["glove"]["codes_alone"]:
        given = dict(part.split("=") for part in method.split(", "))
        call = ", ".join(f"{name}={value}" for name, value in given.items() if name != "method")
        rows = [sets[name]["codes_alone"][method] for name in SETS]
        lines.append(
            (
                f"`{given['method']}({call})`",
                *(f"{r['bytes_per_vector']:.0f} B, {r['recall']:.3f}" for r in rows),
            )
        )
    return markdown(("quantizer", *map(about, SETS)), lines) + "\n\n" + ran_in(sets["glove"]["environment"])


def beside(rival: str) -> str:
    """Return the table of queries per second of pcpq divided by a peer's, with kept vectors, on all sets."""
    lines: list[tuple[Any, ...]] = []
    commands: list[str] = []
    heads: list[str] = []
    for path in sorted(RESULTS.glob("peers_*.json")):
        found = json.loads(path.read_text())
        ratios = {(r["mode"], r["target"]): r["ratio"] for r in found["pcpq_over_peer"] if r["rival"] == rival}
        if not ratios or path.stem.endswith("_codes"):
            continue
        runs = [(run["mode"], run["target"]) for run in found["runs"]]
        heads = [f"{MODES[mode]}, {target}" for mode, target in runs]
        middle = found["runs"][runs.index(("batch", 0.95))]["contestants"]
        sizes = [f"{middle[name]['bytes_per_vector']:.0f}" for name in ("pcpq", rival)]
        lines.append((json_text(found["data"]), " / ".join(sizes), *(ratios.get(run, "") for run in runs)))
        commands.append(ran_in(found["environment"]))
    head = ("set", f"bytes per vector, pcpq / {rival}", *heads)
    return "\n\n".join((markdown(head, lines), *commands))


def ray_cluster() -> str:
    """Return the tables of queries per second by number of nodes, and of the overhead per call."""
    found = committed("ray_cluster")
    rates = [(run_name(name), f"{count:,.0f}") for name, count in found["medians"].items()]
    costs = [
        (
            run_name(name),
            *(f"{row[kind]:,.0f}" for kind in ("local", "sharded", "overhead", "overhead_per_query")),
        )
        for name, row in found["overhead_us"].items()
    ]
    second, empty = found["second_node_over_second_process"], found["empty_call_us"]
    heads = ("µs per call", "local index", "ShardedIndex", "overhead", "overhead per query")
    return "\n\n".join(
        (
            markdown(("one core each", "queries per second"), rates),
            f"The second node adds {second} of the throughput that a second process adds.",
            markdown(heads, costs),
            f"A call of an actor that does nothing takes {empty:,.0f} µs. {ran_in(found['environment'])}",
        )
    )


def run_name(name: str) -> str:
    """Return the name of a run, with the singular after 1."""
    for plural, singular in (("nodes", "node"), ("processes", "process"), ("queries", "query")):
        name = re.sub(rf"\b1 {plural}", f"1 {singular}", name)
    return name.replace("a shard each", "one shard each")


TABLES: dict[str, Callable[[], str]] = {
    "keeps": keeps,
    "codes_alone": codes_alone,
    "beside_faiss": lambda: beside("faiss"),
    "beside_scann": lambda: beside("scann"),
    "beside_hnswlib": lambda: beside("hnswlib"),
    "ray": ray_cluster,
}


def filled(page: str) -> str:
    """Return a page with all of its tables regenerated."""
    return re.sub(
        r"<!-- measured: (\w+) -->\n.*?<!-- end -->",
        lambda match: f"<!-- measured: {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end -->",
        page,
        flags=re.DOTALL,
    )


def pages() -> list[Path]:
    """Return the pages that have such tables."""
    return [path for path in sorted(DOCS.rglob("*.md")) if "<!-- measured: " in path.read_text()]


# Plots: panels of named series of points.


def frontier(rows: Iterable[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return bytes and recall of the codes on the Pareto front."""
    points: list[tuple[float, float]] = []
    for row in sorted(rows, key=lambda row: (row["bytes"], -row["recall_10_at_10"])):
        if not points or row["recall_10_at_10"] > points[-1][1]:
            points.append((round(row["bytes"], 2), row["recall_10_at_10"]))
    return points


def codes() -> list[Panel]:
    """Return the panels of recall by bytes per vector, with all lists scanned and no kept vectors."""
    panels = []
    for name in SETS:
        found = committed(f"quantizers_{name}")
        ours = [row for row in found["ours"] if not row["query_sample"]]
        few = [row for row in ours if not re.search(r"n_centers=(32|256)", row["method"])]
        peers = [row for row in found["peers"] if row["lists"] != "inner product"]
        series = {
            "QPCPQ, at most 16 codewords": [row for row in few if row["method"].startswith("QPCPQ")],
            "PQ, 16 codewords": [row for row in few if row["method"].startswith("PQ")],
            "PQ, 256 codewords": [
                r for r in ours if r["method"].startswith("PQ") and "n_centers=256" in r["method"]
            ],
            "Faiss PQ, OPQ": [r for r in peers if "Faiss" in r["method"] and "RaBitQ" not in r["method"]],
            "Faiss RaBitQ": [row for row in peers if "RaBitQ" in row["method"]],
            "turbovec": [row for row in peers if "turbovec" in row["method"]],
        }
        data = found["data"]
        panels.append(
            {
                "title": f"{name}: {data['n']:,} x {data['d']}",
                "axes": ("bytes per vector", "recall 10@10"),
                "series": {label: frontier(rows) for label, rows in series.items()},
            }
        )
    return panels


def speed() -> list[Panel]:
    """Return the panels of queries per second by recall, with kept vectors."""
    runs = committed("peers_glove_only_faiss_pcpq_scann")["runs"]
    panels = []
    for mode, words in MODES.items():
        series: dict[str, list[tuple[float, float]]] = {}
        for run in runs:
            for library, row in run["contestants"].items():
                if run["mode"] == mode:
                    series.setdefault(library, []).append((row["recall"], row["qps"]))
        panels.append(
            {
                "title": f"glove, {words}",
                "axes": ("recall 10@10", "queries per second, one core"),
                "log": "y",
                "series": series,
            }
        )
    return panels


def kept() -> list[Panel]:
    """Return the panels of time by bytes per vector at recall 0.95, for each precision."""
    return [
        {
            "title": name,
            "axes": ("bytes per vector", "µs per query, recall 0.95"),
            "from_zero": True,
            "series": {
                keep: [(row["bytes_per_vector"], row["microseconds"])]
                for keep, key in KEEPS.items()
                for row in (committed(f"defaults_{name}")["choices"][key],)
            },
        }
        for name in SETS
    ]


def growth() -> list[Panel]:
    """Return the panel of time by number of vectors."""
    runs = committed("growth")["runs"]
    series = {words: [(run["n"], run[mode]["microseconds"]) for run in runs] for mode, words in MODES.items()}
    axes = ("vectors", "µs per query, recall 0.95")
    return [{"title": "glove and vectors like it, one core", "axes": axes, "log": "xy", "series": series}]


PICTURES: dict[str, Callable[[], list[Panel]]] = {
    "codes": codes,
    "speed": speed,
    "kept": kept,
    "growth": growth,
}


def checksum(panels: list[Panel]) -> str:
    """Return the checksum of the data of a plot."""
    return "data " + hashlib.sha256(json.dumps(panels, sort_keys=True).encode()).hexdigest()[:32]


def draw(name: str) -> None:
    """Draw a plot and write it as SVG."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"})
    panels = PICTURES[name]()
    columns = min(2, len(panels))
    size = (4.6 * columns, 3.4 * -(-len(panels) // columns))
    figure, grid = pyplot.subplots(-(-len(panels) // columns), columns, figsize=size, squeeze=False)
    for panel, axes in zip(panels, grid.ravel(), strict=True):
        for (colour, marker), (label, points) in zip(STYLES, panel["series"].items(), strict=False):
            axes.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=5, label=label)
        axes.set_title(panel["title"], fontsize=10)
        axes.set_xlabel(panel["axes"][0])
        axes.set_ylabel(panel["axes"][1])
        for axis in panel.get("log", ""):
            (axes.set_xscale if axis == "x" else axes.set_yscale)("log")
            ticks = axes.xaxis if axis == "x" else axes.yaxis
            ticks.set_major_locator(LogLocator(subs=(1, 3) if axis == "x" else (1, 2, 5)))
            ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            ticks.set_minor_formatter(NullFormatter())
        if panel.get("from_zero"):
            axes.set_xlim(0, 1.1 * axes.dataLim.x1)
            axes.set_ylim(0, 1.3 * axes.dataLim.y1)
        axes.grid(alpha=0.3)
    grid[0, 0].legend(fontsize=8)
    figure.tight_layout()
    PLOTS.mkdir(exist_ok=True)
    metadata = {"Date": None, "Creator": None, "Description": checksum(panels)}
    figure.savefig(PLOTS / f"{name}.svg", metadata=metadata)
    pyplot.close(figure)
    path = PLOTS / f"{name}.svg"
    path.write_text("".join(f"{line.rstrip()}\n" for line in path.read_text().splitlines()))


def is_current(name: str) -> bool:
    """Return whether a plot shows the committed results."""
    path = PLOTS / f"{name}.svg"
    return path.exists() and checksum(PICTURES[name]()) in path.read_text()


if __name__ == "__main__":
    for page in pages():
        page.write_text(filled(page.read_text()))
    for picture in PICTURES:
        draw(picture)
