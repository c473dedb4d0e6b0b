"""Which codes and kept vectors fit a number of bytes, best first."""

from __future__ import annotations

from typing import NamedTuple

from pcpq.quantizers import PQ, QPCPQ, Quantizer
from pcpq.segment.packing import BLOCK
from pcpq.segment.training import default_lists

ID_BYTES = 8
# Of a row, beside its coordinates: the unit of kept integers; gain and bias where codes are all there is.
BESIDE = {None: 6, "int8": 4, "int16": 4}
COORDINATE = {None: 0, "int8": 1, "int16": 2}
# Nobody knows how many vectors an iterator has: lists then take little.
MANY = 1_000_000


class Design(NamedTuple):
    """What an index keeps of a vector."""

    section_size: int
    scaled: bool
    keep: str | None
    why: str

    def quantizer(self, dimensions: int) -> Quantizer:
        """Of codes that the scan is fastest with."""
        size = min(self.section_size, dimensions)
        return QPCPQ(section_size=size) if self.scaled else PQ(section_size=size)

    def bytes_a_vector(self, dimensions: int, n: int) -> float:
        """Everything, with a vector's share of the lists and of places that their last blocks leave empty."""
        sections = -(-dimensions // self.section_size)
        # As packing.py draws them: the bias is two more sections, or a byte and a sum.
        code = 2 * -(-sections // 2) + 3 if self.scaled else 2 * -(-(sections + 2) // 4)
        lists = min(default_lists(n), n)
        spread = 1 + BLOCK / 2 * lists / n
        kept = COORDINATE[self.keep] * dimensions + BESIDE[self.keep]
        return code * spread + kept + ID_BYTES + 4 * dimensions * lists / n


# Best first, by recall (benchmarks/results/quantizers_*.json): what is kept to judge by matters most, then the
# bits of codes. Where vectors are kept, codes only choose what is judged.
DESIGNS = (
    Design(2, False, "int16", "vectors kept as int16 judge what codes find, almost exactly"),
    Design(4, False, "int16", "vectors kept as int16 judge what small codes find"),
    Design(2, False, "int8", "vectors kept as int8 judge what codes find"),
    Design(4, False, "int8", "vectors kept as int8 judge what small codes find"),
    Design(2, True, None, "vectors do not fit, the best codes do"),
    Design(3, True, None, "vectors do not fit, projective codes of three coordinates do"),
    Design(2, False, None, "vectors do not fit, plain codes of two coordinates do"),
    Design(3, False, None, "vectors do not fit, plain codes of three coordinates do"),
    Design(4, False, None, "vectors do not fit, plain codes of four coordinates do"),
    Design(8, False, None, "little fits: plain codes of eight coordinates"),
)


def design_for(bytes_per_vector: float, dimensions: int, n: int | None) -> tuple[Design, str]:
    """The best that fits, and a sentence about it."""
    n = n or MANY
    sizes = [design.bytes_a_vector(dimensions, n) for design in DESIGNS]
    for design, size in zip(DESIGNS, sizes, strict=True):
        if size <= bytes_per_vector:
            what = f"{design.quantizer(dimensions)!r}, keep={design.keep!r}"
            share = f"about {size:.1f} of {bytes_per_vector:g} bytes a vector, {4 * dimensions} as float32"
            return design, f"{what}: {design.why} ({share})"
    least = f"{n:,} vectors of {dimensions} dimensions need {min(sizes):.1f}"
    raise ValueError(f"bytes_per_vector is {bytes_per_vector!r}; {least}")
