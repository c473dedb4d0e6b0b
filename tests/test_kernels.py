"""The native boundary by itself: SIMD levels agree to the bit, shapes are checked. Run under sanitizers too."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from pcpq import _core

pytestmark = [pytest.mark.kernels, pytest.mark.portable, pytest.mark.quick, pytest.mark.arm]

LOSSES = ("isotropic", "section", "whole")
SCALES = ("none", "exact", "quantized", "vector")
CASES = [case for case in itertools.product(LOSSES, SCALES) if case != ("whole", "vector")]

# Tables of one register, of two, and looked up in memory.
LEVEL_CASES = [
    (loss, scale, s)
    for loss, scale in CASES
    for s in ((1, 2, 8, 16, 17, 40, 256) if scale in ("quantized", "vector") else (1,))
]


def encode(seed, loss, scale, *, n=37, m=3, size=2, k=5, s=6, by_distance=False, sweeps=10):
    """Run the native encoder on random input, odd sizes and all."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(n, m * size)).astype(np.float32)
    points[n // 2] = 0.0
    codewords = generator.normal(size=(m, k, size)).astype(np.float32)
    scales = np.sort(generator.normal(size=(m, s)).astype(np.float32), axis=1)
    ratios = None
    if loss != "isotropic":
        ratios = generator.random((n, 1 if loss == "whole" else m)).astype(np.float32)
    directions = generator.normal(size=points.shape).astype(np.float32) if loss == "whole" else None
    out_codes = np.full((n, m), 9999, np.uint16)
    columns = {"quantized": m, "vector": 1}.get(scale, 0)
    out_scales = np.full((n, columns), 255, np.uint8) if columns else None
    out_alphas = np.full((n, m), np.nan, np.float32) if scale == "exact" else None
    _core.encode(
        points=points,
        codewords=codewords,
        scales=scales,
        directions=directions,
        ratios=ratios,
        loss=loss,
        scale=scale,
        by_distance=by_distance,
        sweeps=sweeps,
        out_codes=out_codes,
        out_scales=out_scales,
        out_alphas=out_alphas,
    )
    return out_codes, out_scales, out_alphas


def plain_arguments(points, codewords):
    """Arguments of the native encoder for plain codes."""
    return {
        "points": points,
        "codewords": codewords,
        "scales": None,
        "directions": None,
        "ratios": None,
        "loss": "isotropic",
        "scale": "none",
        "by_distance": False,
        "sweeps": 0,
        "out_codes": np.empty((len(points), len(codewords)), np.uint16),
        "out_scales": None,
        "out_alphas": None,
    }


def seed(points, uniforms, rows, symmetric=False):
    _core.seed(points=points, uniforms=uniforms, sign_symmetric=symmetric, out_rows=rows)


@pytest.mark.skipif(len(_core.simd_levels()) == 1, reason="this processor has one level only")
@pytest.mark.parametrize(("loss", "scale", "s"), LEVEL_CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9])
def test_every_level_gives_the_bits_of_portable(loss, scale, size, s):
    results = []
    for level in _core.simd_levels():
        _core.set_simd_level(level)
        results.append([encode(seed, loss, scale, size=size, s=s) for seed in range(3)])
        if loss == "section":
            results[-1].append(encode(3, loss, scale, size=size, s=s, by_distance=True))
    _core.set_simd_level("auto")
    for level in results[:-1]:
        for ours, theirs in zip(level, results[-1], strict=True):
            for a, b in zip(ours, theirs, strict=True):
                assert (a is None) == (b is None)
                assert a is None or np.array_equal(a, b)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 127, 128, 129, 300])
def test_every_row_is_written_whatever_the_number(simd_level, n):
    for loss, scale in CASES:
        codes, scales, alphas = encode(n, loss, scale, n=n)
        assert codes.max() < (10 if scale == "vector" else 5)
        assert scales is None or scales.max() < 6
        assert alphas is None or np.isfinite(alphas).all()


def test_a_row_does_not_depend_on_its_neighbours(simd_level, generator):
    points = generator.normal(size=(50, 6)).astype(np.float32)
    codewords = generator.normal(size=(3, 16, 2)).astype(np.float32)

    def codes(rows):
        out = np.empty((len(rows), 3), np.uint16)
        _core.encode(**(plain_arguments(rows, codewords) | {"out_codes": out}))
        return out

    assert np.array_equal(codes(points), np.concatenate([codes(points[i : i + 1]) for i in range(50)]))


@pytest.mark.skipif(len(_core.simd_levels()) == 1, reason="this processor has one level only")
@pytest.mark.parametrize("symmetric", [False, True])
def test_seeds_are_the_same_on_every_level(symmetric, generator):
    points = generator.normal(size=(1001, 5)).astype(np.float32)
    found = []
    for level in _core.simd_levels():
        _core.set_simd_level(level)
        rows = np.empty(40, np.int64)
        seed(points, np.random.default_rng(5).random(40), rows, symmetric)
        found.append(rows)
    _core.set_simd_level("auto")
    assert all(np.array_equal(rows, found[0]) for rows in found)
    assert len(np.unique(found[0])) == 40


def test_kmeans_plus_plus_draws_by_squared_distance(simd_level):
    # Three points at 0, 1 and 3 from the first: chances of the second seed are 0, 1/10 and 9/10.
    points = np.array([[0.0], [1.0], [3.0]], np.float32)
    rows = np.empty(2, np.int64)
    drawn = []
    for uniform in np.linspace(0, 1, 1000, endpoint=False):
        seed(points, np.array([0.0, uniform]), rows)
        drawn.append(rows[1])
    assert np.array_equal(np.bincount(drawn, minlength=3), [0, 100, 900])


def test_more_seeds_than_distinct_points_are_still_rows(simd_level):
    rows = np.empty(20, np.int64)
    seed(np.ones((3, 2), np.float32), np.random.default_rng(0).random(20), rows)
    assert ((rows >= 0) & (rows < 3)).all()


def test_codes_that_name_no_codeword_are_refused():
    codes = np.array([[4]], np.uint8)
    arguments = {
        "codewords": np.zeros((1, 4, 2), np.float32),
        "scales": None,
        "codes": codes,
        "scale_codes": None,
        "alphas": None,
        "out_points": np.empty((1, 2), np.float32),
    }
    with pytest.raises(ValueError, match="a code names a codeword that is not there"):
        _core.decode(**arguments)
    arguments |= {"scales": np.zeros((1, 3), np.float32), "codes": codes - 1, "scale_codes": codes - 1}
    with pytest.raises(ValueError, match="a code names a scale that is not there"):
        _core.decode(**arguments)
    with pytest.raises(ValueError, match="assigned names a codeword that is not there"):
        _core.codeword_grams(
            points=np.zeros((1, 2), np.float32),
            assigned=np.array([4], np.uint16),
            codewords=np.zeros((4, 2), np.float32),
            weights=None,
            out_matrix=np.zeros((4, 2, 2)),
        )


def test_shapes_that_do_not_match_are_refused():
    points, codewords = np.zeros((4, 6), np.float32), np.zeros((3, 5, 2), np.float32)
    for wrong in (
        {"points": np.zeros((4, 5), np.float32)},
        {"out_codes": np.empty((3, 3), np.uint16)},
        {"loss": "section"},
        {"loss": "whole"},
        {"loss": "round"},
        {"scale": "exact"},
        {"scale": "quantized"},
        {"scale": "vector"},
        {"scale": "fish"},
        {"codewords": np.zeros((3, 0, 2), np.float32)},
    ):
        with pytest.raises(ValueError, match=r".+"):
            _core.encode(**(plain_arguments(points, codewords) | wrong))


def test_arrays_of_another_type_are_refused_not_converted():
    with pytest.raises(TypeError):
        seed(np.zeros((3, 2)), np.zeros(2), np.empty(2, np.int64))
    with pytest.raises(TypeError):
        seed(np.zeros((2, 3), np.float32).T, np.zeros(2), np.empty(2, np.int64))


def level_in_a_new_process(value):
    return subprocess.run(
        [sys.executable, "-c", "from pcpq import _core; print(_core.simd_level())"],
        env=os.environ | {"PCPQ_SIMD": value},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("level", _core.simd_levels())
def test_the_environment_forces_a_level(level):
    assert level_in_a_new_process(level).stdout.strip() == level


def test_a_level_that_does_not_exist_is_named_in_the_error():
    result = level_in_a_new_process("sse9")
    assert result.returncode != 0
    assert "PCPQ_SIMD is 'sse9'; this processor and build have auto" in result.stderr
