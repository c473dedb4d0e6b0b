"""The adapters of benchmark projects, called as the projects call them, on files as they have them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import pcpq

h5py = pytest.importorskip("h5py")
yaml = pytest.importorskip("yaml")
pytest.importorskip("scipy")

ADAPTERS = Path(__file__).parent.parent.parent / "benchmarks" / "adapters"
OWN_MODULES = ("bases", "data", "definitions", "follow", "run", "stage")
ROWS, QUERIES = 3000, 40


@pytest.fixture
def runner(monkeypatch):
    """The local runner; its modules have short names, which others may have too."""
    hidden = {name: sys.modules.pop(name) for name in OWN_MODULES if name in sys.modules}
    monkeypatch.syspath_prepend(str(ADAPTERS))
    import run

    yield run
    for name in OWN_MODULES:
        sys.modules.pop(name, None)
    sys.modules.update(hidden)


def part(outcomes, algorithm):
    return [one for one in outcomes if one.algorithm == algorithm]


@pytest.mark.parametrize(
    ("project", "distance"),
    [("ann_benchmarks", "angular"), ("ann_benchmarks", "euclidean")]
    + [("vibe", distance) for distance in ("cosine", "euclidean", "ip", "normalized")],
)
def test_settings_of_a_config_run_and_find_more_with_more_probes(runner, project, distance):
    found = list(runner.run_hdf5_project(project, distance, ROWS, QUERIES, 10, 1, False, 2))
    probes, targets = part(found, "pcpq"), part(found, "pcpq-target")
    assert len(probes) == 4
    assert len(targets) == 2
    for few, many in (probes[:2], probes[2:], targets):
        assert few.recall < many.recall <= 1.0
        assert few.name != many.name
    assert targets[1].recall > 0.8  # of 0.9, with 40 queries
    for one in found:
        assert one.queries_per_second > 0
        assert one.build_seconds > 0
        assert 100 < one.additional["bytes_per_vector"] < 1000  # 100 coordinates as int8 or int16, codes, lists


@pytest.mark.parametrize("project", ["ann_benchmarks", "vibe"])
def test_queries_at_once_find_what_they_find_one_by_one(runner, project):
    distance = runner.PROJECTS[project][0]
    alone, together = (
        list(runner.run_hdf5_project(project, distance, ROWS, QUERIES, 10, 1, batch, 1))
        for batch in (False, True)
    )
    assert [one.recall for one in alone] == [one.recall for one in together]
    assert [one.name for one in alone] == [one.name for one in together]


@pytest.mark.parametrize(
    ("track", "distance", "dtype"),
    [
        ("t1", "euclidean", "uint8"),
        ("t1", "angular", "float32"),
        ("t1-range", "euclidean", "uint8"),
        ("ood", "ip", "float32"),
        ("filter", "euclidean", "uint8"),
        ("streaming", "euclidean", "float32"),
        ("streaming", "ip", "uint8"),
    ],
)
def test_tracks_of_big_ann_run_on_their_files(runner, track, distance, dtype, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = list(runner.run_big_ann(track, distance, dtype, ROWS, QUERIES, 10, 1, None))
    assert len(found) == {"t1": 5, "t1-range": 3, "ood": 7, "filter": 3, "streaming": 4}[track]
    assert found[-1].recall > 0.95
    assert not list(tmp_path.iterdir())  # all was written elsewhere, and is gone


def test_an_index_that_is_stored_is_loaded(runner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = runner.WordSet.written(tmp_path, "float32", "euclidean", "knn", ROWS, QUERIES)
    with runner.staged({"random-xs": lambda: data}):
        path = ADAPTERS / "big_ann" / "algos-2021.pcpq.yaml"
        definition = runner.read_big_ann(path, "random-xs", "euclidean", data.d, 10)[0]
        first, second = definition.make(), definition.make()
        assert not first.load_index("random-xs")
        first.fit("random-xs")
        assert second.load_index("random-xs")
        for algo in (first, second):
            algo.set_query_arguments({"probes": 8, "rerank": 50})
            algo.query(data.get_queries(), 10)
        np.testing.assert_array_equal(first.get_results(), second.get_results())
        folder, prefix, names = second.index_files_to_store("random-xs")
        assert all((Path(folder) / (prefix + name)).is_file() for name in names)
        first.done()
        second.done()


def test_filtered_queries_find_only_what_has_their_words(runner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = runner.WordSet.written(tmp_path, "uint8", "euclidean", "knn_filtered", ROWS, QUERIES)
    with runner.staged({"random-filter-s": lambda: data}):
        path = ADAPTERS / "big_ann" / "neurips23" / "filter" / "pcpq" / "config.yaml"
        algo = runner.read_big_ann(path, "random-filter-s", "euclidean", data.d, 10)[0].make()
        algo.fit("random-filter-s")
        results = []
        for few in (0, ROWS):  # lists scanned, all compared
            algo.set_query_arguments({"probes": 1000, "rerank": ROWS, "few": few})
            algo.filtered_query(data.get_queries(), data.get_queries_metadata(), 10)
            results.append(algo.get_results())
        np.testing.assert_array_equal(*results)
        assert np.take_along_axis(data.allowed(), results[0], axis=1).all()


def test_streams_do_not_find_what_was_deleted(runner, tmp_path):
    data = runner.WordSet.written(tmp_path, "float32", "euclidean", "knn", ROWS, QUERIES)
    with runner.staged():
        path = ADAPTERS / "big_ann" / "neurips23" / "streaming" / "pcpq" / "config.yaml"
        algo = runner.read_big_ann(path, "random-xs", "euclidean", data.d, 10)[0].make()
        algo.setup("float32", ROWS, data.d)
        algo.insert(data.get_data_in_range(0, ROWS), np.arange(ROWS, dtype=np.uint32))
        algo.query(data.get_queries(), 10)
        before = algo.get_results().copy()
        algo.delete(np.unique(before).astype(np.uint32))
        algo.query(data.get_queries(), 10)
        assert not np.isin(algo.get_results(), before).any()


def test_vectors_without_a_direction_do_not_stop_an_angular_set(runner):
    train, test = (np.array(rows) for rows in runner.write_hdf5.__globals__["split_words"](ROWS, 5))
    train[[3, 77]], test[2] = 0.0, 0.0
    with runner.staged():
        config = ADAPTERS / "ann_benchmarks" / "config.yml"
        algo = runner.read_hdf5_project("ann_benchmarks", config, "angular", 100, 10)[0].make()
        given = train.copy()
        algo.fit(given)
        np.testing.assert_array_equal(given, train)  # it is not ours to change
        algo.set_query_arguments(16, 100)
        assert len(set(algo.query(test[2], 10).tolist())) == 10
        algo.batch_query(test, 10)
        assert [len(found) for found in algo.get_batch_results()] == [10] * 5


def test_prepared_queries_are_used_where_an_adapter_has_them(runner, tmp_path):
    path = tmp_path / "words.hdf5"
    runner.write_hdf5(path, "angular", ROWS, QUERIES)
    with runner.staged():
        config = ADAPTERS / "ann_benchmarks" / "config.yml"
        definition = runner.read_hdf5_project("ann_benchmarks", config, "angular", 100, 10)[0]
        definition.queries = [[16, 100]]
        plain = runner.follow_hdf5(definition, path, 10, 1, False)
        calls = []

        class Prepared(type(definition.make())):
            def prepare_query(self, query, n):
                calls.append("prepare")
                self.asked = (query, n)

            def run_prepared_query(self):
                self.found = super().query(*self.asked)

            def get_prepared_query_results(self):
                return self.found

            def query(self, *arguments):
                raise AssertionError("prepared queries are to be used")

        sys.modules[definition.module].PCPQ = Prepared
        prepared = runner.follow_hdf5(definition, path, 10, 1, False)
    assert prepared[0].recall == plain[0].recall
    assert len(calls) == QUERIES


def test_configurations_are_expanded_as_projects_do(runner, tmp_path):
    config = tmp_path / "config.yml"
    algorithm = {"name": "a", "module": "m", "constructor": "C", "base_args": ["@metric", "@dimension"]}
    groups = {
        "one": {"args": [[1, 2], "x"], "query_args": [[[1, 2], [3, 4]]]},
        "two": {"args": {"p": [7], "q": 8}},
    }
    config.write_text(yaml.safe_dump({"float": {"any": [algorithm | {"run_groups": groups}], "ip": [{}]}}))
    found = runner.read_hdf5_project("ann_benchmarks", config, "angular", 5, 10)
    assert [one.arguments for one in found] == [
        ["angular", 5, 1, "x"],
        ["angular", 5, 2, "x"],
        ["angular", 5, {"p": 7, "q": 8}],
    ]
    assert [one.queries for one in found] == [[[[1, 2]], [[3, 4]]]] * 2 + [[]]
    assert {one.module for one in found} == {"m.module"}
    # VIBE gives the values of a dict one by one.
    assert runner.read_hdf5_project("vibe", config, "cosine", 5, 10)[-1].arguments == ["cosine", 5, 7, 8]
    big = {"docker-tag": "t", "module": "m", "constructor": "C", "base-args": ["@metric"]}
    group = {"args": '[{"a": [1, 2]}]', "query-args": '[{"b": 1}, {"b": 2}]'}
    config.write_text(yaml.safe_dump({"random-xs": {"x": big | {"run-groups": {"base": group}}}}))
    found = runner.read_big_ann(config, "another", "ip", 5, 10)
    assert [(one.arguments, one.queries) for one in found] == [
        (["ip", {"a": [1, 2]}], [[{"b": 1}], [{"b": 2}]])
    ]


def test_unknown_metrics_are_refused(runner):
    with runner.staged():
        for project, metric in (("ann_benchmarks", "jaccard"), ("vibe", "hamming")):
            for definition in runner.read_hdf5_project(
                project, ADAPTERS / project / "config.yml", metric, 9, 10
            ):
                with pytest.raises(NotImplementedError, match=f"pcpq has no metric {metric}"):
                    definition.make()


def test_images_install_this_version():
    files = [*ADAPTERS.rglob("Dockerfile*"), *ADAPTERS.rglob("image.def")]
    assert len(files) == 6
    for path in files:
        assert re.findall(r"pcpq==(\S+)", path.read_text()) == [pcpq.__version__], path


def test_the_runner_prints_a_line_for_each_setting(runner, capsys):
    settings = ["--rows", "2500", "--queries", "10", "--runs", "1", "--most", "1"]
    found = runner.main(["vibe", "--distance", "ip", *settings])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(found)
    assert all(one.name in line for one, line in zip(found, lines[1:], strict=True))
    with pytest.raises(SystemExit):
        runner.main(["vibe", "--distance", "jaccard"])
