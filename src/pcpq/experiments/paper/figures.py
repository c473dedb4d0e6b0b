"""Figures of results, of the paper and of its extensions: errors, recall, probes, ablation, equal bits.

Needs matplotlib. One result is one data set at 4 or 8 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from pcpq.experiments.paper.extensions import present_label
from pcpq.experiments.paper.illustrations import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    WIDTH,
    Float64Array,
    draw_illustrations,
    save,
    shared_look,
)

Result = Mapping[str, Any]
Numbers = Sequence[float] | Float64Array


@dataclass(frozen=True)
class Look:
    """Color, line and marker of a method."""

    colour: str
    line: Any
    marker: str


# Solid lines are isotropic methods, dashed lines anisotropic ones.
LOOKS = {
    "PQ": Look(VERMILLION, "-", "o"),
    "QPCPQ": Look(BLUE, "-", "s"),
    "PCPQ": Look(GREEN, "-", "^"),
    "APQ": Look(ORANGE, (0, (4, 2)), "D"),
    "QAPCPQ": Look(SKY, (0, (4, 2)), "X"),
    "APCPQ": Look(PURPLE, (0, (4, 2)), "v"),
}
GROUPS = {"isotropic": ("PQ", "QPCPQ", "PCPQ"), "anisotropic": ("APQ", "QAPCPQ", "APCPQ")}
CODEBOOKS = {"per_list": "codebooks for each list", "shared": "one codebook for all lists"}


def draw_all(results: Sequence[Result], folder: Path) -> list[Path]:
    """Draw all figures as PNG and SVG into a folder, except those that lack results; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    with shared_look():
        return draw_illustrations(folder) + [path for result in results for path in draw_result(result, folder)]


def draw_result(result: Result, folder: Path) -> list[Path]:
    """Draw the figures of one data set at one number of bits; return the paths."""
    ending = f"{result['data']['name']}_{result['settings']['bits']}bit"
    drawn = {name: draw for name, (part, draw) in FIGURES.items() if result.get(part)}
    return [path for name, draw in drawn.items() for path in save(draw(result), folder, f"{name}_{ending}")]


def heading(result: Result, what: str) -> str:
    """Return the title of a figure: data set, bits, and content."""
    return f"{result['data']['name']}, {result['settings']['bits']} bits: {what}"


def method_label(method: Result) -> str:
    """Return the name of a method, with the name in the paper if it differs."""
    name, paper_name = str(method["method"]), str(method.get("paper_name") or method["method"])
    return name if paper_name.replace("-", "") == name else f"{name} ({paper_name})"


def recall(entry: Result, result: Result, at: int, protocol: str = "all") -> float:
    """Return Recall1@N of a row of a result."""
    return float(entry["recall"][protocol][list(result["recall_at"]).index(at)])


def draw_curve(axes: Axes, method: Result, x: Numbers, y: Numbers, marks: Iterable[int]) -> None:
    """Draw the curve of a method, with markers at the given points."""
    look = LOOKS[method["method"]]
    style = {"color": look.colour, "linestyle": look.line, "marker": look.marker}
    axes.plot(
        x,
        y,
        **style,
        markevery=list(marks),
        label=method_label(method),
        markeredgecolor="white",
        markeredgewidth=0.4,
    )


def legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    """Put the legend of axes below the figure."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def count_axis(axes: Axes, ticks: Iterable[int]) -> None:
    """Make the x axis logarithmic, with these ticks as plain numbers."""
    axes.set_xscale("log")
    axes.set_xticks(list(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def draw_errors(result: Result) -> Figure:
    """Draw the sorted relative errors of the top inner products; one panel per loss, as in the paper."""
    figure = Figure((WIDTH, 3.4))
    figure.suptitle(heading(result, "error of the top inner product"), fontsize=9.5)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (loss, names) in zip(panels, GROUPS.items(), strict=True):
        for method in (one for one in result["methods"] if one["method"] in names):
            errors = np.asarray(method["errors"], np.float64)
            percent = 100.0 * (np.arange(len(errors)) + 0.5) / max(len(errors), 1)
            draw_curve(
                axes, method, percent, errors, range(len(errors) // 14, len(errors), len(errors) // 7 + 1)
            )
        axes.set(title=loss, xlabel="queries by error, %", xlim=(0, 100), ylim=(0, None))
        axes.grid(True)
        axes.legend(loc="upper left")
    panels[0].set_ylabel("relative error")
    return figure


def draw_recall(result: Result) -> Figure:
    """Draw Recall1@N under three protocols; crosses are published values."""
    figure = Figure((WIDTH, 4.9))
    figure.suptitle(heading(result, "Recall1@N"), fontsize=9.5)
    grid = figure.subplots(2, 2, sharey=True).ravel()
    probes = result["settings"]["probes"]
    protocols = {
        "all": "codes only, all lists",
        "probed": f"codes only, {probes} lists probed",
        "reranked": f"{probes} lists probed, the best N\nof each re-ranked exactly",
    }
    at = list(result["recall_at"])
    ticks = [n for n in (1, 2, 5, 10, 20, 50, 100) if n in at]
    for axes, (protocol, title) in zip(grid, protocols.items(), strict=False):
        for method in result["methods"]:
            draw_curve(axes, method, at, method["recall"][protocol], [at.index(n) for n in ticks])
            _draw_published(axes, method)
        count_axis(axes, ticks)
        axes.set(title=title, xlabel="N")
        axes.grid(True)
    grid[0].set_ylabel("Recall1@N")
    grid[2].set_ylabel("Recall1@N")
    handles, labels = grid[0].get_legend_handles_labels()
    if any(method.get("published") for method in result["methods"]):
        handles.append(Line2D([], [], color=BLACK, marker="+", linestyle="none", markersize=8))
        labels.append("published, same color")
    grid[3].set_axis_off()
    grid[3].legend(handles, labels, loc="center")
    return figure


def _draw_published(axes: Axes, method: Result) -> None:
    """Draw the published recall of a method at 1 and at 10."""
    printed = method.get("published") or {}
    for at in (1, 10):
        value = printed.get(f"recall_1_at_{at}")
        if value is not None:
            axes.plot(at, value, "+", color=LOOKS[method["method"]].colour, markersize=8, zorder=4)


def draw_probes(result: Result) -> Figure:
    """Draw Recall1@10 by the number of probed lists, and the upper bound that the lists set."""
    figure = Figure((WIDTH, 4.0))
    axes = figure.add_subplot()
    probes = result["probes"]
    swept = list(probes["swept"])
    axes.plot(swept, probes["ceiling"], "--", color=BLACK, label="answer is in a list probed")
    for method in result["methods"]:
        draw_curve(axes, method, swept, method["recall_at_10_by_probes"], range(0, len(swept), 2))
    if probes.get("published_plateau") is not None:
        plateau = probes["published_plateau"]
        axes.axhline(plateau, color=GREY, linewidth=1, linestyle=":", label=f"published plateau, {plateau}")
    axes.axvline(probes["chosen"], color=GREY, linewidth=1, label=f"chosen: {probes['chosen']} lists")
    count_axis(axes, [count for count in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if count <= swept[-1]])
    axes.set(xlabel="lists probed", ylabel="Recall1@10", title=heading(result, "codes only, lists probed"))
    axes.grid(True)
    legend_below(figure, axes, 2)
    return figure


def ablation_rows(entries: Sequence[Result]) -> list[tuple[str, str | None, dict[str, Result]]]:
    """Return (family, step, entries by codebooks) in order; a row with step None is the heading of a family."""
    rows: dict[tuple[str, str | None], dict[str, Result]] = {}
    for family in dict.fromkeys(entry["family"] for entry in entries):
        rows[family, None] = {}
        for entry in entries:
            if entry["family"] == family:
                rows.setdefault((family, entry["step"]), {})[entry["codebooks"]] = entry
    return [(family, step, found) for (family, step), found in rows.items()]


def draw_ablation(result: Result) -> Figure:
    """Draw relative error and recall after each addition, with one bar per kind of codebooks."""
    rows = ablation_rows(result["ablation"])
    kinds = [kind for kind in CODEBOOKS if any(kind in found for *_, found in rows)]
    figure = Figure((WIDTH, 1.2 + (0.08 + 0.11 * len(kinds)) * len(rows)))
    figure.suptitle(heading(result, "one addition after the other"), fontsize=9.5)
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_bars(left, rows, kinds, lambda entry: float(entry["relative_error"]))
    _draw_bars(right, rows, kinds, lambda entry: recall(entry, result, 10))
    left.set_xlabel("relative error\n(less is better)")
    right.set_xticks([0, 0.5, 1])
    right.set_xlabel("Recall1@10, all lists\n(more is better)")
    left.set_yticks(range(len(rows)), [family if step is None else step for family, step, _ in rows])
    for label, (_, step, _found) in zip(left.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if step is None else "normal")
    left.set_ylim(len(rows) - 0.4, -0.6)
    if len(kinds) > 1:
        handles = [Patch(facecolor=GREY, alpha=_alpha(kind), label=CODEBOOKS[kind]) for kind in kinds]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _draw_bars(axes: Axes, rows: Any, kinds: Sequence[str], value: Callable[[Result], float]) -> None:
    """Draw bars, each followed by its number."""
    height = 0.84 / len(kinds)
    for position, (family, _step, found) in enumerate(rows):
        for number, kind in enumerate(kinds):
            if kind in found:
                length, middle = value(found[kind]), position + (number - 0.5 * (len(kinds) - 1)) * height
                axes.barh(middle, length, height, color=LOOKS[family].colour, alpha=_alpha(kind))
                axes.annotate(
                    f"{length:.3f}",
                    (length, middle),
                    (2, -0.5),
                    textcoords="offset points",
                    va="center",
                    fontsize=7.5,
                )
    axes.margins(x=0.28)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))


def _alpha(kind: str) -> float:
    """Return the opacity of bars; those of shared codebooks are paler."""
    return 1.0 if kind == "per_list" else 0.45


def draw_bits(result: Result) -> Figure:
    """Draw Recall1@1 by bits per vector, of the code alone and with its codebooks."""
    entries = result["equal_bits"]
    kinds = [kind for kind in CODEBOOKS if any(entry["codebooks"] == kind for entry in entries)]
    shapes = dict(zip(dict.fromkeys(map(code_shape, entries)), "osD^vX<>P*", strict=False))
    figure = Figure((WIDTH, 4.4))
    figure.suptitle(heading(result, "codes only, all lists"), fontsize=9.5)
    panels = np.atleast_1d(figure.subplots(1, len(kinds), sharey=True, sharex=True))
    for axes, kind in zip(panels, kinds, strict=True):
        for entry in (entry for entry in entries if entry["codebooks"] == kind):
            _draw_code(axes, entry, recall(entry, result, 1), shapes[code_shape(entry)])
        axes.set(title=CODEBOOKS[kind], xlabel="bits per vector")
        count_axis(axes, bit_ticks(entries))
        axes.grid(True)
    panels[0].set_ylabel("Recall1@1")
    names = dict.fromkeys(entry["method"] for entry in entries)
    handles: list[Any] = [Patch(color=LOOKS[name].colour, label=name) for name in names]
    hollow = Line2D([], [], color=GREY, marker="o", markerfacecolor="white", linestyle="none")
    hollow.set_label("hollow: with the codebooks")
    handles.append(hollow)
    for shape, marker in shapes.items():
        handles.append(Line2D([], [], color=GREY, marker=marker, linestyle="none", label=shape))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def code_shape(entry: Result) -> str:
    """Return the settings of a code without the name of its method."""
    return present_label(entry["label"]).removeprefix(f"{entry['method']}, ")


def _draw_code(axes: Axes, entry: Result, height: float, marker: str) -> None:
    """Draw one code: a filled marker at its bits, a hollow one with its share of the codebooks."""
    colour = LOOKS[entry["method"]].colour
    code, books = float(entry["code_bits"]), float(entry["codebook_bits"])
    axes.plot([code, code + books], [height, height], color=colour, linewidth=0.8, zorder=1)
    axes.plot(code + books, height, marker, color=colour, markerfacecolor="white")
    axes.plot(code, height, marker, color=colour)


def bit_ticks(entries: Sequence[Result]) -> list[int]:
    """Return at most five round numbers that cover the bits of all codes with codebooks."""
    least = min(float(entry["code_bits"]) for entry in entries)
    most = max(float(entry["code_bits"]) + float(entry["codebook_bits"]) for entry in entries)
    steps = [int(10**power * step) for power in range(1, 6) for step in (1, 1.5, 2, 3, 4, 6, 8)]
    ticks = [tick for tick in steps if 0.95 * least <= tick <= 1.05 * most]
    return ticks[:: -(-len(ticks) // 5)]


FIGURES: dict[str, tuple[str, Callable[[Result], Figure]]] = {
    "errors": ("methods", draw_errors),
    "recall": ("methods", draw_recall),
    "probes": ("probes", draw_probes),
    "ablation": ("ablation", draw_ablation),
    "bits": ("equal_bits", draw_bits),
}
