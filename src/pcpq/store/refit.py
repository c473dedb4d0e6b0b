"""Access to the vectors of an index for a new training, and encoding with the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array
from pcpq.io.streams import Sample
from pcpq.search.snapshot import Snapshot
from pcpq.segment.encoded_rows import EncodedRowsBuilder
from pcpq.segment.part import Part
from pcpq.segment.segment import Segment
from pcpq.segment.trained import Trained
from pcpq.store.merging import Labels, refuse_equal
from pcpq.util.batches import encoding_batches
from pcpq.util.threads import available_threads


class LiveVectors:
    """The vectors of a snapshot in the user's units, as an array that is read piece by piece."""

    dtype = np.dtype(np.float32)

    def __init__(self, snapshot: Snapshot) -> None:
        self._unit = np.float32(snapshot.trained.unit)
        self._parts = [(part.segment, part.rows_left()) for part in snapshot.parts]
        self._ends = np.cumsum([len(rows) for _, rows in self._parts])
        self.shape = (len(snapshot), snapshot.trained.dimensions)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: slice | NDArray[Any]) -> Float32Array:
        """Return some of the vectors."""
        wanted = np.arange(len(self))[numbers]
        found = np.empty((len(wanted), self.shape[1]), np.float32)
        owners = np.searchsorted(self._ends, wanted, side="right")
        for number, (segment, rows) in enumerate(self._parts):
            mine = owners == number
            if mine.any():
                first = self._ends[number] - len(rows)
                found[mine] = segment.vectors(rows[wanted[mine] - first])
        found *= self._unit
        return found


def sample_of(snapshot: Snapshot, rows: int, generator: np.random.Generator) -> Sample:
    """Return a random sample of at most `rows` vectors of a snapshot."""
    vectors: Any = LiveVectors(snapshot)
    if len(vectors) <= rows:
        return Sample(vectors)
    return Sample(vectors, np.sort(generator.permutation(len(vectors))[:rows]))


def encode_again(trained: Trained, parts: Sequence[Part], threads: int | None) -> Segment | None:
    """Encode all rows of some parts with a new training into one segment; return None if there are none."""
    builder = EncodedRowsBuilder(sum(part.count for part in parts))
    labels = []
    for part in parts:
        segment, left = part.segment, part.rows_left()
        labels.append(Labels.of(segment, left))
        for some in encoding_batches(len(left), trained.dimensions, available_threads(threads)):
            vectors = segment.vectors(left[some]) * np.float32(segment.trained.unit)
            rows, spread = trained.rows(vectors, builder.count, threads)
            rows.ids[:] = segment.ids[left[some]]
            builder.append(rows, spread)
    if builder.count == 0:
        return None
    together = Labels.joined(labels)
    refuse_equal(together.numbers, [part.segment for part in parts])
    return Segment.of(trained, *builder.finish(), together.names, together.attributes)
