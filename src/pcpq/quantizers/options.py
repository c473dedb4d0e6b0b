"""Options of a quantizer: checked constructor parameters, with "auto" replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pcpq.io.arrays import Float32Array
from pcpq.quantizers.clustering import SEEDINGS
from pcpq.util.validation import whole_number

# The meaning of "auto": OURS by default, PAPER with paper=True.
OURS: dict[str, Any] = {
    "init": "k-means++",
    "assignment": "loss",
    "refine": True,
    "shared_scales": False,
    "encoding": "whole",
}
PAPER: dict[str, Any] = {
    "init": "k-means++",
    "assignment": "distance",
    "refine": False,
    "shared_scales": True,
    "encoding": "section",
    "gain": False,
    "bias": False,
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "init": SEEDINGS,
    "assignment": ("loss", "distance"),
    "refine": (True, False),
    "shared_scales": (True, False),
    "encoding": ("whole", "section"),
    "gain": (True, False, "auto"),
    "bias": (True, False, "auto", "anchor"),
    "scales_per": ("section", "vector"),
    "norm_scale": (True, False),
    "paper": (True, False),
}


@dataclass(frozen=True)
class Options:
    """Checked options of a quantizer. `gain` and `bias` may still be "auto": they are chosen on a sample."""

    anisotropic: bool
    scale: str  # "none" | "exact" | "quantized" | "vector" | "norm"
    n_centers: int
    n_scales: int
    threshold: float
    init: str | Float32Array
    assignment: str
    refine: bool
    shared_scales: bool
    encoding: str
    gain: bool | str
    bias: bool | str
    paper: bool
    max_iterations: int
    training_rows: int
    seed: int | None
    threads: int | None

    @property
    def projective(self) -> bool:
        """Whether alpha is free while codewords are trained."""
        return self.scale in ("exact", "quantized", "vector")

    @property
    def whole(self) -> bool:
        """Whether the sections of a vector are encoded together."""
        return self.anisotropic and self.encoding == "whole" and self.scale != "vector"


def settle(anisotropic: bool, scale: str, parameters: dict[str, Any]) -> Options:
    """Check the parameters and replace every "auto" that needs no data."""
    given = dict(parameters)
    table = PAPER if given["paper"] is True else OURS
    explicit_encoding = given.get("encoding", "auto") != "auto"
    for name, allowed in CHOICES.items():
        if name not in given:
            continue
        if given[name] is None or (isinstance(given[name], str) and given[name] == "auto"):
            given[name] = table.get(name, "auto")
        if name == "init" and not isinstance(given[name], str):
            given[name] = np.asarray(given[name], np.float32)
        elif not any(given[name] is choice or given[name] == choice for choice in allowed):
            raise ValueError(f"{name} is {given[name]!r}; expected one of {', '.join(map(repr, allowed))}")
    if scale == "quantized" and given["scales_per"] == "vector":
        scale = "vector"
        if explicit_encoding and given.get("encoding") == "whole":
            raise ValueError("encoding='whole' needs scales_per='section', not 'vector'")
    if scale == "none" and given["norm_scale"]:
        scale = "norm"
    most = {"none": 65536, "norm": 65536}.get(scale, 256)
    n_centers = whole_number("n_centers", given["n_centers"], 2, most)
    threshold = float(given.get("threshold", 0.0))
    if not 0.0 <= threshold < 1e6:
        raise ValueError(f"threshold is {threshold}; expected a number from 0, relative to the mean norm")
    rows = given["training_rows"]
    seed = given["seed"]
    return Options(
        anisotropic=anisotropic,
        scale=scale,
        n_centers=n_centers,
        n_scales=whole_number("n_scales", given.get("n_scales", 1), 1, 256),
        threshold=threshold,
        init=given["init"],
        assignment=given.get("assignment", "loss"),
        refine=given["refine"],
        shared_scales=given.get("shared_scales", True),
        encoding=given.get("encoding", "section"),
        gain=given["gain"],
        bias=given["bias"],
        paper=given["paper"],
        max_iterations=whole_number("max_iterations", given["max_iterations"], 0, 100_000),
        training_rows=max(65_536, 40 * n_centers)
        if rows is None
        else whole_number("training_rows", rows, 1, 1 << 40),
        seed=None if seed is None else whole_number("seed", seed, 0, (1 << 63) - 1),
        threads=None if given["threads"] is None else whole_number("threads", given["threads"], 1, 4096),
    )
