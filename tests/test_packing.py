"""Codes two sections to a byte, and 32 rows to a block."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcpq.segment.packing import Blocks, pack_plain, pack_scaled, pair_up, take_apart, unpack

pytestmark = pytest.mark.portable

COUNTS = np.array([0, 1, 31, 32, 33, 0, 70])


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
    found = unpack(blocks, packed, m, scaled)
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
