"""Codes two sections to a byte and 32 rows to a block, or four sections to three bytes and 64 rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcpq.segment.packing import (
    Blocks,
    pack_plain,
    pack_scaled,
    pack_wide,
    pair_up,
    take_apart,
    unpack,
    unpack_wide,
)

pytestmark = pytest.mark.portable

COUNTS = np.array([0, 1, 31, 32, 33, 0, 70])
WIDE_COUNTS = np.array([0, 1, 63, 64, 65, 0, 130])


def random_values(shape: tuple[int, ...], below: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(below, size=shape).astype(np.uint8)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(0, 9), m=st.integers(1, 9), seed=st.integers(0, 1000))
def test_values_in_pairs_can_be_taken_apart(n: int, m: int, seed: int):
    values = random_values((n, m), 16, seed)
    pairs = pair_up(values)
    assert pairs.shape == (n, (m + 1) // 2)
    assert np.array_equal(take_apart(pairs, m), values)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 50])
@pytest.mark.parametrize("scaled", [False, True])
def test_what_is_packed_comes_out_again(m: int, scaled: bool):
    blocks, n = Blocks.of(COUNTS), int(COUNTS.sum())
    codes, scales = (pair_up(random_values((n, m), 16, seed)) for seed in (1, 2))
    biases = random_values((n,), 256, 3)
    if scaled:
        packed = pack_scaled(blocks, codes, scales, biases, np.arange(n))
    else:
        packed = pack_plain(blocks, m, codes, biases)
    found = unpack(packed, blocks.size, blocks.row_places(), m, scaled)
    assert np.array_equal(found[0], codes)
    assert np.array_equal(found[2], biases)
    if scaled:
        assert found[1] is not None
        assert np.array_equal(found[1], scales)
    else:
        assert found[1] is None


def test_a_plain_block_has_the_layout_that_the_scan_reads():
    """Row p at byte p, even section low, the digits of the bias as two more sections."""
    m, row = 3, 37
    blocks = Blocks.of(np.array([40]))
    codes, biases = random_values((40, m), 16, 4), random_values((40,), 256, 5)
    block = pack_plain(blocks, m, pair_up(codes), biases)[row // blocks.size].reshape(-1, blocks.size)
    sections = [*codes[row], biases[row] & 15, biases[row] >> 4, 0, 0, 0]
    assert len(block) == 4
    for pair, byte in enumerate(block[:, row % blocks.size]):
        assert (byte & 15, byte >> 4) == tuple(sections[2 * pair : 2 * pair + 2])
    assert not block[:, 40 % blocks.size :].any()  # where no row is


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6, 7, 8, 33, 34, 50])
def test_what_is_packed_wide_comes_out_again(m: int, dense: bool):
    blocks, n = Blocks.of(WIDE_COUNTS, dense, 64), int(WIDE_COUNTS.sum())
    codes, biases = random_values((n, m), 64, 1), random_values((n,), 256, 2)
    packed = pack_wide(blocks, codes, biases)
    # Four sections in three lines of 64 bytes; the bias takes two sections.
    assert packed.shape == (blocks.count, (m + 2 + 3) // 4 * 192)
    assert blocks.count == (-(-n // 64) if dense else 8)
    found = unpack_wide(packed, blocks.size, blocks.row_places(), m)
    assert np.array_equal(found[0], codes)
    assert np.array_equal(found[1], biases)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_a_wide_block_has_the_layout_that_the_scan_reads(m: int):
    """Row p at byte p, six bits of one section below two of the fourth, the bias as two more sections."""
    row = 64 + 37
    blocks = Blocks.of(np.array([64 + 40]), size=64)
    codes, biases = random_values((104, m), 64, 4), random_values((104,), 256, 5)
    block = pack_wide(blocks, codes, biases)[row // 64].reshape(-1, 64)
    sections = [*codes[row], biases[row] & 63, biases[row] >> 6, 0, 0, 0]
    assert len(block) == (m + 2 + 3) // 4 * 3
    for four, lines in enumerate(block[:, row % 64].reshape(-1, 3)):
        a, b, c, d = sections[4 * four : 4 * four + 4]
        assert (lines & 63).tolist() == [a, b, c]
        assert (lines >> 6).tolist() == [d & 3, d >> 2 & 3, d >> 4]
    assert not block[:, 40:].any()  # where no row is


@pytest.mark.parametrize("dense", [False, True])
def test_a_mask_has_two_words_for_a_block_of_64_rows(dense: bool):
    blocks, n = Blocks.of(WIDE_COUNTS, dense, 64), int(WIDE_COUNTS.sum())
    chosen = np.random.default_rng(6).random(n) < 0.5
    mask = blocks.mask(chosen)
    assert len(mask) == 2 * blocks.count
    assert np.array_equal(blocks.chosen_rows(mask), np.flatnonzero(chosen))
    words, bits = blocks.bits(np.arange(n))
    assert np.array_equal(mask[words] & bits != 0, chosen)
