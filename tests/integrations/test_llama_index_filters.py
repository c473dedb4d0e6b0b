"""Filters of the LlamaIndex store mean what LlamaIndex says."""

import json

import numpy as np
import pyarrow as pa
import pytest
from embedding import STRANGE_KEYS, embed
from llama_index.core.schema import (
    TextNode,
)
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilters,
    VectorStoreQueryMode,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn
from llama_nodes import ask, filled_store, nodes, only

from pcpq.integrations.llama_index import PCPQVectorStore, condition_of
from pcpq.search.where import WhereLimits, matching


@pytest.fixture
def store():
    return filled_store()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"doc_ids": ["first"]}, "ab"),
        ({"doc_ids": ["first", "second"]}, "abcd"),
        ({"doc_ids": []}, ""),
        ({"doc_ids": ["missing"]}, ""),
        ({"node_ids": ["a", "e", "missing"]}, "ae"),
        ({"node_ids": []}, "abcde"),
        ({"doc_ids": ["first"], "node_ids": ["b", "c"]}, "b"),
        ({"doc_ids": ["second"], "filters": only("kind", FilterOperator.EQ, "music")}, "d"),
        ({"node_ids": ["a", "b"], "filters": only("kind", FilterOperator.NE, "music")}, "b"),
        ({"filters": only("ref_doc_id", FilterOperator.EQ, "second")}, "cd"),
        ({"filters": MetadataFilters(filters=[])}, "abcde"),
    ],
)
@pytest.mark.parametrize("mode", [VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR])
def test_documents_nodes_and_filters_must_all_agree(store, options, expected, mode):
    assert sorted(store.query(ask("music", mode=mode, **options)).ids) == list(expected)


VALUES = [
    0,
    1,
    2.5,
    -3,
    2**53 + 1,
    2**63,
    True,
    False,
    "",
    "a",
    "A",
    "ab",
    "1",
    "true",
    "É",
    "it's",
    'q"\\',
    "\0",
    "%",
]
LISTS = [[], ["a"], ["a", "b"], [1], [1.0, 2], [True], ["it's"], [None], [["a"]]]
ROWS = [{"k": value} for value in [*VALUES, *LISTS, None, {"x": 1}]] + [{}, {"other": 1}]
TABLE = pa.table({"metadata": [json.dumps(row, ensure_ascii=False) for row in ROWS]})
LONE = [value for value in VALUES if not isinstance(value, bool)]
SEVERAL = [["a"], ["a", "ab", "1"], [1], [0, 2**63], [2.5, 1.0], ["it's", "\0"], []]
CASES = {
    FilterOperator.EQ: [*LONE, ["a"], [1], []],
    FilterOperator.NE: [*LONE, ["a", "b"]],
    FilterOperator.GT: LONE,
    FilterOperator.GTE: LONE,
    FilterOperator.LT: LONE,
    FilterOperator.LTE: LONE,
    FilterOperator.IN: SEVERAL,
    FilterOperator.NIN: SEVERAL,
    FilterOperator.ANY: SEVERAL,
    FilterOperator.ALL: SEVERAL,
    FilterOperator.CONTAINS: LONE,
    FilterOperator.TEXT_MATCH: [value for value in LONE if isinstance(value, str)],
    FilterOperator.TEXT_MATCH_INSENSITIVE: [value for value in LONE if isinstance(value, str)],
    FilterOperator.IS_EMPTY: [None],
}


@pytest.mark.parametrize("operator", FilterOperator)
def test_every_operator_means_what_llama_index_says(operator):
    def holds(row, wanted):
        try:
            return build_metadata_filter_fn(lambda _: row, wanted)("any")
        except TypeError:  # what cannot be compared does not match
            return False

    for value in CASES[operator]:
        wanted = only("k", operator, value)
        found = set(np.flatnonzero(matching(TABLE.schema, condition_of(wanted), None, TABLE.select)))
        expected = {place for place, row in enumerate(ROWS) if holds(row, wanted)}
        assert found == expected, (value, [ROWS[place] for place in found ^ expected])


def test_conditions_combine_and_nest(store):
    music, old = only("kind", FilterOperator.EQ, "music"), only("year", FilterOperator.LT, 2021)
    sport = only("kind", FilterOperator.EQ, "sport")

    def found(*filters, condition):
        wanted = MetadataFilters(filters=list(filters), condition=condition)
        return "".join(sorted(store.query(ask("music", filters=wanted)).ids))

    assert found(*music.filters, *old.filters, condition=FilterCondition.AND) == "a"
    assert found(*music.filters, *old.filters, condition=None) == "a"
    assert found(*music.filters, *old.filters, condition=FilterCondition.OR) == "abd"
    assert found(*music.filters, *old.filters, condition=FilterCondition.NOT) == "ce"
    either = MetadataFilters(filters=[music, sport], condition=FilterCondition.OR)
    neither = MetadataFilters(filters=[music, sport], condition=FilterCondition.NOT)
    assert found(either, old, condition=FilterCondition.AND) == "a"
    assert found(neither, *music.filters, condition=FilterCondition.OR) == "abde"
    assert found(MetadataFilters(filters=[neither]), condition=FilterCondition.NOT) == "acd"


@pytest.mark.parametrize(
    ("operator", "value", "message"),
    [
        (FilterOperator.IN, "a", "'k' in has 'a'; expected a list"),
        (FilterOperator.ALL, 3, "'k' all has 3; expected a list"),
        (FilterOperator.GT, ["a"], r"'k' is compared with \['a'\]; expected a text or a number"),
        (FilterOperator.TEXT_MATCH, 3, "'k' is compared with 3; expected a text"),
        (FilterOperator.CONTAINS, None, "'k' is compared with None; expected texts or numbers"),
    ],
)
def test_filters_that_make_no_sense_are_refused(store, operator, value, message):
    with pytest.raises(TypeError, match=message):
        store.query(ask("music", filters=only("k", operator, value)))


def test_keys_of_any_name_are_filtered_and_deleted_by(tmp_path):
    held = {key: f"value of {key}" for key in STRANGE_KEYS}
    with PCPQVectorStore(tmp_path / "store") as store:
        for some_id, metadata in (("one", held), ("other", dict.fromkeys(STRANGE_KEYS, "x"))):
            text = "guitar music"
            store.add([TextNode(id_=some_id, text=text, metadata=metadata, embedding=embed(text).tolist())])
        for key in STRANGE_KEYS:
            filters = only(key, FilterOperator.EQ, held[key])
            assert store.query(ask("music", filters=filters)).ids == ["one"], key
            assert [node.node_id for node in store.get_nodes(filters=filters)] == ["one"]
        assert store.get_nodes(["one"])[0].metadata == held
        store.delete_nodes(filters=only("__PCPQ_ROW", FilterOperator.EQ, held["__PCPQ_ROW"]))
        assert store.query(ask("music")).ids == ["other"]


def test_limits_of_conditions_are_those_of_the_store(store):
    short = PCPQVectorStore(where_limits=WhereLimits(length=10))
    short.add(nodes())
    with pytest.raises(ValueError, match="length of 10"):
        short.query(ask("music"), where="year BETWEEN 2000 AND 2010")
    with pytest.raises(ValueError, match="length of 10"):
        short.get_nodes(filters=only("kind", FilterOperator.EQ, "music"))
    with pytest.raises(ValueError, match="length of 3"):
        store.query(ask("music"), where="year > 2000", where_limits=WhereLimits(length=3))
    assert short.query(ask("music"), where="year > 2000", where_limits=WhereLimits()).ids[0] == "d"
