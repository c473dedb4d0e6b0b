"""What the projects' own base classes do, as far as adapters and runners rely on it; written anew.

The projects are not on PyPI. Inside them, adapters inherit from the classes of the same names.
"""

from __future__ import annotations

import resource
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any


def kilobytes_used() -> float:
    """Memory of this process."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize() / 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


class VibeANN:
    """vibe.algorithms.base.module.BaseANN."""

    name: str
    res: Any

    def get_memory_usage(self) -> float | None:
        """In kilobytes."""
        return kilobytes_used()

    def batch_query(self, X: Any, n: int) -> None:
        """Many queries; one by one on many threads, unless an adapter knows better."""
        with ThreadPool() as pool:
            self.res = pool.map(lambda query: self.query(query, n), X)  # type: ignore[attr-defined]

    def get_batch_results(self) -> Any:
        """What batch_query found."""
        return self.res

    def get_additional(self) -> dict[str, Any]:
        """To be stored with results."""
        return {}

    def __str__(self) -> str:
        return self.name


class AnnBenchmarksANN(VibeANN):
    """ann_benchmarks.algorithms.base.module.BaseANN."""

    def fit(self, X: Any) -> None:
        """Build."""

    def query(self, q: Any, n: int) -> Any:
        """The n nearest of one query."""
        return []

    def done(self) -> None:
        """After everything else."""


class BigANN:
    """benchmark.algorithms.base.BaseANN."""

    name: str
    res: Any

    def done(self) -> None:
        """After everything else."""

    def track(self) -> str:
        """T1, T2 or T3."""
        raise NotImplementedError

    def fit(self, dataset: str) -> None:
        """Build from the data set of this name; afterwards the index is in memory."""
        raise NotImplementedError

    def load_index(self, dataset: str) -> bool:
        """Whether there was an index for the data set of this name."""
        raise NotImplementedError

    def index_files_to_store(self, dataset: str) -> Any:
        """A folder, what names begin with, and the names."""
        raise NotImplementedError

    def query(self, X: Any, k: int) -> None:
        """The k nearest of many queries."""
        raise NotImplementedError

    def range_query(self, X: Any, radius: float) -> None:
        """All within a distance of many queries."""
        raise NotImplementedError

    def get_results(self) -> Any:
        """(n, k) numbers."""
        return self.res

    def get_range_results(self) -> Any:
        """Limits, distances and numbers."""
        return self.res

    def get_additional(self) -> dict[str, Any]:
        """To be stored with results."""
        return {}

    def get_memory_usage(self) -> float | None:
        """In kilobytes."""
        return kilobytes_used()

    def __str__(self) -> str:
        return self.name


class OutOfDistributionANN(BigANN):
    """neurips23.ood.base.BaseOODANN."""

    def track(self) -> str:
        """Its name."""
        return "ood"


class FilterANN(BigANN):
    """neurips23.filter.base.BaseFilterANN."""

    def filtered_query(self, X: Any, filter: Any, k: int) -> None:
        """The k nearest of those that have all that row i of `filter` asks for."""
        raise NotImplementedError


class StreamingANN(BigANN):
    """neurips23.streaming.base.BaseStreamingANN."""

    def track(self) -> str:
        """Its name."""
        return "stream"

    def setup(self, dtype: str, max_pts: int, ndims: int) -> None:
        """Before everything else."""
        raise NotImplementedError

    def insert(self, X: Any, ids: Any) -> None:
        """Add vectors."""
        raise NotImplementedError

    def delete(self, ids: Any) -> None:
        """Remove vectors."""
        raise NotImplementedError

    def load_index(self, dataset: str) -> bool:
        """Never: a stream begins with nothing."""
        return False
