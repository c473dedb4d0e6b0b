import numpy as np
import pytest
import reference

import pcpq
from pcpq import _core
from pcpq.quantizers.scorer import score_arguments

pytestmark = [pytest.mark.kernels, pytest.mark.portable, pytest.mark.quick, pytest.mark.arm]

METHODS = [pcpq.PQ, pcpq.APQ, pcpq.PCPQ, pcpq.APCPQ, pcpq.QPCPQ, pcpq.QAPCPQ]


def expected_scores(quantizer, codes, queries):
    """Gain * decoded @ query + |query| * bias, in float64."""
    out = queries.astype(float) @ quantizer.decode(codes).astype(float).T
    if codes.gains is not None:
        out *= codes.gains.astype(float)
    if codes.biases is not None:
        lengths = np.linalg.norm(queries.astype(float), axis=1)
        out += quantizer.unit_ * lengths[:, None] * codes.biases.astype(float)
    return out


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("corrected", [False, True])
def test_scores_agree_with_decoded_vectors(method, corrected, clustered_vectors, generator, simd_level):
    quantizer = method(section_size=5, gain=corrected, bias=corrected).fit(
        clustered_vectors, directions=clustered_vectors + 1
    )
    codes = quantizer.encode(clustered_vectors[:300], directions=clustered_vectors[:300] + 1)
    assert (codes.gains is not None, codes.biases is not None) == (corrected, corrected)
    queries = generator.normal(size=(37, 24)).astype(np.float32)
    expected = expected_scores(quantizer, codes, queries)
    scores = quantizer.scores(queries, codes)
    assert scores.dtype == np.float32
    assert np.allclose(scores, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    "quantizer",
    [
        pcpq.QPCPQ(section_size=3, scales_per="vector", n_scales=7),
        pcpq.QAPCPQ(section_size=3, scales_per="vector", n_scales=7),
        pcpq.PQ(section_size=3, norm_scale=True, n_scales=32),
        pcpq.APQ(section_size=3, norm_scale=True, n_scales=32),
        pcpq.QPCPQ(section_size=3, shared_scales=True),
        pcpq.PQ(section_size=12, n_centers=300),
        pcpq.QPCPQ(section_size=6, n_centers=200, scales_per="vector"),
    ],
    ids=repr,
)
def test_scores_agree_with_decoded_vectors_for_every_kind_of_scale(quantizer, clustered_vectors, generator):
    codes = quantizer.fit(clustered_vectors).encode(clustered_vectors[:200])
    queries = generator.normal(size=(5, 24)).astype(np.float32)
    expected = expected_scores(quantizer, codes, queries)
    assert np.allclose(quantizer.scores(queries, codes), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("bias", [False, True, "anchor"])
def test_scores_with_anchors_are_those_of_the_whole_vectors(bias, clustered_vectors, generator):
    rows, queries = clustered_vectors[:200], generator.normal(size=(5, 24)).astype(np.float32)
    quantizer = pcpq.QPCPQ(section_size=4, gain=True, bias=bias).fit(clustered_vectors, clustered_vectors + 1)
    codes = quantizer.encode(rows, directions=rows + 1)
    share = 1 + codes.biases.astype(float) if bias == "anchor" else 1
    rest = pcpq.Codes(codes.codes, codes.scales, codes.gains, None if bias == "anchor" else codes.biases)
    expected = expected_scores(quantizer, rest, queries) + queries.sum(axis=1, dtype=float)[:, None] * share
    for anchors in (np.ones(24), np.ones((200, 24))):
        scores = quantizer.scores(queries, codes, anchors=anchors)
        assert np.allclose(scores, expected, atol=1e-5 * np.abs(expected).max())


def test_anchors_that_are_missing_or_do_not_match_are_named(clustered_vectors):
    quantizer = pcpq.PQ(section_size=4, bias="anchor").fit(clustered_vectors, clustered_vectors + 1)
    codes = quantizer.encode(clustered_vectors[:9], directions=clustered_vectors[:9] + 1)
    with pytest.raises(ValueError, match="scores needs anchors"):
        quantizer.scores(clustered_vectors[:2], codes)
    with pytest.raises(ValueError, match="3 anchors do not match 9 codes"):
        quantizer.scores(clustered_vectors[:2], codes, anchors=clustered_vectors[:3])


@pytest.mark.parametrize("method", METHODS)
def test_decoding_is_alpha_times_codeword(method, clustered_vectors):
    quantizer = method(section_size=4, gain=False, bias=False).fit(clustered_vectors)
    codes = quantizer.encode(clustered_vectors[:50])
    if method.scale == "none":
        alphas = np.ones((50, 6))
    elif method.scale == "exact":
        alphas = codes.scales
    else:
        alphas = np.take_along_axis(quantizer.scales_[None], codes.scales[:, :, None].astype(int), axis=2)[
            :, :, 0
        ]
    expected = reference.decode(quantizer.codewords_, codes.codes, alphas)
    assert np.allclose(quantizer.decode(codes), expected, rtol=1e-5, atol=1e-6)


def test_scores_of_one_query_are_those_of_it_among_many(clustered_vectors, generator):
    quantizer = pcpq.QPCPQ(section_size=2).fit(clustered_vectors)
    codes = quantizer.encode(clustered_vectors)
    queries = generator.normal(size=(50, 24)).astype(np.float32)
    many = quantizer.scores(queries, codes)
    one = quantizer.scores(queries[7], codes)
    assert one.shape == (3000,)
    assert np.allclose(one, many[7], rtol=1e-6, atol=1e-5)


def test_scores_follow_the_true_inner_products(clustered_vectors):
    quantizer = pcpq.QPCPQ(section_size=2).fit(clustered_vectors)
    scores = quantizer.scores(clustered_vectors[:20], quantizer.encode(clustered_vectors))
    exact = clustered_vectors[:20] @ clustered_vectors.T
    assert np.corrcoef(scores.ravel(), exact.ravel())[0, 1] > 0.995


@pytest.mark.parametrize(("n", "m", "size", "k", "s"), [(50, 3, 4, 16, 8), (200, 6, 2, 5, 3)])
def test_table_1_operations_are_counted(n, m, size, k, s, generator):
    """Application time: kd + 2nm for PQ, skd + 2nm for PQ with ks codewords, kd + skm + 2nm for Q-PCPQ."""
    rows = generator.normal(size=(max(n, k * s), m * size)).astype(np.float32)
    query = generator.normal(size=(1, m * size)).astype(np.float32)
    d = m * size

    def counted(quantizer):
        quantizer.set_params(gain=False, bias=False, section_size=size)
        codes = quantizer.fit(rows).encode(rows[:n])
        found = _core.count_score_operations(queries=query, **score_arguments(quantizer.model_, codes))
        counts = (found.multiply_adds, found.multiplications, found.look_ups, found.additions)
        assert np.allclose(quantizer.scores(query, codes), expected_scores(quantizer, codes, query), atol=1e-4)
        return sum(counts), quantizer.bits_per_vector, counts

    total, bits, counts = counted(pcpq.PQ(n_centers=k))
    assert counts == (k * d, 0, n * m, n * m)
    assert (total, bits) == (k * d + 2 * n * m, m * int(np.ceil(np.log2(k))))

    total, bits, _ = counted(pcpq.PQ(n_centers=k * s))
    assert (total, bits) == (s * k * d + 2 * n * m, m * int(np.ceil(np.log2(k * s))))

    total, bits, counts = counted(pcpq.QPCPQ(n_centers=k, n_scales=s))
    assert counts == (k * d, s * k * m, n * m, n * m)
    assert total == k * d + s * k * m + 2 * n * m
    assert bits == m * int(np.ceil(np.log2(k)) + np.ceil(np.log2(s)))

    # Plain clustering is the table's first row: one section.
    quantizer = pcpq.PQ(n_sections=1, n_centers=k, gain=False, bias=False)
    codes = quantizer.fit(rows).encode(rows[:n])
    found = _core.count_score_operations(queries=query, **score_arguments(quantizer.model_, codes))
    assert (found.multiply_adds, found.look_ups) == (k * d, n)
    assert quantizer.bits_per_vector == int(np.ceil(np.log2(k)))


def test_codes_of_another_quantizer_are_refused(clustered_vectors):
    fitted = pcpq.QPCPQ(section_size=4).fit(clustered_vectors)
    codes = fitted.encode(clustered_vectors[:5])
    with pytest.raises(ValueError, match=r"codes have shape \(5, 6\); the quantizer has 12 sections"):
        pcpq.QPCPQ(section_size=2).fit(clustered_vectors).decode(codes)
    with pytest.raises(ValueError, match="codes lack scales; QPCPQ has 6 per vector"):
        fitted.decode(pcpq.Codes(codes.codes))
    with pytest.raises(ValueError, match="codes hold scales; PQ has 0 per vector"):
        pcpq.PQ(section_size=4).fit(clustered_vectors).decode(codes)
    with pytest.raises(ValueError, match="codes have dtype uint16; the quantizer's have uint8"):
        fitted.decode(pcpq.Codes(codes.codes.astype(np.uint16), codes.scales))
    with pytest.raises(ValueError, match=r"scales have shape \(5, 3\); expected \(5, 6\)"):
        fitted.decode(pcpq.Codes(codes.codes, codes.scales[:, :3]))
    with pytest.raises(ValueError, match=r"gains have shape \(3,\); expected \(5,\)"):
        fitted.scores(clustered_vectors[:1], pcpq.Codes(codes.codes, codes.scales, np.ones(3, np.float16)))
    with pytest.raises(ValueError, match="a code names a codeword that is not there"):
        fitted.scores(clustered_vectors[:1], pcpq.Codes(codes.codes + 100, codes.scales))
    normed = pcpq.PQ(section_size=4, norm_scale=True, n_scales=4).fit(clustered_vectors)
    codes = normed.encode(clustered_vectors[:5])
    with pytest.raises(ValueError, match="a code names scale 200; the quantizer has 4"):
        normed.scores(
            clustered_vectors[:1], pcpq.Codes(codes.codes, np.full((5, 1), 200, np.uint8), codes.gains)
        )
