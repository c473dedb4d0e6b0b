"""Graphs of neighbors as scikit-learn's, and what takes them."""

import pickle

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE, Isomap
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestNeighbors
from sklearn.pipeline import make_pipeline

import pcpq
from pcpq.integrations.sklearn import PCPQNeighborsTransformer, symmetric_graph


def rows_of(graph):
    """(n, k) columns and values of rows of the same length, as they are stored."""
    return graph.indices.reshape(graph.shape[0], -1), graph.data.reshape(graph.shape[0], -1)


def recall(found, exact):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, exact, strict=True)])


# Neighbors


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_few_samples_have_the_graph_that_scikit_learn_finds(metric, mode, blobs):
    X, new = blobs[0][:250], blobs[0][250:]
    ours = PCPQNeighborsTransformer(n_neighbors=7, mode=mode, metric=metric)
    theirs = KNeighborsTransformer(n_neighbors=7, mode=mode, metric=metric)
    for found, expected in (
        (ours.fit_transform(X), theirs.fit_transform(X)),
        (ours.transform(X), theirs.transform(X)),
        (ours.transform(new), theirs.transform(new)),
    ):
        assert type(found) is type(expected)
        assert found.dtype == expected.dtype
        assert np.array_equal(found.indptr, expected.indptr)
        assert np.array_equal(found.indices, expected.indices)
        np.testing.assert_allclose(found.data, expected.data, rtol=1e-9, atol=1e-6)
    assert ours.index_ is None
    assert ours.get_feature_names_out()[-1] == "pcpqneighborstransformer249"


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_many_samples_have_most_of_their_neighbors_and_exact_distances(metric, words):
    transformer = PCPQNeighborsTransformer(n_neighbors=10, metric=metric)
    graph = transformer.fit_transform(words)
    columns, distances = rows_of(graph)
    assert len(transformer.index_) == 6000
    assert np.array_equal(columns[:, 0], np.arange(6000))
    assert not distances[:, 0].any()
    assert (np.diff(distances) >= 0).all()
    exact = KNeighborsTransformer(n_neighbors=10, metric=metric).fit(words.astype(np.float64))
    expected = exact.transform(words[::10].astype(np.float64))
    assert recall(columns[::10, 1:], rows_of(expected)[0][:, 1:]) > 0.93
    found, expected = graph[::10].toarray(), expected.toarray()
    both = (found > 0) & (expected > 1e-6)
    assert both.sum() > 0.9 * 6000
    np.testing.assert_allclose(found[both], expected[both], rtol=1e-6)


def test_more_recall_finds_more(words):
    expected = NearestNeighbors(n_neighbors=10).fit(words).kneighbors(return_distance=False)
    transformer = PCPQNeighborsTransformer(n_neighbors=10, target_recall=0.5).fit(words)
    little = recall(transformer.kneighbors(return_distance=False), expected)
    much = recall(transformer.set_params(target_recall=0.999).kneighbors(return_distance=False), expected)
    assert little < 0.9 < 0.99 < much


@pytest.mark.parametrize("settings", [{}, {"probes": 1, "n_lists": 8}], ids=["exact", "index"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_samples_are_their_own_neighbors_among_many_that_are_the_same(settings, metric):
    X = np.repeat(np.random.default_rng(5).normal(size=(20, 6)), 15, axis=0)
    transformer = PCPQNeighborsTransformer(n_neighbors=4, metric=metric, **settings)
    for graph in (transformer.fit_transform(X), transformer.transform(X.copy())):
        columns, distances = rows_of(graph)
        assert np.array_equal(columns[:, 0], np.arange(300))
        assert not distances.any()
    assert (transformer.kneighbors(return_distance=False) != np.arange(300)[:, None]).all()
    connected = transformer.set_params(mode="connectivity").transform(X)
    assert np.array_equal(rows_of(connected)[0][:, 0], np.arange(300))


def test_rows_are_full_even_where_a_list_has_too_few(words):
    transformer = PCPQNeighborsTransformer(n_neighbors=300, probes=1, n_lists=100).fit(words[:3000])
    columns, distances = rows_of(transformer.transform(words[3000:3200]))
    assert columns.shape == (200, 301)
    assert columns.min() >= 0
    assert all(len(set(row)) == 301 for row in columns.tolist())
    assert np.isfinite(distances).all()


@pytest.mark.parametrize("settings", [{}, {"probes": 50}], ids=["exact", "index"])
def test_neighbors_are_those_of_scikit_learn(settings, blobs):
    X, new = blobs[0][:250], blobs[0][250:]
    ours = PCPQNeighborsTransformer(keep="float32", **settings).fit(X)
    theirs = NearestNeighbors().fit(X)
    assert (ours.index_ is not None) == ("probes" in settings)
    for arguments in ({}, {"X": new}, {"X": X, "n_neighbors": 9}, {"n_neighbors": 2}):
        (found, ids), (expected, true_ids) = ours.kneighbors(**arguments), theirs.kneighbors(**arguments)
        assert np.array_equal(ids, true_ids)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)
        assert np.array_equal(ours.kneighbors(**arguments, return_distance=False), ids)


@pytest.mark.parametrize("settings", [{}, {"probes": 3}], ids=["exact", "index"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_samples_searched_for_in_parts_have_the_same_neighbors(settings, metric, blobs, monkeypatch):
    transformer = PCPQNeighborsTransformer(metric=metric, **settings).fit(blobs[0])
    whole = transformer.transform(blobs[0]), transformer.transform(blobs[0][:200])
    monkeypatch.setattr("pcpq.integrations.sklearn.neighbors.QUERIES", 64)
    parts = transformer.transform(blobs[0]), transformer.transform(blobs[0][:200])
    for graph, other in zip(whole, parts, strict=True):
        assert np.array_equal(graph.indices, other.indices)
        assert np.array_equal(graph.data, other.data)


def test_near_samples_far_from_the_origin_keep_their_distances():
    X = 1e5 + np.random.default_rng(1).normal(size=(40, 30)).cumsum(axis=0) * 1e-3
    exact = np.linalg.norm(X[:, None] - X[None], axis=2)
    graph = PCPQNeighborsTransformer().fit_transform(X).tocoo()
    np.testing.assert_allclose(graph.data, exact[graph.row, graph.col], rtol=1e-12)


@pytest.mark.skipif("sparse_interface" not in sklearn.get_config(), reason="came with scikit-learn 1.9")
def test_graphs_are_arrays_where_scikit_learn_is_set_so(blobs):
    with sklearn.config_context(sparse_interface="sparray"):
        assert isinstance(PCPQNeighborsTransformer().fit_transform(blobs[0]), sparse.csr_array)
    assert isinstance(PCPQNeighborsTransformer().fit_transform(blobs[0]), sparse.csr_matrix)


def test_threads_and_pickles_change_nothing(words):
    transformer = PCPQNeighborsTransformer(threads=1, quantizer=pcpq.PQ(section_size=4)).fit(words)
    graph = transformer.transform(words[:500])
    again = clone(transformer).set_params(threads=3).fit(words)
    restored = pickle.loads(pickle.dumps(transformer))
    for other in (again.transform(words[:500]), restored.transform(words[:500])):
        assert np.array_equal(graph.indices, other.indices)
        assert np.array_equal(graph.data, other.data)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors is 0"),
        ({"n_neighbors": 2.0}, "n_neighbors is 2.0"),
        ({"mode": "distances"}, "mode is 'distances'; expected one of 'distance', 'connectivity'"),
        ({"metric": "dot"}, "metric is 'dot'; expected one of 'euclidean', 'cosine'"),
        ({"target_recall": 1.5}, "target_recall is 1.5"),
        ({"target_recall": 0.9, "probes": 3}, "give one of them"),
        ({"probes": 0}, "probes is 0"),
        ({"rerank": 0}, "rerank is 0"),
        ({"keep": "int4"}, "keep is 'int4'"),
        ({"n_lists": 0}, "n_lists is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_bad_parameters_are_named_before_anything_is_built(parameters, message, blobs):
    with pytest.raises(ValueError, match=message):
        PCPQNeighborsTransformer(**parameters).fit(blobs[0])


def test_more_neighbors_than_samples_are_refused():
    transformer = PCPQNeighborsTransformer().fit(np.eye(5))
    with pytest.raises(ValueError, match=r"n_neighbors is 5 and one more .* n_samples = 5 were fitted"):
        transformer.transform(np.eye(5))
    with pytest.raises(ValueError, match="n_neighbors is 6; n_samples = 5"):
        transformer.kneighbors(np.eye(5), 6)
    assert transformer.set_params(mode="connectivity").transform(np.eye(5)).nnz == 25


@pytest.mark.parametrize("settings", [{}, {"probes": 1}], ids=["exact", "index"])
def test_a_zero_row_is_named_under_cosine(settings):
    X = np.ones((40_000, 2))
    transformer = PCPQNeighborsTransformer(metric="cosine", **settings).fit(X[:100])
    X[31_234] = 0
    with pytest.raises(ValueError, match=r"X\[31234\] is zero"):
        transformer.transform(X)
    with pytest.raises(ValueError, match=r"X\[31234\] is zero"):
        transformer.fit(X)


# What takes graphs


def test_a_classifier_takes_the_graph():
    X, y = load_digits(return_X_y=True)
    settings = {"n_neighbors": 5, "metric": "precomputed", "weights": "distance"}
    with_index = make_pipeline(PCPQNeighborsTransformer(probes=8), KNeighborsClassifier(**settings))
    exact = make_pipeline(KNeighborsTransformer(), KNeighborsClassifier(**settings))
    few = make_pipeline(PCPQNeighborsTransformer(), KNeighborsClassifier(**settings))
    scores = [
        pipeline.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) for pipeline in (with_index, exact, few)
    ]
    assert scores[1] == scores[2]
    assert scores[0] > scores[1] - 0.02 > 0.9


def test_clusters_are_those_of_the_samples_themselves(blobs):
    X, _ = blobs
    labels = make_pipeline(
        PCPQNeighborsTransformer(n_neighbors=60), DBSCAN(eps=6.0, min_samples=5, metric="precomputed")
    ).fit_predict(X)
    assert np.array_equal(labels, DBSCAN(eps=6.0, min_samples=5).fit_predict(X))
    assert len(set(labels)) == 6


def test_embeddings_take_the_graph(blobs):
    X, y = blobs
    flat = make_pipeline(
        PCPQNeighborsTransformer(n_neighbors=31),
        TSNE(metric="precomputed", init="random", perplexity=10, max_iter=300, random_state=0),
    ).fit_transform(X)
    assert KNeighborsClassifier(1).fit(flat[::2], y[::2]).score(flat[1::2], y[1::2]) > 0.95
    ours = make_pipeline(PCPQNeighborsTransformer(n_neighbors=60), Isomap(n_neighbors=60, metric="precomputed"))
    flat, expected = ours.fit_transform(X), Isomap(n_neighbors=60).fit_transform(X)
    np.testing.assert_allclose(np.abs(flat), np.abs(expected), rtol=1e-4, atol=1e-3)


# UMAP


def test_a_symmetric_graph_has_every_edge_in_both_directions(words):
    graph = PCPQNeighborsTransformer(n_neighbors=4).fit_transform(np.repeat(words[:100], 2, axis=0))
    both = symmetric_graph(graph)
    edges = {*zip(*graph.tocoo().coords, strict=True)}
    edges |= {(j, i) for i, j in edges}
    assert {*zip(*both.tocoo().coords, strict=True)} == edges
    assert both.nnz == len(edges)
    assert np.array_equal(both.toarray(), np.maximum(graph.toarray(), graph.toarray().T))
    for start, stop in zip(both.indptr, both.indptr[1:], strict=False):
        assert (np.diff(both.data[start:stop]) >= 0).all()
    assert np.array_equal(both.indices[both.indptr[:-1]], np.arange(200))


def test_of_two_distances_the_smaller_stays():
    graph = sparse.csr_matrix(([0.0, 3.0, 2.0, 0.0], [0, 1, 0, 1], [0, 2, 4]))
    assert symmetric_graph(graph).toarray().tolist() == [[0.0, 2.0], [2.0, 0.0]]


@pytest.mark.parametrize(
    ("graph", "message"),
    [(np.eye(3), "graph is of type ndarray"), (sparse.csr_matrix((2, 3)), r"graph is of shape \(2, 3\)")],
)
def test_only_square_sparse_graphs_have_both_directions(graph, message):
    with pytest.raises(ValueError, match=message):
        symmetric_graph(graph)


@pytest.mark.filterwarnings("ignore")
def test_umap_takes_neighbors_and_graphs(blobs):
    umap = pytest.importorskip("umap")
    (X, y), new = blobs, blobs[0][:30] + 0.01
    settings = {"n_neighbors": 10, "n_epochs": 50, "random_state": 0}
    neighbors = PCPQNeighborsTransformer(n_neighbors=10)
    graph = neighbors.fit_transform(X)
    with pytest.raises(ValueError, match="symmetrical"):  # which is why there is a symmetric_graph
        umap.UMAP(metric="precomputed", **settings).fit(graph)
    by_graph = umap.UMAP(metric="precomputed", **settings).fit(symmetric_graph(graph))
    distances, ids = neighbors.kneighbors(X)
    by_neighbors = umap.UMAP(precomputed_knn=(ids, distances), **settings).fit(X)
    assert np.array_equal(by_neighbors._knn_indices, ids)
    for flat in (by_graph.embedding_, by_neighbors.embedding_):
        assert KNeighborsClassifier(1).fit(flat[::2], y[::2]).score(flat[1::2], y[1::2]) > 0.95
    placed = by_graph.transform(neighbors.transform(new))
    assert KNeighborsClassifier(1).fit(by_graph.embedding_, y).score(placed, y[:30]) > 0.95
