"""Conversion of Faiss indexes into pcpq indexes with the same vectors, ids and metric."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.building import build
from pcpq.errors import FormatError
from pcpq.index import Index
from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.foreign_arrays import LazyRows
from pcpq.io.ids import refuse_duplicates
from pcpq.segment.attributes import as_table

try:
    import faiss
except ImportError as missing:
    raise ImportError("from_faiss needs Faiss: pip install 'pcpq[faiss]'") from missing

METRICS = {faiss.METRIC_INNER_PRODUCT: "dot", faiss.METRIC_L2: "euclidean"}
# Classes that store float32 vectors one after the other. Other subclasses of IndexFlat may not.
PLAIN = (faiss.IndexFlat, faiss.IndexFlatL2, faiss.IndexFlatIP)
# Classes of graphs, whose vectors are stored in another index.
GRAPHS: tuple[type[Any], ...] = (faiss.IndexHNSW, faiss.IndexNSG, faiss.IndexNNDescent)

Rows = slice | NDArray[Any]


def from_faiss(
    index: Any,
    *,
    metric: str | None = None,
    lossy: bool = False,
    same_lists: bool = False,
    attributes: Any = None,
    **options: Any,
) -> Index:
    """Build an index from the vectors of a Faiss index, with the same ids and metric.

    Vectors are read from the Faiss index in batches, without a copy of all of them. Needs the extra `faiss`.

    Parameters
    ----------
    index : a Faiss index, or the path of a file that `faiss.write_index` wrote. Faiss does not check its files:
        open only files that you trust
    metric : None: the metric of the Faiss index, "dot" for inner products and "euclidean" for L2. "cosine": for
        an inner-product index of vectors of length 1
    lossy : True: accept approximate vectors, reconstructed from the codes of the Faiss index. False: this is an
        error
    same_lists : use as many lists as the Faiss index has
    attributes : an Arrow table, a data frame or a dict of columns, with one row per vector, in ascending order
        of ids
    options : parameters of pcpq.build, except ids and metric

    Returns
    -------
    index : a pcpq.Index in memory
    """
    if isinstance(index, (str, os.PathLike)):
        index = read(Path(index))
    refuse_others(index)
    held = held_by(index)
    if not held.exact and not lossy:
        kind = type(index).__name__
        raise ValueError(f"this {kind} holds only approximate vectors: lossy=True accepts what it reconstructs")
    if same_lists:
        options = {"n_lists": lists_of(index)} | options
    ids = held.ids
    if ids is not None:
        refuse_duplicates(ids)
        if attributes is not None:
            attributes = as_table(attributes, len(ids)).take(np.argsort(np.argsort(ids)))
    chosen = chosen_metric(metric, METRICS[index.metric_type], held.normalised)
    return build(held.rows, ids, metric=chosen, attributes=attributes, **options)


def read(path: Path) -> Any:
    """Return the Faiss index in a file, memory-mapped if Faiss can do that. Faiss does not check its files."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    problem: Exception | None = None
    for flags in (getattr(faiss, "IO_FLAG_MMAP_IFC", 0), 0):
        try:
            return faiss.read_index(str(path), flags)
        except RuntimeError as error:
            problem = error
    reason = str(problem).strip().splitlines()[-1]
    raise FormatError(f"{path}: not an index that Faiss reads: {reason}") from problem


def refuse_others(index: Any) -> None:
    """Raise a TypeError or ValueError unless an object is a Faiss index of float vectors in main memory."""
    kind = type(index).__name__
    if isinstance(index, faiss.IndexBinary):
        raise ValueError(f"a Faiss {kind} holds bits; pcpq holds floats")
    if kind.startswith("GpuIndex"):
        raise ValueError(f"this {kind} is on a GPU: give faiss.index_gpu_to_cpu(index)")
    if not isinstance(index, faiss.Index):
        raise TypeError(f"index is a {kind}; expected a Faiss index, or the path of one")
    if index.metric_type not in METRICS:
        raise ValueError(f"this {kind} has metric {index.metric_type}; pcpq has inner product (0) and L2 (1)")
    if index.ntotal == 0:
        raise ValueError(f"this Faiss {kind} is empty")


def chosen_metric(asked: str | None, found: str, normalised: bool) -> str:
    """Return the metric of the Faiss index, or cosine for normalised vectors; raise a ValueError for others."""
    if normalised and found != "dot":
        raise ValueError("a Faiss index that normalises vectors must use inner products; this one has L2")
    found = "cosine" if normalised else found
    if asked in (None, found) or (asked, found) == ("cosine", "dot"):
        return asked or found
    raise ValueError(f"metric is {asked!r}, that of the Faiss index is {found!r}")


def lists_of(index: Any) -> int:
    """Return the number of inverted lists of a Faiss index, also if it is wrapped in other indexes."""
    inverted = faiss.try_extract_index_ivf(index)
    if inverted is None:
        raise ValueError(f"same_lists is True, but this Faiss {type(index).__name__} has no lists")
    return int(inverted.nlist)


class Held(NamedTuple):
    """Vectors and ids of a Faiss index, in its own order."""

    rows: Float32Array | LazyRows
    ids: Ids | None  # None: 0, 1, 2, ...
    exact: bool = True  # False: vectors are reconstructed from codes
    normalised: bool = False


def held_by(index: Any) -> Held:
    """Return the vectors and ids of a Faiss index or of the index that it wraps.

    They may refer to memory of the Faiss index, which the caller must keep.
    """
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexIDMap):
        inner, ids = held_by(index.index), faiss.vector_to_array(index.id_map)
        return inner._replace(ids=ids if inner.ids is None else ids[inner.ids])
    if isinstance(index, faiss.IndexPreTransform):
        return before_transforms(index)
    if isinstance(index, faiss.IndexRefine):
        return held_by(index.refine_index)
    if isinstance(index, GRAPHS):
        return held_by(index.storage)
    if isinstance(index, faiss.IndexIVF):
        return in_lists(index)
    if type(index) in PLAIN:
        values = faiss.rev_swig_ptr(index.get_xb(), index.ntotal * index.d)
        return Held(values.reshape(index.ntotal, index.d), None)
    rows = rows_read(index, lambda rows: reconstructed(index, rows))
    return Held(rows, None, isinstance(index, faiss.IndexFlat))


def rows_read(index: Any, read: Callable[[Rows], Float32Array]) -> LazyRows:
    """Return rows that are read from Faiss on access; raise a ValueError if Faiss cannot reconstruct them."""
    try:
        return LazyRows(index.ntotal, read)
    except RuntimeError as error:
        kind, reason = type(index).__name__, str(error).strip().rsplit(": ", 1)[-1]
        raise ValueError(f"a Faiss {kind} does not give its vectors back: {reason}") from error


def reconstructed(index: Any, rows: Rows) -> Float32Array:
    """Return the given rows of a Faiss index without ids of its own, reconstructed."""
    if isinstance(rows, slice):
        start, stop, _ = rows.indices(index.ntotal)
        some: Float32Array = index.reconstruct_n(start, stop - start)
    else:
        some = index.reconstruct_batch(np.asarray(rows, np.int64))
    return some


def in_lists(index: Any) -> Held:
    """Return the vectors and ids of an IndexIVF in the order of its inverted lists."""
    lists = index.invlists
    if lists.use_iterator:
        raise ValueError("the lists of this Faiss index are stored elsewhere and can only be iterated over")
    ends = np.cumsum([lists.list_size(number) for number in range(index.nlist)])
    if ends[-1] != index.ntotal:
        raise ValueError(f"the lists of this Faiss index hold {ends[-1]} of its {index.ntotal} vectors")
    ids = np.empty(index.ntotal, np.int64)
    for number, end in enumerate(ends):
        size = lists.list_size(number)
        if size:
            pointer = lists.get_ids(number)
            ids[end - size : end] = faiss.rev_swig_ptr(pointer, size)
            lists.release_ids(number, pointer)
    read_list = floats_of if type(index) is faiss.IndexIVFFlat else decoded

    def read(rows: Rows) -> Float32Array:
        numbers = np.arange(*rows.indices(index.ntotal)) if isinstance(rows, slice) else rows
        list_numbers = np.searchsorted(ends, numbers, side="right")
        order, found = np.argsort(list_numbers, kind="stable"), np.empty((len(numbers), index.d), np.float32)
        starts = np.flatnonzero(np.diff(list_numbers[order], prepend=-1))
        for some in np.split(order, starts)[1:]:
            number = int(list_numbers[some[0]])
            size = lists.list_size(number)
            found[some] = read_list(index, number, size, numbers[some] - (ends[number] - size))
        return found

    return Held(rows_read(index, read), ids, isinstance(index, faiss.IndexIVFFlat))


def floats_of(index: Any, number: int, size: int, positions: NDArray[Any]) -> Float32Array:
    """Return vectors of an inverted list whose codes are the float32 vectors themselves."""
    pointer = index.invlists.get_codes(number)
    values = faiss.rev_swig_ptr(pointer, size * index.code_size).view(np.float32).reshape(size, index.d)
    some: Float32Array = values[positions]  # copied before the codes are released
    index.invlists.release_codes(number, pointer)
    return some


def decoded(index: Any, number: int, size: int, positions: NDArray[Any]) -> Float32Array:
    """Return vectors of an inverted list, reconstructed one by one, because the layout of its codes varies."""
    some = np.empty((len(positions), index.d), np.float32)
    for row, position in zip(some, positions.tolist(), strict=True):
        index.reconstruct_from_offset(number, position, faiss.swig_ptr(row))
    return some


def before_transforms(index: Any) -> Held:
    """Return the vectors of an IndexPreTransform, with its transforms reversed."""
    steps = [faiss.downcast_VectorTransform(index.chain.at(i)) for i in range(index.chain.size())]
    inner, reversible = held_by(index.index), True
    for step in steps:
        refuse_step(step, index.metric_type)
        reversible = reversible and step.d_out >= step.d_in

    def read(rows: Rows) -> Float32Array:
        transformed = np.ascontiguousarray(inner.rows[rows])
        found = np.empty((len(transformed), index.d), np.float32)
        index.reverse_chain(len(transformed), faiss.swig_ptr(transformed), faiss.swig_ptr(found))
        return found

    normalised = inner.normalised or any(isinstance(step, faiss.NormalizationTransform) for step in steps)
    return Held(rows_read(index, read), inner.ids, inner.exact and reversible, normalised)


def refuse_step(step: Any, metric: int) -> None:
    """Raise a ValueError for a transform that cannot be reversed, or whose reversal changes the results."""
    kind = type(step).__name__
    shifts = isinstance(step, faiss.CenteringTransform)
    if isinstance(step, faiss.LinearTransform):
        if not step.is_orthonormal:
            raise ValueError(f"the {kind} of this Faiss index is not orthonormal and cannot be undone")
        shifts = bool(step.have_bias and faiss.vector_to_array(step.b).any())
    elif isinstance(step, faiss.NormalizationTransform):
        if step.norm != 2.0:
            raise ValueError(f"the {kind} of this Faiss index uses the norm {step.norm}; cosine uses 2")
    elif not isinstance(step, (faiss.CenteringTransform, faiss.RemapDimensionsTransform)):
        raise ValueError(f"the {kind} of this Faiss index cannot be undone")
    if shifts and metric == faiss.METRIC_INNER_PRODUCT:
        raise ValueError(f"the {kind} of this Faiss index shifts vectors, which changes inner products")
