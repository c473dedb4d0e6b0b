"""Figures of the paper that need no data set: the four clusterings, best scalings, weights of the loss.

The style of all figures is defined here too. Functions that return arrays compute what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from pcpq import APCPQ, APQ, PCPQ, PQ
from pcpq.io.arrays import Float32Array
from pcpq.quantizers import Quantizer
from pcpq.quantizers.loss import anisotropic_weights, log_full_integral

Float64Array = NDArray[np.float64]

# Palette of Okabe and Ito, suitable for color-blind readers.
BLACK, GREY, BLUE, SKY, GREEN = "#000000", "#777777", "#0072B2", "#56B4E9", "#009E73"
ORANGE, VERMILLION, PURPLE = "#E69F00", "#D55E00", "#CC79A7"

WIDTH = 5.2  # inches; at half of a page, letters are still 6 points high
STYLE = {
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",  # part of matplotlib, so figures are the same on all machines
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 5.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "pcpq",
}


@contextmanager
def shared_look() -> Iterator[None]:
    """Apply the style of figures on top of matplotlib's defaults, without the settings of the user."""
    with matplotlib.style.context(["default", STYLE]):
        yield


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG with reproducible bytes; return the paths."""
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    figure.savefig(png, dpi=150, metadata={"Software": None})
    figure.set_layout_engine("none")  # keep the layout of the PNG
    figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return [png, svg]


def draw_illustrations(folder: Path) -> list[Path]:
    """Draw all figures of this module; return the paths."""
    drawn = {"clustering": draw_clustering, "scaling": draw_scaling, "weights": draw_weights}
    return [path for name, draw in drawn.items() for path in save(draw(), folder, name)]


# Figure 1: four clusterings of points in a plane.

CLUSTERING_THRESHOLD = 0.5  # times the mean norm; high, so that its effect is visible


@dataclass(frozen=True)
class Clustering:
    """Points in a plane and their approximations by two codewords."""

    title: str
    projective: bool
    points: Float32Array  # (n, 2)
    codewords: Float32Array  # (2, 2)
    assigned: NDArray[np.integer[Any]]  # (n,)
    approximations: Float32Array  # (n, 2)


def plane_points() -> Float32Array:
    """Return (18, 2) points in two groups of directions, with lengths from 1 to 2."""
    generator = np.random.default_rng(3)
    lengths = np.tile(np.linspace(1.0, 2.0, 9), 2)
    spread = np.concatenate([generator.permutation(np.linspace(-32, 32, 9)) for _ in range(2)])
    angles = np.deg2rad(np.repeat([8.0, 88.0], 9) + spread)
    return np.stack([lengths * np.cos(angles), lengths * np.sin(angles)], axis=1).astype(np.float32)


def four_clusterings() -> list[Clustering]:
    """Return the four clusterings, by the public quantizers with two codewords in one section of size 2."""
    common: dict[str, Any] = {"section_size": 2, "n_centers": 2}
    weighed = {**common, "threshold": CLUSTERING_THRESHOLD}
    titles: dict[str, Quantizer] = {
        "k-clustering (PQ)": PQ(**common),
        "projective (PCPQ)": PCPQ(**common),
        "anisotropic (APQ)": APQ(**weighed),
        "anisotropic projective (APCPQ)": APCPQ(**weighed),
    }
    points = plane_points()
    panels = []
    for title, quantizer in titles.items():
        codes = quantizer.fit(points).encode(points)
        approximations = quantizer.decode(codes)
        projective = quantizer.scale == "exact"
        found = (quantizer.codewords_[0], codes.codes[:, 0], approximations)
        panels.append(Clustering(title, projective, points, *found))
    return panels


def draw_clustering() -> Figure:
    """Draw points, codewords or lines, and approximations; isotropic above, anisotropic below."""
    figure = Figure((WIDTH, 5.6))
    panels = four_clusterings()
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(2, 2, i + 1)
        _draw_panel(axes, panel)
        if i >= 2:
            _draw_shift(axes, panels[i - 2], panel)
    looks = {
        "points of one cluster": (BLUE, "o"),
        "points of the other": (VERMILLION, "s"),
        "what approximates them": (BLACK, "x"),
        "the same in the panel above": (GREY, "x"),
    }
    figure.legend(
        handles=[
            Line2D([], [], color=colour, marker=marker, linestyle="none", label=label)
            for label, (colour, marker) in looks.items()
        ],
        loc="outside lower center",
        ncols=2,
        title=rf"anisotropic: queries with ⟨q, x⟩ ≥ t = {CLUSTERING_THRESHOLD} $\times$ mean norm count",
        title_fontsize=9,
    )
    return figure


def _draw_panel(axes: Axes, panel: Clustering) -> None:
    """Draw one clustering."""
    axes.set_title(panel.title)
    axes.set_aspect("equal")
    axes.set(xlim=(-1.0, 2.2), ylim=(-0.8, 2.2), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.plot(0, 0, "+", color=BLACK, markersize=8)
    axes.annotate("origin", (0, 0), (4, -4), textcoords="offset points", va="top", fontsize=8.5)
    for code, colour, marker in zip((0, 1), (BLUE, VERMILLION), "os", strict=True):
        mine = panel.assigned == code
        points, ends = panel.points[mine], panel.approximations[mine]
        if panel.projective:
            axes.axline((0, 0), tuple(panel.codewords[code]), color=colour, linewidth=1, zorder=1)
        lines = np.stack([points, ends], axis=1).transpose(2, 1, 0)
        axes.plot(*lines, color=colour, linewidth=0.8, alpha=0.6)
        axes.plot(*points.T, marker, color=colour, markersize=4.5)
        axes.plot(*ends.T, "x", color=BLACK, markersize=_cross_size(panel), zorder=4)


def _draw_shift(axes: Axes, isotropic: Clustering, anisotropic: Clustering) -> None:
    """Draw the approximations under the isotropic loss."""
    axes.plot(*isotropic.approximations.T, "x", color=GREY, markersize=_cross_size(anisotropic), zorder=3)


def _cross_size(panel: Clustering) -> int:
    """Return the size of crosses, smaller if they are many points on a line."""
    return 4 if panel.projective else 8


# The best scaling of a codeword for one point.

POINT = (1.0, 0.0)
CODEWORD = (sqrt(0.5), sqrt(0.5))
SCALING_DIMENSIONS = 4
RELATIVE_THRESHOLDS = (0.0, 0.2, 0.5, 0.8, 1.0)


def best_scaling(ratio: Float64Array, point: Float64Array, codeword: Float64Array) -> Float64Array:
    """Return the alpha of least loss for orthogonal / parallel weights `ratio`, a fact of the paper.

    A ratio of 1 is the projection; 0, where only the query q = x counts, gives <alpha c, x> = |x|^2.
    """
    product = float(point @ codeword)
    along = product**2 / float(point @ point)
    return product / ((1.0 - ratio) * along + ratio * float(codeword @ codeword))


def scaling_curve(
    relative_thresholds: Float64Array, point: Float64Array, codeword: Float64Array, dimensions: int
) -> Float64Array:
    """Return the best alpha for thresholds t in units of |x|; for 1, its limit."""
    ratio = anisotropic_weights(relative_thresholds, dimensions)[1]
    return best_scaling(np.where(relative_thresholds < 1.0, ratio, 0.0), point, codeword)


def draw_scaling() -> Figure:
    """Draw a point and its approximations on a line (left), and alpha by threshold (right)."""
    figure = Figure((WIDTH, 3.5))
    left, right = figure.subplots(1, 2)
    point, codeword = np.array(POINT), np.array(CODEWORD)
    _draw_directions(left, point, codeword)
    steps = np.linspace(0.0, 1.0, 201)
    curve = scaling_curve(steps, point, codeword, SCALING_DIMENSIONS)
    right.plot(steps, curve, color=BLACK, linewidth=1, zorder=1)
    alphas = scaling_curve(np.array(RELATIVE_THRESHOLDS), point, codeword, SCALING_DIMENSIONS)
    labels = [f"t = {threshold} |x|" for threshold in RELATIVE_THRESHOLDS]
    labels[0], labels[-1] = "all queries: projection", r"only q = x: ⟨$\alpha$c, x⟩ = |x|²"
    for i, (colour, marker) in enumerate(zip((BLUE, SKY, GREEN, ORANGE, VERMILLION), "osD^v", strict=True)):
        end = alphas[i] * codeword
        left.plot(*np.stack([point, end], axis=1), color=colour, linewidth=1)
        left.plot(*end, marker, color=colour, zorder=3)
        dot = right.plot(RELATIVE_THRESHOLDS[i], alphas[i], marker, color=colour, label=labels[i])[0]
        dot.set_clip_on(False)
    right.set_title(f"in {SCALING_DIMENSIONS} dimensions")
    right.set(xlabel="threshold t / |x|", ylabel=r"best $\alpha$", xlim=(0, 1), ylim=(0.6, 1.5))
    right.grid(True)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _draw_directions(axes: Axes, point: Float64Array, codeword: Float64Array) -> None:
    """Draw the point and the line of the codeword."""
    axes.set_aspect("equal")
    axes.set(xlim=(-0.05, 1.25), ylim=(-0.1, 1.25), title=r"x and its approximations $\alpha$c")
    axes.set_axis_off()
    for end, name, offset in ((point, "x", (5, -3)), (1.65 * codeword, "c", (5, 0))):
        axes.annotate("", tuple(end), (0, 0), arrowprops={"arrowstyle": "->", "color": BLACK, "shrinkA": 0})
        axes.annotate(name, tuple(end), offset, textcoords="offset points", style="italic")


# The weights of the loss by a point's norm.

WEIGHTS_THRESHOLD, WEIGHTS_DIMENSIONS = 0.2, 4


def weight_curves(
    norms: Float64Array, threshold: float, dimensions: int
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return h parallel, h orthogonal and orthogonal / parallel for norms from the threshold up.

    The integrals end at arccos(t / y). With t / y, as printed in the paper, the ratio would not tend to 0 at
    y = t and to 1 for large y, which the appendix of the paper states.
    """
    log_parallel, ratio = anisotropic_weights(threshold / norms, dimensions)
    parallel = np.exp(log_parallel + log_full_integral(dimensions))
    ratio = np.where(norms > threshold, ratio, 0.0)  # at the threshold: the limit
    return parallel, ratio * parallel, ratio


def draw_weights() -> Figure:
    """Draw the two weights and their ratio."""
    figure = Figure((WIDTH, 3.2))
    axes = figure.add_subplot()
    norms = np.linspace(WEIGHTS_THRESHOLD, 2.0, 400)
    parallel, orthogonal, ratio = weight_curves(norms, WEIGHTS_THRESHOLD, WEIGHTS_DIMENSIONS)
    for values, label, colour, line, above in (
        (ratio, r"$h_\bot / h_\parallel$", BLACK, "-.", 6),
        (parallel, r"$h_\parallel$ (error along x)", VERMILLION, "-", 5),
        (orthogonal, r"$h_\bot$ (error across x)", BLUE, "--", -24),
    ):
        axes.plot(norms, values, color=colour, linestyle=line)
        axes.annotate(
            label, (2.0, values[-1]), (0, above), textcoords="offset points", ha="right", color=colour
        )
    axes.axvline(WEIGHTS_THRESHOLD, color=GREY, linewidth=1, linestyle=":")
    axes.text(WEIGHTS_THRESHOLD - 0.02, 1.0, "|x| = t", rotation=90, ha="right", va="top", color=GREY)
    axes.set(xlabel="norm |x|", ylabel="weight", xlim=(0, 2), ylim=(0, 1.02))
    axes.set_title(f"weights of the anisotropic loss, t = {WEIGHTS_THRESHOLD}, d = {WEIGHTS_DIMENSIONS}")
    axes.grid(True)
    return figure
