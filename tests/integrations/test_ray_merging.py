"""Tasks of a build on many machines, run in one process, write the file of a build in one process."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
import ray_nodes  # noqa: F401  (before Ray, for which it sets variables)

import pcpq
from pcpq.segment.ids import StringIds
from pcpq.tuning.ground_truth import ExactAnswers

pytest.importorskip("ray")

from pcpq.building import learn
from pcpq.integrations.ray.encoding import batch_rows, encode_part
from pcpq.integrations.ray.merging import finish, frame_of, placed, ranges_of_lists, reserve, write_lists
from pcpq.integrations.ray.sampling import GatheredStream
from pcpq.integrations.ray.sources import source_of

pytestmark = pytest.mark.ray

DIMENSIONS, ROWS = 128, 7000
CONFIGURATIONS = {
    "default": {"metric": "dot"},
    "codes only": {"metric": "cosine", "keep": None},
    "wide codes": {"metric": "dot", "quantizer": pcpq.PQ(section_size=8, n_centers=32), "keep": "float16"},
    "distances, unpacked codes": {
        "metric": "euclidean",
        "quantizer": pcpq.PQ(section_size=8, n_centers=80),
        "keep": "float32",
    },
    "exact scales": {"metric": "dot", "quantizer": pcpq.APCPQ(section_size=8, n_centers=16), "keep": "int8"},
    "lists that share blocks": {"metric": "dot", "n_lists": 1000},
    "lists that share wide blocks": {
        "metric": "dot",
        "n_lists": 1000,
        "quantizer": pcpq.PQ(section_size=8, n_centers=32),
    },
    "two lists": {"metric": "dot", "lists_per_vector": 2},
    "two lists, scaled codes": {
        "metric": "cosine",
        "quantizer": pcpq.QPCPQ(section_size=8, n_scales=8),
        "lists_per_vector": 2,
    },
    "two lists, wide codes": {
        "metric": "euclidean",
        "quantizer": pcpq.PQ(section_size=8, n_centers=32),
        "lists_per_vector": 2,
    },
    "lists that share blocks, two per vector": {"metric": "dot", "n_lists": 1000, "lists_per_vector": 2},
}


@pytest.fixture(scope="module")
def vectors():
    generator = np.random.default_rng(2)
    middles = generator.normal(size=(30, DIMENSIONS))
    rows = middles[generator.integers(30, size=ROWS)] + 0.7 * generator.normal(size=(ROWS, DIMENSIONS))
    return (rows * generator.uniform(0.5, 1.5, size=(ROWS, 1))).astype(np.float32)


@pytest.fixture(scope="module")
def source(vectors, tmp_path_factory):
    """Files of vectors whose ends are not those of batches."""
    folder = tmp_path_factory.mktemp("vectors")
    for number, rows in enumerate(np.split(vectors, [1000, 1003, 5000])):
        np.save(folder / f"{number}.npy", rows)
    return source_of(str(folder / "*.npy"), None)


def merged(source, trained, directory, names=None, ids=None, task_rows=900, extra=0):
    """The file that tasks write, their files of rows, and the exact answers among them."""
    batch = batch_rows(DIMENSIONS)
    assert len(source) > 2 * batch, "one task would prove nothing"
    parts = [
        encode_part(directory, source, rows, None if ids is None else ids[rows], trained, None)
        for rows in (slice(first, min(first + batch, len(source))) for first in range(0, len(source), batch))
    ]
    frame = placed(frame_of(directory, uuid4().hex, trained, parts, names), parts, extra=extra)
    reserve(frame)
    lists = ranges_of_lists(frame, task_rows)
    entries = [part.entry for part in parts]
    written = [write_lists(frame, trained, entries, some) for some in reversed(lists)]
    written += [write_lists(frame, trained, entries, lists[0])]  # a task that Ray does twice
    entry = finish(frame, parts, written, names)
    assert entry.bytes == frame.path.stat().st_size
    return frame.path, lists


def segment_file(directory: Path) -> Path:
    (path,) = directory.glob("segment-*")
    return path


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_tasks_write_the_file_that_one_process_writes(name, vectors, source, tmp_path):
    index = pcpq.build(vectors, **CONFIGURATIONS[name])
    index.save(tmp_path / "single")
    path, lists = merged(source, index._fitted().snapshot.trained, tmp_path)
    assert len(lists) > 4 or name.startswith("lists that share")
    assert path.read_bytes() == segment_file(tmp_path / "single").read_bytes()


@pytest.mark.parametrize("extra", [-64, 64, 128])
def test_a_header_of_another_length_than_expected_moves_the_rest(extra, vectors, source, tmp_path):
    index = pcpq.build(vectors, metric="dot", n_lists=40)
    index.save(tmp_path / "single")
    path, _ = merged(source, index._fitted().snapshot.trained, tmp_path, extra=extra)
    assert path.read_bytes() == segment_file(tmp_path / "single").read_bytes()


@pytest.mark.parametrize("lists_per_vector", [1, 2])
def test_ids_and_words_are_where_one_process_has_them(lists_per_vector, vectors, source, tmp_path):
    words = [f"wörd {number % 97} of {number}" for number in range(ROWS)]
    ids = np.random.default_rng(4).permutation(10 * ROWS)[:ROWS]
    for name, given, names, numbers in (("words", words, StringIds.of(words), None), ("ids", ids, None, ids)):
        folder = tmp_path / name
        index = pcpq.build(vectors, given, metric="dot", n_lists=40, lists_per_vector=lists_per_vector)
        index.save(folder / "single")
        path, _ = merged(source, index._fitted().snapshot.trained, folder, names, numbers)
        assert path.read_bytes() == segment_file(folder / "single").read_bytes()


def test_a_gathered_sample_teaches_what_an_array_teaches(vectors, source):
    gathered = []

    def gather(numbers):
        gathered.append(numbers)
        wanted = np.arange(len(source)) if numbers is None else numbers
        return source.take(wanted, 0, len(source))

    for metric, lists in (("dot", 4), ("cosine", None)):
        stream = GatheredStream(len(source), DIMENSIONS, gather)
        index, asked = learn(stream, pcpq.IndexConfig(metric=metric, n_lists=lists), None, 1)
        single = pcpq.build(vectors, metric=metric, n_lists=lists)
        mine, other = index._fitted().snapshot.trained, single._fitted().snapshot.trained
        np.testing.assert_array_equal(mine.partition.centroids, other.partition.centroids)
        np.testing.assert_array_equal(mine.codebooks.model.codewords, other.codebooks.model.codewords)
        np.testing.assert_array_equal(asked.vectors, vectors[asked.own])


def test_a_large_source_is_sampled_by_the_numbers_that_an_array_is(vectors):
    """More rows than are trained on: some are drawn, and errors name the row of the whole."""
    rows = np.tile(vectors, (10, 1))[:, :2].copy()
    stream = GatheredStream(len(rows), 2, lambda numbers: rows[numbers])
    index, _ = learn(stream, pcpq.IndexConfig(metric="dot", n_lists=4), None, 1)
    single = pcpq.build(rows, metric="dot", n_lists=4)
    mine, other = index._fitted().snapshot.trained, single._fitted().snapshot.trained
    np.testing.assert_array_equal(mine.partition.centroids, other.partition.centroids)
    rows[69_000:69_900] = np.nan
    with pytest.raises(ValueError, match=r"vectors\[69\d\d\d, 0\] is nan"):
        learn(stream, pcpq.IndexConfig(metric="dot", n_lists=4), None, 1)


def test_exact_answers_of_all_parts_are_those_of_one_look(vectors, source, tmp_path):
    stream = GatheredStream(len(source), DIMENSIONS, lambda numbers: source.take(np.arange(ROWS), 0, ROWS))
    index, asked = learn(stream, pcpq.IndexConfig(metric="dot", n_lists=10), None, 1)
    trained, batch = index._fitted().snapshot.trained, batch_rows(DIMENSIONS)
    slices = [slice(first, min(first + batch, ROWS)) for first in range(0, ROWS, batch)]
    found = [encode_part(tmp_path, source, rows, None, trained, asked).found for rows in slices]
    truth = ExactAnswers.merged(trained, asked, found[::-1]).truth()
    scores = asked.vectors @ vectors.T
    scores[np.arange(len(asked)), asked.own] = -np.inf
    expected = np.sort(-scores, axis=1)[:, :100]
    np.testing.assert_allclose(np.take_along_axis(-scores, truth.ids, axis=1), expected, rtol=1e-6)


def test_rows_are_read_from_any_place_to_any_other(vectors, source):
    for start, stop, step in ((0, ROWS, 999), (1001, 1002, 5), (998, 5001, 1500)):
        batches = list(source.batches(start, stop, step))
        assert [len(batch) for batch in batches[:-1]] == [step] * (len(batches) - 1)
        np.testing.assert_array_equal(np.concatenate(batches), vectors[start:stop])


def test_inputs_that_cannot_be_one_array_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((4, 3), np.float32))
    np.save(tmp_path / "b.npy", np.ones((4, 5), np.float32))
    np.save(tmp_path / "c.npy", np.ones((4, 3), np.float64))
    np.save(tmp_path / "d.npy", np.ones(4, np.float32))
    with pytest.raises(ValueError, match="5 dimensions"):
        source_of([str(tmp_path / "a.npy"), str(tmp_path / "b.npy")], None)
    mixed = source_of([str(tmp_path / "a.npy"), str(tmp_path / "c.npy")], None)
    with pytest.raises(ValueError, match="float32 and float64"):
        list(mixed.batches(0, 8, 8))
    with pytest.raises(FileNotFoundError, match="matches no file"):
        source_of(str(tmp_path / "*.parquet"), None)
    with pytest.raises(ValueError, match="axes"):
        source_of(str(tmp_path / "d.npy"), None)
    np.save(tmp_path / "e.npy", np.asfortranarray(np.ones((4, 3), np.float32)))
    with pytest.raises(ValueError, match="column by column"):
        source_of(f"file://{tmp_path}/e.npy", None)
    with pytest.raises(ValueError, match="expected paths"):
        source_of([3], None)


def test_manifests_of_both_are_alike(vectors, source, tmp_path):
    """What the store writes of a segment that others wrote."""
    from pcpq.search.snapshot import Snapshot
    from pcpq.segment.part import Part
    from pcpq.store.serialization import read_segment
    from pcpq.store.store import Contents, Store
    from pcpq.store.tensors import FileEntry, checksum

    index = pcpq.build(vectors, metric="dot", n_lists=40)
    index.save(tmp_path / "single")
    store = Store.create(tmp_path / "many")
    trained = index._fitted().snapshot.trained
    path, _ = merged(source, trained, tmp_path / "many")
    content = np.fromfile(path, np.uint8)
    header = content[: 8 + int.from_bytes(content[:8].tobytes(), "little")]
    entry = FileEntry(path.name, len(content), checksum(header))
    name = path.name.removeprefix("segment-").removesuffix(".safetensors")
    store.adopt(name, entry)
    part = Part.whole(read_segment(tmp_path / "many", entry, name, trained))
    snapshot = Snapshot(trained, (part,), index._fitted().snapshot.recall)
    store.commit(lambda: Contents(snapshot, "int", ROWS), index.config)
    store.tidy()
    store.close()
    found = [json.loads((tmp_path / one / "manifest.json").read_text()) for one in ("single", "many")]
    for manifest in found:
        manifest["parts"][0]["segment"].pop("file")
        manifest["trained"].pop("file")
        manifest.pop("check")
    assert found[0] == found[1]
    assert len(list((tmp_path / "many").iterdir())) == 4, "files of rows are swept"
