import itertools

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from pcpq.quantizers.clustering import (
    Clusters,
    Section,
    assign,
    best_alphas,
    choose_seeds,
    cluster,
    least_squares_codewords,
    point_losses,
    reseed_empty,
    top_directions,
    total_loss,
)

pytestmark = pytest.mark.kernels


def make_section(seed, *, n=400, size=3, anisotropic=False):
    generator = np.random.default_rng(seed)
    points = (generator.normal(size=(n, size)) * generator.uniform(0.2, 3, size=(n, 1))).astype(np.float32)
    if not anisotropic:
        return Section(points)
    ratios, weights = generator.random((2, n)).astype(np.float32)
    weights[:20] = 0.0
    return Section(points, ratios, weights)


def weights_of(section, i):
    if section.ratios is None:
        return 1.0, 1.0
    parallel = float(section.weights[i])
    return parallel, parallel * float(section.ratios[i])


def random_clusters(section, seed, k=5, projective=True):
    generator = np.random.default_rng(seed)
    n, size = section.points.shape
    return Clusters(
        generator.normal(size=(k, size)).astype(np.float32),
        generator.integers(k, size=n).astype(np.uint16),
        generator.normal(size=n).astype(np.float32) if projective else None,
    )


@pytest.mark.parametrize("anisotropic", [False, True])
@pytest.mark.parametrize("projective", [False, True])
def test_point_losses_follow_the_definition(anisotropic, projective):
    section = make_section(1, anisotropic=anisotropic)
    clusters = random_clusters(section, 2, projective=projective)
    losses = point_losses(section, clusters)
    for i in range(50):
        alpha = 1.0 if clusters.alphas is None else float(clusters.alphas[i])
        r, c = section.points[i].astype(float), clusters.codewords[clusters.assigned[i]].astype(float)
        assert losses[i] == pytest.approx(
            reference.loss(r, alpha * c, *weights_of(section, i)), rel=1e-9, abs=1e-12
        )


@pytest.mark.parametrize("anisotropic", [False, True])
def test_best_alpha_is_the_facts_and_no_other_is_better(anisotropic):
    section = make_section(3, anisotropic=anisotropic)
    clusters = random_clusters(section, 4)
    alphas, curvatures = best_alphas(section, clusters)
    for i in range(20, 60):
        r, c = section.points[i].astype(float), clusters.codewords[clusters.assigned[i]].astype(float)
        parallel, orthogonal = weights_of(section, i)
        fact = parallel * (r @ c) / ((parallel - orthogonal) * (r @ c) ** 2 / (r @ r) + orthogonal * (c @ c))
        assert alphas[i] == pytest.approx(fact, rel=1e-5)
        at = reference.loss(r, fact * c, parallel, orthogonal)
        step = 0.1
        beside = reference.loss(r, (fact + step) * c, parallel, orthogonal)
        assert beside >= at
        assert (beside - at) / step**2 == pytest.approx(curvatures[i], rel=1e-4)


@pytest.mark.parametrize("anisotropic", [False, True])
@pytest.mark.parametrize("projective", [False, True])
def test_theorem_4_2s_codeword_has_zero_gradient(anisotropic, projective):
    section = make_section(5, anisotropic=anisotropic)
    clusters = random_clusters(section, 6, projective=projective)
    clusters.codewords = least_squares_codewords(section, clusters)
    best, step = total_loss(section, clusters), 0.05
    for c in range(5):
        for t in range(3):
            sides = []
            for sign in (-1, 1):
                clusters.codewords[c, t] += np.float32(sign * step)
                sides.append(total_loss(section, clusters))
                clusters.codewords[c, t] -= np.float32(sign * step)
            assert min(sides) > best
            slope, bend = (sides[1] - sides[0]) / (2 * step), (sum(sides) - 2 * best) / step**2
            assert abs(slope) < 1e-4 * bend


def test_the_top_direction_beats_every_other():
    section = make_section(7)
    clusters = random_clusters(section, 8, k=3)
    clusters.codewords = top_directions(section, clusters)
    clusters.alphas = best_alphas(section, clusters)[0]
    best = total_loss(section, clusters)
    for seed in range(20):
        other = Clusters(random_clusters(section, seed, k=3).codewords, clusters.assigned, None)
        other.alphas = best_alphas(section, other)[0]
        assert total_loss(section, other) >= best


@pytest.mark.parametrize("anisotropic", [False, True])
@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("by_distance", [False, True])
def test_assignment_is_the_best_codeword(anisotropic, projective, by_distance, simd_level):
    section = make_section(9, n=100, anisotropic=anisotropic)
    codewords = random_clusters(section, 10, k=7).codewords
    assigned, alphas = assign(section, codewords, projective=projective, by_distance=by_distance)
    for i in range(20, 100):
        r = section.points[i].astype(float)
        losses = []
        for c in codewords.astype(float):
            # The encoder's loss is in units of the parallel weight.
            ratio = 1.0 if section.ratios is None else float(section.ratios[i])
            alpha = 1.0
            if projective:
                alpha = (r @ c) / ((1 - ratio) * (r @ c) ** 2 / (r @ r) + ratio * (c @ c))
            losses.append(
                ((r - alpha * c) @ (r - alpha * c)) if by_distance else reference.loss(r, alpha * c, 1.0, ratio)
            )
        assert losses[assigned[i]] <= min(losses) + 1e-5 * (r @ r)
        assert (alphas is None) == (not projective)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    anisotropic=st.booleans(),
    projective=st.booleans(),
    joint=st.booleans(),
    size=st.integers(1, 5),
    k=st.integers(2, 20),
    init=st.sampled_from(["k-means++", "random", "symmetric"]),
)
def test_the_training_loss_never_rises(seed, anisotropic, projective, joint, size, k, init):
    section = make_section(seed, n=150, size=size, anisotropic=anisotropic)
    seeds = choose_seeds(section.points, k, init, np.random.default_rng(seed))
    losses = cluster(
        section, seeds, projective=projective, joint=joint, tolerance=0.0, max_iterations=12
    ).losses
    scale = float(np.square(section.points, dtype=np.float64).sum())
    assert all(after <= before + 1e-6 * scale for before, after in itertools.pairwise(losses))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(2, 12))
def test_projective_clustering_from_converged_kmeans_is_no_worse(seed, size, k):
    section = make_section(seed, n=200, size=size)
    seeds = choose_seeds(section.points, k, "k-means++", np.random.default_rng(seed))
    plain = cluster(section, seeds, projective=False, tolerance=0.0, max_iterations=100)
    projective = cluster(section, plain.codewords, projective=True)
    assert projective.losses[-1] <= plain.losses[-1] * (1 + 1e-6)


def test_the_joint_step_reaches_a_lower_anisotropic_loss_than_one_step():
    gains = []
    for seed in range(10):
        section = make_section(seed, n=1000, anisotropic=True)
        seeds = choose_seeds(section.points, 6, "k-means++", np.random.default_rng(seed))
        once, joint = (
            cluster(section, seeds, projective=True, joint=joint, tolerance=0.0, max_iterations=1).losses[-1]
            for joint in (False, True)
        )
        gains.append(once - joint)
    assert np.mean(gains) > 0


def test_empty_clusters_go_to_the_worst_fitted_points():
    points = np.array([[1, 0], [1, 0.1], [9, 9], [0, 5]], np.float32)
    clusters = Clusters(np.array([[1, 0], [7, -7], [8, -8]], np.float32), np.zeros(4, np.uint16), None)
    reseed_empty(Section(points), clusters)
    assert np.array_equal(clusters.codewords, [[1, 0], [9, 9], [0, 5]])
    assert np.array_equal(clusters.assigned, [0, 0, 1, 2])


def test_every_codeword_is_used_when_there_are_points_enough():
    section = make_section(12, n=500)
    far = np.full((30, 3), 1e3, np.float32)  # all but one start empty
    assert len(np.unique(cluster(section, far, projective=False).assigned)) == 30


@pytest.mark.parametrize("init", ["k-means++", "random", "symmetric"])
def test_seeds_are_distinct_rows_of_the_points(init, generator):
    points = generator.normal(size=(100, 3)).astype(np.float32)
    seeds = choose_seeds(points, 30, init, generator)
    rows = points / np.linalg.norm(points, axis=1, keepdims=True) if init == "symmetric" else points
    gaps = np.abs(seeds[:, None] - rows[None]).max(axis=2)
    assert gaps.min(axis=1).max() < 1e-6
    assert len(np.unique(gaps.argmin(axis=1))) == 30


def test_symmetric_seeding_takes_a_point_and_its_mirror_image_for_one():
    points = np.array([[1, 0], [-2, 0], [5, 0], [0, 1]], np.float32)
    for seed in range(20):
        seeds = choose_seeds(points, 2, "symmetric", np.random.default_rng(seed))
        assert sorted(np.abs(seeds).argmax(axis=1)) == [0, 1]
