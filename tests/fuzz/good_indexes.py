"""Good indexes of many kinds, to forge copies of."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import pcpq

D, N, N_SMALL, N_QUERIES = 8, 400, 24, 12


def some_vectors(n: int, seed: int) -> Any:
    """Rows in a few clusters."""
    generator = np.random.default_rng(seed)
    centers = np.random.default_rng(9).normal(size=(9, D))
    return (centers[generator.integers(9, size=n)] + 0.5 * generator.normal(size=(n, D))).astype(np.float32)


VECTORS, QUERIES = some_vectors(N + N_SMALL, 0), some_vectors(N_QUERIES, 1)
STRANGE = QUERIES.copy()
STRANGE.reshape(-1)[::7] = np.resize([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0], STRANGE.size // 7 + 1)
FAST = {"max_iterations": 2, "gain": False, "bias": False}  # the sample that decides on corrections takes long
CODINGS: dict[str, dict[str, Any]] = {
    "plain": {"quantizer": pcpq.PQ(section_size=2, **FAST)},
    "scaled": {"quantizer": pcpq.QPCPQ(section_size=2, max_iterations=2, gain=True, bias=True)},
    "unpacked": {"quantizer": pcpq.PQ(section_size=2, n_centers=70, **FAST)},
    "unpacked scales": {"quantizer": pcpq.QPCPQ(section_size=4, n_centers=30, n_scales=20, **FAST)},
    "exact": {"quantizer": pcpq.PCPQ(section_size=4, max_iterations=2, gain=True, bias=True)},
    "vector": {
        "quantizer": pcpq.QPCPQ(section_size=4, n_centers=20, scales_per="vector", **FAST),
        "rotation": "random",
    },
    "norm": {"quantizer": pcpq.PQ(section_size=3, n_centers=8, norm_scale=True, **FAST)},
    "own plain": {"quantizer": pcpq.PQ(section_size=2, n_centers=4, **FAST), "codebooks": "per_list"},
    "own scaled": {"quantizer": pcpq.QPCPQ(section_size=4, n_centers=4, **FAST), "codebooks": "per_list"},
    "own exact": {"quantizer": pcpq.PCPQ(section_size=2, n_centers=4, **FAST), "codebooks": "per_list"},
    "wide": {"quantizer": pcpq.PQ(section_size=2, n_centers=40, max_iterations=2, gain=True, bias=True)},
    "wide scales": {"quantizer": pcpq.QPCPQ(section_size=3, n_centers=20, n_scales=3, **FAST)},
    "projected": {"quantizer": pcpq.PQ(section_size=2, **FAST), "code_dimensions": 5},
    "own wide": {"quantizer": pcpq.PQ(section_size=3, n_centers=17, **FAST), "codebooks": "per_list"},
}
LISTS = (3, 8, 16, 32)
KEEPS = (None, "int8", "int16", "float16", "float32")
METRICS = ("dot", "euclidean", "cosine")


def variants() -> dict[str, dict[str, Any]]:
    """Return every coding with every number of lists; precisions, metrics, ids and parts alternate."""
    found = {}
    for (c, coding), (n, n_lists) in product(enumerate(CODINGS), enumerate(LISTS)):
        found[f"{coding}, {n_lists} lists"] = CODINGS[coding] | {
            "n_lists": n_lists,
            "keep": KEEPS[(c + 2 * n) % 5],
            "metric": METRICS[(c + n) % 3],
            "words": (c + n) % 4 == 1,
            "parts": (c // 2 + n) % 2 == 0,
        }
    return found


VARIANTS = variants()


class Indexes:
    """Good indexes, built on first use, and a copy of one to forge."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.tried = directory, directory / f"tried-{os.getpid()}"
        # Another index, searched in between: nothing of it may ever be found in the one that is tried.
        self.other = pcpq.Index(metric="dot", n_lists=8, quantizer=pcpq.PQ(section_size=2, max_iterations=1))
        self.other.fit(VECTORS).add(VECTORS, np.arange(N + N_SMALL) + 10**15)

    def good(self, name: str) -> Path:
        """The directory of a variant."""
        path = self.directory / name.replace(" ", "-")
        if not path.exists():
            options = dict(VARIANTS[name])
            words, parts = options.pop("words"), options.pop("parts")
            ids = [f"wörd {i}" for i in range(N + N_SMALL)] if words else list(range(N + N_SMALL))
            index = pcpq.Index(**options).fit(VECTORS[:N], threads=1)
            index.add(VECTORS[:N], ids[:N])
            if parts:
                index.add(VECTORS[N:], ids[N:])
                index.remove(ids[3:40:4])
            new = path.with_name(f"{path.name}-{os.getpid()}")
            index.save(new)
            with suppress(OSError):  # made by another process in the meantime
                new.rename(path)
        return path

    def copy(self, name: str) -> Path:
        """A copy to forge."""
        good = self.good(name)
        shutil.rmtree(self.tried, ignore_errors=True)
        shutil.copytree(good, self.tried)
        return self.tried


@contextmanager
def good_indexes() -> Iterator[Indexes]:
    """Yield good indexes in a temporary directory, in memory where the system has one."""
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="pcpq-fuzz-", dir=where) as directory:
        yield Indexes(Path(directory))
