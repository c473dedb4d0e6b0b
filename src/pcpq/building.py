"""Where an index comes from: vectors, or a directory."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np

from pcpq import _core
from pcpq.config import IndexConfig
from pcpq.index import Index, Progress, index_of, opened_index, state_of
from pcpq.io.arrays import as_vectors
from pcpq.io.streams import Stream
from pcpq.search.recall_curve import FEW
from pcpq.store.state import State
from pcpq.store.store import Store
from pcpq.tuning.budget import MANY, design_for
from pcpq.tuning.ground_truth import ExactAnswers, TuningQueries, queries_for
from pcpq.tuning.measure import measure

logger = logging.getLogger("pcpq")


def build(
    vectors: Any,
    ids: Any = None,
    *,
    metric: str,
    attributes: Any = None,
    queries: Any = None,
    bytes_per_vector: float | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **parameters: Any,
) -> Index:
    """Fit an index on a sample of the vectors, add all of them, and measure what searches find.

    Parameters
    ----------
    vectors, ids, attributes, threads, progress : as in Index.add
    queries : (n, d) some of the kind that will be asked, for target_recall to hold for them; None: they will be
        like the vectors
    bytes_per_vector : instead of quantizer and keep: the best that fits; `stats()["chosen"]` says what and why
    parameters : those of Index
    """
    stream = Stream(vectors)
    index, asked = learn(stream, metric, queries, bytes_per_vector, threads, parameters)
    state = state_of(index)
    exact = ExactAnswers(state.snapshot.trained, asked) if len(asked) else None
    look = None if exact is None else exact.look_at_rows
    given = index._insert(stream, ids, attributes, False, threads, progress, look)
    if exact is not None and len(index) > FEW:
        numbers = given if state.kind == "int" else np.arange(len(given))
        truth = exact.truth().renumbered(numbers)
        _core.release_memory()
        curve = measure(state.snapshot, asked.renumbered(numbers), truth, threads)
        state.know(curve, state.snapshot.trained)
    return index


def learn(
    stream: Stream,
    metric: str,
    queries: Any,
    bytes_per_vector: float | None,
    threads: int | None,
    parameters: dict[str, Any],
) -> tuple[Index, TuningQueries]:
    """An index fitted on a sample of vectors that are yet to be added, and what to measure it by then."""
    if bytes_per_vector is not None:
        for name in ("quantizer", "keep"):
            if name in parameters:
                raise ValueError(f"bytes_per_vector is {bytes_per_vector}, and {name} is given too")
        design, chosen = design_for(bytes_per_vector, stream.dimensions, stream.length)
        parameters = parameters | {
            "quantizer": design.quantizer(stream.dimensions),
            "keep": design.keep,
            "chosen": chosen,
        }
        logger.info("chosen: %s", chosen)
    config = IndexConfig(metric=metric, **parameters)
    if queries is not None:
        queries = as_vectors(queries, "queries")
        if queries.shape[1] != stream.dimensions:
            found = f"queries have {queries.shape[1]} dimensions"
            raise ValueError(f"{found}, the vectors have {stream.dimensions}")
    state, held_out = State.fit(config, stream, None, threads, hold_out=queries is None)
    index = index_of(config, state)
    if queries is None:
        return index, TuningQueries.held_out(held_out)
    most = queries_for(stream.length or MANY)
    asked, _ = TuningQueries.given(queries, None, most, index.seed)
    return index, asked


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
    directory = Path(path).absolute()
    store = Store.writable(directory) if mode == "a" else Store(directory)
    try:
        return opened_index(store)
    except BaseException:
        store.close()
        raise
