"""Conditions that require a comparison: rows where it is false are left out before DuckDB sees them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pcpq
from pcpq.search import where as where_module
from pcpq.search.where import matching

LANGS = ["en", "de", "EN", "en ", "", "ä", "a\u0308", None]
N = 4000


def attributes(seed):
    generator = np.random.default_rng(seed)
    langs = [LANGS[i] for i in generator.integers(len(LANGS), size=N)]
    return pa.table(
        {
            "Lang": langs,
            "title": [None if i % 11 == 0 else f"title {i % 900}" for i in range(N)],
            "year": generator.integers(1990, 2030, N),
            "digits": [str(i % 50) for i in range(N)],
            "place": [{"Lang": lang, "n": i} for i, lang in enumerate(langs)],
            "coded": pa.array(langs).dictionary_encode(),
            "price": pa.array(np.where(np.arange(N) % 40 == 0, np.nan, np.arange(N) % 64 * 0.1 - 3)),
            "small": pa.array((np.arange(N) % 30 * 0.1).astype(np.float32)),
            "byte": pa.array((np.arange(N) % 256).astype(np.uint8)),
            "few": pa.array([None if i % 7 == 0 else i for i in range(N)]),
        }
    )


@pytest.fixture(scope="module")
def table():
    return attributes(0)


def held(table, condition, chunks=1, prefilter=True):
    """Return the rows for which a condition holds, with or without leaving out rows first."""
    table = pa.concat_tables([table.slice(i * N // chunks, N // chunks) for i in range(chunks)])
    plain = table.cast(where_module.without_dictionaries(table.schema))
    with pytest.MonkeyPatch.context() as patch:
        if not prefilter:
            patch.setattr(where_module, "compared_rows", lambda table, comparisons: (None, False))
        return np.flatnonzero(matching(plain.schema, condition, None, plain.select)).tolist()


CONDITIONS = [
    "lang = 'en'",
    "'de' = LANG",
    "lang = ''",
    "lang = 'ä'",
    "lang = 'missing'",
    "lang = NULL",
    "lang = 'en' AND year > 2010",
    "year > 2010 AND (lang = 'en' AND title = 'title 5')",
    "lang = 'en' AND lang = 'de'",
    "lang = 'en' OR year = 2000",
    "NOT (lang = 'en')",
    "(lang = 'en') IS NULL",
    "lang = 'en' AND (title = 'title 5' OR title IS NULL)",
    "coded = 'en' AND lang = 'en'",
    "place.lang = 'en'",
    "place.n = 5 AND lang = lang",
    "digits = 7",
    "year = '2000'",
    "year = '2000' AND lang = 'en'",
    "lower(lang) = 'en'",
    "lang COLLATE NOCASE = 'en'",
    "lang = 'en' COLLATE NOCASE",
    "CASE WHEN lang = 'en' THEN true ELSE year > 2020 END",
    "lang = 'en' AND title LIKE 'title 1%'",
    "lang IN ('en', 'de') AND title = 'title 10'",
    "title = 'title 1' AND CAST(digits AS INTEGER) < 20",
    "year > 2020 AND price < 0.3",
    "2020 <= year AND price > 3.2",
    "year BETWEEN 2000 AND 2003",
    "year IN (1995, 2001) AND byte >= 250",
    "byte > -1 AND year = 2000",
    "byte < 300 AND year = 2000",
    "byte > 255",
    "byte = 1000000000000",
    "year > 99999999999999999999",
    "price = 'NaN'::DOUBLE",
    "price >= 3.2999999",
    "price = 0.2",
    "small = 0.3",
    "small < 0.30000001 AND small >= 0.2",
    "year = 2000.5",
    "year > 2000.5 AND year < 2002",
    "few < 9 OR few IS NULL",
    "few < 9",
    "-year < -2020",
    "year < 1995 AND 100 / (year - 2000) < 0",
    "year > 1e3 AND year < 1.992e3",
    "year = -2000",
    "title LIKE 'title 1%'",
    "title LIKE 'title _%'",
    "title LIKE '%5%'",
    "title LIKE '%' AND lang = 'en'",
    "title LIKE 'title 5'",
    "title LIKE 'title \\%'",
    "title NOT LIKE 'title 5%'",
    "title LIKE lang",
    "title ILIKE 'TITLE 5%'",
    "lang LIKE 'ä%' OR lang LIKE 'ä%'",
    "lang LIKE 'ä%'",
    "coded LIKE 'e%'",
    "lang > 'de'",
    f"title IN ({', '.join(repr(f'title {i}') for i in range(63))})",
]


@pytest.mark.parametrize("chunks", [1, 4])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_are_those_of_duckdb_alone(table, condition, chunks):
    assert held(table, condition, chunks) == held(table, condition, chunks, prefilter=False)


WORDS = st.sampled_from([f"'{lang}'" for lang in LANGS if lang is not None] + ["'title 5'", "'7'", "NULL", "7"])
COLUMNS = st.sampled_from(["lang", "title", "digits", "coded", "year"])
NUMBERS = st.sampled_from(
    [
        "7",
        "-1",
        "0.3",
        "2000",
        "2e3",
        "1e300",
        "3.3",
        "255",
        "1999.999999999",
        "0",
        "0.2999999999999999889",
        "16777217",
    ]
)
NUMERIC_COLUMNS = st.sampled_from(["year", "price", "small", "byte", "few"])
SIGNS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
COMPARISONS = (
    st.builds("{} {} {}".format, COLUMNS, st.sampled_from(["=", "<>", "<"]), WORDS)
    | st.builds("{} {} {}".format, NUMERIC_COLUMNS, SIGNS, NUMBERS)
    | st.builds("{} {} {}".format, NUMBERS, SIGNS, NUMERIC_COLUMNS)
    | st.builds("{} IN ({}, {})".format, NUMERIC_COLUMNS, NUMBERS, NUMBERS)
    | st.builds("{} BETWEEN {} AND {}".format, NUMERIC_COLUMNS, NUMBERS, NUMBERS)
)
EXPRESSIONS = st.recursive(
    COMPARISONS,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | st.builds("NOT {}".format, inner)
    ),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(condition=EXPRESSIONS)
def test_any_combination_gives_the_rows_of_duckdb_alone(table, condition):
    try:
        expected = held(table, condition, prefilter=False)
    except ValueError:  # year < 'en': some rows fail, and which are read may differ
        return
    assert held(table, condition) == expected


@pytest.fixture
def seen(monkeypatch):
    """Return a list that gets the number of rows of every evaluation by DuckDB."""
    seen = []
    evaluate = where_module.evaluate

    def watched(duckdb, connection, expression, condition, rows):
        seen.append(len(rows))
        return evaluate(duckdb, connection, expression, condition, rows)

    monkeypatch.setattr(where_module, "evaluate", watched)
    return seen


def test_most_rows_do_not_reach_duckdb(table, seen):
    found = held(table, "title = 'title 5' AND year > 1900 AND lower(title) = title")
    assert seen == [len(found)]
    assert 0 < len(found) < 10


@pytest.mark.parametrize(
    "condition",
    [
        "title = 'title 5'",
        "lang IN ('en', 'de') AND year > 2000 AND price <= 0.2",
        "few BETWEEN 5 AND 9",
        "2020 < year",
        "title LIKE 'title 10%' AND year > 2000",
    ],
)
def test_comparisons_with_constants_do_not_need_duckdb(table, seen, condition):
    assert held(table, condition)
    assert seen == []


@pytest.mark.parametrize(
    "condition", ["year > 2000.5", "price < 0.1234567890123456", "small < 0.3", "price > 9007199254740993"]
)
def test_constants_that_sql_could_round_are_compared_by_duckdb(table, seen, condition):
    held(table, condition)
    assert len(seen) == 1


@pytest.mark.parametrize(
    "condition",
    [
        f"year IN ({', '.join(map(str, range(1990, 2090)))})",
        " AND ".join(f"year > {1000 + i}" for i in range(500)),
    ],
)
def test_many_comparisons_are_left_to_duckdb_with_its_limits(table, seen, condition):
    assert len(held(table, condition)) == N
    assert seen == [N]


def test_searches_of_several_segments_with_and_without_a_column(table):
    vectors = np.random.default_rng(1).normal(size=(N, 8)).astype(np.float32)
    index = pcpq.build(vectors[:3000], metric="dot", attributes=table.slice(0, 3000))
    index.add(vectors[3000:3500])  # without attributes
    index.add(vectors[3500:], attributes=table.slice(3500).select(["Lang", "year"]))
    index.remove(np.arange(0, N, 9))
    langs = table["Lang"].to_pylist()
    there = [i for i in range(N) if langs[i] == "en" and not 3000 <= i < 3500 and i % 9]
    for _ in range(3):  # columns are encoded when a second condition reads them
        assert index.ids(where=f"lang = 'en' AND year < {3000 + _}").tolist() == there
    assert index.ids(where="coded = 'en'").tolist() == [i for i in there if i < 3000]


@pytest.mark.parametrize("condition", ["year", "5", "'en'", "Lang", "year + 1", "-year"])
def test_a_value_is_not_a_condition(table, condition):
    vectors = np.random.default_rng(1).normal(size=(N, 8)).astype(np.float32)
    index = pcpq.build(vectors, metric="dot", attributes=table)
    for use in (index.where, index.ids, lambda where: index.remove(where=where)):
        with pytest.raises(ValueError, match="not true or false: compare it with a value"):
            use(condition)
    assert len(index) == N


@pytest.mark.parametrize(("condition", "count"), [("NULL", 0), ("true", N), ("year > 0 OR NULL", N)])
def test_constants_that_are_true_false_or_null_are_conditions(table, condition, count):
    assert len(held(table, condition)) == count
