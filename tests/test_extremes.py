"""Every quantizer on every awkward input: defined, finite, and as good as can be asked."""

import numpy as np
import pytest

import pcpq

pytestmark = pytest.mark.kernels

METHODS = [
    pcpq.PQ(),
    pcpq.PQ(norm_scale=True),
    pcpq.APQ(),
    pcpq.APQ(encoding="section"),
    pcpq.APQ(norm_scale=True),
    pcpq.PCPQ(),
    pcpq.APCPQ(),
    pcpq.APCPQ(encoding="section", assignment="distance"),
    pcpq.QPCPQ(),
    pcpq.QPCPQ(scales_per="vector"),
    pcpq.QPCPQ(shared_scales=True, refine=False),
    pcpq.QAPCPQ(),
    pcpq.QAPCPQ(encoding="section"),
    pcpq.QAPCPQ(scales_per="vector"),
    pcpq.QAPCPQ(paper=True),
]


def ordinary():
    return np.random.default_rng(3).normal(size=(300, 10)).astype(np.float32)


INPUTS = {
    "one row": ordinary()[:1],
    "fewer points than codewords": ordinary()[:7],
    "constant rows": np.full((100, 10), 0.3, np.float32),
    "all zero": np.zeros((100, 10), np.float32),
    "some zero rows": np.where(np.arange(300)[:, None] % 3 == 0, 0, ordinary()).astype(np.float32),
    "a zero section": ordinary() * (np.arange(10) < 6),
    "duplicated rows": np.tile(ordinary()[:5], (60, 1)),
    "two opposite rows": np.tile(ordinary()[:1], (50, 1)) * np.where(np.arange(50)[:, None] % 2, 1, -1),
    "tiny": ordinary() * np.float32(1e-20),
    "huge": ordinary() * np.float32(1e18),
    "tiny beside huge": ordinary() * np.where(np.arange(300)[:, None] % 2, 1e-20, 1e18),
    "one outlier": np.where(np.arange(300)[:, None] == 5, 1e6, 1) * ordinary(),
}
EXACTLY_KEPT = {"one row", "constant rows", "all zero", "duplicated rows", "two opposite rows"}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("quantizer", METHODS, ids=repr)
@pytest.mark.parametrize("section_size", [3, 10])
def test_awkward_input_gives_finite_answers(name, quantizer, section_size):
    rows = INPUTS[name]
    for corrected in ("auto", True):
        quantizer.set_params(section_size=section_size, gain=corrected, bias=corrected).fit(rows)
        codes = quantizer.encode(rows)
        decoded, scores = quantizer.decode(codes), quantizer.scores(rows, codes)
        assert np.isfinite(decoded).all()
        assert np.isfinite(scores).all()
        assert np.isfinite(quantizer.codewords_).all()
        assert quantizer.scales_ is None or np.isfinite(quantizer.scales_).all()
        for field in (codes.gains, codes.biases):
            assert field is None or np.isfinite(field).all()
        error, size = (
            np.square(rows - decoded, dtype=np.float64).sum(),
            np.square(rows, dtype=np.float64).sum(),
        )
        assert error <= size  # never worse than nothing
        if name in EXACTLY_KEPT:
            # Where scales are shared, or one a vector, a few rows may still be more than the codes can say.
            few = quantizer.get_params().get("scales_per") == "vector" or quantizer.scales_ is not None
            assert error <= (0.03 if few else 1e-6) * size


@pytest.mark.parametrize("size", [1e-20, 1e18])
@pytest.mark.parametrize("quantizer", METHODS, ids=repr)
def test_the_size_of_numbers_does_not_change_the_codes(size, quantizer):
    factor = np.float32(2.0 ** np.round(np.log2(size)))
    rows = ordinary()
    quantizer.set_params(section_size=3, gain="auto", bias="auto")
    plain = quantizer.fit(rows).encode(rows)
    scores = quantizer.scores(rows[:5], plain)
    scaled = quantizer.fit(rows * factor).encode(rows * factor)
    assert np.array_equal(plain.codes, scaled.codes)
    assert np.allclose(quantizer.scores(rows[:5], scaled), scores * factor, rtol=1e-5, atol=1e-6 * factor)
    # A huge query as well: 1e18 times 1e18 is still a float32.
    assert np.isfinite(quantizer.scores(rows[:5] * np.float32(1e18), scaled)).all()


def test_more_scales_than_distinct_alphas_repeat_a_scale():
    rows = np.repeat(np.eye(2, dtype=np.float32), 20, axis=0) * np.repeat([1.0, 2.0], 20)[:, None].astype(
        np.float32
    )
    quantizer = pcpq.QPCPQ(section_size=2, n_centers=2, n_scales=256, gain=False, bias=False).fit(rows)
    assert np.allclose(quantizer.decode(quantizer.encode(rows)), rows, atol=1e-6)
    assert len(np.unique(quantizer.scales_)) <= 2


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_fewest_dimensions_work(d, generator):
    rows = generator.normal(size=(200, d)).astype(np.float32)
    for quantizer in METHODS:
        quantizer.set_params(section_size=1, gain="auto", bias="auto").fit(rows)
        assert np.isfinite(quantizer.scores(rows, quantizer.encode(rows))).all()


def test_65536_codewords_work_for_pq(generator):
    rows = generator.normal(size=(66_000, 2)).astype(np.float32)
    quantizer = pcpq.PQ(section_size=2, n_centers=65_536, max_iterations=0, training_rows=66_000, init="random")
    codes = quantizer.set_params(gain=False, bias=False).fit(rows).encode(rows[:500])
    assert codes.codes.dtype == np.uint16
    assert quantizer.bits_per_vector == 16
    assert np.mean(np.square(rows[:500] - quantizer.decode(codes))) < 1e-4


def test_a_long_section_works(generator):
    rows = generator.normal(size=(100, 200)).astype(np.float32)
    for quantizer in (
        pcpq.QPCPQ(n_sections=1),
        pcpq.QAPCPQ(n_sections=1, encoding="section"),
        pcpq.APQ(n_sections=2),
    ):
        codes = quantizer.fit(rows).encode(rows)
        assert np.isfinite(quantizer.scores(rows[:3], codes)).all()
