"""Candidates of slices make the answers of the whole index; messages survive encoding."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest
import ray_nodes  # noqa: F401  (before Ray, for which it sets variables)
from hypothesis import given, settings
from hypothesis import strategies as st

import pcpq

pytest.importorskip("ray")

from pcpq.integrations.ray import wire
from pcpq.integrations.ray.answers import reranked_best
from pcpq.integrations.ray.candidates import NOTHING, candidates_of
from pcpq.integrations.ray.shard import Shard, ShardRequest
from pcpq.integrations.ray.slices import bounds_of
from pcpq.ivf.probing import Probing
from pcpq.search.top_k import best_of

pytestmark = pytest.mark.ray


def answers_of_the_whole(codes, scores, ids, k, rerank):
    """Return scores and ids of one query, by sorting all rows."""
    candidates = np.lexsort((np.arange(len(codes)), -codes))[:rerank]
    best = candidates[np.lexsort((ids[candidates], -scores[candidates]))][:k]
    missing = k - len(best)
    return np.append(scores[best], [-np.inf] * missing), np.append(ids[best], [-1] * missing)


def candidates_of_slice(codes, scores, ids, rows, k, rerank):
    """Return the candidates of a slice: the best by code, ordered by score; missing ones are empty."""
    n, width = codes.shape[0], min(rerank, codes.shape[1] + 2)
    out = (
        np.full((n, width), NOTHING, np.int32),
        np.full((n, width), -1),
        np.full((n, width), -np.inf),
    )
    for query in range(n):
        best = np.lexsort((rows, -codes[query]))[:width]
        best = best[np.lexsort((rows[best], -scores[query, best]))]
        for array, values in zip(out, (codes[query, best], best, scores[query, best]), strict=True):
            array[query, : len(best)] = values
    return candidates_of(*out, ids, k)


@given(
    seed=st.integers(0, 10_000),
    cuts=st.lists(st.integers(0, 60), min_size=1, max_size=3),
    k=st.integers(1, 12),
    more=st.integers(0, 50),
    kinds=st.sampled_from([2, 8, 1000]),
)
@settings(max_examples=150, deadline=None)
def test_candidates_of_slices_make_the_answers_of_the_whole(seed, cuts, k, more, kinds):
    generator, rows, n, rerank = np.random.default_rng(seed), 60, 4, k + more
    codes = generator.integers(-kinds, kinds, (n, rows)).astype(np.int32)
    scores = generator.integers(0, kinds, (n, rows)) + 0.01 * codes
    ids = generator.permutation(1000)[:rows]
    bounds = [0, *sorted(cuts), rows]
    parts = [
        candidates_of_slice(codes[:, a:b], scores[:, a:b], ids[a:b], np.arange(b - a), k, rerank)
        for a, b in pairwise(bounds)
    ]
    found_scores, found_ids = reranked_best(parts, k, rerank)
    for query in range(n):
        expected = answers_of_the_whole(codes[query], scores[query], ids, k, rerank)
        np.testing.assert_array_equal(found_scores[query], expected[0])
        np.testing.assert_array_equal(found_ids[query], expected[1])


def test_few_rows_are_told_of_where_codes_are_good():
    generator = np.random.default_rng(0)
    scores = -np.sort(-generator.normal(size=(50, 400)), axis=1)
    codes = np.round(100 * scores + generator.normal(size=scores.shape)).astype(np.int32)
    rows = np.argsort(generator.random(scores.shape), axis=1)
    told = candidates_of(codes, rows, scores, np.arange(400), 10)
    assert told.counts.max() <= 25
    assert (np.diff(told.codes) <= 0).all()


@pytest.mark.parametrize("lists_per_vector", [1, 2])
def test_of_equal_scores_a_shard_answers_those_with_lower_ids(lists_per_vector, tmp_path):
    """As one index does, also where rows are in another order than their ids."""
    generator = np.random.default_rng(0)
    vectors = np.repeat(generator.normal(size=(30, 8)).astype(np.float32), 20, axis=0)
    ids = generator.permutation(1000)[: len(vectors)]
    index = pcpq.build(vectors, ids, metric="dot", n_lists=10, lists_per_vector=lists_per_vector)
    index.save(tmp_path / "index")
    queries, k = generator.normal(size=(50, 8)).astype(np.float32), 5
    shards = [Shard(str(tmp_path / "index"), number, threads=1) for number in range(3)]
    key = shards[0].load(None, 1).key
    found = shards[0].answers(key, ShardRequest(k, Probing.exactly(4), [100], None, 1), queries)
    np.testing.assert_array_equal(found[1], index.search(queries, k, probes=4, rerank=100).ids)
    shards[0].release(key)
    for shard in shards:
        shard.load(None, 3)
    request = ShardRequest(k, Probing.exactly(1), [len(vectors)], None, 1, exact=True)
    found = best_of([shard.answers(key, request, queries) for shard in shards], len(queries), k)
    np.testing.assert_array_equal(found[1], index.search(queries, k, exact=True).ids)


def test_a_shard_keeps_its_lists_when_others_open_the_same_generation(tmp_path):
    """The bounds of an index that grew would be others, and other shards have not moved theirs."""
    vectors = np.random.default_rng(0).normal(size=(2000, 8)).astype(np.float32)
    vectors[1000:] = vectors[0] + 0.01 * vectors[1000:]  # into few lists
    index = pcpq.Index(metric="dot", n_lists=30).fit(vectors)
    index.add(vectors[:1000])
    index.save(tmp_path / "index")
    shard = Shard(str(tmp_path / "index"), 0, threads=1)
    before = shard.load(None, 2)
    with pcpq.open(tmp_path / "index", mode="a") as index:
        index.add(vectors[1000:])
        index.commit()
    after = shard.load(shard.newest(), before.bounds)
    assert not np.array_equal(bounds_of(shard.loaded[after.key].snapshot, 2), before.bounds)
    assert np.array_equal(shard.load(None, 2).bounds, before.bounds)


@pytest.mark.parametrize("lists_per_vector", [1, 2])
def test_a_later_generation_reuses_the_codes_of_a_segment_that_it_shares(lists_per_vector, tmp_path):
    vectors = np.random.default_rng(0).normal(size=(2000, 8)).astype(np.float32)
    pcpq.build(vectors, metric="dot", lists_per_vector=lists_per_vector).save(tmp_path / "index")
    shard = Shard(str(tmp_path / "index"), 1, threads=1)
    before = shard.load(None, 2)
    with pcpq.open(tmp_path / "index", mode="a") as index:
        index.remove(np.arange(100))
        index.add(vectors[:50])
        index.commit()
    after = shard.load(shard.newest(), before.bounds)
    (old,), (new, _) = (shard.loaded[one.key].parts for one in (before, after))
    assert new.segment.second is old.segment.second
    assert (new.segment.second is None) == (lists_per_vector == 1)
    request = ShardRequest(9, Probing.exactly(len(before.trained.partition)), [100, 50], None, 1)
    assert not np.isin(shard.answers(after.key, request, vectors[:20])[1], np.arange(100)).any()


@pytest.mark.parametrize("n", [1, 2, 1000, 1001])
def test_queries_come_out_of_the_wire_as_they_went_in(n):
    queries = np.random.default_rng(0).normal(size=(n, 100)).astype(np.float32)
    pieces = wire.as_pieces(queries)
    assert max(piece.nbytes for piece in pieces) <= wire.PIECE
    np.testing.assert_array_equal(wire.from_pieces(pieces), queries)


def test_a_query_that_is_larger_than_a_piece_goes_alone():
    queries = np.ones((3, 30_000), np.float32)
    assert [len(piece) for piece in wire.as_pieces(queries)] == [1, 1, 1]


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_results_come_out_of_the_wire_as_they_went_in(pieces):
    result = [("a", np.arange(1000)), np.ones(3)]
    sent = wire.cut(result, pieces)
    back = wire.joined(sent) if pieces > 1 else sent
    np.testing.assert_array_equal(back[0][1], np.arange(1000))
    if pieces > 1:
        assert len(sent) == pieces
        assert max(map(len, sent)) <= min(map(len, sent)) + pieces


def test_as_many_pieces_as_ray_sends_with_a_call():
    assert wire.pieces_for(10) == 1
    assert wire.pieces_for(wire.PIECE + 1) == 2
    assert wire.pieces_for(1e12) * wire.PIECE <= 10_000_000


def test_batches_take_turns_and_single_queries_do_not_wait_for_them(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(2000, 8)).astype(np.float32)
    pcpq.build(vectors, metric="dot").save(tmp_path / "index")
    shard = Shard(str(tmp_path / "index"), 0, threads=1)
    key = shard.load(None, 1).key
    request, batch, done = (
        ShardRequest(5, Probing.exactly(10), [100], None, 1),
        vectors[:100],
        threading.Event(),
    )

    def ask_for_batch():
        shard.answers(key, request, batch)
        shard.candidates(key, request, batch)
        done.set()

    asking = threading.Thread(target=ask_for_batch)
    with shard.batches:
        asking.start()
        alone = shard.answers(key, request, vectors[:1])
        shard.candidates(key, request, vectors[:1])
        assert not done.wait(0.2)
    asking.join(timeout=60)
    assert done.is_set()
    np.testing.assert_array_equal(alone[1], shard.answers(key, request, batch)[1][:1])
