"""Additions, removals and searches at the same time, at a rate; PCPQ_TORTURE=1: a million, two minutes."""

import os
import threading
import time

import numpy as np
import pytest
from reference import recall
from small_indexes import TORTURE

import pcpq

pytestmark = [pytest.mark.load, pytest.mark.linux]

N, DIMENSIONS, SECONDS = (1_000_000, 32, 120) if TORTURE else (20_000, 16, 4)
ADDS, REMOVES, TICK = 10_000, 1_000, 0.1  # a second, a second, seconds
BATCH, GONE = int(ADDS * TICK), int(REMOVES * TICK)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def some_vectors(count, generator):
    centers = np.random.default_rng(1).normal(size=(500, DIMENSIONS))
    return (centers[generator.integers(500, size=count)] + generator.normal(size=(count, DIMENSIONS))).astype(
        "f4"
    )


def recall_of(index, vectors, alive, queries):
    ids = np.flatnonzero(alive)
    scores = queries @ vectors[ids].T
    best = ids[np.argpartition(-scores, 10, axis=1)[:, :10]]
    return recall(
        index.search(queries, k=10, probes=len(index._state.snapshot.trained.partition) // 10).ids, best
    )


def test_an_index_keeps_up_with_additions_and_removals_while_it_is_searched():
    generator = np.random.default_rng(2)
    most = N + int(ADDS * SECONDS) + BATCH
    vectors, alive = some_vectors(most, generator), np.zeros(most, bool)
    queries = some_vectors(100, generator)
    index = pcpq.build(vectors[:N], metric="dot")
    alive[:N] = True
    before, memory = recall_of(index, vectors, alive, queries), resident()
    stop, wrong, searches = threading.Event(), [], [0]

    def search():
        mine = np.random.default_rng(3)
        while not stop.is_set():
            rows = mine.integers(len(queries), size=20)
            found = index.search(queries[rows], k=10)
            searches[0] += 1
            if (found.ids < 0).any() or (np.diff(found.scores, axis=1) > 0).any():
                wrong.append(found)

    searcher = threading.Thread(target=search)
    searcher.start()
    start, end, late = time.monotonic(), N, 0.0
    try:
        for tick in range(int(SECONDS / TICK)):
            index.add(vectors[end : end + BATCH], np.arange(end, end + BATCH))
            alive[end : end + BATCH] = True
            end += BATCH
            gone = generator.choice(np.flatnonzero(alive), GONE, replace=False)
            assert index.remove(gone) == GONE
            alive[gone] = False
            ahead = start + (tick + 1) * TICK - time.monotonic()
            late = max(late, -ahead)
            time.sleep(max(0.0, ahead))
    finally:
        stop.set()
        searcher.join()
    taken = time.monotonic() - start
    assert not wrong
    assert searches[0] > 10
    assert len(index) == alive.sum()
    there = np.concatenate([part.segment.ids[part.rows_left()] for part in index._state.snapshot.parts])
    assert np.array_equal(np.sort(there), np.flatnonzero(alive))
    after = recall_of(index, vectors, alive, queries)
    assert after > before - 0.01
    # What was added takes memory, and making parts one takes as much again while it lasts.
    size = len(index) * sum(index.stats()["bytes_per_vector"].values())
    assert resident() - memory < 3 * size + (64 << 20)
    print(
        f"{taken:.1f} s, {searches[0]} searches of 20, late by {late:.2f} s at most, recall {before:.3f} to"
        f" {after:.3f}, {index.stats()['segments']} segments, memory {memory >> 20} to {resident() >> 20} MB"
    )
    assert taken < SECONDS * 1.25 + 1
