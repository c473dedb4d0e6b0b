import errno
import signal
import subprocess
import sys
import tempfile
import time
import weakref

import numpy as np
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest

import pcpq
from pcpq.io import streams


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(3).normal(size=(3000, 12)).astype(np.float32)


def table_of(vectors, **columns):
    values = pyarrow.array(vectors.reshape(-1))
    lists = pyarrow.FixedSizeListArray.from_arrays(values, vectors.shape[1])
    return pyarrow.table({"embedding": lists, "number": np.arange(len(vectors)), **columns})


def test_arrow_in_all_its_forms_builds_what_the_array_builds(vectors, tmp_path):
    table = table_of(vectors)
    pyarrow.parquet.write_table(table, tmp_path / "vectors.parquet", row_group_size=700)
    lists = pyarrow.array(vectors.tolist(), pyarrow.list_(pyarrow.float32()))  # of any length, by their type
    expected = pcpq.build(vectors, metric="dot", n_lists=10).search(vectors[:20], probes=10)
    for source in (
        table,
        table.to_batches(max_chunksize=500)[0:],
        pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=500)),
        pyarrow.parquet.ParquetFile(tmp_path / "vectors.parquet"),
        pyarrow.dataset.dataset(tmp_path / "vectors.parquet"),
        table.column("embedding"),
        table.column("embedding").chunk(0),
        lists,
    ):
        index = pcpq.build(source, metric="dot", n_lists=10)
        assert len(index) == len(vectors)
        assert np.array_equal(index.search(vectors[:20], probes=10).ids, expected.ids)


@pytest.mark.parametrize("rows", [4095, 4096, 4097])
def test_batches_around_the_end_of_what_is_trained_on_come_whole(rows, monkeypatch):
    monkeypatch.setattr(streams, "MOST_SEEN", 0)
    vectors = np.random.default_rng(4).normal(size=(9000, 3)).astype(np.float32)
    batches = (vectors[i : i + rows] for i in range(0, len(vectors), rows))
    index = pcpq.build(batches, metric="euclidean", keep="float32")
    np.testing.assert_array_equal(index.reconstruct(np.arange(len(vectors))), vectors)


def test_training_vectors_come_again_from_a_file_and_batches_are_not_kept():
    batches = [np.full((5000, 8), number, np.float32) for number in range(4)]
    expected = np.concatenate(batches)
    held = [weakref.ref(batch) for batch in batches]
    stream = streams.Stream(batches.pop(0) for _ in range(4))
    sample = stream.sample(12_000, np.random.default_rng(0))
    assert len(sample) == 12_000
    assert [reference() is None for reference in held] == [True, True, True, False]  # the last is not read yet
    np.testing.assert_array_equal(sample.read(slice(None)), expected[:12_000])
    np.testing.assert_array_equal(np.concatenate(list(stream.batches(8, threads=1))), expected)


def test_a_full_disk_makes_a_smaller_sample_and_loses_nothing(monkeypatch, caplog):
    class Full:
        """A file on a disk that takes so many bytes."""

        def __init__(self, room):
            self.file, self.room = temporary(buffering=0), room

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, data):
            self.room -= data.nbytes
            if self.room < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(data)

    temporary = tempfile.TemporaryFile
    batches = np.random.default_rng(5).normal(size=(4, 3000, 8)).astype(np.float32)
    for room, expected in ((200_000, 6000), (0, 3000)):
        monkeypatch.setattr(streams.tempfile, "TemporaryFile", lambda room=room, **_: Full(room))
        stream = streams.Stream(iter(batches))
        assert len(stream.sample(12_000, np.random.default_rng(0))) == expected
        np.testing.assert_array_equal(
            np.concatenate(list(stream.batches(8, threads=1))), np.concatenate(batches)
        )
    assert "No space left on device" in caplog.text


def test_batches_of_another_precision_keep_it():
    wide = 1e6 * np.random.default_rng(6).normal(size=(300, 4)).astype(np.float32)
    narrow = np.random.default_rng(7).normal(size=(300, 4)).astype(np.float16)
    index = pcpq.build(iter([narrow, wide]), metric="dot", keep="float32")
    np.testing.assert_allclose(index.reconstruct(np.arange(300, 600)), wide, rtol=1e-6)


def test_a_slice_of_an_arrow_column_is_that_slice(vectors):
    column = table_of(vectors).column("embedding").chunk(0).slice(1000, 500)
    index = pcpq.build(column, metric="euclidean", keep="float32")
    assert np.allclose(index.reconstruct(np.arange(500)), vectors[1000:1500], atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda v: table_of(v).select(["number"]), r"columns of lists are \[\] among \['number'\]"),
        (
            lambda v: table_of(v, other=table_of(v).column("embedding")),
            r"\['embedding', 'other'\].*pass table\.select\(\['embedding'\]\)",
        ),
        (lambda v: pyarrow.array([[1.0, 2.0], None]), "1 nulls"),
        (lambda v: pyarrow.array([[1.0, 2.0, 3.0], [1.0]]), "1 to 3 dimensions"),
        (lambda v: pyarrow.array([[1.0, 2.0], [1.0]]), "2 vectors have 3 values"),
        (lambda v: pyarrow.array([[1.0, None], [1.0, 2.0]]), "1 of them null"),
        (lambda v: pyarrow.array([["a", "b"]]), "dtype"),
    ],
)
def test_arrow_that_holds_no_vectors_is_refused(make, message, vectors):
    with pytest.raises(ValueError, match=message):
        pcpq.build(make(vectors), metric="dot")


def test_progress_counts_vectors(vectors):
    seen = []
    pcpq.build(vectors, metric="dot", progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (3000, 3000)
    seen.clear()
    pcpq.build(iter([vectors, vectors]), metric="dot", progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (6000, None)


# What runs in a shell's background starts with interrupts switched off.
SLOW_BUILD = """
import errno
import signal
import numpy as np, pcpq
signal.signal(signal.SIGINT, signal.default_int_handler)
vectors = np.random.default_rng(0).normal(size=(400_000, 64)).astype(np.float32)
print("ready", flush=True)
try:
    pcpq.build(vectors, metric="dot")
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.parametrize("after", [0.3, 1.5])
def test_ctrl_c_stops_a_build(after):
    process = subprocess.Popen([sys.executable, "-c", SLOW_BUILD], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    assert process.stdout.readline() == "stopped\n"
    # A second on an idle machine (benchmarks/building.py measures it); a busy one may take its time.
    assert time.monotonic() - sent < 10
    process.communicate()
    assert process.returncode == 0
