"""Small indexes to store, all that they answer, and processes that open them."""

import os
import pickle
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

import pcpq
from pcpq.store.manifest import read_manifest

# The full form: everything that can be varied is.
TORTURE = os.environ.get("PCPQ_TORTURE") == "1"
METRICS = ["dot", "cosine", "euclidean"]
KEEPS = [None, "int8", "int16", "float16", "float32"]
D, N_LISTS = 8, 3


def some_vectors(n, seed=0):
    generator = np.random.default_rng(seed)
    middles = generator.normal(size=(9, D))
    return (middles[generator.integers(9, size=n)] + 0.5 * generator.normal(size=(n, D))).astype(np.float32)


VECTORS, QUERIES = some_vectors(400), some_vectors(12, seed=1)


def string_ids(numbers):
    """Return string ids of different lengths, some of them not ASCII."""
    return [f"wörd {number} " + "x" * (number % 7) for number in numbers]


def answers(index, ids):
    """Return all answers of an index as bytes; `ids` are looked up one by one."""
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
    """Return a fitted index without vectors."""
    settings = {"metric": "dot", "n_lists": N_LISTS, "quantizer": pcpq.PQ(section_size=2, max_iterations=2)}
    return pcpq.Index(**(settings | parameters)).fit(VECTORS)


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


def check_a_stored_index_that_changes(directory, check, **parameters):
    """Store an index of version 2, change and refit it, and open it again; `check` is called after both."""
    index = small_index(**parameters)
    index.add(VECTORS[:300])
    index.remove(np.arange(0, 300, 5))
    index.save(directory)
    assert read_manifest(directory).version == 2
    with pcpq.open(directory, mode="a") as opened:
        opened.verify()
        assert answers(opened, range(300)) == answers(index, range(300))
        for other in (index, opened):
            assert answers(pickle.loads(pickle.dumps(other)), range(300)) == answers(index, range(300))
        for other in (index, opened):
            other.add(VECTORS[300:], np.arange(300, 400))
        opened.compact()
        opened.commit()
        opened.refit().result(timeout=60)
        opened.commit()
        check(opened)
    with pcpq.open(directory) as opened:
        opened.verify()
        check(opened)
        assert len(opened) == len(index)
        assert np.array_equal(opened.search(QUERIES, exact=True).ids, index.search(QUERIES, exact=True).ids)


def without_weights(index):
    """Return the index with every query probing the same number of lists."""
    state = index._state
    state.set_recall_curve(replace(state.snapshot.recall, margins=None), state.snapshot.trained)
    return index
