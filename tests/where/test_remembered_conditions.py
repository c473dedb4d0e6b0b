"""Conditions that are asked again: remembered per snapshot, on connections that are kept."""

import os
import warnings

import numpy as np
import pyarrow as pa
import pytest
from conditions import N, held

import pcpq
import pcpq.search.where as where_module
from pcpq.index import state_of
from pcpq.search import filters
from pcpq.search.where import WhereLimits


def test_a_repeated_condition_is_not_evaluated_again(vectors, table, monkeypatch):
    index = pcpq.build(vectors, metric="dot", attributes=table)
    expected = index.search(vectors[:5], where="year > 2010").ids
    excluded = index.search(vectors[:5], where="year > 2010 AND year > 1000", exclude=expected[0]).ids
    monkeypatch.setattr(where_module, "evaluate", None)
    np.testing.assert_array_equal(index.search(vectors[:5], where="year > 2010").ids, expected)
    np.testing.assert_array_equal(
        index.search(vectors[:5], where="year > 2010", exclude=expected[0]).ids, excluded
    )
    with pytest.raises(ValueError, match="where_limits allows a length of 5"):
        index.search(vectors[0], where="year > 2010", where_limits=WhereLimits(length=5))


def test_a_condition_is_evaluated_again_after_a_change(vectors, table):
    index = pcpq.build(vectors[:2000], metric="dot", attributes=table.slice(0, 2000))
    where = "year > 2010 AND year > 0"
    before = index.search(vectors[0], N, where=where).ids
    gone = before[0]
    index.remove([gone])
    assert gone not in index.search(vectors[0], N, where=where).ids
    index.add(vectors[2000:], attributes=table.slice(2000))
    after = index.search(vectors[0], N, where=where).ids
    expected = {i for i in range(N) if 2000 + i % 25 > 2010} - {int(gone)}
    assert set(after[after >= 0].tolist()) == expected


def test_conditions_in_the_cache_take_a_bounded_amount_of_memory(vectors, table, monkeypatch):
    monkeypatch.setattr(filters, "MOST_CACHED_BYTES", 10_000)
    index = pcpq.build(vectors, metric="dot", attributes=table)
    for year in range(2000, 2025):
        index.search(vectors[0], where=f"year = {year}")
    cache = state_of(index).snapshot.conditions
    assert cache.get("year = 2024") is not None
    assert cache.get("year = 2000") is None


@pytest.mark.parametrize("values", [["en", "de", None, ""], ["a\0b", "ä", "a", None]])
@pytest.mark.parametrize(
    "condition", ["s = '{}'", "s <> '{}'", "s IS NULL", "s > '{}'", "length(s) = 2", "coalesce(s, 'x') = '{}'"]
)
def test_strings_with_few_values_are_compared_as_strings(vectors, values, condition):
    drawn = np.random.default_rng(0).integers(0, len(values), N)
    column = pa.array([values[place] for place in drawn])
    index = pcpq.build(vectors, metric="dot", attributes={"s": column, "i": np.arange(N)})
    for value in ("en", "ä", "a", ""):
        where = condition.format(value)
        # The first condition reads the strings, later ones read codes.
        found = [index.search(vectors[0], N, where=where + f" AND i >= {-i}").ids for i in range(3)]
        expected = held(pa.table({"s": column}), where)
        for ids in found:
            assert sorted(ids[ids >= 0].tolist()) == expected


def test_a_connection_serves_one_condition_after_the_other_but_not_after_an_error(table):
    where_module.idle.take(WhereLimits(memory=77 << 20))
    held(table, "year > 2010", memory=77 << 20)
    first = where_module.idle.take(WhereLimits(memory=77 << 20))
    assert first is not None
    assert where_module.idle.take(WhereLimits(memory=77 << 20)) is None
    where_module.idle.put(WhereLimits(memory=77 << 20), first)
    with pytest.raises(ValueError, match="failed on a row"):
        held(table, "CAST(lang AS INTEGER) = 1", memory=77 << 20)
    assert where_module.idle.take(WhereLimits(memory=77 << 20)) is None


@pytest.mark.linux
def test_a_condition_after_a_fork_has_a_connection_of_its_own(table):
    expected = held(table, "year > 2010")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads
        child = os.fork()
    if child == 0:
        os._exit(0 if held(table, "year > 2010") == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
