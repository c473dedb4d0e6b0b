"""Slices of rows for batched work, sized to limit memory."""

from __future__ import annotations

# A batch is converted, checked and encoded in one step. It is large enough to make the overhead of Python
# negligible, and small enough that all threads together use less than 256 MB at about 30 bytes per element.
BATCH_ELEMENTS = 1 << 19
ALL_BATCHES_ELEMENTS = 5 << 20


def slices(n: int, step: int) -> list[slice]:
    """Return consecutive slices of at most `step` items that cover range(n)."""
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]


def batches(n: int, dimensions: int, threads: int) -> list[slice]:
    """Return slices that cover range(n); one batch per thread fits into the memory limit."""
    rows = max(64, min(BATCH_ELEMENTS, ALL_BATCHES_ELEMENTS // threads) // dimensions)
    return slices(n, rows)


def encoding_batches(n: int, dimensions: int, threads: int) -> list[slice]:
    """Return slices that cover range(n), for vectors that are encoded.

    Encoding needs temporary arrays of the size of a batch, so batches are smaller than those of `batches`.
    """
    return batches(n, 4 * dimensions, threads)
