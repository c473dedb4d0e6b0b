"""Slices of many rows, as large as memory allows."""

from __future__ import annotations

# A batch is converted, checked and encoded at once: large enough that Python does not show, small enough
# that all threads together stay under 256 MB at some 30 bytes an element.
BATCH_ELEMENTS = 1 << 19
ALL_BATCHES_ELEMENTS = 5 << 20


def slices(n: int, step: int) -> list[slice]:
    """range(n) in parts of so many."""
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]


def batches(n: int, dimensions: int, threads: int) -> list[slice]:
    """Slices that cover range(n), so large that one a thread fits the memory allowed."""
    rows = max(64, min(BATCH_ELEMENTS, ALL_BATCHES_ELEMENTS // threads) // dimensions)
    return slices(n, rows)


def encoding_batches(n: int, dimensions: int, threads: int) -> list[slice]:
    """The same for vectors that are encoded, which takes some arrays of their size."""
    return batches(n, 4 * dimensions, threads)
