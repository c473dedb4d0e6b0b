"""Searches on a real cluster: answers are those of one index, also when processes die and during writes."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest
import ray_nodes  # before Ray, for which it sets variables

import pcpq

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
    ),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ray = pytest.importorskip("ray")


from pcpq.integrations.ray import ShardedIndex, ShardLostError, WriterLostError  # noqa: E402

ROWS, DIMENSIONS = 6000, 24
SHARE = 0.1  # of a CPU, so that many actors fit one


@pytest.fixture(scope="module")
def cluster():
    return ray_nodes.cluster()


def some_vectors(n, seed):
    generator = np.random.default_rng(seed)
    middles = np.random.default_rng(8).normal(size=(20, DIMENSIONS))
    return (middles[generator.integers(20, size=n)] + 0.6 * generator.normal(size=(n, DIMENSIONS))).astype(
        np.float32
    )


@pytest.fixture(scope="module")
def vectors():
    return some_vectors(ROWS, 1)


@pytest.fixture(scope="module")
def queries():
    return some_vectors(150, 2)


@pytest.fixture(scope="module", params=[1, 2], ids=["one list", "two lists"])
def lists_per_vector(request):
    return request.param


@pytest.fixture(scope="module")
def saved(lists_per_vector, vectors, tmp_path_factory):
    """An index with attributes, rows removed and two parts."""
    path = tmp_path_factory.mktemp("saved") / "index"
    years = {"year": np.arange(ROWS) % 40 + 1980}
    index = pcpq.build(vectors, metric="dot", attributes=years, lists_per_vector=lists_per_vector)
    index.remove(np.arange(0, 500, 5))
    index.add(vectors[:70] * np.float32(1.1), attributes={"year": np.full(70, 1999)})
    index.save(path)
    return path


@pytest.fixture(scope="module")
def sharded(cluster, saved):
    with ShardedIndex.open(saved, shards=2, replicas=2, num_cpus=SHARE) as found:
        yield found


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_answers_are_those_of_one_index(sharded, saved, queries):
    index = pcpq.open(saved)
    assert len(sharded) == len(index)
    some_ids = np.arange(3, ROWS, 3)
    for settings in (
        {"k": 10},
        {"k": 7, "target_recall": 0.99},
        {"k": 10, "probes": 9, "rerank": 40},
        {"k": 60, "probes": 1},  # comes back short, and goes on
        {"filter": some_ids},
        {"filter": pcpq.Bitmap(some_ids[:100])},  # few: all are re-ranked
        {"exclude": some_ids, "probes": 5},
        {"where": "year BETWEEN 1990 AND 1999"},
        {"filter": some_ids, "exclude": some_ids[::2], "where": "year < 2000", "k": 5},
        {"filter": [1, 2, 7], "k": 5},
        {"k": 100, "probes": 3, "rerank": 5000},
        {"k": 30, "exact": True},
        {"exact": True, "filter": some_ids, "where": "year < 2000"},
        {"exact": True, "filter": [1, 2, 7], "k": 5},
    ):
        same(sharded.search(queries, **settings), index.search(queries, **settings))
    same(sharded.search(queries[3], k=4), index.search(queries[3], k=4))
    same(
        sharded.search(queries[:9].astype(np.float64) * 1e12),
        index.search(queries[:9].astype(np.float64) * 1e12),
    )
    for settings in ({"min_score": 20.0}, {"min_score": 12.0, "probes": 6, "filter": some_ids}):
        same(sharded.search_range(queries[:20], **settings), index.search_range(queries[:20], **settings))
    same([sharded.reconstruct([7, 4])], [index.reconstruct([7, 4])])
    assert sharded.get([7]).to_pylist() == index.get([7]).to_pylist()
    assert 7 in sharded
    assert 0 not in sharded
    assert sharded.stats()[0] == index.stats()


def test_wrong_questions_get_the_errors_of_one_index(sharded, saved, queries):
    index = pcpq.open(saved)
    for asked, settings in (
        (queries[:, :5], {}),
        (queries, {"k": 0}),
        (queries, {"probes": 3, "target_recall": 0.9}),
        (queries, {"filter": ["a"]}),
        (queries, {"where": "month = 3"}),
        (queries, {"where": "getenv('HOME') = ''"}),
        (queries, {"where": "year = 2000", "where_limits": pcpq.WhereLimits(length=3)}),
        (queries * np.nan, {}),
    ):
        with pytest.raises(ValueError) as expected:  # noqa: PT011
            index.search(asked, **settings)
        with pytest.raises(ValueError) as found:  # noqa: PT011
            sharded.search(asked, **settings)
        assert str(found.value) == str(expected.value)
    with pytest.raises(ValueError, match="min_score"):
        sharded.search_range(queries, max_distance=3.0)


def test_conditions_see_rows_that_are_there_and_allowed(cluster, vectors, queries, lists_per_vector, tmp_path):
    words = np.full(3000, "1", object)
    words[[3, 5, 7, 11, 2000]] = "secret"
    settings = {"metric": "dot", "lists_per_vector": lists_per_vector}
    index = pcpq.build(vectors[:2500], attributes={"word": words[:2500]}, **settings)
    index.add(vectors[2500:3000], attributes={"word": words[2500:]})
    index.remove([3, 5])
    index.save(tmp_path / "index")
    settings = {"where": "CAST(word AS INTEGER) = 1", "k": 5}
    with ShardedIndex.open(tmp_path / "index", shards=3, num_cpus=SHARE) as sharded:
        for more in ({"exclude": [7, 11, 2000]}, {"filter": np.r_[0:7, 2300:2900]}):
            same(sharded.search(queries, **settings, **more), index.search(queries, **settings, **more))
            some = {"min_score": 5.0, "where": settings["where"], **more}
            same(sharded.search_range(queries[:5], **some), index.search_range(queries[:5], **some))
        for more in ({}, {"exclude": [7, 11]}, {"filter": [2000]}):
            with pytest.raises(ValueError, match="failed on a row") as raised:
                sharded.search(queries, **settings, **more)
            assert "secret" not in str(raised.value)
        with pytest.raises(TimeoutError, match="seconds of where_limits"):
            sharded.search(queries, where="word = '1'", where_limits=pcpq.WhereLimits(seconds=1e-6))


def test_words_come_back_as_words(cluster, vectors, queries, lists_per_vector, tmp_path):
    words = [f"word {number}" for number in range(3000)]
    settings = {"keep": None} if lists_per_vector == 1 else {"lists_per_vector": lists_per_vector}
    pcpq.build(vectors[:3000], words, metric="euclidean", **settings).save(tmp_path / "words")
    index = pcpq.open(tmp_path / "words")
    with ShardedIndex.open(tmp_path / "words", shards=3, num_cpus=SHARE) as sharded:
        for settings in ({"k": 5}, {"filter": words[::3]}, {"exclude": words[::2], "probes": 3, "k": 2000}):
            same(sharded.search(queries[:40], **settings), index.search(queries[:40], **settings))
        same(
            sharded.search_range(queries[:4], max_distance=9.0),
            index.search_range(queries[:4], max_distance=9.0),
        )
        there = pickle.loads(pickle.dumps(sharded))  # as another process gets it
        same(there.search(queries[:4]), index.search(queries[:4]))
        there.close()
        same(sharded.search(queries[:4]), index.search(queries[:4]))


def stream(sharded, expected, queries, seconds, until):
    """Ask one query after the other until told to stop; how many were answered, all of them rightly."""
    count, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline and not until.is_set():
        number = count % len(queries)
        found = sharded.search(queries[number], probes=8, rerank=50)
        np.testing.assert_array_equal(found.ids, expected.ids[number])
        np.testing.assert_array_equal(found.scores, expected.scores[number])
        count += 1
    return count


def test_queries_go_on_while_actors_and_a_node_die(cluster, saved, queries):
    node = ray_nodes.new_node(cluster)
    expected = pcpq.open(saved).search(queries, probes=8, rerank=50)
    done = threading.Event()
    with ShardedIndex.open(saved, shards=2, replicas=2, num_cpus=SHARE, patience=90) as sharded:
        pids = set(ray_nodes.workers(cluster, "Shard"))
        asking = ray_nodes.Meanwhile(lambda: stream(sharded, expected, queries, 120, done))
        time.sleep(0.5)
        for pid in list(pids)[:2]:
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.5)
        cluster.remove_node(node, allow_graceful=False)
        time.sleep(4)
        done.set()
        assert asking.end() > 10
        # All of them died once: Ray starts them anew, and they take up what they are asked for.
        for pid in ray_nodes.workers(cluster, "Shard"):
            os.kill(pid, signal.SIGKILL)
        found = sharded.search(queries, probes=8, rerank=50)
        same(found, expected)


def test_a_shard_that_is_gone_is_an_error_or_a_partial_answer(cluster, saved, queries):
    with ShardedIndex.open(saved, shards=2, num_cpus=SHARE, patience=1.5) as sharded:
        everything = sharded.search(queries[:30], partial=True, k=5)
        assert everything.missing == ()
        same(everything[:2], pcpq.open(saved).search(queries[:30], k=5))
        gone = sharded._directories[0].shards[1]
        for actor in gone.actors:
            ray.kill(actor)  # for good
        with pytest.raises(ShardLostError, match="shard 1: none of 1 replicas answers"):
            sharded.search(queries[:2])
        found = sharded.search(queries[:30], partial=True, k=5)
        assert found.missing == (gone.name,)
        # What is found is right, as far as it goes: a subset of the whole's lists.
        lists = slice(0, int(sharded._fitted().descriptions[0].bounds[1]))
        segments = [part.segment for part in pcpq.open(saved)._fitted().snapshot.parts]
        here = np.concatenate([one.ids[: one.blocks.rows[lists.stop]] for one in segments])
        assert np.isin(found.ids, here).all()
        assert (found.ids >= 0).all()


def test_generations_are_never_mixed(cluster, vectors, queries, lists_per_vector, tmp_path):
    """Every generation has all vectors shifted to ids of its own: one answer, one generation."""
    path = tmp_path / "index"
    with pcpq.Index(metric="dot", n_lists=20, lists_per_vector=lists_per_vector) as index:
        index.fit(vectors[:2000])
        index.add(vectors[:2000])
        index.save(path)
    done = threading.Event()
    with ShardedIndex.open(path, shards=2, replicas=2, num_cpus=SHARE) as sharded:

        def ask():
            seen = []
            while not done.is_set():
                ids = sharded.search(queries[:20], k=10, probes=20).ids
                generations = set((ids // 10_000).ravel().tolist())
                assert len(generations) == 1, generations
                seen.append(generations.pop())
            return seen

        askers = [ray_nodes.Meanwhile(ask) for _ in range(2)]
        with pcpq.open(path, mode="a") as writer:
            for generation in range(1, 5):
                writer.remove(np.arange(2000) + 10_000 * (generation - 1))
                writer.add(vectors[:2000], np.arange(2000) + 10_000 * generation)
                writer.compact()
                writer.commit()
                assert sharded.refresh()
                assert sharded.generation == (generation + 1,)
        assert not sharded.refresh()
        done.set()
        for asker in askers:
            seen = asker.end()
            assert seen == sorted(seen)
        assert sharded.search(queries[:1]).ids[0, 0] // 10_000 == 4
        held = ray.get(
            [actor.__ray_call__.remote(lambda shard: len(shard.loaded)) for actor in actors_of(sharded)]
        )
        assert held == [1] * 4, "old generations were let go"


def actors_of(sharded):
    return [actor for one in sharded._directories for replicas in one.shards for actor in replicas.actors]


def test_what_the_writer_commits_lasts_and_what_it_loses_is_said(
    cluster, vectors, queries, lists_per_vector, tmp_path
):
    path = tmp_path / "index"
    pcpq.build(vectors[:3000], metric="dot", lists_per_vector=lists_per_vector).save(path)
    with ShardedIndex.open(path, shards=2, num_cpus=SHARE) as sharded:
        ids = sharded.add(vectors[3000:3200])
        assert ids.tolist() == list(range(3000, 3200))
        assert len(sharded) == 3000, "not yet committed"
        sharded.commit()
        assert len(sharded) == 3200
        sharded.upsert(vectors[:5] * np.float32(1.5), ids[:5])
        assert sharded.remove([1, 2, 3, 999_999]) == 3
        sharded.commit()
        same(sharded.search(queries), pcpq.open(path).search(queries))
        assert 2 not in sharded
        with pytest.raises(pcpq.LockedError):
            pcpq.open(path, mode="a")
        sharded.remove([10])
        ray_nodes.kill_one(cluster, "Writer")
        with pytest.raises(WriterLostError, match="1 changes since the last commit are gone"):
            sharded.commit()
        assert 10 in sharded
        sharded.remove([10])  # by the writer's next life
        sharded.commit()
        assert 10 not in sharded
        pcpq.open(path).verify()
    with pcpq.open(path, mode="a") as index:  # the lock is free again
        assert len(index) == 3196


def test_several_directories_are_one_index(cluster, vectors, queries, lists_per_vector, tmp_path):
    """Trained together, each with a writer of its own: answers are those of one index of all their parts."""
    whole = pcpq.build(vectors[:2500], metric="dot", n_lists=30, lists_per_vector=lists_per_vector)
    whole.add(vectors[2500:5000])
    whole.save(tmp_path / "whole")
    for name, gone in (("a", range(2500, 5000)), ("b", range(2500))):
        whole.save(tmp_path / name)
        with pcpq.open(tmp_path / name, mode="a") as index:
            index.remove(np.array(gone))
            index.commit()
    paths = [tmp_path / "a", tmp_path / "b"]
    with ShardedIndex.open(paths, num_cpus=SHARE) as sharded:
        index = pcpq.open(tmp_path / "whole", mode="a")
        same(sharded.search(queries, probes=6), index.search(queries, probes=6))
        new = vectors[5000:5100]
        assert sharded.add(new).tolist() == index.add(new).tolist()
        sharded.upsert(new[:3] * 2, [5, 2600, 7000])
        index.upsert(new[:3] * 2, [5, 2600, 7000])
        assert sharded.remove([6, 2601]) == index.remove([6, 2601]) == 2
        with pytest.raises(ValueError, match="id 2600 is in the index already"):
            sharded.add(new[:1], [2600])
        sharded.commit()
        assert len(sharded) == len(index) == 5099
        everything = {"k": 20, "probes": 30, "rerank": 5000}
        same(sharded.search(queries, **everything), index.search(queries, **everything))
        index.close()
    pcpq.build(vectors[:2500], metric="dot", n_lists=31).save(tmp_path / "c")
    with pytest.raises(ValueError, match="not trained together"):
        ShardedIndex.open([tmp_path / "a", tmp_path / "c"], num_cpus=SHARE)


def test_a_closed_index_says_so(cluster, saved, queries):
    sharded = ShardedIndex.open(saved, shards=1, num_cpus=SHARE)
    same(sharded.search(queries, k=3), pcpq.open(saved).search(queries, k=3))
    sharded.close()
    with pytest.raises(ValueError, match="closed"):
        sharded.search(queries)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        ShardedIndex.open(saved.parent / "nothing", shards=1, num_cpus=SHARE)
    with pytest.raises(ValueError, match="shards is 0"):
        ShardedIndex.open(saved, shards=0)


def test_too_few_cpus_are_named_at_once(cluster, saved):
    start = time.monotonic()
    for options in ({"replicas": 100}, {"num_cpus": 1000.0}, {"options": {"num_cpus": 999}}):
        with pytest.raises(
            ValueError, match=r"actors .* want .* CPUs each, .* in all; the cluster has \d+ on \d node"
        ):
            ShardedIndex.open(saved, shards=2, **options)
    with pytest.raises(ValueError, match="threads is True"):
        ShardedIndex.open(saved, threads=True)
    assert time.monotonic() - start < 10


def test_no_queries_have_no_results_from_shards(sharded, queries):
    assert sharded.search(queries[:0], 7).ids.shape == (0, 7)
    assert sharded.search([], 7, where="year > 1990").scores.shape == (0, 7)
    limits, scores, ids = sharded.search_range(queries[:0], min_score=0.5)
    assert (limits.tolist(), len(scores), len(ids)) == ([0], 0, 0)


def test_a_condition_for_shards_must_be_a_text(sharded, queries):
    for search in (sharded.search, partial(sharded.search_range, min_score=0.5)):
        with pytest.raises(ValueError, match="where is 3; expected an SQL condition"):
            search(queries[:2], where=3)


def test_cosines_from_shards_are_those_of_one_index(cluster, vectors, lists_per_vector, tmp_path):
    index = pcpq.build(vectors[:3000], metric="cosine", lists_per_vector=lists_per_vector)
    index.save(tmp_path / "index")
    with ShardedIndex.open(tmp_path / "index", shards=2, num_cpus=SHARE) as found:
        one, several = (searched.search(vectors[:500], 5) for searched in (index, found))
    assert several.scores.max() <= 1
    np.testing.assert_array_equal(several.scores, one.scores)
    np.testing.assert_array_equal(several.distances, one.distances)
