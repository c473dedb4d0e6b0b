"""Codebooks of an index, shared or one per list: training, encoding, and the arrays of the native search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Bytes, Float32Array, empty_lines
from pcpq.ivf.kmeans import rows_by_list
from pcpq.quantizers import Quantizer, options_of
from pcpq.quantizers.codes import Codes, Model
from pcpq.segment.encoded_rows import EncodedRows
from pcpq.segment.packing import (
    MOST_SECTIONS,
    Blocks,
    pack_plain,
    pack_scaled,
    pack_wide,
    pair_up,
    scale_steps,
    take_apart,
    unpack,
    unpack_wide,
)
from pcpq.util.lazy import lazy
from pcpq.util.threads import map_threads

# Lists with fewer training rows per codeword use the shared codebook: their own would overfit.
ROWS_PER_CODEWORD = 2
# Most codewords, or pairs of a codeword and a scale, of wide codes.
WIDE = 64

Lists = NDArray[np.int32]


class PackedCodes(NamedTuple):
    """Codes in list order: blocks, or unpacked rows of codeword indices with their scales and biases."""

    blocks: Bytes
    scales: NDArray[Any] | None = None
    biases: Bytes | None = None

    @property
    def unpacked(self) -> bool:
        """Whether the codes are unpacked: stored row by row."""
        return self.biases is not None


@dataclass(frozen=True)
class Codebooks:
    """Fitted quantizers: one for all lists, or one per list."""

    quantizers: tuple[Quantizer, ...]
    wide: bool = False  # codes of six bits; stored: an index of version 1 with so few codewords has other codes

    @classmethod
    def fit(
        cls,
        kind: str,
        quantizer: Quantizer,
        residuals: Float32Array,
        rows: Float32Array,
        lists: Lists,
        n_lists: int,
        threads: int | None,
    ) -> Codebooks:
        """Train on the residuals of rows; `lists` is the list of each row."""
        shared = quantizer.fit(residuals, directions=rows)
        wide = fits_wide(shared.model_, shared)
        if kind == "shared" or n_lists == 1:
            return cls((shared,), wide)
        # Either all lists have a bias or none: the scan handles all of them alike.
        bias = shared.get_params()["bias"] and shared.model_.bias_weight > 0
        parameters = shared.get_params() | {"bias": bias, "threads": 1}
        order, starts = rows_by_list(lists, n_lists)

        def fit_one(number: int) -> Quantizer:
            own = order[starts[number] : starts[number + 1]]
            if len(own) < ROWS_PER_CODEWORD * parameters["n_centers"]:
                return shared
            return type(shared)(**parameters).fit(residuals[own], directions=rows[own])

        return cls(tuple(map_threads(fit_one, range(n_lists), threads)), wide)

    @property
    def model(self) -> Model:
        """The model of the first quantizer; layout and settings are the same in all."""
        return self.quantizers[0].model_

    @property
    def coding(self) -> str:
        """The form of codes: "plain", "scaled" or "wide" in blocks, or "unpacked", which is slower to scan."""
        if self.wide:
            return "wide"
        model = self.model
        few = model.readout.shape[1] <= 16 and model.layout.n_sections <= MOST_SECTIONS
        kept_alone = model.vector_levels is None and self.quantizers[0].scale != "exact"
        if not few or not kept_alone or (model.scales is not None and model.scales.shape[1] > 16):
            return "unpacked"
        return "plain" if model.scales is None else "scaled"

    def encode(self, residuals: Float32Array, rows: Float32Array, lists: Lists, threads: int | None) -> Codes:
        """Return the codes of residuals; biases are in the unit of the residuals."""
        if len(self.quantizers) == 1:
            return in_vector_unit(self.quantizers[0].encode(residuals, directions=rows), self.model.unit)
        parts = self._by_quantizer(lists)

        def encode_one(part: tuple[int, NDArray[np.intp]]) -> Codes:
            number, own = part
            quantizer = self.quantizers[number]
            return in_vector_unit(quantizer.encode(residuals[own], directions=rows[own]), quantizer.unit_)

        found = map_threads(encode_one, parts, threads)
        place = np.argsort(np.concatenate([own for _, own in parts]), kind="stable")
        columns = zip(*((c.codes, c.scales, c.gains, c.biases) for c in found), strict=True)
        return Codes(*(None if column[0] is None else np.concatenate(column)[place] for column in columns))  # type: ignore[arg-type]

    def decode(self, codes: Codes, lists: Lists) -> Float32Array:
        """Return the (n, d) vectors that codes represent."""
        decoded = np.empty((len(codes), self.model.layout.dimensions), np.float32)
        for number, own in self._by_quantizer(lists):
            decoded[own] = self.quantizers[number].decode(replace(codes[own], gains=None, biases=None))
        return decoded

    def shrink(self, codes: Codes) -> Codes:
        """Return codes as the scan reads them: two sections per byte, or one number for codeword and scale."""
        if self.coding == "unpacked":
            return codes
        if self.coding == "wide":
            return replace(codes, codes=self._joined(codes), scales=None)
        scales = None if codes.scales is None else pair_up(codes.scales)
        return replace(codes, codes=pair_up(codes.codes), scales=scales)

    def expand(self, codes: Codes) -> Codes:
        """Return shrunk codes with one section per item."""
        if self.coding == "unpacked":
            return codes
        if self.coding == "wide":
            s = self._n_scales
            return codes if s == 0 else replace(codes, codes=codes.codes // s, scales=codes.codes % s)
        m = self.model.layout.n_sections
        scales = None if codes.scales is None else take_apart(codes.scales, m)
        return replace(codes, codes=take_apart(codes.codes, m), scales=scales)

    def check(self, codes: Codes) -> None:
        """Raise a ValueError if shrunk codes hold the index of a codeword or scale that does not exist."""
        expanded, model = self.expand(codes), self.model
        levels = model.scales if model.vector_levels is None else model.vector_levels
        for name, indices, values in (
            ("codeword", expanded.codes, model.readout),
            ("scale", expanded.scales, levels),
        ):
            if indices is None or values is None or indices.size == 0:
                continue
            count = len(values) if values.ndim == 1 else values.shape[1]
            if (highest := int(indices.max())) >= count:
                raise ValueError(f"a code names {name} {highest} of {count}")

    def pack(self, blocks: Blocks, rows: EncodedRows) -> PackedCodes:
        """Pack the codes and bias bytes of rows in list order."""
        codes, bias_bytes = Codes(rows.codes, rows.scales), rows.bias_bytes
        if self.coding == "unpacked":
            width = codes.codes.dtype.itemsize * codes.codes.shape[1]
            return PackedCodes(codes.codes.view(np.uint8).reshape(-1, width), codes.scales, bias_bytes)
        m = self.model.layout.n_sections
        packed = empty_lines((blocks.count, self.block_bytes), np.uint8)
        for piece in blocks.pieces():
            some, own, out = piece.rows, piece.own, packed[piece.blocks]
            if self.coding == "wide":
                out[:] = pack_wide(own, codes.codes[some], bias_bytes[some])
            elif codes.scales is None:
                out[:] = pack_plain(own, m, codes.codes[some], bias_bytes[some])
            else:
                sums = self._step_sums(take_apart(codes.scales[some], m), rows.lists[some])
                out[:] = pack_scaled(own, codes.codes[some], codes.scales[some], bias_bytes[some], sums)
        return PackedCodes(packed)

    def unpack(self, blocks: Blocks, packed: PackedCodes) -> tuple[Codes, Bytes]:
        """Return the shrunk codes and bias bytes of packed codes, rows in list order."""
        if packed.biases is not None:
            m = self.model.layout.n_sections
            return Codes(packed.blocks.view(self.model.code_dtype).reshape(-1, m), packed.scales), packed.biases
        return self.unpack_at(packed.blocks, blocks.row_places())

    def unpack_at(self, blocks: Bytes, places: NDArray[np.int64]) -> tuple[Codes, Bytes]:
        """Return the shrunk codes and bias bytes of the rows at some places of blocks of codes."""
        m, size = self.model.layout.n_sections, self.block_rows
        if self.coding == "wide":
            wide_codes, biases = unpack_wide(blocks, size, places, m)
            return Codes(wide_codes), biases
        codes, scales, biases = unpack(blocks, size, places, m, self.coding == "scaled")
        return Codes(codes, scales), biases

    def arguments(self, packed: PackedCodes, lists: Lists) -> dict[str, Any]:
        """Return arguments of `_core.Codes`: codes of rows of these lists, and the codebooks."""
        codewords, scales = self._tables
        arguments: dict[str, Any] = {
            "coding": self.coding,
            "blocks": packed.blocks,
            "codewords": codewords,
            "scales": scales,
        }
        if self.coding == "scaled":
            steps, step_units, largest_step = self._steps
            even = np.zeros((len(steps), self.model.layout.n_sections % 2, 16), np.int8)
            arguments["steps"] = np.concatenate([steps, even], axis=1)
            arguments |= {"step_units": step_units, "largest_step": largest_step}
        if packed.unpacked:
            arguments |= self._unpacked_scales(packed.scales, lists) | {"unpacked_biases": packed.biases}
        return arguments

    def _unpacked_scales(self, scales: NDArray[Any] | None, lists: Lists) -> dict[str, NDArray[Any]]:
        """Return arguments of `_core.Codes` for scales: indices, exact scales, or one factor per row."""
        if scales is None:
            return {}
        if self.model.vector_levels is None:
            return {"unpacked_alphas" if self.model.scales is None else "unpacked_scales": scales}
        models = [quantizer.model_ for quantizer in self.quantizers]
        levels = np.stack([model.vector_levels for model in models if model.vector_levels is not None])
        numbers = np.minimum(scales[:, 0], levels.shape[1] - 1)  # codes read from a file may be wrong
        return {"unpacked_factors": levels[lists if len(levels) > 1 else 0, numbers]}

    @lazy
    def _tables(self) -> tuple[Float32Array, Float32Array | None]:
        """The (B, m, D, k) codewords and (B, m, s) scales of all codebooks, zero-padded to at least 16.

        For wide codes, the codewords are the products of codewords and scales.
        """
        models = [quantizer.model_ for quantizer in self.quantizers]
        m, k, size = self.model.readout.shape
        if self.wide:
            return np.stack([wide_codewords(model) for model in models]), None
        codewords = np.zeros((len(models), m, size, max(k, 16)), np.float32)
        for book, model in zip(codewords, models, strict=True):
            book[:, :, :k] = model.readout.transpose(0, 2, 1) * np.float32(model.unit)
        if self.model.scales is None:
            return codewords, None
        width = max(model.scales.shape[1] for model in models if model.scales is not None)
        scales = np.zeros((len(models), m, max(width, 16)), np.float32)
        for book, model in zip(scales, models, strict=True):
            if model.scales is not None:
                book[:, : model.scales.shape[1]] = model.scales
        return codewords, scales

    @lazy
    def _steps(self) -> tuple[NDArray[np.int8], Float32Array, float]:
        """The (B, m, 16) scales as whole steps, their (B, m) units, and the largest step."""
        found = [scale_steps(q.model_.scales) for q in self.quantizers if q.model_.scales is not None]
        return np.stack([one[0] for one in found]), np.stack([one[1] for one in found]), found[0][2]

    def _step_sums(self, scales: Bytes, lists: Lists) -> NDArray[np.int64]:
        """Return the (n,) sums of the steps of each row's scales."""
        steps = self._steps[0]
        books = lists[:, None] if len(steps) > 1 else np.zeros((1, 1), np.int32)
        sums: NDArray[np.int64] = steps[books, np.arange(scales.shape[1]), scales].sum(axis=1, dtype=np.int64)
        return sums

    @property
    def _n_scales(self) -> int:
        """The number of scales per section; 0 without scales."""
        return 0 if self.model.scales is None else int(self.model.scales.shape[1])

    def _joined(self, codes: Codes) -> Bytes:
        """Return the (n, m) numbers of codewords, or of pairs of a codeword and a scale, as bytes."""
        joined = codes.codes.astype(np.uint8)
        if codes.scales is not None:
            joined = joined * np.uint8(self._n_scales) + codes.scales
        return joined

    @property
    def block_rows(self) -> int:
        """Rows per block of codes."""
        return _core.block_rows("plain" if self.coding == "unpacked" else self.coding)

    @property
    def block_bytes(self) -> int:
        """Bytes per block of codes."""
        return _core.block_bytes(coding=self.coding, sections=self.model.layout.n_sections)

    def _by_quantizer(self, lists: Lists) -> list[tuple[int, Any]]:
        """Return the number of each quantizer that has rows, and these rows."""
        if len(self.quantizers) == 1:
            return [(0, slice(None))]
        order, starts = rows_by_list(lists, len(self.quantizers))
        filled = np.flatnonzero(np.diff(starts))
        return [(int(number), order[starts[number] : starts[number + 1]]) for number in filled]


def in_vector_unit(codes: Codes, unit: float) -> Codes:
    """Return codes with float32 biases in the unit of the vectors instead of the quantizer's."""
    if codes.biases is None:
        return codes
    return replace(codes, biases=codes.biases.astype(np.float32) * np.float32(unit))


def fits_wide(model: Model, quantizer: Quantizer) -> bool:
    """Return whether codes fit six bits: a codeword, or a codeword with its scale, and not four bits each."""
    k = model.readout.shape[1]
    choices = k if model.scales is None else k * model.scales.shape[1]
    alone = model.vector_levels is None and quantizer.scale != "exact"
    return alone and 16 < choices <= WIDE and model.layout.n_sections <= MOST_SECTIONS


def never_packed(quantizer: Quantizer) -> bool:
    """Return whether codes of a quantizer stay unpacked whatever it is trained on."""
    parameters = quantizer.get_params()
    return options_of(quantizer).scale not in ("none", "quantized") or parameters["n_centers"] > WIDE


def wide_codewords(model: Model) -> Float32Array:
    """Return the (m, D, 64) codewords, or products of codewords and scales, zero where there are fewer."""
    m, _, size = model.readout.shape
    values = model.readout[:, :, None, :] * np.float32(model.unit)
    if model.scales is not None:
        values = values * model.scales[:, None, :, None]
    columns = np.zeros((m, size, WIDE), np.float32)
    flat = values.reshape(m, -1, size).transpose(0, 2, 1)
    columns[:, :, : flat.shape[2]] = flat
    return columns
