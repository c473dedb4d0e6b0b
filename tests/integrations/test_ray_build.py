"""Builds on a real cluster write what one process writes, also when processes die."""

from __future__ import annotations

import json
import shutil
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import ray_nodes  # before Ray, for which it sets variables

import pcpq

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
    ),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
pytest.importorskip("ray")
arrow = pytest.importorskip("pyarrow")

from pyarrow import parquet  # noqa: E402

from pcpq.integrations.ray import ShardedIndex, build  # noqa: E402

ROWS, DIMENSIONS = 9000, 128
SMALL_TASKS = 1 << 19


@pytest.fixture(scope="module")
def cluster():
    return ray_nodes.cluster()


@pytest.fixture(scope="module")
def vectors():
    generator = np.random.default_rng(2)
    middles = generator.normal(size=(30, DIMENSIONS))
    rows = middles[generator.integers(30, size=ROWS)] + 0.7 * generator.normal(size=(ROWS, DIMENSIONS))
    return rows.astype(np.float32)


@pytest.fixture(scope="module")
def files(vectors, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for number, rows in enumerate(np.split(vectors, [1000, 1003, 5000])):
        np.save(folder / f"{number}.npy", rows)
    return folder


@pytest.fixture(scope="module")
def single(vectors, tmp_path_factory):
    """What one process writes."""
    folder = tmp_path_factory.mktemp("single") / "index"
    pcpq.build(vectors, metric="dot").save(folder)
    return folder


def content(directory: Path) -> dict:
    """Everything in a directory but the names of its files."""
    manifest = json.loads((directory / "manifest.json").read_text())
    kinds = [path.name.split("-")[0] for path in directory.iterdir()]
    files = sorted(path.read_bytes() for path in directory.iterdir() if "-" in path.name)
    for entry in (manifest["trained"], *manifest["parts"], *(part["segment"] for part in manifest["parts"])):
        entry.pop("file", None)
    for part in manifest["parts"]:
        if part["attributes"] is not None:
            part["attributes"].pop("file")
    manifest.pop("check")
    return {"manifest": manifest, "kinds": sorted(kinds), "files": files}


@pytest.mark.parametrize("lists_per_vector", [None, 2])
def test_files_become_the_index_that_one_process_makes(
    lists_per_vector, cluster, files, single, vectors, tmp_path
):
    if lists_per_vector == 2:
        single = tmp_path / "single"
        pcpq.build(vectors, metric="dot", lists_per_vector=2).save(single)
    seen = []
    index = build(
        str(files / "*.npy"),
        tmp_path / "index",
        metric="dot",
        lists_per_vector=lists_per_vector,
        task_bytes=SMALL_TASKS,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert content(tmp_path / "index") == content(single)
    assert seen[-1] == (ROWS, ROWS)
    assert len(seen) > 2, "several tasks"
    expected = pcpq.open(single).search(vectors[:50])
    found = index.search(vectors[:50])
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(found.ids, expected.ids)
    index.verify()


def test_tables_bring_words_and_attributes(cluster, vectors, tmp_path):
    """Parquet files in an archive, which fsspec reads, and a Ray dataset of the same rows."""
    import ray

    some = vectors[:5000]
    words = [f"word {number}" for number in range(len(some))]
    table = arrow.table({
        "vector": arrow.FixedSizeListArray.from_arrays(arrow.array(some.ravel()), DIMENSIONS),
        "word": words,
        "year": np.arange(len(some)) % 30 + 1990,
    })  # fmt: skip
    settings = {"metric": "cosine", "keep": None, "n_lists": 50}
    years = {"year": table["year"]}
    pcpq.build(some, words, attributes=years, **settings).save(tmp_path / "single")
    parquet.write_table(table.slice(0, 3000), tmp_path / "a.parquet", row_group_size=700)
    parquet.write_table(table.slice(3000), tmp_path / "b.parquet")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(tmp_path / "a.parquet", "a.parquet")
        archive.write(tmp_path / "b.parquet", "b.parquet")
    tabled = {"column": "vector", "id_column": "word", "attributes": ["year"], "task_bytes": SMALL_TASKS}
    expected = content(tmp_path / "single")
    build(f"zip://*.parquet::file://{tmp_path}/all.zip", tmp_path / "archive", **tabled, **settings)
    assert content(tmp_path / "archive") == expected
    dataset = ray.data.from_arrow([table.slice(first, 1300) for first in range(0, len(table), 1300)])
    index = build(dataset, tmp_path / "dataset", **tabled, **settings)
    assert content(tmp_path / "dataset") == expected
    assert index.search(some[7], k=1, where="year = 1997").ids.tolist() == ["word 7"]


def test_a_killed_worker_leaves_no_trace(cluster, files, single, tmp_path):
    for name in ("encode_rows", "merge_rows"):
        directory = tmp_path / name
        working = ray_nodes.Meanwhile(
            lambda directory=directory: build(
                str(files / "*.npy"), directory, metric="dot", task_bytes=SMALL_TASKS
            )
        )
        ray_nodes.kill_one(cluster, name)
        working.end()
        assert content(directory) == content(single)


def test_a_killed_node_leaves_no_trace(cluster, files, single, tmp_path):
    node = ray_nodes.new_node(cluster, cpus=2)
    working = ray_nodes.Meanwhile(
        lambda: build(str(files / "*.npy"), tmp_path / "index", metric="dot", task_bytes=SMALL_TASKS)
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path).glob("index/segment-*")) and time.monotonic() < deadline:
        time.sleep(0.005)  # until the first task has written its rows
    cluster.remove_node(node, allow_graceful=False)
    working.end()
    assert content(tmp_path / "index") == content(single)


def test_a_build_that_fails_leaves_what_was_there(cluster, files, single, vectors, tmp_path):
    bad = vectors[:2000].copy()
    bad[1500, 3] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    with pytest.raises(ValueError, match=r"vectors\[10500, 3\] is nan"):
        build([str(files / "*.npy"), str(tmp_path / "bad.npy")], tmp_path / "new", metric="dot")
    assert not (tmp_path / "new").exists()

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(str(files / "*.npy"), tmp_path / "new", metric="dot", task_bytes=SMALL_TASKS, progress=stop)
    assert not (tmp_path / "new").exists()
    assert not ray_nodes.workers(cluster, "encode_rows"), "abandoned tasks are ended"
    shutil.copytree(single, tmp_path / "old")
    before = content(tmp_path / "old")
    with pytest.raises(ValueError, match="nan"):
        build(str(tmp_path / "bad.npy"), tmp_path / "old", metric="dot", queries=vectors[:10], overwrite=True)
    assert content(tmp_path / "old") == before
    with pytest.raises(FileExistsError, match="old exists already: overwrite=True replaces it"):
        build(str(files / "0.npy"), tmp_path / "old", metric="dot")
    assert content(tmp_path / "old") == before
    index = build(str(files / "0.npy"), tmp_path / "old", metric="dot", overwrite=True)
    assert len(index) == 1000


@pytest.mark.parametrize("lists_per_vector", [1, 2])
def test_directories_that_are_built_alike_are_searched_as_one(
    lists_per_vector, cluster, files, vectors, tmp_path
):
    paths = [tmp_path / "first", tmp_path / "second"]
    settings = {"metric": "dot", "n_lists": 40, "lists_per_vector": lists_per_vector}
    build([str(files / f"{number}.npy") for number in range(3)], paths[0], **settings)
    build(str(files / "3.npy"), paths[1], like=paths[0], first_id=5000)
    index = pcpq.open(paths[0], mode="a")
    index.add(vectors[5000:])
    with ShardedIndex.open(paths, num_cpus=0.1) as sharded:
        assert len(sharded) == ROWS
        found, expected = (one.search(vectors[:50], probes=9, rerank=60) for one in (sharded, index))
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.scores, expected.scores)
    index.close()
    with pytest.raises(ValueError, match="determines all settings"):
        build(str(files / "3.npy"), tmp_path / "third", like=paths[0], n_lists=3)
    with pytest.raises(ValueError, match="give one of them"):
        build(str(files / "3.npy"), tmp_path / "third")


def test_options_that_make_no_sense_are_refused(cluster, files, tmp_path):
    path = str(files / "0.npy")
    with pytest.raises(ValueError, match="metric is 'length'"):
        build(path, tmp_path / "index", metric="length")
    with pytest.raises(TypeError, match="chosen"):
        build(path, tmp_path / "index", metric="dot", chosen="made up")
    with pytest.raises(ValueError, match="999 ids"):
        build(path, tmp_path / "index", [str(i) for i in range(999)], metric="dot")
    with pytest.raises(ValueError, match="no columns"):
        build(path, tmp_path / "index", metric="dot", id_column="word")
    with pytest.raises(FileExistsError, match="not an index"):
        build(path, files, metric="dot")
    assert not (tmp_path / "index").exists()


def test_a_directory_holds_half_as_many_vectors_in_two_lists(cluster, files, tmp_path, monkeypatch):
    monkeypatch.setattr("pcpq.integrations.ray.building.MOST_CODES", 1999)
    for more, most in (([], 999), (["1.npy", "2.npy"], 1999)):
        paths = [str(files / name) for name in ("0.npy", *more)]
        with pytest.raises(ValueError, match=f"vectors; a directory holds {most}: build several"):
            build(paths, tmp_path / "index", metric="dot", lists_per_vector=2)
        assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ids": [7] * 1000}, "id 7 is given twice"),
        ({"ids": range(999)}, r"expected \(1000,\), one per vector"),
        ({"attributes": {"year": [1, 2]}}, "attributes have 2 rows for 1000 vectors"),
        ({"threads": -1}, "threads is -1"),
        ({"progress": 3}, "progress is 3"),
    ],
)
def test_ids_and_attributes_are_checked_before_training(cluster, files, tmp_path, monkeypatch, given, said):
    def learn(*arguments):
        raise AssertionError("training began")

    monkeypatch.setattr("pcpq.integrations.ray.building.learn", learn)
    with pytest.raises(ValueError, match=said):
        build(str(files / "0.npy"), tmp_path / "index", metric="dot", **given)
    assert not (tmp_path / "index").exists()


def test_true_shows_the_progress_of_a_build(cluster, files, tmp_path, capsys):
    build(str(files / "0.npy"), tmp_path / "index", metric="dot", progress=True)
    shown = capsys.readouterr().err
    for step in ("learning from a sample", "encoding vectors", "merging, measuring recall"):
        assert step in shown
