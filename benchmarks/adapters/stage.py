"""The packages in which adapters live inside the projects, around the files that are here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import bases

HERE = Path(__file__).parent
ROOTS = ("ann_benchmarks", "vibe", "benchmark", "neurips23")


@contextmanager
def staged(datasets: dict[str, Callable[[], Any]] | None = None) -> Iterator[None]:
    """While it lasts, adapters are imported by the names that the projects have for them."""
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in ROOTS}
    for project, base in (("ann_benchmarks", bases.AnnBenchmarksANN), ("vibe", bases.VibeANN)):
        put(project)
        put(f"{project}.algorithms")
        put(f"{project}.algorithms.base")
        put(f"{project}.algorithms.base.module", BaseANN=base)
        put(f"{project}.algorithms.pcpq", HERE / project)
    put("benchmark", HERE / "big_ann" / "benchmark")
    put("benchmark.algorithms", HERE / "big_ann" / "benchmark" / "algorithms")
    put("benchmark.algorithms.base", BaseANN=bases.BigANN)
    put("benchmark.datasets", DATASETS=datasets or {})
    put("neurips23", HERE / "big_ann" / "neurips23")
    for track, names in (
        ("ood", {"BaseOODANN": bases.OutOfDistributionANN}),
        ("filter", {"BaseFilterANN": bases.FilterANN}),
        ("streaming", {"BaseStreamingANN": bases.StreamingANN}),
    ):
        put(f"neurips23.{track}", HERE / "big_ann" / "neurips23" / track)
        put(f"neurips23.{track}.base", **names)
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] in ROOTS]:
            del sys.modules[name]
        sys.modules.update(hidden)


def put(name: str, folder: Path | None = None, **contents: Any) -> None:
    """A package, of a folder if there is one, or a module if it has contents."""
    module = ModuleType(name)
    if not contents:
        module.__path__ = [] if folder is None else [str(folder)]
    vars(module).update(contents)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
