"""What the contestants of peers.py have in common: settings, and the interface of an index."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

K = 10
Kind = dict[str, Any]  # the options that an index is built with, besides its number of lists


@dataclass(frozen=True)
class Setting:
    """The setting of a search: lists (or graph nodes) to visit, and candidates to rerank, if any."""

    width: int
    rerank: int | None = None


class Contestant:
    """An index of one library: built once, configured by a setting, searched."""

    package = ""  # its name on PyPI
    module = ""
    needs = ""  # a name that only newer versions of the module have
    has_lists = True
    narrowest = 1
    # A middle value comes first, because its time limits the time spent on the others.
    reranks: Sequence[int | None] = (100, 50, 200, 25, 400, 800)

    def __init__(self, kind: Kind, n_lists: int | None) -> None:
        self.kind, self.n_lists = kind, n_lists
        self.index: Any = None
        self.count = 0

    @property
    def widest(self) -> int:
        """The largest width that is worth trying."""
        return self.n_lists or 4096

    def build(self, vectors: np.ndarray, metric: str) -> None:
        """Build the index of all vectors."""
        raise NotImplementedError

    def prepare(self, queries: np.ndarray) -> np.ndarray:
        """Return queries in the form that the index needs; not timed."""
        return queries

    def configure(self, setting: Setting) -> None:
        """Set the setting of the next searches."""
        raise NotImplementedError

    def search(self, queries: np.ndarray) -> np.ndarray:
        """Return (n_queries, K) ids of the best rows of a batch of queries."""
        raise NotImplementedError

    def search_one(self, query: np.ndarray) -> np.ndarray:
        """Return the ids of the best rows of a single query."""
        raise NotImplementedError

    def bytes_per_vector(self) -> float:
        """Return the size of the serialized index per vector: all data that a search needs."""
        raise NotImplementedError

    def code_bytes(self) -> float | None:
        """Return the bytes of a vector's code alone, or None."""
        return None


def saved_size(save: Callable[[Path], Any]) -> int:
    """Return the total size of the files that are saved to a folder, in bytes."""
    with tempfile.TemporaryDirectory() as scratch:
        save(Path(scratch))
        return sum(path.stat().st_size for path in Path(scratch).rglob("*") if path.is_file())


class RabitqSearch(Contestant):
    """The base of the indexes of RaBitQLib, which are searched and saved alike."""

    package = module = "rabitqlib"

    def configure(self, setting: Setting) -> None:
        self.width = setting.width

    def search(self, queries: np.ndarray) -> np.ndarray:
        return self.index.search(queries, K, self.width, num_threads=1)[0]

    def search_one(self, query: np.ndarray) -> np.ndarray:
        return self.search(query[None])

    def bytes_per_vector(self) -> float:
        return saved_size(lambda folder: self.index.save(str(folder / "index"))) / self.count
