"""Where an index comes from: vectors, or a directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pcpq.index import Index, Progress
from pcpq.storage.store import Store
from pcpq.streams import Stream


def build(
    vectors: Any,
    ids: Any = None,
    *,
    metric: str,
    attributes: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **parameters: Any,
) -> Index:
    """Fit an index on a sample of the vectors and add all of them. `parameters` are those of Index."""
    index = Index(metric=metric, **parameters)
    stream = Stream(vectors)
    index.fit(stream, threads=threads)
    index.add(stream, ids, attributes=attributes, threads=threads, progress=progress)
    return index


def open_index(path: str | os.PathLike[str], mode: str = "r") -> Index:
    """Open an index that was saved.

    Parameters
    ----------
    path : the directory
    mode : "r": to search it; files are mapped, and read when they are wanted. "a": to change it as well; one
        process at a time can, and what it commits lasts
    """
    if mode not in ("r", "a"):
        raise ValueError(f"mode is {mode!r}; expected 'r' or 'a'")
    directory = Path(path)
    store = Store.writable(directory) if mode == "a" else Store(directory)
    try:
        index = Index(metric="dot")  # whatever: the manifest says
        index._show(store, *store.load())
    except BaseException:
        store.close()
        raise
    return index
