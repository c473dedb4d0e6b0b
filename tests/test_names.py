import copy

import numpy as np
import pytest
from reference import exact

import pcpq
import pcpq.segment.ids
from pcpq.segment.ids import StringIds

pytestmark = [pytest.mark.kernels, pytest.mark.portable]

ODD_WORDS = [
    "",
    " ",
    "0",
    "a",
    "a\0",
    "a\0b",
    "\0",
    "é",
    "e\u0301",
    "ß",
    "漢字",
    "🙂👩‍👩‍👧",
    "\ud800",
    "\U0010ffff",
    "x" * 100_000,
    "x" * 99_999,
]


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(3)
    vectors = generator.normal(size=(400, 8)).astype(np.float32)
    return vectors, generator.normal(size=(5, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def fitted(data):
    return pcpq.Index(metric="dot", keep="float32", n_lists=4).fit(data[0])


@pytest.fixture
def index(fitted):
    return copy.copy(fitted)


def words_for(count):
    return [f"word {number}" for number in range(count)]


def test_names_give_back_their_words_and_where_they_are():
    names = StringIds.of(ODD_WORDS)
    assert len(names) == len(ODD_WORDS)
    assert list(names) == ODD_WORDS
    assert names[3] == "a"
    assert names.places(ODD_WORDS[::-1]).tolist() == list(range(len(ODD_WORDS)))[::-1]
    assert names.places(["b", "aa", "x", "a"]).tolist() == [-1, -1, -1, 3]
    assert names.places([]).tolist() == []
    assert names.nbytes == sum(len(word.encode("utf-8", "surrogatepass")) for word in ODD_WORDS) + 16 * len(
        names
    )


def test_joined_names_are_those_of_all_words_one_after_the_other():
    parts = [["b", ""], [], ["", "漢字", "b"], ["", ""], ["z"]]
    joined = StringIds.joined([StringIds.of(part) for part in parts])
    together = StringIds.of([word for part in parts for word in part])
    assert list(joined) == list(together)
    for name in ("text", "ends", "hashes"):
        assert np.array_equal(getattr(joined, name), getattr(together, name))


def test_chosen_names_are_in_the_order_asked_for():
    names = StringIds.of(ODD_WORDS)
    order = np.random.default_rng(0).permutation(len(ODD_WORDS))[:9]
    for places in (order, np.arange(len(ODD_WORDS)), np.array([0]), np.array([4, 4, 0, 4])):
        some = names.chosen(places)
        assert list(some) == [ODD_WORDS[place] for place in places]
        assert np.array_equal(some.hashes, names.hashes[places])
    assert list(names.chosen(np.empty(0, np.intp))) == []


def test_no_words_and_empty_words_are_names_too():
    none, empty = StringIds.of([]), StringIds.of(["", ""])
    assert len(none) == 0
    assert list(none) == []
    assert none.places(["", "a"]).tolist() == [-1, -1]
    assert list(none.chosen(np.empty(0, np.intp))) == []
    assert list(StringIds.joined([none, none])) == []
    assert list(empty) == ["", ""]
    assert list(empty.chosen(np.array([1]))) == [""]
    assert StringIds.of([""]).places(["", "a"]).tolist() == [0, -1]


def test_words_with_the_same_hash_are_told_apart(monkeypatch, index, data):
    vectors, _ = data
    monkeypatch.setattr(pcpq.segment.ids, "hash_of", lambda word: 7)
    names = StringIds.of(["a", "b", "", "ab"])
    assert len(set(names.hashes.tolist())) == 1
    assert names.places(["ab", "", "c", "a", "b"]).tolist() == [3, 2, -1, 0, 1]
    words = words_for(50)
    index.add(vectors[:50], words)
    assert index.remove(words[10:15]) == 5
    assert [word in index for word in words] == [not 10 <= place < 15 for place in range(50)]
    assert "word" not in index
    assert np.array_equal(index.reconstruct(words[20:]), vectors[20:50])
    assert index.search(vectors[0], k=45, filter=words[:12]).ids.tolist().count(None) == 35


def test_hashes_are_the_same_in_every_process():
    # They are stored: another value here is another format.
    assert [pcpq.segment.ids.hash_of(word) for word in (b"", b"pcpq")] == [
        13020603013274838756,
        542283610881214622,
    ]


def test_words_of_any_kind_are_ids(index, data):
    vectors, queries = data
    given = index.add(vectors[: len(ODD_WORDS)], ODD_WORDS)
    assert given.tolist() == ODD_WORDS
    for _ in range(2):
        assert all(word in index for word in ODD_WORDS)
        found = index.search(queries, k=len(ODD_WORDS))
        assert found.ids.dtype == object
        rows = exact(vectors[: len(ODD_WORDS)], queries, "dot", len(ODD_WORDS))[1]
        assert found.ids.tolist() == [[ODD_WORDS[row] for row in some] for some in rows]
        for word in ODD_WORDS:
            only = index.search(queries[0], k=2, filter=[word]).ids
            assert only.tolist() == [word, None]
        index.add(vectors[50:90], words_for(40))
        index.remove(words_for(40))
        index.compact()
    assert index.remove(ODD_WORDS) == len(ODD_WORDS)
    assert len(index) == 0


@pytest.mark.parametrize("word", ["a", "a\0", "\0", "", "\ud800"])
def test_a_word_that_differs_by_invisible_characters_has_its_own_vector(word, index, data):
    vectors, _ = data
    index.add(vectors[: len(ODD_WORDS)], ODD_WORDS)
    expected = vectors[ODD_WORDS.index(word)]
    assert np.array_equal(index.reconstruct([word])[0], expected)
    assert np.array_equal(index.reconstruct(word)[0], expected)
    assert np.array_equal(index.reconstruct([word, "ß"])[0], expected)


def test_an_index_has_ids_of_one_kind(fitted, data):
    vectors, _ = data
    numbers, words = copy.copy(fitted), copy.copy(fitted)
    numbers.add(vectors[:3])
    words.add(vectors[:3], ["a", "b", "c"])
    for call in (numbers.add, numbers.upsert):
        with pytest.raises(ValueError, match=r"ids are str.*are int"):
            call(vectors[3:4], ["d"])
    for call in (words.add, words.upsert):
        with pytest.raises(ValueError, match=r"ids are int.*are str"):
            call(vectors[3:4], [3])
    with pytest.raises(ValueError, match=r"ids are int.*are str"):
        words.add(vectors[3:4])
    for mixed, complaint in ((["d", 4], "id 4 is not a str"), ([4, "d"], r"ids are int.*are str")):
        with pytest.raises(ValueError, match=complaint):
            words.add(vectors[3:5], mixed)
        with pytest.raises(ValueError, match="ids"):
            numbers.add(vectors[3:5], mixed)
    with pytest.raises(ValueError, match="2 ids for 3 vectors"):
        words.add(vectors[3:6], ["d", "e"])
    assert (len(numbers), len(words)) == (3, 3)
    assert numbers.search(vectors[0]).ids.dtype == np.int64
    assert words.search(vectors[0]).ids.dtype == object


def test_the_kind_of_ids_stays_when_all_are_removed(fitted, data):
    vectors, _ = data
    for ids, others, kinds in (([1, 2], ["a", "b"], "str.*int"), (["a", "b"], [1, 2], "int.*str")):
        index = copy.copy(fitted)
        index.add(vectors[:2], ids)
        assert index.remove(ids) == 2
        with pytest.raises(ValueError, match=kinds):
            index.add(vectors[:2], others)
        assert index.add(vectors[:2], ids).tolist() == ids


def test_ids_given_twice_or_known_already_are_refused_by_name(fitted, data):
    vectors, queries = data
    for ids, twice, known in (
        ([5, 70, 6], [8, 9, 8], [10, 70, 11]),
        (["five", "seventy", "six"], ["eight", "nine", "eight"], ["ten", "seventy", "eleven"]),
    ):
        index = copy.copy(fitted)
        index.add(vectors[:3], ids)
        before = index.search(queries, k=5)
        for call in (index.add, index.upsert):
            with pytest.raises(ValueError, match=rf"id '?{twice[0]}'? is given twice"):
                call(vectors[3:6], twice)
        with pytest.raises(ValueError, match=rf"id '?{known[1]}'? is in the index already"):
            index.add(vectors[3:6], known)
        after = index.search(queries, k=5)
        assert len(index) == 3
        assert np.array_equal(before.ids, after.ids)
        assert np.array_equal(before.scores, after.scores)
        assert index.upsert(vectors[3:6], known).tolist() == known
        assert len(index) == 5
        assert np.array_equal(index.reconstruct(known), vectors[3:6])
        # An id that was removed is new again.
        index.remove(known[1:2])
        index.add(vectors[7:8], known[1:2])
        assert np.array_equal(index.reconstruct(known[1:2]), vectors[7:8])


def test_negative_ids_are_refused(index, data):
    with pytest.raises(ValueError, match="id -5 is negative"):
        index.add(data[0][:3], [1, -5, 2])
    with pytest.raises(ValueError, match="id -1 is negative"):
        index.upsert(data[0][:1], np.array([-1], np.int8))
    assert len(index) == 0


def test_automatic_ids_count_on_from_the_largest_ever(index, data):
    vectors, _ = data
    assert index.add(vectors[:3]).tolist() == [0, 1, 2]
    assert index.add(vectors[:2], [10, 4]).tolist() == [10, 4]
    assert index.add(vectors[:2]).tolist() == [11, 12]
    index.remove([11, 12])
    assert index.add(vectors[:1]).tolist() == [13]
    index.upsert(vectors[:1], [3])
    index.compact()
    assert index.add(vectors[:1]).tolist() == [14]
    index.remove(np.arange(20))
    assert len(index) == 0
    assert index.add(vectors[:2]).tolist() == [15, 16]
    assert copy.copy(index).add(vectors[:1]).tolist() == [17]


def test_ids_of_the_other_kind_are_not_in_an_index(fitted, data):
    vectors, _ = data
    numbers, words = copy.copy(fitted), copy.copy(fitted)
    assert 0 not in numbers
    assert "0" not in words
    numbers.add(vectors[:3])
    words.add(vectors[:3], ["0", "1", "2"])
    assert 1 in numbers
    assert np.int32(1) in numbers
    assert "1" in words
    assert np.str_("1") in words
    assert "1" not in numbers
    assert 1 not in words
    assert None not in words
    for index, gone in ((numbers, [0, 1, 2]), (words, ["0", "1", "2"])):
        index.remove(gone)
        assert 1 not in index
        assert "1" not in index


@pytest.mark.parametrize("invalid", [1.5, None, 1 << 70, -1])
def test_what_cannot_be_an_id_is_not_in_an_index(invalid, index, data):
    index.add(data[0][:3])
    assert invalid not in index


@pytest.mark.parametrize("words", [False, True])
def test_an_unknown_id_has_no_vector_and_is_named(words, index, data):
    vectors, _ = data
    ids = words_for(9) if words else list(range(9))
    index.add(vectors[:9], ids)
    index.remove(ids[4:5])
    assert np.array_equal(index.reconstruct(ids[:2] + ids[:1]), vectors[[0, 1, 0]])
    for some, missing in (
        (ids[:1] + ids[4:5], ids[4]),
        (["missing"] if words else [99], "missing" if words else 99),
    ):
        with pytest.raises(KeyError, match=f"id {missing} is not in the index"):
            index.reconstruct(some)
    index.remove(ids)
    with pytest.raises(KeyError, match=f"id {ids[0]} is not"):
        index.reconstruct(ids[:1])


@pytest.mark.parametrize("words", [False, True])
def test_removal_counts_what_was_there_once(words, index, data):
    vectors, _ = data
    ids = words_for(60) if words else list(range(60))
    missing = ["missing"] if words else [1000]
    index.add(vectors[:40], ids[:40])
    index.add(vectors[40:60], ids[40:])
    assert index.remove(missing) == 0
    assert index.remove([]) == 0
    assert index.remove(ids[3:5] + missing + ids[3:5] + ids[50:51]) == 3
    assert index.remove(ids[3:6]) == 1
    assert index.remove(ids[7]) == 1
    assert index.remove(np.array(ids[8:10])) == 2
    assert len(index) == 60 - 7


@pytest.mark.parametrize("words", [False, True])
def test_an_index_without_its_vectors_finds_nothing_and_takes_new_ones(words, index, data):
    vectors, queries = data
    ids = words_for(50) if words else list(range(50))
    missing = None if words else -1
    index.add(vectors[:30], ids[:30])
    index.add(vectors[30:50], ids[30:])
    assert index.remove(ids) == 50
    assert len(index) == 0
    for options in ({}, {"filter": ids}, {"exclude": ids[:3]}, {"probes": 4, "rerank": 50}):
        scores, found = index.search(queries, k=3, **options)
        assert found.tolist() == [[missing] * 3] * len(queries)
        assert (scores == -np.inf).all()
    assert index.search(queries[0], k=3).ids.tolist() == [missing] * 3
    limits, scores, found = index.search_range(queries, min_score=-1e9)
    assert limits.tolist() == [0] * (len(queries) + 1)
    assert len(scores) == len(found) == 0
    assert index.remove(ids) == 0
    index.compact()
    index.add(vectors[50:90], ids[:40])
    found = index.search(queries, k=5).ids
    rows = exact(vectors[50:90], queries, "dot", 5)[1]
    assert found.tolist() == [[ids[row] for row in some] for some in rows]


@pytest.mark.parametrize("words", [False, True])
def test_places_without_result_hold_no_id(words, index, data):
    vectors, queries = data
    ids = words_for(7) if words else list(range(7))
    index.add(vectors[:7], ids)
    missing, dtype = (None, object) if words else (-1, np.int64)
    for asked in (queries, queries[0]):
        scores, found = index.search(asked, k=10)
        assert found.dtype == dtype
        assert found.shape == scores.shape == (*asked.shape[:-1], 10)
        for row in np.atleast_2d(found).tolist():
            assert sorted(row[:7]) == ids
            assert row[7:] == [missing] * 3
        assert (scores[..., 7:] == -np.inf).all()
        assert np.isfinite(scores[..., :7]).all()


def test_words_filter_and_exclude_as_brute_force_does(index, data):
    vectors, queries = data
    words = words_for(300)
    for part in (slice(0, 250), slice(250, 270), slice(270, 300)):
        index.add(vectors[part], words[part])
    assert index.stats()["segments"] > 1
    allowed = np.flatnonzero(np.random.default_rng(1).random(300) < 0.3)
    some = [words[place] for place in allowed]
    rest = sorted(set(words) - set(some))
    expected = [
        [words[allowed[row]] for row in rows] for rows in exact(vectors[allowed], queries, "dot", 10)[1]
    ]
    bitmap, strange = pcpq.Bitmap(some), ["missing", ""]
    assert len(pcpq.Bitmap(some + some)) == len(some)
    for options in (
        {"filter": some},
        {"filter": np.array(some + strange)},
        {"filter": bitmap},
        {"filter": bitmap, "exclude": strange},
        {"exclude": rest},
        {"exclude": pcpq.Bitmap(rest + strange)},
        {"filter": words, "exclude": pcpq.Bitmap(rest)},
    ):
        for _ in range(2):
            assert index.search(queries, k=10, **options).ids.tolist() == expected
    assert index.search(queries, k=2, filter=[]).ids.tolist() == [[None, None]] * len(queries)
    assert index.search(queries, k=2, exclude=[]).ids.tolist() == index.search(queries, k=2).ids.tolist()
    assert index.search(queries, k=2, filter=strange).ids.tolist() == [[None, None]] * len(queries)
    index.compact()
    index.remove(some[:5])
    assert not np.isin(some[:5], index.search(queries, k=300, filter=bitmap).ids.astype(str)).any()
    for wrong in ([1, 2], pcpq.Bitmap([1, 2])):
        with pytest.raises(ValueError, match="str"):
            index.search(queries, filter=wrong)


def test_numbers_are_not_filtered_by_words(index, data):
    index.add(data[0][:20])
    for wrong in (["a"], pcpq.Bitmap(["a", "b"])):
        with pytest.raises(ValueError, match="int"):
            index.search(data[1], filter=wrong)


def test_a_search_by_range_gives_words(index, data):
    vectors, queries = data
    words = words_for(300)
    for part in (slice(0, 250), slice(250, 300)):
        index.add(vectors[part], words[part])
    index.remove(words[:30])
    limits, scores, ids = index.search_range(queries, min_score=1.0, probes=4)
    assert ids.dtype == object
    expected, rows = exact(vectors[30:300], queries, "dot", 270)
    assert limits[-1] == len(ids) == len(scores) > 50
    for query in range(len(queries)):
        part = slice(limits[query], limits[query + 1])
        inside = expected[query] >= 1.0
        assert ids[part].tolist() == [words[30 + row] for row in rows[query][inside]]
        assert np.allclose(scores[part], expected[query][inside], rtol=1e-5)
    allowed = words[40:60]
    _, _, ids = index.search_range(queries, min_score=-1e9, probes=4, filter=pcpq.Bitmap(allowed))
    assert sorted(ids.tolist()) == sorted(allowed * len(queries))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_large_numbers_are_ids_to_the_last_digit(dtype, index, data):
    vectors, queries = data
    ids = (1 << 60) + np.arange(300, dtype=dtype)
    index.add(vectors[:300], ids)
    with pytest.raises(ValueError, match=f"id {ids[7]} is in the index already"):
        index.add(vectors[:1], ids[7:8])
    assert all(number in index for number in ids)
    assert ids[-1] + dtype(1) not in index
    assert np.array_equal(index.reconstruct(ids[::-1]), vectors[:300][::-1])
    found = index.search(queries, k=20, filter=ids[5:9]).ids
    assert np.array_equal(np.unique(found[found >= 0]), ids[5:9].astype(np.int64))
    index.upsert(vectors[300:310], ids[:10])
    assert len(index) == 300
    assert index.remove(ids[:150]) == 150
    assert index.search(queries, k=300).ids.max() == ids[-1]


def test_the_largest_number_is_an_id_and_none_counts_on_from_it(index, data):
    vectors, _ = data
    largest = (1 << 63) - 1
    index.add(vectors[:2], [largest - 1, largest])
    assert sorted(index.search(vectors[0], k=2).ids.tolist()) == [largest - 1, largest]
    with pytest.raises(ValueError, match="id"):
        index.add(vectors[2:4])
    assert len(index) == 2
    with pytest.raises(ValueError, match="id"):
        index.add(vectors[2:3], np.array([1 << 63], np.uint64))
    assert index.add(vectors[2:3], [0]).tolist() == [0]
