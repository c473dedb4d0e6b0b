"""Additions, removals, merges and copies in any order: an index holds what a dict holds."""

import pickle

import numpy as np
import pytest
from fitted_index import DIMENSIONS, QUERIES, fitted, holds, number, word
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from reference import exact

from pcpq.store.state import REMOVED


class AgainstADict(RuleBasedStateMachine):
    """An index and a dict of what it must hold."""

    metric, name = "euclidean", staticmethod(number)
    places = st.integers(0, 59)
    many = st.lists(places, max_size=45, unique=True)

    @initialize(seed=st.integers(0, 1000))
    def start(self, seed):
        self.generator = np.random.default_rng(seed)
        self.index, self.expected = fitted(self.metric), {}

    def new(self, count):
        return self.generator.normal(size=(count, DIMENSIONS)).astype(np.float32)

    def ids_of(self, places):
        return [self.name(place) for place in places]

    @rule(places=many)
    def add(self, places):
        ids = self.ids_of(places)
        known = [some for some in ids if some in self.expected]
        vectors = self.new(len(ids))
        if known:
            with pytest.raises(ValueError, match="is in the index already"):
                self.index.add(vectors, ids)
            ids = [some for some in ids if some not in self.expected]
            vectors = vectors[: len(ids)]
        if ids:
            assert self.index.add(vectors, ids).tolist() == ids
            self.expected.update(zip(ids, vectors, strict=True))

    @rule(places=many.filter(len))
    def upsert(self, places):
        ids = self.ids_of(places)
        vectors = self.new(len(ids))
        assert self.index.upsert(vectors, ids).tolist() == ids
        self.expected.update(zip(ids, vectors, strict=True))

    @rule(places=st.lists(places, max_size=30))
    def remove(self, places):
        ids = self.ids_of(places)
        there = {some for some in ids if some in self.expected}
        assert self.index.remove(ids) == len(there)
        for some in there:
            del self.expected[some]

    @rule()
    def remove_most(self):
        gone = list(self.expected)[: -(len(self.expected) // 8) or None]
        assert self.index.remove(gone) == len(gone)
        for some in gone:
            del self.expected[some]

    @rule()
    def compact(self):
        self.index.compact()
        stats = self.index.stats()
        assert stats["segments"] == (1 if self.expected else 0)
        assert stats["removed"] == 0

    @rule()
    def go_on_with_a_pickle(self):
        self.index = pickle.loads(pickle.dumps(self.index))

    @precondition(lambda self: self.expected)
    @rule(places=many)
    def filter(self, places):
        ids = self.ids_of(places)
        allowed = {some: row for some, row in self.expected.items() if some in set(ids)}
        for options in ({"filter": ids}, {"exclude": [some for some in self.expected if some not in allowed]}):
            found = self.index.search(QUERIES, k=len(allowed) + 1, **options).ids
            assert set(found[:, -1].tolist()) <= {-1, None}
            if allowed:
                rows = exact(np.stack(list(allowed.values())), QUERIES, self.metric, len(allowed))[1]
                keys = list(allowed)
                assert found[:, :-1].tolist() == [[keys[row] for row in some] for some in rows]

    @invariant()
    def is_the_dict(self):
        holds(self.index, self.expected, metric=self.metric)
        for place in range(60):
            assert (self.name(place) in self.index) == (self.name(place) in self.expected)
        assert "missing" not in self.index
        assert 10_000 not in self.index
        stats = self.index.stats()
        assert stats["vectors"] == len(self.expected)
        assert stats["removed"] <= REMOVED * (stats["removed"] + stats["vectors"])


class WordsAgainstADict(AgainstADict):
    metric, name = "dot", staticmethod(word)


for machine in (AgainstADict, WordsAgainstADict):
    machine.TestCase.settings = settings(
        max_examples=15, stateful_step_count=20, derandomize=True, deadline=None, database=None
    )
TestNumbersAgainstADict = AgainstADict.TestCase
TestWordsAgainstADict = WordsAgainstADict.TestCase
