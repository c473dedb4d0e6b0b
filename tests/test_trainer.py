import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pcpq
from pcpq.quantizers.clustering import Clusters, Section, best_alphas, choose_seeds, cluster, total_loss
from pcpq.quantizers.scales import best_levels, nearest_level

PLAIN = {"gain": False, "bias": False}


def error(quantizer, rows):
    return float(np.mean(np.square(rows - quantizer.decode(quantizer.encode(rows)))))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.integers(1, 9))
def test_the_quantized_scale_loss_is_projection_plus_scalar_loss(seed, size, n_scales):
    """The paper bounds it; the error along the codeword is orthogonal to the rest, so it is equal."""
    points = np.random.default_rng(seed).normal(size=(200, size)).astype(np.float32)
    section = Section(points)
    found = cluster(section, choose_seeds(points, 4, "k-means++", np.random.default_rng(seed)), projective=True)
    alphas, curvatures = best_alphas(section, found)
    levels = best_levels(alphas, curvatures, n_scales)
    rounded = levels[nearest_level(alphas, levels)]
    projection = total_loss(section, Clusters(found.codewords, found.assigned, alphas))
    scalar = float((curvatures.astype(float) * (alphas.astype(float) - rounded) ** 2).sum())
    quantized = total_loss(section, Clusters(found.codewords, found.assigned, rounded))
    assert quantized == pytest.approx(projection + scalar, rel=1e-5)


@pytest.mark.parametrize("method", [pcpq.QPCPQ, pcpq.QAPCPQ])
@pytest.mark.parametrize("shared", [False, True])
def test_refinement_lowers_the_error(method, shared, clustered_vectors):
    options = {"encoding": "section"} if method.anisotropic else {}
    plain, refined = (
        method(section_size=3, n_scales=4, refine=refine, shared_scales=shared, **options, **PLAIN).fit(
            clustered_vectors
        )
        for refine in (False, True)
    )
    assert error(refined, clustered_vectors) < error(plain, clustered_vectors)


def test_methods_rank_as_their_freedom_does(clustered_vectors):
    errors = {
        method.__name__: error(method(section_size=4, **PLAIN).fit(clustered_vectors), clustered_vectors)
        for method in (pcpq.PQ, pcpq.QPCPQ, pcpq.PCPQ)
    }
    assert errors["PCPQ"] < errors["QPCPQ"] < errors["PQ"]


def test_shared_scales_are_one_row_and_separate_ones_differ(clustered_vectors):
    rows = clustered_vectors.copy()
    rows[:, :4] = rows[:, :4] ** 3  # one section with other, wider scales
    shared = pcpq.QPCPQ(section_size=4, shared_scales=True, **PLAIN).fit(rows)
    separate = pcpq.QPCPQ(section_size=4, shared_scales=False, **PLAIN).fit(rows)
    assert shared.scales_.shape == (16,)
    assert separate.scales_.shape == (6, 16)
    assert error(separate, rows) < error(shared, rows)


def test_a_section_of_little_energy_does_not_starve_when_scales_are_shared(generator):
    rows = generator.normal(size=(2000, 8)).astype(np.float32)
    rows[:, :4] *= 1e-3
    quantizer = pcpq.QPCPQ(section_size=4, shared_scales=True, **PLAIN).fit(rows)
    decoded = quantizer.decode(quantizer.encode(rows))
    small = np.mean(np.square(rows - decoded)[:, :4]) / np.mean(np.square(rows)[:, :4])
    large = np.mean(np.square(rows - decoded)[:, 4:]) / np.mean(np.square(rows)[:, 4:])
    assert small == pytest.approx(large, rel=0.3)


def test_one_scale_a_vector_lies_between_none_and_one_a_section(clustered_vectors):
    sizes = np.random.default_rng(0).lognormal(sigma=1.0, size=(3000, 1)).astype(np.float32)
    rows = clustered_vectors * sizes
    none = pcpq.PQ(section_size=4, **PLAIN).fit(rows)
    vector = pcpq.QPCPQ(section_size=4, scales_per="vector", **PLAIN).fit(rows)
    section = pcpq.QPCPQ(section_size=4, **PLAIN).fit(rows)
    assert error(section, rows) < error(vector, rows) < error(none, rows)
    assert (section.bits_per_vector, vector.bits_per_vector) == (6 * 8, 6 * 5 + 4)


def test_norms_stored_apart_help_when_norms_vary(clustered_vectors):
    sizes = np.random.default_rng(0).lognormal(sigma=2.0, size=(3000, 1)).astype(np.float32)
    rows = clustered_vectors * sizes
    plain = pcpq.PQ(section_size=4, **PLAIN).fit(rows)
    normed = pcpq.PQ(section_size=4, norm_scale=True, **PLAIN).fit(rows)

    def relative(quantizer):
        gaps = np.linalg.norm(rows - quantizer.decode(quantizer.encode(rows)), axis=1)
        return np.median(gaps / np.linalg.norm(rows, axis=1))

    assert relative(normed) < 0.8 * relative(plain)
    assert normed.bits_per_vector == 6 * 4 + 8
    assert normed.scales_.shape == (256,)


def test_queries_that_look_one_way_make_that_way_accurate(clustered_vectors, generator):
    queries = (generator.normal(size=(500, 24)) * np.where(np.arange(24) % 4 == 0, 10.0, 0.1)).astype(
        np.float32
    )
    blind = pcpq.QPCPQ(section_size=4, **PLAIN).fit(clustered_vectors)
    aware = pcpq.QPCPQ(section_size=4, **PLAIN).fit(clustered_vectors, queries=queries[:250])
    exact = queries[250:] @ clustered_vectors.T
    gaps = [
        np.mean(np.square(q.scores(queries[250:], q.encode(clustered_vectors)) - exact)) for q in (blind, aware)
    ]
    assert gaps[1] < 0.3 * gaps[0]
    assert error(aware, clustered_vectors) > error(blind, clustered_vectors)


@pytest.mark.parametrize("init", ["k-means++", "random", "symmetric"])
@pytest.mark.parametrize("method", [pcpq.PQ, pcpq.QAPCPQ])
def test_every_init_trains(init, method, clustered_vectors):
    quantizer = method(section_size=4, init=init, **PLAIN).fit(clustered_vectors)
    assert error(quantizer, clustered_vectors) < 0.5 * np.mean(np.square(clustered_vectors))


def test_training_can_start_from_given_codewords(clustered_vectors):
    start = pcpq.PQ(section_size=4, max_iterations=100, **PLAIN).fit(clustered_vectors)
    projective = pcpq.PCPQ(section_size=4, init=start.codewords_ / start.unit_, **PLAIN).fit(clustered_vectors)
    assert all(ours[-1] <= theirs[-1] for ours, theirs in zip(projective.losses_, start.losses_, strict=True))
    with pytest.raises(ValueError, match=r"init has shape \(6, 16, 3\); expected \(6, 16, 4\)"):
        pcpq.PCPQ(section_size=4, init=start.codewords_[:, :, :3]).fit(clustered_vectors)


def test_the_threshold_is_relative_to_the_mean_norm(clustered_vectors):
    small, large = (
        pcpq.APQ(section_size=4, **PLAIN).fit(clustered_vectors * np.float32(factor))
        for factor in (1.0, 1024.0)
    )
    assert np.array_equal(small.codewords_ * 1024, large.codewords_)
    norms = np.linalg.norm(clustered_vectors.reshape(3000, 6, 4), axis=2).mean(axis=0)
    assert np.allclose(small.model_.section_thresholds * small.unit_, 0.2 * norms, rtol=1e-5)


def test_a_threshold_of_zero_is_isotropic(clustered_vectors):
    ours = pcpq.APQ(section_size=4, threshold=0.0, **PLAIN).fit(clustered_vectors)
    plain = pcpq.PQ(section_size=4, **PLAIN).fit(clustered_vectors)
    assert np.allclose(ours.codewords_, plain.codewords_, atol=1e-5)


def test_assignment_by_distance_makes_other_codes_of_less_distance_and_more_loss(clustered_vectors):
    sums = {}
    for assignment in ("loss", "distance"):
        quantizer = pcpq.QAPCPQ(
            section_size=4, threshold=0.8, assignment=assignment, encoding="section", **PLAIN
        )
        gaps = clustered_vectors - quantizer.fit(clustered_vectors).decode(quantizer.encode(clustered_vectors))
        along = np.einsum("ij,ij->i", gaps, clustered_vectors)
        sums[assignment] = (np.mean(np.square(gaps)), np.mean(np.square(along)))
    assert sums["distance"][0] < sums["loss"][0]
    assert sums["distance"][1] > sums["loss"][1]


def test_only_so_many_rows_are_looked_at(clustered_vectors):
    rows = clustered_vectors.copy()
    few = pcpq.PQ(section_size=4, training_rows=500).fit(rows)
    again = pcpq.PQ(section_size=4, training_rows=500).fit(rows)
    assert np.array_equal(few.codewords_, again.codewords_)
    assert sum(losses[0] for losses in few.losses_) < sum(
        losses[0] for losses in pcpq.PQ(section_size=4).fit(rows).losses_
    )
