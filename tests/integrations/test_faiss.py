"""Indexes of Faiss, taken over: pcpq finds the same vectors. Needs Faiss."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import pcpq
from pcpq.io.streams import Stream

faiss = pytest.importorskip("faiss")

from faiss_indexes import (  # noqa: E402
    IP,
    L2,
    D,
    GpuIndexFlatL2,
    N,
    binary,
    equal_vectors,
    made,
    negative_ids,
    shared_ids,
)

from pcpq.integrations import faiss as bridge  # noqa: E402
from pcpq.integrations.faiss import from_faiss  # noqa: E402

# Its threads wait for each other where tests share the processors.
faiss.omp_set_num_threads(1)

K = 10


@pytest.fixture(scope="module")
def vectors():
    generator = np.random.default_rng(5)
    middles = generator.normal(size=(30, D))
    return (middles[generator.integers(30, size=N)] + 0.5 * generator.normal(size=(N, D))).astype(np.float32)


@pytest.fixture(scope="module")
def queries():
    return np.random.default_rng(6).normal(size=(25, D)).astype(np.float32)


def refuse_other_answers(ours, vectors, queries, metric, ids=None):
    """Assert that a search of all lists, re-ranked in float32, finds what Faiss's brute force finds."""
    flat = faiss.IndexFlat(D, metric)
    flat.add(vectors)
    scores, places = flat.search(queries, K)
    found = ours.search(queries, K, probes=ours.stats()["lists"], rerank=N)
    np.testing.assert_array_equal(found.ids, places if ids is None else ids[places])
    np.testing.assert_allclose(found.scores, scores, rtol=2e-5, atol=2e-5)


EXACT = ["Flat", "IVF16,Flat", "HNSW8,Flat", "NSG8,Flat", "IVF16,PQ8x4fs,RFlat", "SQ8,RFlat", "RR16,Flat"]
EXACT += ["OPQ4,IVF16,Flat", "Pad20,Flat", "IVF16_HNSW8,Flat", "RR16,IVF16,PQ8x4,RFlat"]


@pytest.mark.parametrize("metric", [L2, IP])
@pytest.mark.parametrize("key", EXACT)
def test_an_index_that_holds_vectors_gives_the_answers_of_brute_force(key, metric, vectors, queries):
    ours = from_faiss(made(key, vectors, metric), keep="float32")
    assert ours.metric == {L2: "euclidean", IP: "dot"}[metric]
    assert len(ours) == N
    refuse_other_answers(ours, vectors, queries, metric)


NUMBERED = ["IDMap,Flat", "IDMap2,Flat", "IVF16,Flat", "IDMap,IVF16,Flat", "IDMap2,RR16,IVF16,Flat"]


@pytest.mark.parametrize("key", NUMBERED)
def test_ids_are_those_of_faiss(key, vectors, queries):
    ids = np.random.default_rng(1).permutation(10 * N)[:N].astype(np.int64) + (1 << 40)
    index = made(key, vectors, IP, ids)
    ours = from_faiss(index, keep="float32")
    refuse_other_answers(ours, vectors, queries, IP, ids)
    np.testing.assert_allclose(ours.reconstruct(ids[:50]), vectors[:50], atol=1e-5)


def test_what_was_removed_from_faiss_is_not_there(vectors, queries):
    index = made("IVF16,Flat", vectors)
    index.remove_ids(np.arange(0, N, 2))
    ours = from_faiss(index, keep="float32")
    assert len(ours) == N // 2
    assert 0 not in ours
    np.testing.assert_array_equal(ours.reconstruct([7]), vectors[7:8])


@pytest.mark.parametrize("key", ["Flat", "IVF16,Flat", "HNSW8,Flat", "IVF16,PQ8x4fs,RFlat"])
def test_a_file_is_as_good_as_an_index(key, vectors, queries, tmp_path):
    faiss.write_index(made(key, vectors), str(tmp_path / "vectors.faiss"))
    for path in (tmp_path / "vectors.faiss", str(tmp_path / "vectors.faiss")):
        refuse_other_answers(from_faiss(path, keep="float32"), vectors, queries, L2)


LOSSY = ["SQ8", "SQfp16", "PQ8x4", "PQ8x4fs", "IVF16,PQ8x4", "IVF16,PQ8x4fs", "IVF16,SQ8", "HNSW8,SQ8"]
LOSSY += ["RR16,IVF16,PQ8x4", "PCA8,Flat", "RR8,IVF16,Flat", "SQ8,Refine(SQfp16)", "IVF16,RaBitQ"]


@pytest.mark.parametrize("key", LOSSY)
def test_codes_are_taken_as_they_reconstruct_and_only_if_that_was_said(key, vectors):
    index = made(key, vectors)
    with pytest.raises(ValueError, match="holds only approximate vectors: lossy=True"):
        from_faiss(index)
    ours = from_faiss(index, lossy=True, keep="float32")
    theirs = index.reconstruct_n(0, N)
    assert not np.array_equal(theirs, vectors)
    np.testing.assert_allclose(ours.reconstruct(np.arange(N)), theirs, atol=1e-5)


def test_normalised_vectors_are_cosine(vectors, queries):
    index = made("L2norm,Flat", vectors, IP)
    scores, places = index.search(queries, K)
    ours = from_faiss(index, keep="float32")
    assert ours.metric == "cosine"
    found = ours.search(queries, K, probes=ours.stats()["lists"], rerank=N)
    np.testing.assert_array_equal(found.ids, places)
    np.testing.assert_allclose(found.scores, scores, atol=1e-6)
    with pytest.raises(ValueError, match="this one has L2"):
        from_faiss(made("L2norm,Flat", vectors, L2))


def test_inner_products_may_be_called_cosine_and_nothing_else(vectors):
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert from_faiss(made("Flat", units, IP), metric="cosine").metric == "cosine"
    assert from_faiss(made("Flat", units, L2), metric="euclidean").metric == "euclidean"
    with pytest.raises(ValueError, match="metric is 'euclidean', that of the Faiss index is 'dot'"):
        from_faiss(made("Flat", units, IP), metric="euclidean")


@pytest.mark.parametrize("key", ["IVF16,Flat", "RR16,IVF16,Flat", "IVF16,PQ8x4fs,RFlat"])
def test_lists_can_be_as_many_as_in_faiss(key, vectors):
    index = made(key, vectors)
    assert from_faiss(index, same_lists=True).stats()["lists"] == 16
    assert from_faiss(index, same_lists=True, n_lists=5).stats()["lists"] == 5
    with pytest.raises(ValueError, match="same_lists is True, but this Faiss IndexFlat has no lists"):
        from_faiss(made("Flat", vectors), same_lists=True)


def test_options_are_those_of_build(vectors):
    index = made("Flat", vectors)
    ours = from_faiss(index, quantizer=pcpq.QPCPQ(section_size=4), keep=None, seed=3)
    assert (ours.quantizer.section_size, ours.keep, ours.seed) == (4, None, 3)
    with pytest.raises(TypeError, match="n_listss"):
        from_faiss(index, n_listss=3)


def test_attributes_go_with_ids_from_the_lowest_on(vectors):
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    ids = np.random.default_rng(2).permutation(N).astype(np.int64) + 100
    for key in ("IVF16,Flat", "IDMap,Flat"):
        index = made(key, vectors, L2, ids)
        ours = from_faiss(index, attributes={"name": [f"number {i}" for i in range(100, 100 + N)]})
        assert ours.get([100, 777])["name"].to_pylist() == ["number 100", "number 777"]
        found = ours.search(vectors[np.flatnonzero(ids == 777)[0]], 1, where="name = 'number 777'")
        assert found.ids.tolist() == [777]


def test_the_faiss_index_is_as_it_was(vectors, queries):
    index = made("IVF16,Flat", vectors)
    before = index.search(queries, K)
    from_faiss(index)
    after = index.search(queries, K)
    np.testing.assert_array_equal(before[1], after[1])
    np.testing.assert_array_equal(before[0], after[0])


def test_flat_vectors_are_read_where_they_lie(vectors):
    index = faiss.IndexFlatL2(D)
    index.add(vectors)
    rows = bridge.held_by(index).rows
    assert rows.ctypes.data == int(index.get_xb())


@pytest.mark.parametrize("key", ["IVF16,Flat", "RR16,Flat", "SQ8"])
def test_rows_are_made_some_at_a_time(key):
    many = np.random.default_rng(3).normal(size=(200_000, D)).astype(np.float32)
    index = faiss.index_factory(D, key)
    index.train(many[:2000])
    index.add(many)
    stream = Stream(bridge.held_by(index).rows)
    tracemalloc.start()
    count = sum(len(batch) for batch in stream.batches(D, threads=4))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == len(many)
    assert most < many.nbytes // 2


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda v: faiss.IndexFlatL2(D), ValueError, "this Faiss IndexFlatL2 is empty"),
        (shared_ids, ValueError, "id 0 is given twice"),
        (negative_ids, ValueError, "id -5 is negative"),
        (binary, ValueError, "a Faiss IndexBinaryFlat holds bits; pcpq holds floats"),
        (lambda v: GpuIndexFlatL2(D), ValueError, r"on a GPU: give faiss.index_gpu_to_cpu\(index\)"),
        (lambda v: faiss.IndexFlat(D, faiss.METRIC_L1), ValueError, "this IndexFlat has metric 2; pcpq has"),
        (equal_vectors, ValueError, "lists of this Faiss index hold 300 of its 1200 vectors"),
        (lambda v: made("PCAW16,Flat", v), ValueError, "PCAMatrix of this Faiss index is not orthonormal"),
        (lambda v: made("PCAR16,Flat", v, IP), ValueError, "PCAMatrix of this Faiss index shifts vectors"),
        (lambda v: made("ITQ16,Flat", v), ValueError, "ITQTransform of this Faiss index cannot be undone"),
        (lambda v: v, TypeError, "index is a ndarray; expected a Faiss index"),
        (lambda v: 7, TypeError, "index is a int; expected"),
    ],
)
def test_what_cannot_be_taken_over_is_said(make, error, message, vectors):
    with pytest.raises(error, match=message):
        from_faiss(make(vectors))


def test_a_moved_index_by_distance_is_taken_over(vectors, queries):
    ours = from_faiss(made("PCAR16,Flat", vectors, L2), keep="float32")
    refuse_other_answers(ours, vectors, queries, L2)


def test_files_that_are_none_are_refused_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.faiss: no such file"):
        from_faiss(tmp_path / "missing.faiss")
    path = tmp_path / "other.faiss"
    path.write_bytes(b"not an index at all")
    with pytest.raises(pcpq.FormatError, match=r"other\.faiss: not an index that Faiss reads"):
        from_faiss(path)


def test_without_faiss_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['faiss'] = None\n"
        "import pcpq\n"
        "try:\n    import pcpq.integrations.faiss\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'pcpq[faiss]'" in done.stdout


def test_pcpq_alone_does_not_import_faiss():
    program = "import sys, pcpq; print('faiss' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
