import copy
import itertools
import threading
import time

import numpy as np
import pytest
from reference import exact
from small_indexes import METRICS, TORTURE

import pcpq
import pcpq.store.state
from pcpq.search.snapshot import Snapshot
from pcpq.search.top_k import best_of
from pcpq.segment.packing import LEAST_ROWS_PER_BLOCK
from pcpq.segment.part import Part
from pcpq.store.merging import merge

pytestmark = pytest.mark.torture

KEEPS = [None, "int16"]
N_LISTS = 8


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(17)
    middles = generator.normal(size=(12, 10))
    vectors = middles[generator.integers(12, size=900)] + 0.5 * generator.normal(size=(900, 10))
    vectors *= generator.lognormal(sigma=0.3, size=(900, 1))
    queries = vectors[:6] + 0.3 * generator.normal(size=(6, 10))
    return vectors.astype(np.float32), queries.astype(np.float32)


@pytest.fixture(scope="module")
def fitted(data):
    """Return a function that makes a fitted index without vectors, of a metric and precision."""
    made = {}

    def make(metric, keep):
        if (metric, keep) not in made:
            made[metric, keep] = pcpq.Index(metric=metric, keep=keep, n_lists=N_LISTS).fit(data[0])
        return copy.copy(made[metric, keep])

    return make


@pytest.fixture
def unmerged(monkeypatch):
    """Leave parts unmerged."""
    monkeypatch.setattr(pcpq.store.state, "worth_merging", lambda parts: ())


def everything(index, queries, **options):
    return index.search(queries, k=len(index), probes=N_LISTS, rerank=10_000, **options)


def same(one, other):
    return np.array_equal(one.ids, other.ids) and np.array_equal(one.scores, other.scores)


def is_unpacked(segment):
    return len(segment) < LEAST_ROWS_PER_BLOCK * len(segment.trained.partition)


def add_in_parts(index, vectors, size):
    for start in range(0, len(vectors), size):
        index.add(vectors[start : start + size])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("keep", [None, "int8", "int16", "float16", "float32"])
def test_many_small_parts_answer_as_one_to_the_last_bit(metric, keep, data, fitted, unmerged, simd_level):
    vectors, queries = data
    at_once, bit_by_bit = fitted(metric, keep), fitted(metric, keep)
    at_once.add(vectors)
    for size, part in ((1, vectors[:5]), (17, vectors[5:300]), (150, vectors[300:])):
        add_in_parts(bit_by_bit, part, size)
    unpacked = [is_unpacked(part.segment) for part in bit_by_bit._state.snapshot.parts]
    assert (unpacked.count(True), unpacked.count(False)) == (5 + 18, 4)
    assert not is_unpacked(at_once._state.snapshot.parts[0].segment)
    expected = everything(at_once, queries)
    assert (expected.ids >= 0).all()
    assert same(everything(bit_by_bit, queries), expected)
    assert same(everything(bit_by_bit, queries, threads=2), expected)
    bit_by_bit.compact()
    assert bit_by_bit.stats()["segments"] == 1
    assert same(everything(bit_by_bit, queries), expected)
    assert np.array_equal(bit_by_bit.reconstruct(np.arange(900)), at_once.reconstruct(np.arange(900)))


@pytest.mark.parametrize(
    ("metric", "quantizer", "codebooks"),
    [
        ("dot", pcpq.QPCPQ(section_size=2, n_scales=8), "shared"),
        ("euclidean", pcpq.QPCPQ(section_size=2, n_scales=8), "shared"),
        ("cosine", pcpq.QAPCPQ(section_size=3), "shared"),
        ("euclidean", pcpq.PQ(section_size=2, n_centers=40), "shared"),
        ("cosine", pcpq.PQ(section_size=2, n_centers=80), "shared"),
        ("dot", pcpq.QPCPQ(section_size=3, n_centers=20, n_scales=3), "shared"),
        ("dot", pcpq.APQ(section_size=3, n_centers=7), "shared"),
        ("dot", pcpq.QPCPQ(section_size=2), "per_list"),
        ("euclidean", pcpq.PQ(section_size=3), "per_list"),
        ("euclidean", pcpq.PQ(section_size=3, n_centers=17), "per_list"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_merged_codes_of_every_quantizer_are_those_of_one_part(metric, quantizer, codebooks, data, unmerged):
    vectors, queries = data
    options = {"keep": None, "quantizer": quantizer, "codebooks": codebooks, "n_lists": N_LISTS}
    at_once = pcpq.Index(metric=metric, **options).fit(vectors)
    bit_by_bit = copy.copy(at_once)
    at_once.add(vectors)
    add_in_parts(bit_by_bit, vectors[:200], 40)
    add_in_parts(bit_by_bit, vectors[200:], 100)
    expected = everything(at_once, queries)
    assert same(everything(bit_by_bit, queries), expected)
    bit_by_bit.compact()
    assert same(everything(bit_by_bit, queries), expected)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("size", [900, 40], ids=["packed", "unpacked"])
def test_removed_rows_never_come_back(metric, keep, size, data, fitted, unmerged):
    vectors, queries = data
    index, fresh = fitted(metric, keep), fitted(metric, keep)
    add_in_parts(index, vectors, size)
    assert all(is_unpacked(part.segment) == (size == 40) for part in index._state.snapshot.parts)
    # Whole lists and whole blocks go, and some rows of all others.
    gone = np.random.default_rng(5).permutation(900)[:400]
    gone = np.union1d(gone, index.search(vectors[0], k=150, probes=N_LISTS, rerank=900).ids)
    left = np.setdiff1d(np.arange(900), gone)
    assert index.remove(gone) == len(gone)
    assert index.stats()["removed"] == len(gone)
    fresh.add(vectors[left], left)
    expected = everything(fresh, queries)
    assert same(everything(index, queries), expected)
    # The removed vectors themselves, which nothing is nearer to, in few lists and with few candidates.
    asked = vectors[gone[::9]]
    for options in (
        {"probes": 1, "rerank": 3},
        {"probes": 2, "rerank": 30},
        {"filter": np.arange(900)},
        {"filter": np.concatenate([gone, left[::5]])},
        {"exclude": left[::3]},
        {"filter": pcpq.Bitmap(np.arange(0, 900, 2)), "exclude": pcpq.Bitmap(left[::7])},
    ):
        ids = index.search(asked, k=20, **options).ids
        assert not np.isin(ids, gone).any()
        assert (ids[:, 0] >= 0).all()
        one = index.search(asked[0], k=20, **options).ids
        assert np.array_equal(one, ids[0])
    assert (index.search(asked, k=5, filter=gone).ids == -1).all()
    assert same(everything(index, queries, filter=left[::2]), everything(fresh, queries, filter=left[::2]))
    index.compact()
    assert index.stats()["removed"] == 0
    assert same(everything(index, queries), expected)
    assert not np.isin(index.search(asked, k=20, probes=1, rerank=30).ids, gone).any()


@pytest.mark.parametrize("metric", METRICS)
def test_a_range_holds_nothing_that_was_removed(metric, data, fitted, unmerged):
    vectors, queries = data
    index = fitted(metric, "float32")
    add_in_parts(index, vectors, 300)
    index.remove(np.arange(0, 900, 3))
    left = np.setdiff1d(np.arange(900), np.arange(0, 900, 3))
    bound = {"max_distance": 1e9} if metric == "euclidean" else {"min_score": -1e9}
    limits, _, ids = index.search_range(queries, probes=N_LISTS, **bound)
    assert limits.tolist() == list(range(0, 600 * len(queries) + 1, 600))
    assert np.array_equal(np.sort(ids.reshape(len(queries), 600), axis=1), np.tile(left, (len(queries), 1)))


def test_equal_scores_of_several_parts_come_by_their_ids(fitted, unmerged):
    index = fitted("dot", "int16")
    vector = np.ones((1, 10), np.float32)
    order = np.random.default_rng(0).permutation(40)
    for some in np.split(order, 8):
        index.add(np.repeat(vector, len(some), axis=0), some)
    assert index.search(vector[0], k=12).ids.tolist() == list(range(12))
    index.compact()
    assert index.search(vector[0], k=12).ids.tolist() == list(range(12))


def test_the_best_of_several_searches_puts_nothing_last():
    one = (np.float32([[3, 1, -np.inf]]), np.array([[4, 9, -1]]))
    other = (np.float32([[3, 2]]), np.array([[2, 7]]))
    scores, ids = best_of([one, other], 1, 5)
    assert ids.tolist() == [[2, 4, 7, 9, -1]]
    assert scores.tolist() == [[3, 3, 2, 1, -np.inf]]
    assert best_of([one, other], 1, 3)[1].tolist() == [[2, 4, 7]]
    assert best_of([], 2, 3)[1].tolist() == [[-1] * 3] * 2


def segments_of(index, vectors, *bounds):
    for start, end in itertools.pairwise(bounds):
        index.add(vectors[start:end])
    return index._state.snapshot


def test_a_part_knows_which_of_its_rows_are_there(data, fitted):
    snapshot = segments_of(fitted("dot", "int16"), data[0], 0, 300)
    part = snapshot.parts[0]
    rows = part.segment.find(np.array([7, 250, 999]))
    assert part.segment.ids[rows[:2]].tolist() == [7, 250]
    assert rows[2] == -1
    less = part.without(rows[:2])
    assert part.has(rows).tolist() == [True, True, False]
    assert less.has(rows).tolist() == [False, False, False]
    assert (part.count, less.count) == (300, 298)
    assert np.array_equal(np.setdiff1d(np.arange(300), rows[:2]), less.rows_left())
    assert less.everything.share == 298 / 300
    assert less.only(part.segment.every_row).count == 298
    assert less.without(np.empty(0, np.intp)) is less


def test_a_snapshot_does_not_change_when_another_is_made_of_it(data, fitted):
    vectors, queries = data
    index = fitted("euclidean", "int16")
    before = segments_of(index, vectors, 0, 300, 320)
    held = copy.copy(index)
    expected = everything(held, queries)
    less = before.without([0, 5, 310, 5, 4000])
    assert before.without([4000]) is before
    assert (len(before), len(less)) == (320, 317)
    index.remove(np.arange(200))
    index.add(vectors[320:400])
    index.compact()
    assert index._state.snapshot is not before
    assert held._state.snapshot is before
    assert same(everything(held, queries), expected)


def test_parts_of_which_nothing_is_left_are_gone(data, fitted, unmerged):
    snapshot = segments_of(fitted("dot", "int16"), data[0], 0, 300, 320, 330)
    less = snapshot.without(np.arange(300, 320))
    assert [part.count for part in less.parts] == [300, 10]
    assert less.without(np.arange(400)).parts == ()


@pytest.mark.parametrize("words", [False, True])
def test_what_goes_while_parts_are_merged_does_not_come_back(words, data, fitted, unmerged):
    vectors, queries = data
    index = fitted("dot", "float32")
    name = [f"w{number}" for number in range(900)] if words else list(range(900))
    for start, end in ((0, 300), (300, 320), (320, 400), (400, 420)):
        index.add(vectors[start:end], name[start:end])
    state = index._state
    index.remove(name[10:20])
    old = state.snapshot.parts[:3]
    merged = merge(old)
    assert len(merged) == 390
    # Rows of some, all of one, rows that are not merged; replaced ones and ones that come back.
    index.remove(name[5:15] + name[300:320] + name[410:415])
    index.upsert(vectors[500:510], name[330:340])
    index.add(vectors[510:515], name[12:17])
    index.add(vectors[515:518], name[5:8])
    expected = {name[row]: vectors[row] for row in range(420) if not 5 <= row < 20 and not 300 <= row < 320}
    expected = {key: row for key, row in expected.items() if key not in name[410:415]}
    new = name[330:340] + name[12:17] + name[5:8]
    expected.update(zip(new, vectors[500:518], strict=True))
    state.contents = state.contents._replace(snapshot=state.snapshot.replaced(old, merged))
    assert len(index) == len(expected)
    assert [some in index for some in name] == [some in expected for some in name]
    assert np.array_equal(index.reconstruct(list(expected)), np.stack(list(expected.values())))
    found = everything(index, queries)
    rows = exact(np.stack(list(expected.values())), queries, "dot", len(expected))[1]
    keys = list(expected)
    assert found.ids.tolist() == [[keys[row] for row in some] for some in rows]
    assert state.snapshot.parts[-1].segment is merged
    assert not set(old) & set(state.snapshot.parts)


def test_a_merge_of_which_nothing_is_left_leaves_nothing(data, fitted, unmerged):
    snapshot = segments_of(fitted("dot", "int16"), data[0], 0, 100, 120, 140)
    old = snapshot.parts[:2]
    merged = merge(old)
    assert snapshot.without(np.arange(120)).replaced(old, merged).parts == (snapshot.parts[2],)
    only_old = Snapshot(snapshot.trained, old)
    assert only_old.without(np.arange(120)).replaced(old, merged).parts == ()
    emptied = [Part(part.segment, 0, np.zeros_like(part.segment.every_row)) for part in old]
    assert merge(emptied) is None
    assert snapshot.replaced(old, None).parts == (snapshot.parts[2],)


def test_a_merge_keeps_every_column_of_what_is_there(data, fitted, unmerged):
    vectors, _ = data
    index = fitted("dot", None)
    add_in_parts(index, vectors[:400], 100)
    index.remove(np.arange(0, 400, 7))
    parts = index._state.snapshot.parts
    merged = merge(parts)
    assert np.array_equal(np.sort(merged.ids), np.setdiff1d(np.arange(400), np.arange(0, 400, 7)))
    again = merged.rows()
    for part in parts:
        there = part.rows_left()
        rows, places = part.segment.rows().taken(there), merged.find(part.segment.ids[there])
        for name in ("lists", "codes", "scales", "bias_bytes", "gains", "biases", "ids"):
            before, after = getattr(rows, name), getattr(again, name)
            assert (before is None) == (after is None)
            assert before is None or np.array_equal(before, after[places])


def test_readers_see_whole_writes_and_only_those(fitted):
    """Ids of a pair are written together: two generations, or one id of a pair, would be half of a write.

    The first coordinate is the generation and the query asks for nothing else, so scores are generations.
    """
    generator = np.random.default_rng(0)
    n_pairs, temporary = 60, np.arange(1000, 1030)
    query = np.zeros(10, np.float32)
    query[0] = 1.0
    index = fitted("dot", "float32")
    n_readers, seconds = (8, 60) if TORTURE else (4, 3)
    wrong, done, answers = [], threading.Event(), [0] * n_readers

    def vectors_of(generation, count):
        rows = generator.normal(size=(count, 10)).astype(np.float32)
        rows[:, 0] = generation
        return rows

    def check(scores, ids, last):
        found = dict(zip(ids.tolist(), scores.tolist(), strict=True))
        found.pop(-1, None)
        if len(found) != (ids >= 0).sum():
            return "an id twice"
        brief = {number for number in found if number >= 1000}
        if brief not in (set(), set(temporary.tolist())):
            return f"{len(brief)} of {len(temporary)} that are added and removed together"
        for pair in range(n_pairs):
            one, other = found.get(2 * pair), found.get(2 * pair + 1)
            if one is None or one != other:
                return f"generations {one} and {other}"
            if one < last.get(pair, 0):
                return "an older generation than before"
            last[pair] = one
        return None

    def read(reader):
        last, ways = {}, [query, np.stack([query, 2 * query])]
        while not done.is_set() and not wrong:
            asked = ways[answers[reader] % 2]
            options = {"filter": np.arange(2000)} if answers[reader] % 5 == 4 else {"threads": 1}
            try:
                scores, ids = index.search(asked, k=170, **options)
            except BaseException as error:
                wrong.append(repr(error))
                return
            problem = check(np.atleast_2d(scores)[0], np.atleast_2d(ids)[0], last)
            if np.ndim(ids) == 2 and not np.array_equal(ids[0], ids[1]):
                problem = "two snapshots in a batch"
            if problem:
                wrong.append(problem)
            answers[reader] += 1

    index.add(vectors_of(1, 2 * n_pairs))
    threads = [threading.Thread(target=read, args=(reader,)) for reader in range(n_readers)]
    for thread in threads:
        thread.start()
    generation, there, end = 1, False, time.monotonic() + seconds
    try:
        while time.monotonic() < end and not wrong:
            generation += 1
            pairs = generator.permutation(n_pairs)[: generator.integers(1, 1 + n_pairs)]
            ids = np.concatenate([2 * pairs, 2 * pairs + 1])
            index.upsert(vectors_of(generation, len(ids)), ids)
            if generation % 3 == 0:
                if there:
                    assert index.remove(temporary) == len(temporary)
                else:
                    index.add(vectors_of(generation, len(temporary)), temporary)
                there = not there
            if generation % 7 == 0:
                index.compact()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert min(answers) > 5
    assert generation > 20
    assert len(index) == 2 * n_pairs + there * len(temporary)


def test_the_first_string_ids_are_seen_as_strings(fitted, data):
    """A search may come between any two steps of a writer."""
    vectors, queries = data
    index = fitted("dot", "int16")
    seen = []

    class Watched(pcpq.store.state.State):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "contents":
                seen.append((len(index), index.search(queries[0], k=3).ids.tolist(), "w0" in index))

    index._state.__class__ = Watched
    index.add(vectors[:3], ["w0", "w1", "w2"])
    size, ids, found = seen[0]
    assert size == 3
    assert set(ids) == {"w0", "w1", "w2"}
    assert found
