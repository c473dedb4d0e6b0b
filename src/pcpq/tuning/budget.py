"""Choice of codes and kept vectors for a number of bytes per vector."""

from __future__ import annotations

from typing import NamedTuple

from pcpq.quantizers import PQ, QPCPQ, Quantizer
from pcpq.segment.training import default_lists

ID_BYTES = 8
BLOCK_ROWS = 32
# Bytes per row besides its coordinates: the unit of kept integers; gain and bias if no vectors are kept.
BESIDE = {None: 6, "int8": 4, "int16": 4}
# Bytes per coordinate of kept vectors.
COORDINATE = {None: 0, "int8": 1, "int16": 2}
# Assumed number of vectors if it is unknown (iterators); lists then take few bytes per vector.
MANY = 1_000_000


class Design(NamedTuple):
    """Codes and kept vectors of an index."""

    section_size: int
    scaled: bool
    keep: str | None
    why: str

    def quantizer(self, dimensions: int) -> Quantizer:
        """Return the quantizer, with codes that the scan reads fastest."""
        size = min(self.section_size, dimensions)
        return QPCPQ(section_size=size) if self.scaled else PQ(section_size=size)

    def bytes_per_vector(self, dimensions: int, n: int) -> float:
        """Return all bytes per vector, including its share of centroids and of empty places in last blocks."""
        sections = -(-dimensions // self.section_size)
        # As described in packing.py: the bias takes two more sections, or one byte and a sum.
        code = 2 * -(-sections // 2) + 3 if self.scaled else 2 * -(-(sections + 2) // 4)
        lists = min(default_lists(n), n)
        overhead = 1 + BLOCK_ROWS / 2 * lists / n
        kept = COORDINATE[self.keep] * dimensions + BESIDE[self.keep]
        return code * overhead + kept + ID_BYTES + 4 * dimensions * lists / n


# Best first, by recall (benchmarks/results/quantizers_*.json): the precision of reranking matters most, then
# the bits of codes. If vectors are kept, codes only select the candidates.
DESIGNS = (
    Design(2, False, "int16", "vectors kept as int16 rerank the candidates of codes almost exactly"),
    Design(4, False, "int16", "vectors kept as int16 rerank the candidates of small codes"),
    Design(2, False, "int8", "vectors kept as int8 rerank the candidates of codes"),
    Design(4, False, "int8", "vectors kept as int8 rerank the candidates of small codes"),
    Design(2, True, None, "vectors do not fit, the best codes do"),
    Design(3, True, None, "vectors do not fit, projective codes of three coordinates do"),
    Design(2, False, None, "vectors do not fit, plain codes of two coordinates do"),
    Design(3, False, None, "vectors do not fit, plain codes of three coordinates do"),
    Design(4, False, None, "vectors do not fit, plain codes of four coordinates do"),
    Design(8, False, None, "little fits: plain codes of eight coordinates"),
)


def design_for(bytes_per_vector: float, dimensions: int, n: int | None) -> tuple[Design, str]:
    """Return the best design that fits, and a sentence that explains it; raise a ValueError if none fits."""
    n = n or MANY
    sizes = [design.bytes_per_vector(dimensions, n) for design in DESIGNS]
    for design, size in zip(DESIGNS, sizes, strict=True):
        if size <= bytes_per_vector:
            what = f"{design.quantizer(dimensions)!r}, keep={design.keep!r}"
            share = f"about {size:.1f} of {bytes_per_vector:g} bytes per vector, {4 * dimensions} as float32"
            return design, f"{what}: {design.why} ({share})"
    least = f"{n:,} vectors of {dimensions} dimensions need {min(sizes):.1f}"
    raise ValueError(f"bytes_per_vector is {bytes_per_vector!r}; {least}")
