"""The quantizers of Faiss and turbovec: bytes per vector and the best rows of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import faiss
import numpy as np
import turbovec
from common import Data, Lists, make_lists


def faiss_rows(data: Data, n_lists: int) -> Iterator[dict[str, Any]]:
    """Return results of IVF PQ, OPQ and RaBitQ with all lists probed, lists by inner product and by distance.

    Lists by inner product are trained by Faiss; lists by distance are those of our codes.
    """
    lists = make_lists(data.base, n_lists)
    d = data.base.shape[1]
    half, quarter = d // 2, d // 4
    for assignment in ("inner product", "euclidean"):
        for m, bits in ((half, 4), (quarter, 8), (half, 8)):
            # OPQ trains slowly and depends little on the coarse assignment: only with the better lists.
            rotations = (None, "OPQ") if assignment == "euclidean" and bits == 4 else (None,)
            for rotation in rotations:
                label = f"Faiss IVF {rotation + ' ' if rotation else ''}PQ{m}x{bits}"
                coarse = _coarse(d, assignment)
                index = faiss.IndexIVFPQ(coarse, d, n_lists, m, bits, faiss.METRIC_INNER_PRODUCT)
                transform = faiss.OPQMatrix(d, m) if rotation else None
                yield _search(data, label, assignment, index, coarse, lists, transform)
        # RaBitQ scans slowly: once per width on large sets. A rotation changes little on the others.
        large = data.base.size > 10_000_000
        if large and assignment == "inner product":
            continue
        for bits in (2, 3, 4):
            for rotation in (None,) if large or assignment == "inner product" else (None, "random rotation"):
                label = f"Faiss IVF RaBitQ {bits} bits" + (f", {rotation}" if rotation else "")
                coarse = _coarse(d, assignment)
                index = faiss.IndexIVFRaBitQ(coarse, d, n_lists, faiss.METRIC_INNER_PRODUCT, True, bits)
                index.qb = 0  # queries are not quantized: the most accurate setting
                transform = faiss.RandomRotationMatrix(d, d) if rotation else None
                yield _search(data, label, assignment, index, coarse, lists, transform)


def _coarse(d: int, assignment: str) -> Any:
    return faiss.IndexFlatIP(d) if assignment == "inner product" else faiss.IndexFlatL2(d)


def _search(
    data: Data, label: str, assignment: str, index: Any, coarse: Any, lists: Lists, transform: Any
) -> dict[str, Any]:
    whole = index
    if transform is not None:
        if isinstance(transform, faiss.RandomRotationMatrix):
            transform.init(123)
        else:
            # By default it would optimize the rotation for 8 bits, independent of the code.
            pq = faiss.ProductQuantizer(index.d, index.pq.M, index.pq.nbits)
            transform.pq = pq
        whole = faiss.IndexPreTransform(transform, index)
    # Faiss normalizes centroids for inner product; lists by distance need the original lengths.
    index.cp.spherical = assignment == "inner product"
    if assignment == "euclidean" and transform is None:
        coarse.add(lists.centroids)  # Faiss then does not train centroids
    sample = data.base[np.random.default_rng(1).permutation(len(data.base))[:100_000]]
    whole.train(sample)
    whole.add(data.base)
    index.nprobe = index.nlist
    _, found = whole.search(data.queries, 100)
    return {
        "method": label,
        "lists": assignment,
        "bytes": float(index.code_size),
        "found": found,
    }


def turbovec_rows(data: Data) -> Iterator[dict[str, Any]]:
    """Return results of TurboQuant over whole vectors, plain and calibrated; d must be a multiple of 8."""
    n, d = data.base.shape
    width = -(-d // 8) * 8
    base, queries = (np.pad(rows, ((0, 0), (0, width - d))) for rows in (data.base, data.queries))
    for bits in (2, 3, 4):
        for calibrated in (False, True):
            index = turbovec.TurboQuantIndex(dim=width, bit_width=bits)
            if calibrated:
                index.calibrate(base[np.random.default_rng(1).permutation(n)[:4096]])
            index.add(base[: n // 2])
            before = len(index.to_bytes())
            index.add(base[n // 2 :])
            bytes_per_vector = (len(index.to_bytes()) - before) / (n - n // 2)
            _, found = index.search(queries, k=100)
            yield {
                "method": f"turbovec {bits} bits" + (", calibrated" if calibrated else ""),
                "lists": "none",
                "bytes": bytes_per_vector,
                "found": np.asarray(found).astype(np.int64),
            }
