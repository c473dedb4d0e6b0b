"""Statistics of an index: bytes per vector, list sizes, removed rows, drift."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pcpq.search.snapshot import Snapshot


def statistics(snapshot: Snapshot) -> dict[str, Any]:
    """Return the statistics of a snapshot, as `Index.stats` returns them."""
    trained, n = snapshot.trained, len(snapshot)
    segments = [part.segment for part in snapshot.parts]
    parts = {"lists": trained.partition.centroids.nbytes}
    if trained.projection is not None:
        parts["projection"] = trained.projection.nbytes
    sizes = np.zeros(len(trained.partition), np.int64)
    for segment in segments:
        for name, size in segment.bytes_by_part().items():
            parts[name] = parts.get(name, 0) + size
        sizes += segment.list_sizes
    mean, rows = sizes.mean(), sum(map(len, segments))
    residual = sum(segment.spread.residuals for segment in segments) / max(rows, 1)
    return {
        "vectors": n,
        "dimensions": trained.dimensions,
        "code_dimensions": trained.code_dimensions,
        "segments": len(segments),
        "removed": rows - n,
        "lists": len(sizes),
        "bytes_per_vector": {name: size / max(n, 1) for name, size in parts.items()},
        "largest_list": int(sizes.max()),
        "empty_lists": int((sizes == 0).sum()),
        # Mean size of the list of a random vector, in units of the mean list size; 1 if all lists are equal.
        "imbalance": float((sizes**2).mean() / mean**2) if mean > 0 else 1.0,
        # Mean squared distance from the centroids, relative to the training rows; if it is well above 1, refit.
        "drift": residual / trained.residual if rows and trained.residual > 0 else 1.0,
    }


def bytes_without_attributes(snapshot: Snapshot) -> int:
    """Return the bytes of centroids, codes, kept vectors and ids; attributes would have to be read."""
    parts = [replace(part.segment, attributes=None).bytes_by_part() for part in snapshot.parts]
    trained = snapshot.trained
    projection = 0 if trained.projection is None else trained.projection.nbytes
    return trained.partition.centroids.nbytes + projection + sum(sum(sizes.values()) for sizes in parts)
