import tracemalloc

import numpy as np
import pytest
import reference

import pcpq
from pcpq.quantizers.encoder import anchored_corrections, corrections
from pcpq.quantizers.loss import anisotropic_weights

pytestmark = pytest.mark.kernels

PLAIN = {"gain": False, "bias": False}


def section_weights(quantizer, section, j):
    """Parallel weight 1 and the orthogonal one of a section, from the definition."""
    model = quantizer.model_
    if model.section_thresholds is None:
        return 1.0, 1.0
    norm, threshold = np.linalg.norm(section.astype(float)), float(model.section_thresholds[j])
    if norm <= threshold:
        return 1.0, 1.0
    return 1.0, float(anisotropic_weights(np.array([threshold / norm]), model.layout.section_size)[1][0])


@pytest.mark.parametrize("method", [pcpq.QPCPQ, pcpq.QAPCPQ, pcpq.PQ, pcpq.APQ])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_encoding_finds_the_least_loss_over_all_pairs(method, size, clustered_vectors, simd_level):
    options = {"encoding": "section"} if method.anisotropic else {}
    quantizer = method(section_size=size, n_centers=8, **PLAIN, **options)
    quantizer.set_params(n_scales=5)
    rows = clustered_vectors[:600]
    quantizer.fit(rows)
    codes = quantizer.encode(rows[:60])
    model = quantizer.model_
    points = model.layout.pad(rows[:60] / np.float32(model.unit)).reshape(60, model.layout.n_sections, size)
    for i in range(60):
        for j in range(model.layout.n_sections):
            r = points[i, j].astype(float)
            weights = section_weights(quantizer, points[i, j], j)
            scales = [1.0] if model.scales is None else model.scales[j].astype(float)
            alpha = 1.0 if model.scales is None else float(model.scales[j, codes.scales[i, j]])
            got = reference.loss(r, alpha * model.codewords[j, codes.codes[i, j]].astype(float), *weights)
            best = reference.exhaustive_section(r, model.codewords[j].astype(float), scales, *weights)
            assert got <= best + 1e-5 * (r @ r)


@pytest.mark.parametrize("method", [pcpq.QPCPQ, pcpq.QAPCPQ])
def test_one_scale_a_vector_is_the_best_of_all_scales_and_signs(method, clustered_vectors, simd_level):
    quantizer = method(section_size=4, n_centers=5, n_scales=4, scales_per="vector", **PLAIN).fit(
        clustered_vectors[:500]
    )
    rows = clustered_vectors[:40]
    codes = quantizer.encode(rows)
    assert codes.scales.shape == (40, 1)
    model = quantizer.model_
    points = (rows / np.float32(model.unit)).reshape(40, 6, 4)
    decoded = (quantizer.decode(codes) / np.float32(model.unit)).reshape(40, 6, 4)
    for i in range(40):
        weights = [section_weights(quantizer, points[i, j], j) for j in range(6)]
        parallel, orthogonal = zip(*weights, strict=True)
        got = sum(
            reference.loss(points[i, j].astype(float), decoded[i, j].astype(float), *weights[j])
            for j in range(6)
        )
        best = reference.exhaustive_vector(
            points[i].astype(float),
            model.codewords.astype(float),
            model.vector_levels.astype(float),
            parallel,
            orthogonal,
        )
        assert got <= best + 1e-4 * np.square(points[i]).sum()


@pytest.mark.parametrize("method", [pcpq.APQ, pcpq.APCPQ, pcpq.QAPCPQ])
@pytest.mark.parametrize("size", [2, 3])
def test_no_single_section_can_improve_a_whole_vector_code(
    method, size, clustered_vectors, generator, simd_level
):
    quantizer = method(section_size=size, n_centers=6, encoding="whole", threshold=0.4, **PLAIN)
    directions = clustered_vectors + generator.normal(size=clustered_vectors.shape).astype(np.float32)
    quantizer.fit(clustered_vectors, directions=directions)
    codes = quantizer.encode(clustered_vectors[:30], directions=directions[:30])
    model = quantizer.model_
    points = (clustered_vectors[:30] / np.float32(model.unit)).astype(float)
    towards = (directions[:30] / np.float32(model.unit)).astype(float)
    decoded = (quantizer.decode(codes) / np.float32(model.unit)).astype(float)
    for i in range(30):
        norm = np.linalg.norm(towards[i])
        ratio = 1.0
        if norm > model.vector_threshold:
            ratio = float(anisotropic_weights(np.array([model.vector_threshold / norm]), 24)[1][0])
        now = reference.loss(points[i], decoded[i], 1.0, ratio, towards[i])
        for j in range(24 // size):
            part = slice(j * size, (j + 1) * size)
            scales = [1.0]
            if method.scale == "exact":
                scales = codes.scales[i, j] * np.linspace(0.5, 1.5, 11)
            elif model.scales is not None:
                scales = model.scales[j].astype(float)
            for codeword in model.codewords[j].astype(float):
                for scale in scales:
                    other = decoded[i].copy()
                    other[part] = scale * codeword
                    assert reference.loss(points[i], other, 1.0, ratio, towards[i]) >= now - 1e-4 * norm**2


def test_whole_vector_encoding_trades_orthogonal_error_for_parallel_error(clustered_vectors):
    parallel, total = {}, {}
    for threshold in (0.0, 0.6):
        quantizer = pcpq.APQ(section_size=4, threshold=threshold, encoding="whole", **PLAIN).fit(
            clustered_vectors
        )
        error = clustered_vectors - quantizer.decode(quantizer.encode(clustered_vectors))
        parallel[threshold] = np.mean(np.einsum("ij,ij->i", error, clustered_vectors) ** 2)
        total[threshold] = np.mean(np.square(error))
    assert parallel[0.6] < 0.2 * parallel[0.0]
    assert total[0.6] > total[0.0]


def test_the_gain_makes_the_estimate_exact_along_the_vector(clustered_vectors):
    quantizer = pcpq.PQ(section_size=4, gain=True, bias=False).fit(clustered_vectors)
    codes = quantizer.encode(clustered_vectors[:200])
    estimates = np.diag(quantizer.scores(clustered_vectors[:200], codes))
    assert np.allclose(estimates, np.square(clustered_vectors[:200]).sum(axis=1), rtol=2e-3)


def test_the_bias_makes_the_estimate_exact_along_the_direction(clustered_vectors, generator):
    directions = clustered_vectors + generator.normal(size=clustered_vectors.shape).astype(np.float32)
    quantizer = pcpq.PQ(section_size=4, gain=True, bias=True).fit(clustered_vectors, directions=directions)
    weight = quantizer.model_.bias_weight
    codes = quantizer.encode(clustered_vectors, directions=directions)
    plain = quantizer.scores(directions[:200], pcpq.Codes(codes.codes, None, codes.gains, None)[:200])
    biased = quantizer.scores(directions[:200], codes[:200])
    exact = np.einsum("ij,ij->i", directions[:200], clustered_vectors[:200])
    left = exact - np.diag(biased)
    assert np.allclose(left, (1 - weight) * (exact - np.diag(plain)), atol=2e-3 * np.abs(exact).max())


def test_an_anchored_bias_makes_the_estimate_exact_in_the_plane_of_anchor_and_vector(
    clustered_vectors, generator
):
    anchors = generator.normal(size=clustered_vectors.shape).astype(np.float32)
    quantizer = pcpq.PQ(section_size=4, gain=True, bias="anchor").fit(
        clustered_vectors, directions=clustered_vectors + anchors
    )
    rows, anchors = clustered_vectors[:200], anchors[:200]
    codes = quantizer.encode(rows, directions=rows + anchors)
    for along_anchor, along_vector in ((1, 0), (0, 1), (2, -1)):
        queries = along_anchor * anchors + along_vector * rows
        exact = np.einsum("ij,ij->i", queries, rows + anchors)
        estimates = np.diag(quantizer.scores(queries, codes, anchors=anchors))
        assert np.allclose(estimates, exact, atol=4e-3 * np.abs(exact).max())


def test_an_anchored_bias_is_defined_where_anchor_and_vector_have_no_plane():
    points = np.array([[1.0, 0], [1, 0], [0, 0], [1, 0], [1e-20, 0]], np.float32)
    anchors = np.array([[2.0, 0], [0, 0], [1, 0], [0, 1], [1e18, 1e18]], np.float32)
    decoded = np.array([[0.5, 0.1], [0.5, 0], [1, 1], [-1, 0], [1, 1]], np.float32)
    gains, biases = anchored_corrections(points, anchors, decoded, True)
    assert np.array_equal(gains[:4], np.array([2, 2, 1, 1], np.float16))
    assert biases[1] == 0
    assert np.isfinite(gains).all()
    assert np.isfinite(biases).all()


def test_gains_stay_in_their_range_and_are_one_where_they_make_no_sense():
    points = np.array([[1.0, 0], [1, 0], [1, 0], [1, 0], [0, 0]], np.float32)
    decoded = np.array([[0.01, 0], [100, 0], [-1, 0], [0, 1], [1, 1]], np.float32)
    gains, biases = corrections(points, points, decoded, True, 1.0)
    assert np.array_equal(gains, np.array([4, 0.25, 1, 1, 1], np.float16))
    assert np.isfinite(biases).all()
    assert biases[4] == 0  # a zero direction has none


@pytest.mark.parametrize("method", [pcpq.PQ, pcpq.QAPCPQ, pcpq.PCPQ])
def test_memory_maps_float16_and_float64_give_the_codes_of_float32(method, clustered_vectors, tmp_path):
    rows = clustered_vectors.astype(np.float16)
    quantizer = method(n_sections=5).fit(rows.astype(np.float32))
    expected = quantizer.encode(rows.astype(np.float32))
    np.save(tmp_path / "rows.npy", rows)
    for given in (
        rows,
        rows.astype(np.float64),
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
        np.asfortranarray(rows),
    ):
        codes = quantizer.encode(given)
        for ours, theirs in zip(codes._fields(), expected._fields(), strict=True):
            assert (ours is None and theirs is None) or np.array_equal(ours, theirs)


def test_codes_do_not_depend_on_the_batch(clustered_vectors, monkeypatch):
    quantizer = pcpq.QAPCPQ(section_size=3).fit(clustered_vectors)
    whole = quantizer.encode(clustered_vectors)
    monkeypatch.setattr("pcpq.util.batches.BATCH_ELEMENTS", 1)
    parts = quantizer.encode(clustered_vectors)
    assert np.array_equal(whole.codes, parts.codes)
    assert np.array_equal(whole.scales, parts.scales)


def test_a_bad_row_is_named_by_its_place_in_the_whole_input(clustered_vectors, monkeypatch):
    quantizer = pcpq.PQ(section_size=4).fit(clustered_vectors)
    monkeypatch.setattr("pcpq.util.batches.BATCH_ELEMENTS", 1)
    rows = clustered_vectors.copy()
    rows[1234, 5] = np.nan
    with pytest.raises(ValueError, match=r"vectors\[1234, 5\] is nan"):
        quantizer.encode(rows)
    with pytest.raises(ValueError, match=r"directions\[1234, 5\] is nan"):
        quantizer.encode(clustered_vectors, directions=rows)


@pytest.mark.parametrize("threads", [1, 4])
def test_encoding_a_memory_map_takes_the_codes_and_little_more(threads, tmp_path):
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", np.float16, (400_000, 64))
    for start in range(0, len(rows), 50_000):
        rows[start : start + 50_000] = np.random.default_rng(start).normal(size=(50_000, 64))
    quantizer = pcpq.QAPCPQ(section_size=4, threads=threads, training_rows=2000, gain=True, bias=True).fit(rows)
    tracemalloc.start()
    codes = quantizer.encode(np.load(tmp_path / "rows.npy", mmap_mode="r"), directions=rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(codes) == 400_000
    assert peak - codes.nbytes < 256e6


@pytest.mark.parametrize("method", [pcpq.PQ, pcpq.APQ, pcpq.PCPQ, pcpq.APCPQ, pcpq.QPCPQ, pcpq.QAPCPQ])
def test_every_number_and_size_of_sections_works(method, generator):
    rows = generator.normal(size=(120, 7)).astype(np.float32)
    for name in ("section_size", "n_sections"):
        for number in range(1, 8):
            quantizer = method(**{name: number}, n_centers=4, max_iterations=3).fit(rows)
            decoded = quantizer.decode(quantizer.encode(rows))
            assert decoded.shape == rows.shape
            assert np.square(rows - decoded).sum() < np.square(rows).sum()


@pytest.mark.parametrize(("n_centers", "n_scales"), [(2, 1), (2, 256), (3, 5), (16, 17), (256, 1), (256, 256)])
@pytest.mark.parametrize("scales_per", ["section", "vector"])
def test_every_number_of_codewords_and_scales_works(n_centers, n_scales, scales_per, clustered_vectors):
    rows = clustered_vectors[:400]
    quantizer = pcpq.QPCPQ(
        section_size=6, n_centers=n_centers, n_scales=n_scales, scales_per=scales_per, gain=False, bias=False
    ).fit(rows)
    codes = quantizer.encode(rows)
    assert int(codes.scales.max()) < n_scales
    assert np.square(rows - quantizer.decode(codes)).sum() < np.square(rows).sum()
