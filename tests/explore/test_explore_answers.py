"""What the page of `pcpq explore` is told: searches, recall, statistics and the map."""

import json

import numpy as np
import pytest
from explore_shapes import HOSTILE, LARGE

import pcpq
from pcpq.explore.projection import Projection
from pcpq.explore.sample import MOST_POINTS, Sample, by_steps, by_value
from pcpq.index import state_of


def ids_of(found):
    return [result["id"] for result in found["results"]]


# Searches


def test_an_item_finds_its_neighbours_but_not_itself(serve, stored):
    found = serve("words").search(id="word3", k=5)
    with pcpq.open(stored / "words") as index:
        query = index.reconstruct(["word3"])[0]
        settings = {name: found["settings"][name] for name in ("probes", "rerank")}
        itself, *others = index.search(query, 6, **settings).ids.tolist()
    assert itself == "word3"
    assert ids_of(found) == others
    assert found["query"] == {"id": "word3", "row": None, "name": None}
    assert found["results"][0]["attributes"] == attributes_of(ids_of(found)[0])


def attributes_of(name):
    place = int(name.removeprefix("word"))
    return ["true" if place % 2 == 0 else "false", str(place), "ab"[place % 2]]


def test_a_row_of_the_queries_finds_what_is_near_it(serve):
    found = serve("words").search(row=6, k=3)
    assert ids_of(found)[0] == "word6"
    assert found["query"] == {"id": None, "row": 6, "name": "query 6"}


def test_scores_are_best_first_by_every_metric(serve):
    for name, some_id, sign in (("words", "word1", -1), ("numbers", "1", 1), ("codes", "1", -1)):
        found = serve(name).search(id=some_id, k=20)
        scores = [result["score"] for result in found["results"]]
        assert scores == sorted(scores, key=lambda score: sign * score)
        assert some_id not in ids_of(found)


def test_more_recall_scans_more_vectors(serve):
    low, high = (serve("words").search(id="word3", target_recall=target) for target in (0.5, 0.999))
    assert low["settings"]["recall"] < high["settings"]["recall"]
    assert low["work"]["rows_scanned"] < high["work"]["rows_scanned"] <= high["work"]["rows"] == 2500


def test_settings_are_those_that_the_index_chooses(serve, stored):
    found = serve("words").search(id="word3", k=10, target_recall=0.9)
    with pcpq.open(stored / "words") as index:
        query = index.reconstruct(["word3"])[0]
        chosen = state_of(index).snapshot.recall.choose(10, 0.9)
        work = index.explain(query, 10, target_recall=0.9)
    assert found["settings"] == {
        "how": "chosen",
        "probes": chosen.probes,
        "rerank": chosen.rerank,
        "recall": chosen.recall,
    }
    assert found["work"]["rows_scanned"] == work["rows_scanned"]


def test_work_rises_along_the_curve(serve):
    curve = serve("words").search(id="word3")["curve"]
    for name in ("target", "recall", "work"):
        values = [point[name] for point in curve]
        assert values == sorted(values)


def test_time_is_a_median_of_several_searches(serve):
    time = serve("words").search(id="word3")["time"]
    assert time["repetitions"] >= 3
    assert time["median"] > 0


def test_a_condition_restricts_results(serve):
    found = serve("words").search(id="word3", where="kind = 'a' AND place < 2200", k=8)
    assert found["allowed"] == 1100
    assert all(row["attributes"][0] == "true" and int(row["attributes"][1]) < 2200 for row in found["results"])
    assert found["settings"]["how"] == "all"  # few are allowed, so all of them are compared
    assert serve("words").search(id="word3", where="place < 2200")["settings"]["how"] == "chosen"


def test_a_condition_that_nothing_meets_finds_nothing(serve):
    found = serve("words").search(id="word3", where="place < 0")
    assert (found["results"], found["allowed"]) == ([], 0)


def test_k_may_exceed_the_number_of_vectors(serve):
    found = serve("few").search(id=str(LARGE), k=1000)
    assert len(found["results"]) == 299
    assert found["settings"]["how"] == "all"


def test_large_integer_ids_stay_exact(serve):
    found = serve("few").search(id=str(LARGE))
    assert all(str(int(some_id)) == some_id and int(some_id) > 2**62 for some_id in ids_of(found))
    assert serve("few").data("map")["ids"][-1] == str(LARGE)


def test_codes_alone_are_searched_and_decoded(serve):
    found = serve("codes").search(row=2, k=4)
    assert found["work"]["reranked_by"] == "codes"
    assert len(found["results"]) == 4
    assert serve("codes").data("map")["decoded"]


def test_an_index_whose_recall_was_never_measured_says_so(rows):
    from pcpq.explore.parameters import wanted_search
    from pcpq.explore.searching import found_by

    index = pcpq.Index(metric="dot", keep=None).fit(rows)
    index.add(rows)
    found = found_by(index, rows[0], 0, wanted_search({"id": "0"}))
    assert found["settings"] == {"how": "usual", "probes": None, "rerank": None, "recall": None}
    assert found["curve"] == []


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"id": "nothing"}, 404, "id nothing is not in the index"),
        ({"row": 7}, 404, "queries.npy has 7 rows"),
        ({"row": -1}, 400, "row is -1"),
        ({"row": 1.5}, 400, "row is 1.5"),
        ({"row": True}, 400, "row is True"),
        ({}, 400, "either an id or a row"),
        ({"id": "word1", "row": 1}, 400, "either an id or a row"),
        ({"id": 3}, 400, "id must be text"),
        ({"id": "\ud800"}, 404, "is not in the index"),
        ({"id": "word1", "k": 10**9}, 400, "k is 1000000000; expected a whole number from 1 to 1000"),
        ({"id": "word1", "k": 0}, 400, "k is 0"),
        ({"id": "word1", "k": "10"}, 400, "k is '10'"),
        ({"id": "word1", "k": None}, 400, "k is None"),
        ({"id": "word1", "target_recall": 0}, 400, "target_recall must be"),
        ({"id": "word1", "target_recall": 1.01}, 400, "target_recall must be"),
        ({"id": "word1", "target_recall": True}, 400, "target_recall must be"),
        ({"id": "word1", "target_recall": "0.9"}, 400, "target_recall must be"),
        ({"id": "word1", "where": 1}, 400, "where must be text"),
        ({"id": "word1", "where": "x" * 20_000}, 400, "where has 20,000 characters"),
        ({"id": "word1", "where": "nothing = 1"}, 400, "nothing"),
        ({"id": "word1", "where": "place <"}, 400, "place <"),
        ({"id": "word1", "where": "1 = (SELECT 1)"}, 400, "SELECT"),
        ({"id": "word1", "where": "read_text('/etc/passwd') = ''"}, 400, "read_text"),
        ({"id": "word1", "threads": 64}, 400, "unknown field 'threads'"),
    ],
)
def test_wrong_fields_are_named(serve, fields, status, message):
    error = serve("words").search(expected=status, **fields)["error"]
    assert message in error
    assert "Traceback" not in error
    assert "\n" not in error


def test_ids_of_the_wrong_kind_are_named(serve):
    for wrong in ("king", "-1", "1.5", str(2**63), "9" * 5000, "", "\N{ARABIC-INDIC DIGIT ONE}"):
        assert "whole numbers" in serve("numbers").search(expected=400, id=wrong)["error"]


def test_what_an_index_has_not_is_said(serve):
    assert "--queries FILE" in serve("numbers").search(expected=404, row=0)["error"]
    assert "no attributes" in serve("numbers").search(expected=400, id="1", where="a = 1")["error"]
    assert "empty" in serve("empty").search(expected=400, id="1")["error"]


def test_a_missing_package_is_said(serve, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "duckdb" in serve("words").search(expected=400, id="word1", where="place <> 3")["error"]


# Statistics


def test_the_overview_repeats_the_statistics_of_the_index(serve, stored):
    found = serve("words").data("overview")
    with pcpq.open(stored / "words") as index:
        stats = index.stats()
    assert found["stats"] == json.loads(json.dumps(stats), parse_float=lambda text: float(f"{float(text):.7g}"))
    assert found["attributes"] == ["even", "place", "kind"]
    assert found["queries"] == {"name": "queries.npy", "rows": 7}
    assert sum(found["lists"]["bars"]) == stats["lists"]
    assert found["lists"]["high"] == stats["largest_list"]


def test_an_empty_index_has_an_overview_and_no_map(serve):
    found = serve("empty").data("overview")
    assert found["stats"]["vectors"] == 0
    assert serve("empty").data("map")["points"] == 0


def test_a_new_commit_is_shown(tmp_path, rows):
    from pcpq.explore import View

    pcpq.build(rows[:100], metric="dot").save(tmp_path / "index")
    with pcpq.open(tmp_path / "index") as index:
        view = View(index, "index")
        assert (view.overview()["stats"]["vectors"], view.map()["points"]) == (100, 100)
        with pcpq.open(tmp_path / "index", mode="a") as writer:
            writer.remove(np.arange(60))
            writer.commit()
        assert (view.overview()["stats"]["vectors"], view.map()["points"]) == (40, 40)


def test_queries_of_another_length_are_refused(stored, rows):
    from pcpq.explore import Queries, View

    with pcpq.open(stored / "words") as index, pytest.raises(ValueError, match="have 3 dimensions"):
        View(index, "words", Queries("three.npy", rows[:, :3]))


# The map


def test_the_map_holds_a_sample_with_ids_and_lists(serve):
    found = serve("words").data("map")
    assert (found["points"], found["of"]) == (2500, 2500)
    assert set(found["ids"]) == {f"word{i}" for i in range(2500)}
    assert all(0 <= value <= 1 for axis in "xy" for value in found[axis])
    assert found["by"] == ["even", "place", "kind"]
    assert 0 < sum(found["shares"]) < 1


def test_lists_of_the_map_are_those_of_the_index(rows, stored):
    with pcpq.open(stored / "numbers") as index:
        snapshot = state_of(index).snapshot
        sample = Sample.of(snapshot)
        segment = snapshot.parts[0].segment
        assert sample.lists.tolist() == segment.lists[segment.find(sample.numbers)].tolist()


def test_a_sample_of_many_segments_has_no_removed_vectors():
    generator = np.random.default_rng(3)
    index = pcpq.Index(metric="dot").fit(generator.normal(size=(500, 4)))
    for count in (6000, 10, 300):
        index.add(generator.normal(size=(count, 4)))
    index.remove(np.arange(0, 6000, 7))
    first, second = (Sample.of(state_of(index).snapshot) for _ in range(2))
    assert len(set(first.numbers.tolist())) == MOST_POINTS
    assert not (first.numbers[first.numbers < 6000] % 7 == 0).any()
    assert (first.numbers == second.numbers).all()


def test_colours_are_by_list_value_or_step(serve):
    words = serve("words")
    lists = words.data("colours")
    assert len(lists["groups"]) == 2500
    assert set(lists["groups"]) == set(range(7))
    kinds = words.data("colours?by=kind")
    assert [(entry["label"], entry["points"]) for entry in kinds["legend"]] == [("a", 1250), ("b", 1250)]
    places = words.data("colours?by=place")
    assert places["kind"] == "steps"
    assert [entry["points"] for entry in places["legend"]] == pytest.approx([417] * 6, abs=2)


def test_colours_of_what_is_unknown_are_refused(serve):
    for by in ("nothing", "x" * 5000, "%00", ""):
        status, _, body = serve("words").request(path=f"data/colours?by={by}")
        assert status == 400
        assert json.loads(body)["error"]


def test_rare_values_and_nulls_have_colours_of_their_own():
    found = by_value([*"aaaabbbccdefghi", None])
    labels = {entry["group"]: (entry["label"], entry["points"]) for entry in found["legend"]}
    assert labels[0] == ("a", 4)
    assert labels[-1] == ("(none)", 1)
    assert labels[-2] == ("other", 3)
    assert sum(points for _, points in labels.values()) == 16


def test_steps_cope_with_equal_and_infinite_numbers():
    values = np.array([*[1.0] * 50, 2, 3, 4, 5, 6, 7, 8, 9, np.inf, -np.inf, np.nan])
    found = by_steps(values)
    assert found["groups"][-1] == -1
    assert max(found["groups"]) < 6
    assert sum(entry["points"] for entry in found["legend"]) == len(values)


def test_the_projection_is_that_of_principal_components(generator):
    rows = (generator.normal(size=(400, 30)) * np.linspace(5, 0.2, 30) ** 1.5).astype(np.float32)
    found = Projection.of(rows)
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    _, values, turned = np.linalg.svd(centred, full_matrices=False)
    assert np.abs(np.sum(found.directions * turned[:2].T, axis=0)) == pytest.approx([1, 1], abs=1e-6)
    assert found.shares == pytest.approx(values[:2] ** 2 / (values**2).sum(), rel=1e-6)


@pytest.mark.parametrize("shape", [(1, 5), (2, 5), (5, 1), (3, 2)])
def test_the_projection_of_few_vectors_is_finite(shape, generator):
    for rows in (np.ones(shape, np.float32), generator.normal(size=shape).astype(np.float32)):
        places = Projection.of(rows).places(rows)
        assert np.isfinite(places).all()
        assert ((places >= -1e-9) & (places <= 1 + 1e-9)).all()


# Values of attributes


def test_values_of_any_kind_are_text(serve):
    hostile = serve("hostile")
    found = hostile.search(id=f"{HOSTILE}1", k=39)
    assert [column["name"] for column in found["columns"]] == [HOSTILE, "bytes", "day", "nested", "long", "odd"]
    first = found["results"][0]["attributes"]
    assert first[0] == HOSTILE
    assert first[1].startswith("0x00ff00ff")
    assert first[2] == "2024-02-29"
    assert "<img src=x onerror=" in first[3]
    assert len(first[1]) == len(first[4]) == 300
    assert {row["attributes"][5] for row in found["results"]} == {"NaN", "inf", None, "1.5"}
    for name in found["columns"]:
        assert hostile.request(path="data/colours?by=" + quoted(name["name"]))[0] == 200


def quoted(text):
    from urllib.parse import quote

    return quote(text, safe="")


def test_dates_that_python_has_not_do_not_fail():
    pyarrow = pytest.importorskip("pyarrow")
    from pcpq.explore.values import UNREADABLE, column_texts

    far = pyarrow.array([2**40, 0, None]).cast(pyarrow.int64()).cast(pyarrow.timestamp("s"))
    assert column_texts(pyarrow.chunked_array([far])) == [UNREADABLE, "1970-01-01 00:00:00", None]


def test_scores_that_json_has_not_are_null():
    from pcpq.explore.values import id_text, number

    assert [number(value) for value in (float("nan"), -np.inf, np.float32(0.25))] == [None, None, 0.25]
    assert (id_text("x" * 2000), id_text("x" * 2001)) == ("x" * 2000, None)


def test_an_attribute_may_be_called_list(rows, tmp_path):
    from pcpq.explore import View

    pcpq.build(rows[:30], metric="dot", attributes={"list": list("ab" * 15)}).save(tmp_path / "index")
    with pcpq.open(tmp_path / "index") as index:
        view = View(index, "index")
        assert view.colours(None)["kind"] == "lists"
        assert [entry["label"] for entry in view.colours("list")["legend"]] == ["a", "b"]


def test_the_map_of_an_empty_index_has_no_colours(serve):
    assert serve("empty").request(path="data/colours")[0] == 400
