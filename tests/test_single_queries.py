"""Single queries on changed indexes: one native call over all segments, with the results of a batch."""

import numpy as np
import pytest
from small_indexes import METRICS

import pcpq
from pcpq.index import state_of

pytestmark = pytest.mark.kernels
N, D = 3000, 12


@pytest.fixture(scope="module")
def vectors():
    generator = np.random.default_rng(3)
    centers = generator.normal(size=(60, D))
    return (centers[generator.integers(60, size=N)] + 0.4 * generator.normal(size=(N, D))).astype(np.float32)


def changed_index(vectors, metric, removed, added, **parameters):
    """Return an index of which some rows were removed, and that has small segments added one by one."""
    index = pcpq.Index(metric=metric, n_lists=50, **parameters).fit(vectors)
    index.add(vectors[: N - added])
    index.remove(np.random.default_rng(4).permutation(N - added)[:removed])
    for row in range(N - added, N, max(1, added // 2)):
        index.add(vectors[row : row + max(1, added // 2)])
    return index


@pytest.mark.parametrize(("removed", "added"), [(0, 0), (1, 0), (300, 0), (0, 1), (0, 40), (300, 40)])
@pytest.mark.parametrize("keep", ["int16", "int8", "float32", None])
@pytest.mark.parametrize("metric", METRICS)
def test_a_single_query_finds_what_a_batch_finds(vectors, metric, keep, removed, added, simd_level):
    index = changed_index(vectors, metric, removed, added, keep=keep)
    for options in (
        {"k": 10, "probes": 8, "rerank": 60},
        {"k": 1, "probes": 1, "rerank": 1},
        {"k": 50, "probes": 50},
    ):
        batch = index.search(vectors[:12], **options)
        for query, scores, ids in zip(vectors, batch.scores, batch.ids, strict=False):
            found = index.search(query, **options)
            np.testing.assert_array_equal(found.ids, ids)
            np.testing.assert_array_equal(found.scores, scores)


def test_a_changed_index_is_searched_by_one_native_call(vectors):
    index = changed_index(vectors, "dot", 30, 40)
    expected = index.search(vectors[0], probes=8, rerank=60)
    snapshot = state_of(index).snapshot
    (plan,) = snapshot.plan_cache.plans.values()
    found = snapshot.scan_single(vectors[0], plan)
    assert len(snapshot.parts) > 1
    assert found is not None
    np.testing.assert_array_equal(found.ids, expected.ids)


def test_equal_vectors_in_several_segments_come_by_their_ids(vectors):
    index = pcpq.Index(metric="dot", n_lists=20, keep="float32").fit(vectors)
    index.add(vectors[:500], np.arange(1000, 1500))
    for first in (400, 2000, 100):
        index.add(np.repeat(vectors[:1], 3, axis=0), np.arange(first, first + 3))
    wanted = [100, 101, 102, 400, 401, 402, 1000, 2000, 2001, 2002]
    found = index.search(vectors[0], 200, probes=20, rerank=500).ids
    assert [number for number in found.tolist() if number in wanted] == wanted


@pytest.mark.parametrize("metric", ["dot", "cosine", "euclidean"])
def test_a_single_query_may_have_any_form(metric, vectors):
    index = pcpq.Index(metric=metric, n_lists=20).fit(vectors)
    index.add(vectors)
    query = np.round(vectors[0] * 64) / 64  # the same in float16
    wanted = index.search(query, probes=5, rerank=50)
    spaced, frozen = np.repeat(query, 2)[::2], query.copy()
    frozen.flags.writeable = False
    shifted = np.frombuffer(b"-" + query.tobytes(), np.uint8)[1:].view(np.float32)
    others = [query.astype(dtype) for dtype in (np.float64, np.float16, ">f4")]
    for same in (spaced, frozen, shifted, query.tolist(), *others):
        found = index.search(same, probes=5, rerank=50)
        np.testing.assert_array_equal(found.ids, wanted.ids)
        np.testing.assert_array_equal(found.scores, wanted.scores)
    for wrong, message in ((query[:-1], "11 dimensions"), (query * np.nan, "nan"), (np.float32(1), "shape")):
        with pytest.raises(ValueError, match=message):
            index.search(wrong, probes=5, rerank=50)
