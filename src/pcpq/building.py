"""Functions that build an index from vectors, or open a stored one."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np

from pcpq import _core
from pcpq.config import DEFAULT_KEEP, IndexConfig
from pcpq.index import Index, index_of, opened_index, state_of
from pcpq.io.arrays import as_vectors
from pcpq.io.streams import Stream
from pcpq.quantizers import Quantizer
from pcpq.search.recall_curve import FEW
from pcpq.store.changes import GivenRows, Progress
from pcpq.store.state import State
from pcpq.store.store import Store
from pcpq.tuning.budget import MANY, design_for
from pcpq.tuning.ground_truth import ExactAnswers, TuningQueries, queries_for
from pcpq.tuning.measure import measure
from pcpq.util.progress import reported
from pcpq.util.threads import available_threads

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
    progress: Progress | bool | None = None,
    quantizer: Quantizer | None = None,
    n_lists: int | None = None,
    rotation: str | None = None,
    codebooks: str = "shared",
    keep: str | None = DEFAULT_KEEP,
    lists_per_vector: int | None = None,
    code_dimensions: int | None = None,
    seed: int = 0,
) -> Index:
    """Build an index in memory: train on a sample of the vectors, add all of them, and measure recall.

    Parameters
    ----------
    vectors : (n, d) floats, int8 or uint8: an array, a memory map, a tensor, a data frame or an Arrow column;
        or an iterable of (n_i, d) batches, which is read once
    ids : (n,) int or str, no two equal; None: 0 to n - 1
    metric : "dot" (inner product), "cosine" or "euclidean"
    attributes : an Arrow table, a data frame or a dict of columns, with one row per vector, for conditions
        (`where`) and `get`; needs the extra `attributes`
    queries : (m, d) floats, a sample of the queries that the index will serve; recall is then measured with
        them. None: recall is measured with vectors that are held back from training
    bytes_per_vector : memory budget in bytes per vector. Quantizer and precision (keep) are chosen to fit.
        `stats()["chosen"]` reports this and other choices. It cannot be combined with `quantizer`, `keep`,
        `lists_per_vector` or `code_dimensions`
    threads : number of threads; None: all CPUs of the process
    progress : True: show a bar on standard error; or a function, called as progress(done, total) with numbers
        of vectors; total is None if it is unknown
    quantizer : an unfitted quantizer for the residuals of the lists, such as pcpq.PQ(section_size=3). Codes
        with at most 16 codewords and 16 scales per section are scanned fastest. None: QPCPQ(section_size=2)
        with 16 scales if keep is None; otherwise PQ(section_size=2), or, for 40,000 vectors and more on a
        processor with AVX-512 (VBMI), PQ(section_size=3, n_centers=64), which it scans faster (sections of 4
        from 192 dimensions on, of 6 from 384 on)
    n_lists : number of inverted lists; None: twice the square root of the number of vectors
    rotation : rotation of vectors before they are split into sections: None, "random", or "learned" from the
        codes
    codebooks : "shared": one codebook for all lists; "per_list": one for each list, as in the paper (slower)
    keep : precision of the vectors that are kept for reranking: "int8", "int16" (default), "float16",
        "float32", or None to keep codes only
    lists_per_vector : 1, or 2: each vector has a second code, in another list that is near to it. A search then
        finds the same in fewer lists, above all among embeddings of text. Codes take twice the memory, and
        vectors must be kept. None: 2 if a sample shows that it pays, for 100,000 vectors and more
    code_dimensions : number of coordinates that lists and codes are made of: those of largest variance, along
        the principal axes. Candidates are reranked by whole vectors, which must be kept. None: fewer than
        the vectors have if a sample shows that these suffice, for 40,000 vectors and more of 96 to 2,048
        dimensions, unless `quantizer` or `rotation` is given
    seed : seed of all random choices (default 0); equal seeds and vectors give equal indexes

    Returns
    -------
    index : a fitted pcpq.Index with all vectors. It is in memory; `save` writes it to a directory
    """
    available_threads(threads)
    stream = Stream(vectors)
    config = config_for(
        stream,
        bytes_per_vector,
        metric=metric,
        quantizer=quantizer,
        n_lists=n_lists,
        rotation=rotation,
        codebooks=codebooks,
        keep=keep,
        lists_per_vector=lists_per_vector,
        code_dimensions=code_dimensions,
        seed=seed,
    )
    rows = GivenRows.of(ids, attributes, stream.length, None)  # before training, which takes long
    with reported(progress, "adding vectors", "measuring recall", "learning from a sample") as report:
        index, asked = learn(stream, config, queries, threads)
        state = state_of(index)
        exact = ExactAnswers(state.snapshot.trained, asked) if len(asked) else None
        observe = None if exact is None else exact.observe_rows
        given = state.add(stream, rows, None, threads=threads, progress=report, observe=observe)
        if exact is not None and len(index) > FEW:
            numbers = given if state.kind == "int" else np.arange(len(given))
            truth = exact.truth().renumbered(numbers)
            _core.release_memory()
            curve = measure(state.snapshot, asked.renumbered(numbers), truth, threads)
            state.set_recall_curve(curve, state.snapshot.trained)
    return index


def config_for(
    stream: Stream,
    bytes_per_vector: float | None,
    *,
    metric: str,
    quantizer: Quantizer | None,
    n_lists: int | None,
    rotation: str | None,
    codebooks: str,
    keep: str | None,
    lists_per_vector: int | None = None,
    code_dimensions: int | None = None,
    seed: int,
) -> IndexConfig:
    """Return the settings of an index to build; a memory budget determines quantizer and `keep`."""
    chosen = None
    if bytes_per_vector is not None:
        given = {
            "quantizer": quantizer is not None,
            "keep": keep is not DEFAULT_KEEP,
            "lists_per_vector": lists_per_vector is not None,
            "code_dimensions": code_dimensions is not None,
        }
        for name, is_given in given.items():
            if is_given:
                raise ValueError(f"bytes_per_vector is {bytes_per_vector}, and {name} is given too")
        design, chosen = design_for(bytes_per_vector, stream.dimensions, stream.length)
        quantizer, keep, lists_per_vector = design.quantizer(stream.dimensions), design.keep, 1
        logger.info("chosen: %s", chosen)
    return IndexConfig(
        metric=metric,
        quantizer=quantizer,
        n_lists=n_lists,
        rotation=rotation,
        codebooks=codebooks,
        keep=str(keep) if keep is DEFAULT_KEEP else keep,
        lists_per_vector=lists_per_vector,
        code_dimensions=code_dimensions,
        seed=seed,
        chosen=chosen,
    )


def learn(
    stream: Stream, config: IndexConfig, queries: Any, threads: int | None
) -> tuple[Index, TuningQueries]:
    """Fit an index on a sample of vectors that are added later; return it and the queries to measure it by."""
    if queries is not None:
        queries = as_vectors(queries, "queries")
        if queries.shape[1] != stream.dimensions:
            found = f"queries have {queries.shape[1]} dimensions"
            raise ValueError(f"{found}, the vectors have {stream.dimensions}")
    state, held_out = State.fit(config, stream, None, threads, hold_out=queries is None, queries=queries)
    index = index_of(config, state)
    if queries is None:
        return index, TuningQueries.held_out(held_out)
    most = queries_for(stream.length or MANY)
    asked, _ = TuningQueries.given(queries, None, most, index.seed)
    return index, asked


def open_index(path: str | os.PathLike[str], mode: str = "r") -> Index:
    """Open a stored index. Its files are mapped into memory and read when a search needs them.

    Parameters
    ----------
    path : the directory of the index
    mode : "r": search only. "a": search and change; one process at a time can open an index in this mode
        (others get a LockedError), and changes are stored by `commit`

    Returns
    -------
    index : a pcpq.Index. It is a context manager that closes itself
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
