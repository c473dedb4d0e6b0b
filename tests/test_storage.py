import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from reference import exact
from safetensors import safe_open
from safetensors.numpy import load_file

import pcpq
from pcpq.store.state import State
from pcpq.store.tensors import Tensors

# The full form: everything that can be varied is.
TORTURE = os.environ.get("PCPQ_TORTURE") == "1"
METRICS = ["dot", "cosine", "euclidean"]
KEEPS = [None, "int8", "int16", "float16", "float32"]
QUANTIZERS = [
    quantizer.set_params(max_iterations=2)
    for quantizer in (
        pcpq.PQ(section_size=2),
        pcpq.PQ(section_size=4, n_centers=300, norm_scale=True),
        pcpq.APQ(section_size=3),
        pcpq.PCPQ(section_size=2),
        pcpq.APCPQ(section_size=2),
        pcpq.QPCPQ(section_size=2),
        pcpq.QPCPQ(section_size=4, n_centers=40, scales_per="vector"),
        pcpq.QPCPQ(section_size=4, n_centers=100, n_scales=20),
        pcpq.QAPCPQ(section_size=2),
    )
]
D, N_LISTS = 8, 3


def some_vectors(n, seed=0):
    generator = np.random.default_rng(seed)
    centers = generator.normal(size=(9, D))
    return (centers[generator.integers(9, size=n)] + 0.5 * generator.normal(size=(n, D))).astype(np.float32)


VECTORS, QUERIES = some_vectors(400), some_vectors(12, seed=1)


def words(numbers):
    """An id of an own length for every number, not all of them ASCII."""
    return [f"wörd {number} " + "x" * (number % 7) for number in numbers]


def answers(index, ids):
    """Everything that an index says, as bytes; `ids` are looked up one by one and given back."""
    n = len(index)
    said = [str(n).encode()]
    for options in ({"probes": N_LISTS, "rerank": n + 20}, {"probes": 1, "rerank": 15}, {}):
        found = index.search(QUERIES, k=10, threads=1, **options)
        said += [found.scores.tobytes(), repr(found.ids.tolist()).encode()]
    alone = index.search(QUERIES[0], k=5)
    said += [alone.scores.tobytes(), repr(alone.ids.tolist()).encode()]
    there = [one for one in ids if one in index]
    said += [repr(there).encode(), index.reconstruct(there).tobytes() if there else b""]
    return said


def small_index(**parameters):
    """Fitted, nothing in it."""
    settings = {"metric": "dot", "n_lists": N_LISTS, "quantizer": pcpq.PQ(section_size=2, max_iterations=2)}
    return pcpq.Index(**(settings | parameters)).fit(VECTORS)


@pytest.fixture(scope="module")
def fitted():
    return small_index()


@pytest.fixture
def saved(tmp_path, fitted):
    """An index of 300 rows in a directory."""
    index = copy.copy(fitted)
    index.add(VECTORS[:300])
    index.save(tmp_path / "index")
    return tmp_path / "index"


def files(directory, start=""):
    return sorted(path.name for path in directory.iterdir() if path.name.startswith(start))


@contextmanager
def another_process(code, *arguments):
    """A Python process that runs `code` and talks line by line; killed at the end."""
    command = [sys.executable, "-u", "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def say(process, line):
    """Tell another process something and return what it answers."""
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


HOLDER = """
import sys, pcpq
index = pcpq.open(sys.argv[1], mode="a")
print("locked")
sys.stdin.readline()
index.close()
print("free")
sys.stdin.readline()
"""
READER = """
import sys, pcpq
index = pcpq.open(sys.argv[1])
print(len(index))
for line in sys.stdin:
    if line == "refresh\\n":
        index.refresh()
    if line == "close\\n":
        index.close()
    print(len(index))
"""


# Save and open


# Codebooks of lists with every metric in the full form only.
COMBINATIONS = [
    pytest.param(quantizer, metric, codebooks, id=f"{type(quantizer).__name__}-{number}-{metric}-{codebooks}")
    for number, quantizer in enumerate(QUANTIZERS)
    for place, metric in enumerate(METRICS)
    for codebooks in ("shared", "per_list")
    if TORTURE or codebooks == "shared" or place == number % len(METRICS)
]


@pytest.mark.parametrize(("quantizer", "metric", "codebooks"), COMBINATIONS)
def test_an_opened_index_answers_bit_for_bit_as_the_saved_one(quantizer, metric, codebooks, tmp_path):
    base = small_index(metric=metric, codebooks=codebooks, quantizer=quantizer)
    first = QUANTIZERS.index(quantizer) + METRICS.index(metric)
    for keep in KEEPS if TORTURE else [KEEPS[(first + further) % len(KEEPS)] for further in (0, 2, 3)]:
        index = copy.copy(base)
        index._config = replace(base.config, keep=keep)
        index._state = State(replace(base._state.snapshot.trained, keep=keep))
        index.add(VECTORS[:300])
        index.add(VECTORS[300:320])  # so few that lists share blocks
        index.remove(np.arange(0, 300, 7))
        path = tmp_path / str(keep)
        index.save(path)
        opened = pcpq.open(path)
        assert answers(opened, range(0, 330, 11)) == answers(index, range(0, 330, 11))
        assert (opened.metric, opened.keep, opened.codebooks) == (metric, keep, codebooks)
        assert opened.stats() == index.stats()
        assert opened.quantizer.get_params() == quantizer.get_params()


@pytest.mark.parametrize("rotation", ["random", "learned"])
@pytest.mark.parametrize("keep", [None, "int16"])
def test_a_rotated_index_answers_as_before(rotation, keep, tmp_path):
    index = small_index(rotation=rotation, keep=keep)
    index.add(VECTORS)
    index.save(tmp_path / "index")
    opened = pcpq.open(tmp_path / "index")
    assert opened.rotation == rotation
    assert answers(opened, range(400)) == answers(index, range(400))


@pytest.mark.parametrize("kind", ["int", "str"])
def test_ids_of_both_kinds_removals_and_many_segments_survive(kind, fitted, tmp_path):
    index = copy.copy(fitted)
    ids = np.random.default_rng(3).permutation(10_000)[:400]
    ids = ids.tolist() if kind == "int" else words(ids)
    for start, stop in ((0, 330), (330, 380), (380, 400)):
        index.add(VECTORS[start:stop], ids[start:stop])
    index.remove(ids[5:60:3] + ids[395:])
    assert index.stats()["segments"] > 1
    assert index.stats()["removed"] > 0
    index.save(tmp_path / "index")
    opened = pcpq.open(tmp_path / "index")
    assert answers(opened, ids) == answers(index, ids)
    assert (
        opened.search(QUERIES, filter=ids[:100]).ids.tolist()
        == index.search(QUERIES, filter=ids[:100]).ids.tolist()
    )
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        writer.compact()
        writer.commit()
        assert writer.stats()["segments"] == 1
        assert {one for one in ids if one in writer} == {one for one in ids if one in index}
        with pytest.raises(ValueError, match="already"):
            writer.add(VECTORS[:1], ids[:1])
    assert np.array_equal(pcpq.open(tmp_path / "index").reconstruct(ids[:4]), index.reconstruct(ids[:4]))


def test_small_segments_have_lists_that_share_blocks_and_large_ones_have_not(saved):
    with pcpq.open(saved, mode="a") as index:
        index.add(VECTORS[300:310])
        index.commit()
    dense = []
    for name in files(saved, "segment-"):
        with safe_open(saved / name, "numpy") as file:
            dense.append(json.loads(file.metadata()["pcpq"])["dense"])
    assert sorted(dense) == [False, True]


def test_a_fitted_index_without_vectors_is_saved_as_well(fitted, tmp_path):
    fitted.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index", mode="a") as index:
        assert len(index) == 0
        assert (index.search(QUERIES).ids == -1).all()
        index.add(VECTORS[:50])
        index.commit()
    assert len(pcpq.open(tmp_path / "index")) == 50


def test_an_index_that_is_not_fitted_is_not_saved_and_nothing_there_is_harmed(saved, tmp_path):
    for path in (saved, tmp_path / "new"):
        with pytest.raises(pcpq.NotFittedError):
            pcpq.Index(metric="dot").save(path)
    assert len(pcpq.open(saved)) == 300
    pcpq.open(saved, mode="a").close()


def test_every_file_is_a_safetensors_file_with_arrays_at_64_bytes(saved):
    with pcpq.open(saved, mode="a") as index:
        index.remove([3, 4])
        index.commit()
    names = [name for name in files(saved) if name.endswith(".safetensors")]
    assert sorted(name.split("-")[0] for name in names) == ["live", "segment", "trained"]
    for name in names:
        arrays = load_file(saved / name)
        assert arrays
        with safe_open(saved / name, "numpy") as file:
            assert file.metadata()
        content = (saved / name).read_bytes()
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        assert (8 + length) % 64 == 0
        starts = {one: entry["data_offsets"][0] for one, entry in header.items() if one in arrays}
        assert all(start % 64 == 0 for one, start in starts.items() if not one.startswith("padding."))
    segment = load_file(next(saved.glob("segment-*")))
    assert sorted(segment["ids"]) == list(range(300))
    assert segment["kept"].dtype == np.int16


def test_no_file_is_a_pickle_and_the_package_never_reads_one(saved):
    for path in saved.iterdir():
        assert path.read_bytes()[:1] != b"\x80", path
        with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, KeyError, IndexError)):
            pickle.loads(path.read_bytes())
    storage = os.path.dirname(pcpq.store.__file__)
    for name in os.listdir(storage):
        if name.endswith(".py"):
            with open(os.path.join(storage, name)) as file:
                text = file.read()
            assert not any(
                word in text for word in ("import pickle", "pickle.", "marshal", "np.load", "eval(", "exec(")
            ), name


# Saving over something


def test_saving_over_an_index_replaces_it(saved):
    other = pcpq.build(some_vectors(90, seed=5), metric="euclidean", n_lists=2, keep="float32")
    other.save(saved)
    opened = pcpq.open(saved)
    assert (opened.metric, opened.keep, len(opened)) == ("euclidean", "float32", 90)
    assert answers(opened, range(90)) == answers(other, range(90))
    assert len(files(saved, "segment-")) == len(files(saved, "trained-")) == 1


def test_an_index_saved_twice_in_the_same_place_is_there_as_it_was_last(saved, tmp_path):
    index = pcpq.build(VECTORS[:300], metric="dot", n_lists=N_LISTS)
    path = tmp_path / "twice"
    for extra in (0, 60, 10):
        if extra:
            index.add(some_vectors(extra, seed=extra))
        index.save(path)
        assert answers(pcpq.open(path), range(400)) == answers(index, range(400))
    index.save(path)
    assert answers(pcpq.open(path), range(400)) == answers(index, range(400))


def test_a_reader_saved_onto_its_own_directory_changes_nothing(saved):
    reader = pcpq.open(saved)
    before = answers(reader, range(310))
    reader.save(saved)
    assert answers(reader, range(310)) == before
    assert answers(pcpq.open(saved), range(310)) == before


def test_an_opened_index_is_saved_elsewhere_whole(saved, tmp_path):
    with pcpq.open(saved, mode="a") as index:
        index.add(VECTORS[300:])
        index.remove([1])
        index.save(tmp_path / "copy")
        assert len(pcpq.open(saved)) == 300  # not committed
        assert answers(pcpq.open(tmp_path / "copy"), range(400)) == answers(index, range(400))
        index.commit()
        assert len(pcpq.open(saved)) == 399


def test_a_directory_with_foreign_files_is_refused_and_left_as_it_was(fitted, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"notes\.txt"):
        fitted.save(tmp_path)
    assert files(tmp_path) == ["notes.txt"]
    (tmp_path / "notes.txt").unlink()
    fitted.save(tmp_path)
    assert len(pcpq.open(tmp_path)) == 0


def test_foreign_files_beside_an_index_stay_when_it_is_replaced_or_tidied(saved, fitted):
    (saved / "notes.txt").write_text("mine")
    (saved / "segment-1.safetensors").write_text("not a name of ours")
    fitted.save(saved)
    with pcpq.open(saved, mode="a") as index:
        index.add(VECTORS[:5])
        index.commit()
    assert (saved / "notes.txt").read_text() == "mine"
    assert (saved / "segment-1.safetensors").exists()


def test_saving_where_a_file_is_is_an_error(fitted, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="file"):
        fitted.save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_saving_over_a_damaged_manifest_is_refused_and_leaves_no_lock(saved, fitted):
    (saved / "manifest.json").write_text("{")
    for _ in range(2):
        with pytest.raises(pcpq.FormatError, match=r"manifest\.json"):
            fitted.save(saved)


# Opening what is no index


@pytest.mark.parametrize("mode", ["r", "a"])
def test_what_is_not_there_is_named(mode, tmp_path):
    with pytest.raises(FileNotFoundError, match="missing is not there"):
        pcpq.open(tmp_path / "missing", mode=mode)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty is not an index"):
        pcpq.open(tmp_path / "empty", mode=mode)
    (tmp_path / "file").write_text("no index")
    with pytest.raises(pcpq.FormatError, match="file: is not a directory"):
        pcpq.open(tmp_path / "file", mode=mode)
    assert files(tmp_path / "empty") == []
    assert files(tmp_path) == ["empty", "file"]


def test_an_unknown_mode_is_named(saved):
    with pytest.raises(ValueError, match="mode is 'w'"):
        pcpq.open(saved, mode="w")


@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": 3}, ["version 3", "versions 1 and 2"]),
        ({"version": "1"}, ["version '1'", "versions 1 and 2"]),
        ({"format": "faiss"}, ["'faiss'", "'pcpq'"]),
        ({"format": None}, ["None", "'pcpq'"]),
    ],
)
def test_newer_versions_and_foreign_formats_are_named_beside_what_is_read(change, named, mode, saved):
    content = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps(content | change))
    with pytest.raises(pcpq.FormatError) as raised:
        pcpq.open(saved, mode=mode)
    assert all(name in str(raised.value) for name in [*named, "manifest.json"])


# Reading only, writing, committing


def test_an_index_opened_for_reading_refuses_changes(saved):
    index = pcpq.open(saved)
    before = answers(index, range(310))
    for change in (
        lambda: index.add(VECTORS[:2]),
        lambda: index.upsert(VECTORS[:2], [1, 2]),
        lambda: index.remove([1]),
        index.compact,
        index.commit,
    ):
        with pytest.raises(ValueError, match="open for reading only"):
            change()
    assert answers(index, range(310)) == before


def test_an_index_in_memory_has_nothing_to_commit_or_refresh(fitted):
    with pytest.raises(ValueError, match="in memory only"):
        fitted.commit()
    with pytest.raises(ValueError, match="opened for reading"):
        fitted.refresh()


def test_a_reader_sees_a_commit_when_it_refreshes_and_not_before(saved):
    reader = pcpq.open(saved)
    before = answers(reader, range(400))
    assert not reader.refresh()
    with pcpq.open(saved, mode="a") as writer:
        for change in (
            lambda: writer.add(VECTORS[300:]),
            lambda: writer.remove(np.arange(40)),
            lambda: writer.upsert(some_vectors(30, seed=4), np.arange(30, 60)),
            lambda: writer.remove([200]),
            writer.compact,
        ):
            change()
            assert not reader.refresh()
            assert answers(reader, range(400)) == before
            writer.commit()
            assert answers(reader, range(400)) == before
            assert reader.refresh()
            assert not reader.refresh()
            before = answers(reader, range(400))
            assert before == answers(writer, range(400)) == answers(pcpq.open(saved), range(400))
    assert len(reader) == 400 - 40 + 10 - 1
    assert reader.stats()["segments"] == 1


def test_a_writer_has_nothing_to_refresh(saved):
    with pcpq.open(saved, mode="a") as writer, pytest.raises(ValueError, match="opened for reading"):
        writer.refresh()


def test_a_reader_of_a_replaced_index_becomes_the_new_one_as_a_whole(saved):
    reader = pcpq.open(saved)
    other = pcpq.build(some_vectors(80, seed=5), metric="euclidean", n_lists=2, keep="float32")
    other.save(saved)
    assert reader.refresh()
    assert (reader.metric, reader.keep) == ("euclidean", "float32")
    assert answers(reader, range(80)) == answers(other, range(80))
    found = reader.search_range(QUERIES, max_distance=2.0)
    assert all(
        np.array_equal(a, b) for a, b in zip(found, other.search_range(QUERIES, max_distance=2.0), strict=True)
    )


def test_what_was_not_committed_is_gone(saved):
    before = answers(pcpq.open(saved), range(400))
    with pcpq.open(saved, mode="a") as writer:
        writer.add(VECTORS[300:])
        writer.remove([5])
        writer.compact()
    assert answers(pcpq.open(saved), range(400)) == before
    with pcpq.open(saved, mode="a") as writer:
        assert answers(writer, range(400)) == before


def test_a_closed_index_holds_nothing(saved):
    for mode in ("r", "a"):
        index = pcpq.open(saved, mode=mode)
        index.close()
        index.close()
        assert len(index) == 0
        for ask in (
            lambda index=index: index.search(QUERIES),
            index.commit,
            lambda index=index: index.remove([1]),
        ):
            with pytest.raises(ValueError, match=r"closed|not fitted|in memory only"):
                ask()


def test_a_committed_index_goes_on(saved):
    with pcpq.open(saved, mode="a") as writer:
        for step in range(4):
            start = 300 + 25 * step
            assert writer.add(VECTORS[start : start + 25]).tolist() == list(range(start, start + 25))
            writer.commit()
        writer.commit()  # nothing new
        found = writer.search(QUERIES, k=10, probes=N_LISTS, rerank=400)
        assert np.array_equal(found.ids, exact(VECTORS, QUERIES, "dot", 10)[1])
    with pcpq.open(saved, mode="a") as writer:
        assert writer.add(VECTORS[:1]).tolist() == [400]
        writer.remove([400])
        writer.commit()
    with pcpq.open(saved, mode="a") as writer:  # the number of what was removed does not come again
        assert writer.add(VECTORS[:1]).tolist() == [401]


def test_ids_keep_their_kind_also_when_all_are_removed(tmp_path, fitted):
    index = copy.copy(fitted)
    index.add(VECTORS[:20], words(range(20)))
    index.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        assert writer.remove(words(range(20))) == 20
        writer.commit()
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        assert len(writer) == 0
        with pytest.raises(ValueError, match="those of the index are str"):
            writer.add(VECTORS[:2], [1, 2])
        writer.add(VECTORS[:2], words([1, 2]))
        writer.commit()
    assert words([1])[0] in pcpq.open(tmp_path / "index")


def test_a_commit_writes_only_what_is_new(saved):
    def inodes(start):
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in saved.glob(start + "*")}

    before = inodes("segment-") | inodes("trained-")
    with pcpq.open(saved, mode="a") as writer:
        writer.add(VECTORS[300:330])
        writer.commit()
        after = inodes("segment-") | inodes("trained-")
        assert len(after) == len(before) + 1
        assert before.items() <= after.items()
        writer.remove([1])
        writer.commit()
        assert inodes("segment-") | inodes("trained-") == after
        live = inodes("live-")
        assert len(live) == 1
        writer.add(VECTORS[330:332])
        writer.commit()
        assert inodes("live-") == live
        assert after.items() <= (inodes("segment-") | inodes("trained-")).items()
        writer.commit()
        assert inodes("live-") == live


def test_an_opened_index_pickles_and_goes_its_own_way(saved):
    reader = pcpq.open(saved)
    twin = pickle.loads(pickle.dumps(reader))
    assert answers(twin, range(310)) == answers(reader, range(310))
    twin.add(VECTORS[300:])
    assert (len(twin), len(reader), len(pcpq.open(saved))) == (400, 300, 300)
    with pytest.raises(ValueError, match="in memory only"):
        twin.commit()
    with pcpq.open(saved, mode="a") as writer:
        writer.remove([1])
        writer.commit()
        other = pickle.loads(pickle.dumps(writer))
        assert answers(other, range(310)) == answers(writer, range(310))
    assert 1 not in other


# Locks


def test_a_second_writer_is_told_who_the_first_is(saved):
    with pcpq.open(saved, mode="a") as writer:
        for second in (lambda: pcpq.open(saved, mode="a"), lambda: writer.save(saved)):
            with pytest.raises(pcpq.LockedError, match=f"process {os.getpid()} on ") as raised:
                second()
            assert isinstance(raised.value, OSError)
        assert len(pcpq.open(saved)) == 300  # readers do not care
        writer.add(VECTORS[300:310])
        writer.commit()
    with pcpq.open(saved, mode="a") as writer:
        assert len(writer) == 310


def test_a_writer_in_another_process_is_named_until_it_closes(saved, fitted):
    with another_process(HOLDER, saved) as holder:
        assert holder.stdout.readline() == "locked\n"
        for second in (lambda: pcpq.open(saved, mode="a"), lambda: fitted.save(saved)):
            with pytest.raises(pcpq.LockedError, match=f"process {holder.pid} on "):
                second()
        assert len(pcpq.open(saved)) == 300
        assert say(holder, "close") == "free"
        pcpq.open(saved, mode="a").close()


def test_the_lock_of_a_killed_process_is_free(saved):
    with another_process(HOLDER, saved) as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(pcpq.LockedError):
            pcpq.open(saved, mode="a")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with pcpq.open(saved, mode="a") as writer:
            writer.remove([0])
            writer.commit()
    assert len(pcpq.open(saved)) == 299


def test_a_failed_opening_leaves_no_lock(saved):
    segment = next(saved.glob("segment-*"))
    content = segment.read_bytes()
    segment.write_bytes(b"\xff" + content[1:])
    for _ in range(2):
        with pytest.raises(pcpq.FormatError, match="segment-"):
            pcpq.open(saved, mode="a")
    segment.write_bytes(content)
    pcpq.open(saved, mode="a").close()


def test_a_writer_that_nobody_holds_any_more_has_no_lock(saved):
    index = pcpq.open(saved, mode="a")
    del index
    pcpq.open(saved, mode="a").close()


# Files that are not needed any more


def test_files_that_a_reader_here_needs_stay_until_it_has_gone(saved):
    reader = pcpq.open(saved)
    before, old = answers(reader, range(310)), files(saved, "segment-")
    with pcpq.open(saved, mode="a") as writer:
        writer.remove([0])
        writer.commit()
        writer.compact()
        writer.commit()
        assert set(old) < set(files(saved, "segment-"))
        assert answers(reader, range(310)) == before
        reader.close()
        assert set(old) < set(files(saved, "segment-"))
        writer.commit()
        assert len(files(saved, "segment-")) == 1
        assert old != files(saved, "segment-")
        assert files(saved, "live-") == []


def test_files_that_another_process_reads_stay_until_it_has_gone(saved):
    with another_process(READER, saved) as reader, pcpq.open(saved, mode="a") as writer:
        assert reader.stdout.readline() == "300\n"
        old = files(saved, "segment-")
        writer.remove([0])
        writer.compact()
        writer.commit()
        assert set(old) < set(files(saved, "segment-"))
        assert say(reader, "nothing") == "300"
        assert say(reader, "refresh") == "299"
        writer.commit()
        assert len(files(saved, "segment-")) == 1
        now = files(saved, "segment-")
        writer.remove([1])
        writer.compact()
        writer.commit()
        reader.kill()
        reader.wait()
        writer.commit()
        assert len(files(saved, "segment-")) == 1
        assert now != files(saved, "segment-")


def test_a_writer_without_readers_leaves_only_what_its_manifest_names(saved):
    with pcpq.open(saved, mode="a") as writer:
        for step in range(6):
            writer.upsert(VECTORS[step : step + 5], np.arange(step, step + 5))
            writer.add(VECTORS[: 20 + step])
            writer.search(QUERIES)
            if step % 2:
                writer.compact()
            writer.commit()
            writer.commit()
            manifest = json.loads((saved / "manifest.json").read_text())
            named = {manifest["trained"]["file"]}
            for part in manifest["parts"]:
                named |= {part["segment"]["file"]} | ({part["live"]["file"]} if part["live"] else set())
            assert set(files(saved)) == named | {"lock", "manifest.json"}


def test_what_a_crashed_commit_left_is_tidied_by_the_next_writer(saved):
    wanted = files(saved)
    strays = [f"{kind}-{'0123456789abcdef' * 2}.safetensors" for kind in ("segment", "trained", "live")]
    strays.append("manifest-" + "ab" * 16)
    foreign = ["manifest-0123", "manifest-old.json", "manifest-" + "AB" * 16]
    for name in [*strays, *foreign]:
        (saved / name).write_bytes(b"half of")
    assert len(pcpq.open(saved)) == 300
    assert set(strays) < set(files(saved))  # a reader removes nothing
    pcpq.open(saved, mode="a").close()
    assert files(saved) == sorted([*wanted, *foreign])


def test_a_reader_that_refreshes_never_sees_half_a_commit(saved):
    with pcpq.open(saved, mode="a") as writer:
        both = np.full((2, D), 0.0, np.float32)
        both[:, 0] = 1.0
        writer.upsert(both, [1000, 1001])
        writer.commit()
        code = """
import sys, pcpq
index = pcpq.open(sys.argv[1])
print("ready")
seen = set()
while True:
    index.refresh()
    pair = index.reconstruct([1000, 1001])[:, 0].round(3)
    if pair[0] != pair[1] or len(index) != 302:
        print("mixture", pair, len(index))
        break
    seen.add(float(pair[0]))
    if pair[0] == 0.0:
        print("whole", len(seen))
        break
"""
        with another_process(code, saved) as reader:
            assert reader.stdout.readline() == "ready\n"
            for step in range(80):
                both[:, 0] = 1.0 + step % 50
                writer.upsert(both, [1000, 1001])
                if step % 9 == 0:
                    writer.compact()
                writer.commit()
            both[:] = 0.0
            both[:, 1] = 1.0
            writer.upsert(both, [1000, 1001])
            writer.commit()
            result, seen = reader.stdout.readline().split()[:2]
    assert result == "whole"
    assert int(seen) > 2


# Little is read before it is wanted


def flip_in(path, array, where=0):
    """Change a byte of an array in a file."""
    content = bytearray(path.read_bytes())
    length = int.from_bytes(content[:8], "little")
    start, stop = json.loads(content[8 : 8 + length])[array]["data_offsets"]
    content[8 + length + start + where % (stop - start)] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("array", ["codes", "kept", "units", "ids"])
def test_a_damaged_array_is_noticed_by_whoever_reads_it_not_by_opening(array, saved):
    flip_in(next(saved.glob("segment-*")), array)
    index = pcpq.open(saved)
    assert len(index) == 300
    for _ in range(2):  # also the second time
        with pytest.raises(pcpq.FormatError, match=r"segment-\w+\.safetensors"):
            index.search(QUERIES, k=10, probes=N_LISTS, rerank=400)


def test_only_the_search_that_reads_a_damaged_list_fails(saved):
    index = pcpq.open(saved)
    nearest = index._state.snapshot.trained.partition.assign(VECTORS[:300])
    told = [index.search(VECTORS[row : row + 1], k=1, probes=1, rerank=1).ids[0, 0] for row in range(100)]
    index.close()
    flip_in(next(saved.glob("segment-*")), "codes", -1)  # belongs to the last list that is not empty
    index = pcpq.open(saved)
    failed = 0
    for row in range(100):
        if nearest[told[row]] == nearest.max():
            failed += 1
            with pytest.raises(pcpq.FormatError, match=f"list {nearest.max()} "):
                index.search(VECTORS[row : row + 1], k=1, probes=1, rerank=1)
        else:
            assert index.search(VECTORS[row : row + 1], k=1, probes=1, rerank=1).ids[0, 0] == told[row]
    assert 0 < failed < 100


def test_damaged_ids_are_noticed_before_they_are_looked_up(saved):
    flip_in(next(saved.glob("segment-*")), "ids", 8)
    index = pcpq.open(saved)
    for ask in (lambda: 5 in index, lambda: index.reconstruct([5]), lambda: index.search(QUERIES, filter=[5])):
        with pytest.raises(pcpq.FormatError, match="segment-"):
            ask()


@pytest.mark.parametrize("array", ["text", "text_ends", "text_hashes"])
def test_damaged_words_are_noticed_before_they_are_looked_up(array, fitted, tmp_path):
    index = copy.copy(fitted)
    index.add(VECTORS[:50], words(range(50)))
    index.save(tmp_path / "index")
    flip_in(next((tmp_path / "index").glob("segment-*")), array, 9)
    opened = pcpq.open(tmp_path / "index")
    for ask in (lambda: words([3])[0] in opened, lambda: "none" in opened, lambda: opened.search(QUERIES)):
        with pytest.raises(pcpq.FormatError, match="segment-"):
            ask()


def test_a_damaged_segment_is_not_compacted_into_a_sound_one(saved):
    flip_in(next(saved.glob("segment-*")), "kept", 77)
    with pcpq.open(saved, mode="a") as writer:
        writer.remove([0])
        with pytest.raises(pcpq.FormatError):
            writer.compact()
    with pytest.raises(pcpq.FormatError):
        pickle.dumps(pcpq.open(saved))


def test_two_threads_may_be_the_first_to_look_at_words(fitted, tmp_path, monkeypatch):
    index = copy.copy(fitted)
    index.add(VECTORS, words(range(400)))
    index.save(tmp_path / "index")
    opened = pcpq.open(tmp_path / "index")
    check, first_is_in, second_is_done, wrong = Tensors.check, threading.Event(), threading.Event(), []

    def check_slowly(self, name, expected):
        check(self, name, expected)
        if threading.current_thread() is first and not first_is_in.is_set():
            first_is_in.set()
            second_is_done.wait(2)  # less than for ever: the second may have to wait for the first

    def look():
        try:
            opened.verify()
            if words([7])[0] not in opened:
                wrong.append("not found")
        except Exception as error:
            wrong.append(repr(error))

    monkeypatch.setattr(Tensors, "check", check_slowly)
    first = threading.Thread(target=look)
    first.start()
    assert first_is_in.wait(10)
    look()
    second_is_done.set()
    first.join()
    assert wrong == []


def test_threads_search_while_a_reader_refreshes(saved):
    reader, wrong, done = pcpq.open(saved), [], threading.Event()

    def search():
        while not done.is_set():
            try:
                found = reader.search(QUERIES, k=5, threads=1).ids
                if (found < 0).any():
                    wrong.append(found)
            except Exception as error:
                wrong.append(repr(error))

    thread = threading.Thread(target=search)
    thread.start()
    with pcpq.open(saved, mode="a") as writer:
        for step in range(25):
            writer.upsert(VECTORS[step : step + 3], np.arange(step, step + 3))
            writer.commit()
            assert reader.refresh()
    done.set()
    thread.join()
    assert wrong == []
