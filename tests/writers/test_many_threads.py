"""Threads that add, remove, commit, compact, refit and search at the same time."""

import threading

import numpy as np
from fitted_index import QUERIES, VECTORS, fitted

import pcpq


def test_many_threads_lose_nothing_and_make_nothing_twice(tmp_path):
    path, failures, stop = tmp_path / "index", [], threading.Event()
    index = fitted()
    index.add(VECTORS[:300])
    index.save(path)
    own = {thread: {} for thread in range(3)}  # the ids of every thread, and the rows of their vectors
    with pcpq.open(path, mode="a") as writer:

        def changes(thread):
            generator, ids = np.random.default_rng(thread), own[thread]
            for step in range(40):
                rows = generator.integers(0, 1200, size=generator.integers(1, 9))
                given = writer.add(VECTORS[rows])
                ids.update(zip(given.tolist(), rows.tolist(), strict=True))
                some = generator.choice(list(ids), min(len(ids), 3), replace=False).tolist()
                if step % 2:
                    assert writer.remove(some) == len(some)
                    for one in some:
                        del ids[one]
                else:
                    rows = generator.integers(0, 1200, size=len(some))
                    writer.upsert(VECTORS[rows], some)
                    ids.update(zip(some, rows.tolist(), strict=True))

        def until_stopped(*calls):
            while not stop.is_set():
                for call in calls:
                    call()

        def check_what_is_committed():
            with pcpq.open(path) as opened:
                opened.verify()
                ids = ids_of(opened)
                assert len(np.unique(ids)) == len(ids)

        def watched(call, *arguments):
            def work():
                try:
                    call(*arguments)
                except BaseException as error:
                    failures.append(error)

            return threading.Thread(target=work, daemon=True)

        changing = [watched(changes, thread) for thread in own]
        others = [
            watched(until_stopped, writer.commit, check_what_is_committed),
            watched(until_stopped, writer.compact, lambda: writer.refit().result(30)),
            watched(until_stopped, lambda: writer.search(QUERIES, k=5), writer.commit),
        ]
        for thread in changing + others:
            thread.start()
        for thread in changing:
            thread.join(60)
        stop.set()
        for thread in others:
            thread.join(60)
        assert not any(thread.is_alive() for thread in changing + others)
        assert not failures
        expected = dict(enumerate(VECTORS[:300]))
        for ids in own.values():
            assert not expected.keys() & ids.keys()
            expected.update({one: VECTORS[row] for one, row in ids.items()})
        holds_in_any_order(writer, expected)
        writer.commit()
    holds_in_any_order(pcpq.open(path), expected)


def ids_of(index):
    return np.concatenate([part.segment.ids[part.rows_left()] for part in index._state.snapshot.parts])


def holds_in_any_order(index, expected):
    """Assert that an index has the ids and vectors of a dict; equal vectors may be found in any order."""
    assert np.array_equal(np.sort(ids_of(index)), np.sort(list(expected)))
    assert np.array_equal(index.reconstruct(list(expected)), np.stack(list(expected.values())))
