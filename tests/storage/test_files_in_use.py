"""The lock of a writer, and files that are kept as long as a reader needs them."""

import json
import os
import signal

import numpy as np
import pytest
from small_indexes import QUERIES, VECTORS, D, another_process, answers, files, say

import pcpq

pytestmark = [pytest.mark.torture, pytest.mark.quick]

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


# Locks


def test_a_second_writer_is_told_the_process_of_the_first(saved):
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


def test_a_writer_without_references_has_no_lock(saved):
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
