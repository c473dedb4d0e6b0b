"""Bitmaps: sets of ids for filters, made from ids, masks or conditions."""

import pickle

import numpy as np
import pytest

import pcpq
from pcpq.index import state_of
from pcpq.segment.segment import Segment

N = 900


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(8).normal(size=(N, 8)).astype(np.float32)


def names_of(numbers):
    return [f"n{number}" for number in numbers]


@pytest.fixture(params=["int", "str"])
def named(request):
    """Return ids of a kind for numbers."""
    return (lambda numbers: np.asarray(numbers)) if request.param == "int" else names_of


@pytest.fixture
def index(vectors, named):
    """An index of several segments with removed rows; the year of row i is i % 10."""
    index = pcpq.Index(metric="dot", n_lists=10, keep="float32").fit(vectors)
    for first, last in ((0, 770), (770, 880), (880, N)):
        numbers = np.arange(first, last)
        index.add(vectors[first:last], named(numbers), attributes={"year": numbers % 10})
    index.remove(named([3, 13, 23]))
    assert index.stats()["segments"] == 3
    return index


def found(index, vectors, **filters):
    ids = index.search(vectors[0], N, **filters).ids.tolist()
    return {one for one in ids if one not in (-1, None)}


def expected(named, numbers):
    return set(np.asarray(named(sorted(set(numbers) - {3, 13, 23})), object).tolist())


def test_a_condition_gives_the_bitmap_of_the_ids_for_which_it_holds(index, vectors, named):
    bitmap = index.where("year = 3")
    right = expected(named, range(3, N, 10))
    assert isinstance(bitmap, pcpq.Bitmap)
    assert found(index, vectors, filter=bitmap) == right
    assert found(index, vectors, exclude=bitmap) == expected(named, range(N)) - right
    assert found(index, vectors, filter=bitmap, where="year < 5", exclude=index.where("year = 4")) == right
    assert bitmap.ids.tolist() == sorted(right)
    assert len(bitmap) == len(right)
    assert len(index.where("year > 10")) == 0


def test_a_bitmap_of_a_condition_is_used_without_looking_up_ids(index, vectors, named, monkeypatch):
    bitmap, inverted = index.where("year = 3"), ~index.where("year = 3")
    monkeypatch.setattr(Segment, "rows_with", None)
    assert found(index, vectors, filter=bitmap) == expected(named, range(3, N, 10))
    with pytest.raises(TypeError):
        index.search(vectors[0], filter=inverted)


def test_a_bitmap_of_a_condition_stays_as_it_is_when_the_index_changes(index, vectors, named):
    bitmap = index.where("year = 3")
    index.remove(named([33]))
    index.add(vectors[:1], named([N]), attributes={"year": [3]})
    index.upsert(vectors[:2], named([43, 44]), attributes={"year": [1, 3]})
    right = expected(named, set(range(3, N, 10)) - {33})
    assert found(index, vectors, filter=bitmap) == right
    index.compact()
    assert found(index, vectors, filter=bitmap) == right


def test_a_bitmap_of_a_condition_serves_another_index(index, vectors, named):
    bitmap = index.where("year = 3")
    other = pcpq.build(vectors, named(np.arange(N)), metric="dot")
    right = expected(named, range(3, N, 10))
    assert found(other, vectors, filter=bitmap) == right
    assert found(other, vectors, exclude=~bitmap) == right


def test_an_empty_index_and_a_condition_that_is_not_valid(vectors):
    index = pcpq.Index(metric="dot").fit(vectors)
    assert len(index.where("year = 3")) == 0
    index.add(vectors, attributes={"year": np.arange(N)})
    with pytest.raises(ValueError, match="where is 'nope = 1'"):
        index.where("nope = 1")
    with pytest.raises(ValueError, match="allows a length of 2"):
        index.where("year = 3", pcpq.WhereLimits(length=2))
    with pytest.raises(ValueError, match="no attributes"):
        pcpq.build(vectors, metric="dot").where("year = 3")


def test_bitmaps_combine_as_sets_do(index, vectors, named):
    everything = expected(named, range(N))
    sets = [set(range(0, N, 2)), set(range(0, N, 3))]
    one, other = (pcpq.Bitmap(named(sorted(numbers))) for numbers in sets)
    a, b = (expected(named, numbers) for numbers in sets)
    for combined, right in (
        (one & other, a & b),
        (one | other, a | b),
        (~one, everything - a),
        (~~one, a),
        (one & ~other, a - b),
        (~one & other, b - a),
        (~one & ~other, everything - a - b),
        (one | ~other, a | (everything - b)),
        (~one | ~other, everything - (a & b)),
        (one & pcpq.Bitmap([]), set()),
        (one | pcpq.Bitmap([]), a),
        (~pcpq.Bitmap([]), everything),
        (index.where("year = 2") & one, expected(named, range(2, N, 10))),
    ):
        for bitmap in (combined, pickle.loads(pickle.dumps(combined))):
            assert found(index, vectors, filter=bitmap) == right
            assert found(index, vectors, exclude=bitmap) == everything - right
            some = next(iter(everything))
            assert (some in bitmap) == (some in right)


def test_membership_length_and_truth(named):
    bitmap = pcpq.Bitmap(named([1, 2, 5]))
    one, other = named([5, 7])
    assert one in bitmap
    assert other not in bitmap
    assert one not in ~bitmap
    assert other in ~bitmap
    assert None not in bitmap
    assert -1 not in bitmap
    assert 2.5 not in bitmap
    assert len(bitmap) == 3
    assert bitmap
    assert ~bitmap
    assert not pcpq.Bitmap([])
    assert ~pcpq.Bitmap([])
    with pytest.raises(TypeError, match="has no length"):
        len(~bitmap)


def test_strings_that_differ_in_zero_characters_are_different():
    bitmap = pcpq.Bitmap(["a\0", "b"])
    assert "a\0" in bitmap
    assert "a" not in bitmap


def test_a_bitmap_is_printed_shortly():
    assert repr(pcpq.Bitmap([2, 1])) == "Bitmap(2 ids: 1, 2)"
    assert repr(~pcpq.Bitmap(range(2000))) == "~Bitmap(2,000 ids: 0, 1, 2, ...)"
    assert repr(pcpq.Bitmap(["b", "a"])) == "Bitmap(2 ids: 'a', 'b')"
    assert repr(pcpq.Bitmap([])) == "Bitmap(0 ids)"


def test_bitmaps_of_numbers_and_of_strings_do_not_combine():
    numbers, strings = pcpq.Bitmap([1, 2]), pcpq.Bitmap(["a"])
    for combine in (lambda: numbers & strings, lambda: strings | numbers, lambda: ~numbers & ~strings):
        with pytest.raises(ValueError, match="int ids cannot be combined with one of str ids"):
            combine()
    for wrong in (lambda: numbers & [1], lambda: numbers | {1}):
        with pytest.raises(TypeError):
            wrong()


def test_large_bitmaps_of_strings_combine_in_time_that_grows_with_their_sum():
    one, other = pcpq.Bitmap(names_of(range(40_000))), pcpq.Bitmap(names_of(range(20_000, 60_000)))
    assert len(one & other) == 20_000
    assert len(one & ~other) == 20_000


@pytest.mark.parametrize("form", [list, set, frozenset, tuple, np.array, pcpq.Bitmap])
def test_filters_are_taken_in_every_usual_form(index, vectors, named, form):
    numbers = [1, 5, 700]
    assert found(index, vectors, filter=form(list(named(numbers)))) == expected(named, numbers)
    assert found(index, vectors, exclude=form(list(named(numbers)))) == expected(
        named, set(range(N)) - set(numbers)
    )


def test_a_mask_filters_by_the_ids_where_it_is_true(vectors):
    index = pcpq.build(vectors, metric="dot")
    mask = np.random.default_rng(1).random(N) < 0.1
    right = set(np.flatnonzero(mask).tolist())
    for form in (mask, mask.tolist(), tuple(mask.tolist()), pcpq.Bitmap(mask)):
        assert found(index, vectors, filter=form) == right
        assert found(index, vectors, exclude=form) == set(range(N)) - right
    index.remove([N - 1])
    assert found(index, vectors, filter=mask) == right - {N - 1}
    assert len(pcpq.Bitmap([True, False, True])) == 2


def test_a_mask_of_another_length_than_the_index_is_refused(vectors):
    index, mask = pcpq.build(vectors, metric="dot"), np.ones(N - 5, bool)
    message = f"has {N - 5} values; expected {N}"
    for name in ("filter", "exclude"):
        with pytest.raises(ValueError, match=message):
            index.search(vectors[0], **{name: mask})
        with pytest.raises(ValueError, match=message):
            index.search_range(vectors[:1], min_score=0, **{name: mask.tolist()})
        with pytest.raises(ValueError, match=message):
            index.explain(vectors[0], **{name: mask})
    assert found(index, vectors, filter=pcpq.Bitmap(mask)) == set(range(N - 5))
    with pytest.raises(ValueError, match="expected integers"):
        index.search(vectors[0], filter=mask[None])


def test_the_largest_id_that_was_ever_used_decides_the_length_of_masks(vectors):
    index = pcpq.build(vectors[:3], [2, 5, 9], metric="dot")
    index.remove([9])
    assert state_of(index).next_id == 10
    assert found(index, vectors, filter=np.arange(10) > 2) == {5}


def test_a_string_is_not_a_filter(vectors):
    index = pcpq.build(vectors, names_of(range(N)), metric="dot")
    for option in ("filter", "exclude"):
        with pytest.raises(ValueError, match=r"is 'year > 2000'; expected ids.*where= takes conditions"):
            index.search(vectors[0], **{option: "year > 2000"})


def test_masks_are_refused_where_ids_are_strings(vectors):
    index = pcpq.build(vectors, names_of(range(N)), metric="dot")
    with pytest.raises(ValueError, match="a filter of bool is for integer ids; this index has strings"):
        index.search(vectors[0], filter=np.ones(N, bool))


def test_keys_of_a_dict_and_generators_are_filters(vectors):
    index = pcpq.build(vectors, metric="dot")
    for some in ({3: "a", 5: "b"}.keys(), (number for number in (3, 5)), iter([5, 3])):
        assert sorted(index.search(vectors[0], 2, filter=some).ids) == [3, 5]
