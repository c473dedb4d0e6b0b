"""Experiments beyond the paper: equal bits, the effect of each addition, and joint codeword and scale."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pcpq.quantizers import APCPQ, APQ, PCPQ, PQ, QAPCPQ, QPCPQ, Quantizer

CODEBOOKS = ("per_list", "shared")
CODES_ALONE: dict[str, Any] = {"gain": False, "bias": False}
# A list with fewer rows per codeword would overfit its codebook.
ROWS_PER_CODEWORD = 2


@dataclass(frozen=True)
class Setting:
    """Parameters of the paper for a set of vectors, with 4 or 8 bits."""

    n_sections: int
    n_centers: int
    n_scales: int

    def parameters(self, kind: type[Quantizer]) -> dict[str, Any]:
        """Return the parameters of a class of quantizers, with n_scales if it has quantized scales."""
        scales = {"n_scales": self.n_scales} if kind in (QPCPQ, QAPCPQ) else {}
        return {"n_sections": self.n_sections, "n_centers": self.n_centers, **scales}

    @property
    def scaled_bits(self) -> int:
        """Bits of a code with one scale per section."""
        return self.n_sections * ((self.n_centers - 1).bit_length() + (self.n_scales - 1).bit_length())


@dataclass(frozen=True)
class Entry:
    """Definition of one row of a table: quantizer, codebooks and rotation."""

    about: dict[str, str]
    quantizer: Quantizer
    codebooks: str
    rotation: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Key that is equal for entries with the same measurement."""
        return repr(self.quantizer), self.codebooks, str(self.rotation)


def six_methods(setting: Setting) -> Iterator[Entry]:
    """Yield the six methods exactly as the paper describes them."""
    for kind in (PQ, QPCPQ, PCPQ, APQ, QAPCPQ, APCPQ):
        quantizer = kind(paper=True, **setting.parameters(kind))
        yield Entry({"method": kind.__name__}, quantizer, "per_list")


def equal_bits(setting: Setting, rows_per_list: float) -> Iterator[Entry]:
    """Yield codes with scales, and codes without scales of equal size: more codewords or more sections."""
    bits, codeword_bits = setting.scaled_bits, (setting.n_centers - 1).bit_length()
    more_sections = round(bits / codeword_bits)
    many = setting.n_centers * setting.n_scales
    for codebooks in CODEBOOKS:
        for scaled, plain in ((QPCPQ, PQ), (QAPCPQ, APQ)):
            label = f"{setting.n_centers} codewords, {setting.n_scales} scales, {setting.n_sections} sections"
            yield Entry(
                {"method": scaled.__name__, "label": label},
                scaled(paper=True, **setting.parameters(scaled)),
                codebooks,
            )
            choices = [(setting.n_sections, setting.n_centers), (more_sections, setting.n_centers)]
            if codebooks == "shared" or rows_per_list >= ROWS_PER_CODEWORD * many:
                choices.append((setting.n_sections, many))
            for sections, codewords in choices:
                yield Entry(
                    {"method": plain.__name__, "label": f"{codewords:,} codewords, {sections} sections"},
                    plain(paper=True, n_sections=sections, n_centers=codewords),
                    codebooks,
                )


def ablation(setting: Setting) -> Iterator[Entry]:
    """Yield each method with our additions, one after the other."""
    by_loss = {"paper": True, "assignment": "loss"}
    alone_by_section = {**CODES_ALONE, "encoding": "section"}
    ladder: dict[type[Quantizer], list[tuple[str, dict[str, Any]]]] = {
        PQ: [("the paper", {"paper": True})],
        QPCPQ: [
            ("the paper", {"paper": True}),
            ("+ scales for every section", {"paper": True, "shared_scales": False}),
            ("+ joint refinement", CODES_ALONE),
        ],
        APQ: [
            ("the paper", {"paper": True}),
            ("+ assignment by loss", by_loss),
            ("+ whole-vector encoding", CODES_ALONE),
        ],
        QAPCPQ: [
            ("the paper", {"paper": True}),
            ("+ assignment by loss", by_loss),
            ("+ scales for every section", {**by_loss, "shared_scales": False}),
            ("+ joint refinement", alone_by_section),
            ("+ whole-vector encoding", CODES_ALONE),
        ],
    }
    last: list[tuple[str, dict[str, Any]]] = [
        ("+ gain", {"gain": True, "bias": False}),
        ("+ bias", {"gain": True, "bias": "anchor"}),
        ("+ learned rotation", {"gain": True, "bias": "anchor"}),
    ]
    for kind, steps in ladder.items():
        for codebooks in CODEBOOKS:
            for step, options in steps + last:
                rotation = "learned" if "rotation" in step else None
                quantizer = kind(**setting.parameters(kind), **options)
                yield Entry({"family": kind.__name__, "step": step}, quantizer, codebooks, rotation)


def joint(setting: Setting) -> Iterator[Entry]:
    """Yield anisotropic methods, codeword and scale solved jointly or alternately, and several thresholds."""
    for exact in (PCPQ, QPCPQ):
        yield Entry(
            {"label": f"{exact.__name__}, the paper"},
            exact(paper=True, **setting.parameters(exact)),
            "per_list",
        )
    for kind in (APCPQ, QAPCPQ):
        for assignment in ("distance", "loss"):
            for together in (False, True):
                how = "together" if together else "one step each"
                options = {**CODES_ALONE, "encoding": "section", "assignment": assignment, "refine": together}
                label = f"{kind.__name__}, assigned by {assignment}, codeword and scale {how}"
                yield Entry({"label": label}, kind(**setting.parameters(kind), **options), "per_list")
    for threshold in (0.0, 0.1, 0.3, 0.5):
        options = {**CODES_ALONE, "encoding": "section", "threshold": threshold}
        label = f"APCPQ, by loss, together, threshold {threshold} of a section's length"
        yield Entry({"label": label}, APCPQ(**setting.parameters(APCPQ), **options), "per_list")
    # In the paper's text, the threshold is relative to the norm of the whole vector; a section has about
    # 1 / sqrt(m) of it.
    whole = 0.2 * math.sqrt(setting.n_sections)
    for anisotropic in (APQ, QAPCPQ, APCPQ):
        literal = anisotropic(paper=True, threshold=whole, **setting.parameters(anisotropic))
        label = f"{anisotropic.__name__}, the paper, threshold 0.2 of the whole vector's length"
        yield Entry({"label": label}, literal, "per_list")
    for kind in (APCPQ, QAPCPQ):
        quantizer = kind(**setting.parameters(kind), **CODES_ALONE)
        yield Entry({"label": f"{kind.__name__}, whole-vector encoding"}, quantizer, "per_list")


def present_label(label: str) -> str:
    """Return a label in present words; results measured earlier call codewords centers."""
    return label.replace("center", "codeword")
