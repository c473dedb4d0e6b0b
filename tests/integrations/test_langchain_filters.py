"""Filters and conditions of the LangChain store."""

import math

import pytest
from embedding import STRANGE_KEYS
from langchain_documents import IDS, METADATA, TEXTS, WordEmbeddings, filled_store, ids_of

from pcpq.integrations.langchain import PCPQVectorStore
from pcpq.search.where import WhereLimits


@pytest.fixture
def store():
    return filled_store()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, "abcde"),
        ({"kind": "music"}, "ad"),
        ({"year": 2020}, "a"),
        ({"year": 2020.0}, "a"),
        ({"year": "2020"}, "c"),
        ({"fine": True}, "a"),
        ({"fine": 0}, "d"),
        ({"tags": ["strings"]}, "d"),
        ({"tags": []}, "b"),
        ({"note": None}, "abcde"),
        ({"kind": None}, "e"),
        ({"it's": 'a "quoted" \\ key'}, "d"),
        ({"kind": "music", "year": 2021}, "d"),
        ({"year": {"$gt": 1990}}, "abd"),
        ({"year": {"$gte": 1990.5, "$lt": 2021}}, "ab"),
        ({"year": {"$lte": 2020}}, "ab"),
        ({"year": {"$gt": "2"}}, "c"),
        ({"kind": {"$eq": "music"}}, "ad"),
        ({"kind": {"$ne": "music"}}, "bce"),
        ({"kind": {"$in": ["sport", "people"]}}, "bc"),
        ({"kind": {"$in": []}}, ""),
        ({"kind": {"$nin": ["sport", "people"]}}, "ade"),
        ({"year": {"$in": (2021, "2020")}}, "cd"),
        ({"tags": {"$exists": True}}, "abd"),
        ({"note": {"$exists": False}}, "abcde"),
        ({"tags": {"$contains": "strings"}}, "ad"),
        ({"kind": {"$contains": "o"}}, "bc"),
        ({"kind": {"$like": "%s%c"}}, "ad"),
        ({"kind": {"$ilike": "SP%"}}, "c"),
        ({"$or": [{"kind": "sport"}, {"fine": False}]}, "cd"),
        ({"$and": [{"kind": "music"}, {"$not": {"fine": True}}]}, "d"),
        ({"$not": {"kind": "music", "fine": True}}, "bcde"),
        ({"$not": {"$or": [{"kind": "sport"}, {"kind": "music"}]}}, "be"),
        ({"no such key": 1}, ""),
        ({"kind' OR true --": 1}, ""),
        ({"kind": "' OR true --"}, ""),
    ],
)
def test_a_filter_leaves_what_it_says(store, wanted, expected):
    assert sorted(ids_of(store.similarity_search("music", k=10, filter=wanted))) == list(expected)


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ({"year": {"$near": 3}}, ValueError, r"'year' has the operator '\$near'; expected one of \$eq"),
        ({"$xor": []}, ValueError, r"the key '\$xor'"),
        ({"$or": {"a": 1}}, TypeError, r"\$or has \{'a': 1\}; expected a list"),
        ({"year": {"$in": "2020"}}, TypeError, r"\$in has '2020'; expected a list"),
        ({"year": {"$gt": [1]}}, TypeError, r"'year' is compared with \[1\]"),
        ({"year": {"$gt": math.nan}}, ValueError, "'year' is compared with nan"),
        ({"year": {"$exists": "no"}}, TypeError, r"\$exists has 'no'"),
        ({"year": object()}, TypeError, "'year' is compared with <object"),
        ({3: 4}, TypeError, "a key of metadata is 3"),
        ("year > 2020", TypeError, "filter is 'year > 2020'; expected a dict"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(store, wanted, error, message):
    with pytest.raises(error, match=message):
        store.similarity_search("music", filter=wanted)


def test_conditions_in_sql_see_keys_and_texts(store):
    def found(**options):
        return sorted(ids_of(store.similarity_search("music", k=10, **options)))

    assert found(where="year > 2000 AND kind = 'music'") == ["a", "d"]
    assert found(where="contains(text, 'music')") == ["a", "d"]
    assert found(where="metadata->>'$.tags[0]' = 'keys'") == ["a"]
    assert found(where="fine", filter={"kind": "music"}) == ["a"]
    assert found(where="fine -- or not", filter={"kind": "music"}) == ["a"]
    with pytest.raises(ValueError, match=r"no_such_column.* the columns are text, metadata, kind, year"):
        found(where="no_such_column > 3")
    with pytest.raises(ValueError, match="where is"):  # harmless in parentheses, and not what a filter allows
        found(where="true) OR (true", filter={"kind": "music"})


def test_keys_of_any_name_are_filtered_and_deleted_by(tmp_path):
    held = {key: f"value of {key}" for key in STRANGE_KEYS}
    with PCPQVectorStore(WordEmbeddings(), tmp_path / "store") as store:
        store.add_texts(TEXTS[:1], [held], ids=["one"])
        store.add_texts(TEXTS[1:2], [dict.fromkeys(STRANGE_KEYS, "x")], ids=["other"])
        for key in STRANGE_KEYS:
            if key.startswith("$"):  # an operator
                continue
            assert ids_of(store.similarity_search("music", filter={key: held[key]})) == ["one"], key
        for key in ("__PCPQ_ROW", "a.b", 'a"b', "\U0001f600", "select", "A"):
            quoted = key.replace('"', '""')
            assert ids_of(store.similarity_search("music", where=f"\"{quoted}\" = 'value of {key}'")) == ["one"]
        assert store.get_by_ids(["one"])[0].metadata == held
        store.delete(filter={"__PCPQ_ROW": held["__PCPQ_ROW"]})
        assert ids_of(store.similarity_search("music")) == ["other"]
    with PCPQVectorStore(WordEmbeddings(), tmp_path / "store") as store:
        store.add_texts(TEXTS[:1], [held], ids=["again"])
        assert ids_of(store.similarity_search("music", filter={"a": held["a"]})) == ["again"]


def test_limits_of_conditions_are_those_of_the_store(store):
    short = PCPQVectorStore(WordEmbeddings(), where_limits=WhereLimits(length=10))
    short.add_texts(TEXTS, METADATA, ids=IDS)
    for use in (
        lambda: short.similarity_search("music", where="year BETWEEN 2000 AND 2010"),
        lambda: short.similarity_search("music", where="year BETWEEN 2000 AND 2010", filter={"kind": "music"}),
        lambda: short.delete(where="year BETWEEN 2000 AND 2010"),
    ):
        with pytest.raises(ValueError, match="length of 10"):
            use()
    assert ids_of(short.similarity_search("music", where="year > 2020.", where_limits=WhereLimits())) == ["d"]
    with pytest.raises(ValueError, match="surrogate"):
        store.similarity_search("music", where="kind = '\ud800'", filter={"kind": "music"})
    with pytest.raises(ValueError, match=r"pcpq\.WhereLimits"):
        PCPQVectorStore(WordEmbeddings(), where_limits=5)


NESTED = {
    "a": {"author": {"name": "Ann", "age": 30, "x.y": 1}},
    "b": {"author": {"name": "Bob", "tags": ["x"]}},
    "c": {"author.name": "Ann", "author": {"name": "Carl"}},
    "d": {"author": "Ann"},
}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"author.name": "Ann"}, "ac"),
        ({"author.name": "Carl"}, ""),  # the key of this name comes first
        ({"author": {"name": "Ann"}}, "a"),
        ({"author": {"name": {"$in": ["Bob", "Carl"]}}}, "bc"),
        ({"author.name": {"$in": ["Ann", "Bob"]}}, "abc"),
        ({"author.age": {"$gte": 30}}, "a"),
        ({"author": {"name": "Ann", "age": {"$lt": 30}}}, ""),
        ({"author": {"x.y": 1}}, "a"),
        ({"author.tags": {"$contains": "x"}}, "b"),
        ({"author.tags.0": "x"}, "b"),
        ({"author.name": {"$exists": False}}, "d"),
        ({"author.name": {"$ne": "Ann"}}, "bd"),
        ({"author": "Ann"}, "d"),
        ({"author.": 1}, ""),
    ],
)
def test_filters_find_nested_keys(wanted, expected):
    store = PCPQVectorStore(WordEmbeddings())
    store.add_texts(["music"] * len(NESTED), list(NESTED.values()), ids=list(NESTED))
    assert sorted(ids_of(store.similarity_search("music", k=10, filter=wanted))) == list(expected)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"author": {}}, r"'author' has \{\}; expected a value, operators alone, or nested keys alone"),
        ({"author": {"name": "Ann", "$eq": 1}}, "expected a value, operators alone, or nested keys alone"),
        ({"author": {"name": {"$near": 1}}}, r"'author\.name' has the operator '\$near'"),
        ({"author": {"$eq": {"name": "Ann"}}}, r"expected .* None; a nested key is 'author\.key'"),
        ({"author": {3: "Ann"}}, "expected a str"),
    ],
)
def test_nested_filters_that_mean_nothing_are_refused(store, wanted, said):
    with pytest.raises((ValueError, TypeError), match=said):
        store.similarity_search("music", filter=wanted)
