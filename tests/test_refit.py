import numpy as np
import pytest
from reference import exact, recall

import pcpq


@pytest.fixture(scope="module")
def moved():
    """Vectors as they were, and as they are now."""
    generator = np.random.default_rng(5)
    before = generator.normal(size=(3000, 16))
    after = 6.0 + generator.normal(size=(6000, 16)) @ generator.normal(size=(16, 16))
    return before.astype(np.float32), after.astype(np.float32)


@pytest.mark.parametrize("metric", ["dot", "euclidean"])
def test_refit_learns_from_the_vectors_there_are_now(moved, metric):
    before, after = moved
    index = pcpq.build(before, metric=metric, keep="float32", n_lists=40)
    index.add(after)
    index.remove(np.arange(len(before)))
    drifted = index.stats()["drift"]
    assert drifted > 3
    queries = after[:100] + 0.1
    truth = exact(after, queries, metric, 10)[1] + len(before)
    index.refit().result(timeout=60)
    assert index.stats()["drift"] == pytest.approx(1.0, abs=0.2)
    assert len(index) == len(after)
    assert recall(index.search(queries, probes=10, rerank=100).ids, truth) > 0.9
    # Re-ranking all vectors in float32 is brute force: no vector has changed.
    assert np.array_equal(index.search(queries, probes=40, rerank=len(after)).ids, truth)
    assert np.allclose(index.reconstruct([len(before) + 5])[0], after[5], rtol=1e-6)


def test_what_is_written_while_an_index_is_refitted_is_not_lost(moved, monkeypatch):
    before, after = moved
    words = [f"w{i}" for i in range(len(before))]
    index = pcpq.build(before, words, metric="euclidean", keep="float32", attributes={"n": np.arange(3000)})
    encode = pcpq.store.state.encode_again

    def slowly(trained, parts, threads):
        found = encode(trained, parts, threads)
        if len(index) == len(before):  # the first time, before the writers' lock is taken
            index.remove(words[:10])
            index.upsert(after[:1], [words[20]], attributes={"n": [-20]})
            index.add(after[1:4], ["a", "b", "c"], attributes={"n": [-1, -2, -3]})
        return found

    monkeypatch.setattr(pcpq.store.state, "encode_again", slowly)
    index.refit().result(timeout=60)
    assert len(index) == len(before) - 10 + 3
    assert words[3] not in index
    assert index.search(after[:4], k=1, probes=1000, rerank=4000).ids[:, 0].tolist() == ["w20", "a", "b", "c"]
    assert index.get(["w20", "c", "w50"])["n"].to_pylist() == [-20, -3, 50]
    trained = {id(part.segment.trained) for part in index._state.snapshot.parts}
    assert trained == {id(index._state.snapshot.trained)}


def test_a_refitted_index_is_committed_whole(moved, tmp_path):
    before, after = moved
    index = pcpq.build(before, metric="cosine", keep="float32")
    index.save(tmp_path / "index")
    reader = pcpq.open(tmp_path / "index")
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        writer.add(after)
        writer.refit().result(timeout=60)
        writer.commit()
        expected = writer.search(after[:20], probes=30)
    reader.refresh()
    assert np.array_equal(reader.search(after[:20], probes=30).ids, expected.ids)


def test_without_vectors_there_is_nothing_to_learn_from(moved):
    with pytest.raises(ValueError, match="keeps no vectors"):
        pcpq.build(moved[0], metric="dot", keep=None).refit()
    index = pcpq.build(moved[0], metric="dot")
    index.remove(np.arange(3000))
    with pytest.raises(ValueError, match="no vectors"):
        index.refit().result(timeout=10)
