import pickle

import numpy as np
import pyarrow as pa
import pytest
from reference import exact

import pcpq
from pcpq.search.where import matching

N = 3000


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(3).normal(size=(N, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def table():
    numbers = np.arange(N)
    return pa.table({"lang": np.where(numbers % 3 == 0, "en", "de"), "year": 2000 + numbers % 25})


@pytest.fixture(scope="module")
def index(vectors, table):
    return pcpq.build(vectors, metric="dot", keep="float32", n_lists=20, attributes=table)


def test_a_condition_finds_what_brute_force_finds_among_those_it_holds_for(index, vectors, table):
    queries = vectors[:30] + 0.1
    found = index.search(queries, k=5, probes=20, rerank=N, where="lang = 'en' AND year > 2020")
    rows = np.flatnonzero((table["lang"].to_numpy() == "en") & (table["year"].to_numpy() > 2020))
    _, best = exact(vectors[rows], queries, "dot", 5)
    assert np.array_equal(found.ids, rows[best])


def test_a_condition_joins_a_filter_and_an_exclusion(index, vectors):
    query = vectors[7]
    allowed = np.arange(0, N, 2)
    found = index.search(query, k=50, where="year = 2004", filter=allowed, exclude=[4])
    expected = [i for i in range(0, N, 2) if i % 25 == 4 and i != 4]
    assert len(set(found.ids)) == 50
    assert set(found.ids) <= set(expected)
    limits, _, ids = index.search_range(
        query[None], min_score=-1e9, where="year = 2004", filter=allowed, probes=20
    )
    assert limits[-1] == len(expected) + 1
    assert set(ids) == {4, *expected}


def test_attributes_follow_their_vectors_through_removal_upsert_and_compaction(vectors, table):
    words = [f"w{i}" for i in range(N)]
    index = pcpq.build(vectors, words, metric="cosine", attributes=table)
    index.remove(words[:100])
    index.upsert(vectors[200:210], words[200:210], attributes={"lang": ["fr"] * 10, "extra": list(range(10))})
    for _ in range(2):
        got = index.get(["w205", "w150", "w204"]).to_pydict()
        assert got == {"lang": ["fr", "en", "fr"], "year": [2005, 2000, 2004], "extra": [5, None, 4]}
        found = index.search(vectors[205], k=20, where="lang = 'fr'").ids
        assert set(found[:10]) == set(words[200:210])
        assert list(found[10:]) == [None] * 10
        index.compact()
    with pytest.raises(KeyError, match="w50"):
        index.get(["w50"])


def test_vectors_without_attributes_have_nulls(vectors, table):
    index = pcpq.build(vectors, metric="dot", attributes=table)
    index.add(vectors[:3], [N, N + 1, N + 2])
    assert set(index.search(vectors[0], k=3, where="lang IS NULL").ids) == {N, N + 1, N + 2}
    assert index.get([N + 1]).to_pydict() == {"lang": [None], "year": [None]}


def test_attributes_are_stored_and_committed_with_their_vectors(vectors, table, tmp_path):
    index = pcpq.build(vectors, metric="dot", attributes=table)
    index.save(tmp_path / "index")
    reader = pcpq.open(tmp_path / "index")
    where = "lang = 'en' AND year IN (2001, 2007)"
    assert np.array_equal(
        reader.search(vectors[:9], where=where).ids, index.search(vectors[:9], where=where).ids
    )
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        writer.add(vectors[:1], [N], attributes={"lang": ["fr"]})
        writer.commit()
    with pytest.raises(KeyError):
        reader.get([N])
    reader.refresh()
    assert reader.get([N, 0]).to_pydict() == {"lang": ["fr", "en"], "year": [None, 2000]}
    assert pickle.loads(pickle.dumps(reader)).get([N]).to_pydict() == {"lang": ["fr"], "year": [None]}
    reader.verify()


def test_a_damaged_table_is_not_answered_from(vectors, table, tmp_path):
    pcpq.build(vectors, metric="dot", attributes=table).save(tmp_path / "index")
    path = next((tmp_path / "index").glob("attributes-*"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    reader = pcpq.open(tmp_path / "index")
    reader.search(vectors[0])
    for use in (lambda: reader.search(vectors[0], where="year = 2001"), lambda: reader.get([1]), reader.verify):
        with pytest.raises(pcpq.FormatError, match=path.name):
            use()


@pytest.mark.parametrize(
    "where",
    [
        "nope = 1",
        "true; DROP TABLE x",
        "true) UNION SELECT 1 --",
        "(SELECT count(*) FROM secret_table) > 0",
        7,
    ],
)
def test_what_is_no_condition_on_the_columns_is_refused(index, vectors, where):
    secret_table = pa.table({"a": [1]})
    with pytest.raises(ValueError, match="where is"):
        index.search(vectors[0], where=where)
    assert len(secret_table) == 1


def test_a_condition_cannot_write_files(index, vectors, tmp_path):
    target = tmp_path / "stolen.csv"
    for where in (
        f"true; COPY (SELECT 1) TO '{target}'",
        f"(SELECT 1 FROM (COPY (SELECT 1) TO '{target}')) = 1",
    ):
        with pytest.raises(ValueError, match="where is"):
            index.search(vectors[0], where=where)
    assert not target.exists()


def test_rows_for_which_a_condition_is_null_do_not_match():
    table = pa.table({"a": [1, None, 3, None]})
    assert matching(table.schema, "a > 0", None, table.select).tolist() == [True, False, True, False]
    assert matching(table.schema, "a IS NULL", None, table.select).tolist() == [False, True, False, True]


def test_tables_that_do_not_fit_are_refused(vectors, table):
    index = pcpq.build(vectors, metric="dot", attributes=table)
    with pytest.raises(ValueError, match="3 rows for 2 vectors"):
        index.add(vectors[:2], attributes={"lang": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="lang"):
        index.add(vectors[:2], attributes={"lang": [1, 2]})
    with pytest.raises(ValueError, match="cannot be converted to a table"):
        index.add(vectors[:2], attributes=5)
    assert len(index) == N
    with pytest.raises(ValueError, match="has no attributes"):
        pcpq.build(vectors, metric="dot").search(vectors[0], where="lang = 'en'")
