"""Slices of an index by lists: together they find what the whole finds, bit for bit. No cluster is needed."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import ray_nodes  # noqa: F401  (before Ray, for which it sets variables)
from forging import forge

import pcpq

pytest.importorskip("ray")

from pcpq.integrations.ray.answers import reranked_best
from pcpq.integrations.ray.slices import bounds_of, sliced
from pcpq.ivf.probing import Probing
from pcpq.search.top_k import top_k

pytestmark = pytest.mark.ray

CONFIGURATIONS = {
    "plain codes": {"metric": "dot"},
    "unit length": {"metric": "cosine", "keep": "int8"},
    "distances": {"metric": "euclidean", "keep": "float32"},
    "scaled codes": {"metric": "dot", "keep": None},
    "distances by codes": {"metric": "euclidean", "keep": None},
    "wide codes": {"metric": "dot", "quantizer": pcpq.PQ(section_size=4, n_centers=32), "keep": "float16"},
    "wide codes only": {
        "metric": "euclidean",
        "quantizer": pcpq.QPCPQ(section_size=3, n_centers=20, n_scales=3),
        "keep": None,
    },
    "unpacked codes": {"metric": "dot", "quantizer": pcpq.PQ(section_size=4, n_centers=80), "keep": "float16"},
    "exact scales": {"metric": "dot", "quantizer": pcpq.PCPQ(section_size=4, n_centers=8), "keep": None},
    "a codebook per list": {"metric": "dot", "codebooks": "per_list", "n_lists": 12},
    "rotated": {"metric": "dot", "rotation": "random"},
    "lists that share blocks": {"metric": "dot", "n_lists": 600},
    "lists that share wide blocks": {
        "metric": "dot",
        "n_lists": 600,
        "quantizer": pcpq.PQ(section_size=3, n_centers=64),
    },
    "fewer coordinates": {"metric": "dot", "code_dimensions": 8},
    "fewer coordinates, unit length": {"metric": "cosine", "keep": "int8", "code_dimensions": 16},
    "fewer coordinates, two lists": {"metric": "euclidean", "lists_per_vector": 2, "code_dimensions": 8},
    "two lists": {"metric": "dot", "lists_per_vector": 2},
    "two lists, unit length": {"metric": "cosine", "keep": "int8", "lists_per_vector": 2},
    "two lists, distances": {"metric": "euclidean", "keep": "float32", "lists_per_vector": 2},
    "two lists, scaled codes": {
        "metric": "dot",
        "quantizer": pcpq.QPCPQ(section_size=3, n_scales=8),
        "lists_per_vector": 2,
    },
    "two lists, wide codes": {
        "metric": "dot",
        "quantizer": pcpq.PQ(section_size=4, n_centers=32),
        "lists_per_vector": 2,
    },
    "two lists, a codebook per list": {
        "metric": "dot",
        "codebooks": "per_list",
        "n_lists": 12,
        "lists_per_vector": 2,
    },
    "two lists that share blocks": {"metric": "dot", "n_lists": 600, "lists_per_vector": 2},
    "two lists that share wide blocks": {
        "metric": "euclidean",
        "n_lists": 600,
        "quantizer": pcpq.PQ(section_size=3, n_centers=64),
        "lists_per_vector": 2,
    },
}


def of_slices(snapshot, shards, queries, k, probing, rerank):
    """What all slices find together, of every part."""
    bounds = bounds_of(snapshot, shards)
    found = []
    parts = [sliced(snapshot, slice(int(a), int(b))) for a, b in pairwise(bounds)]
    for number, part in enumerate(snapshot.parts):
        count = min(rerank, part.count)
        candidates = [
            one[number].candidates(queries, k, probing, count, one[number].everything, 1) for one in parts
        ]
        found.append(reranked_best(candidates, min(k, part.count), count))
    return found


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("stored", [False, True])
def test_slices_find_what_the_whole_finds(name, stored, clustered_vectors, tmp_path):
    generator = np.random.default_rng(3)
    index = pcpq.build(clustered_vectors, **CONFIGURATIONS[name])
    index.remove(np.arange(0, 300, 3))
    index.add(clustered_vectors[:90] * np.float32(0.9))  # a part of its own
    if stored:
        index.save(tmp_path / "index")
        index = pcpq.open(tmp_path / "index")
    snapshot = index._fitted().snapshot
    assert len(snapshot.parts) == 2
    queries = generator.normal(size=(40, 24)).astype(np.float32)
    if index.metric == "cosine":
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    for shards, k, probes, rerank in ((1, 5, 4, 20), (2, 10, 6, 10), (3, 1, 12, 60), (7, 30, 3, 31)):
        probing = snapshot.recall.probing(probes)
        assert (probing.margin > -np.inf) == (probes < len(snapshot.trained.partition))
        found = of_slices(snapshot, shards, queries, k, probing, rerank)
        for part, (scores, ids) in zip(snapshot.parts, found, strict=True):
            count = min(rerank, part.count)
            expected = part.segment.search(
                queries, k=min(k, part.count), probing=probing, rerank=count, allowed=part.everything, threads=1
            )
            np.testing.assert_array_equal(scores, expected[0])
            np.testing.assert_array_equal(ids, expected[1])


@pytest.mark.parametrize("lists_per_vector", [1, 2])
def test_equal_vectors_are_cut_as_the_whole_cuts_them(lists_per_vector):
    """Codes that tie at the last candidate: the lower row is re-ranked, in whichever slice it is."""
    generator = np.random.default_rng(5)
    rows = generator.integers(-1, 2, size=(200, 6)).astype(np.float32)[generator.integers(200, size=4000)]
    quantizer = pcpq.PQ(section_size=1)
    index = pcpq.build(rows, metric="dot", n_lists=60, quantizer=quantizer, lists_per_vector=lists_per_vector)
    snapshot = index._fitted().snapshot
    queries = generator.integers(-1, 2, size=(60, 6)).astype(np.float32)
    part = snapshot.parts[0]
    for k, rerank in ((1, 1), (3, 3), (10, 10), (10, 25)):
        ((scores, ids),) = of_slices(snapshot, 4, queries, k, Probing.exactly(20), rerank)
        expected = part.segment.search(
            queries, k=k, probing=Probing.exactly(20), rerank=rerank, allowed=part.everything, threads=1
        )
        np.testing.assert_array_equal(scores, expected[0])
        np.testing.assert_array_equal(ids, expected[1])


def test_slices_have_all_rows_once_and_about_equally_many(clustered_vectors):
    snapshot = pcpq.build(clustered_vectors, metric="dot")._fitted().snapshot
    bounds = bounds_of(snapshot, 4)
    ids = [sliced(snapshot, slice(int(a), int(b)))[0].ids for a, b in pairwise(bounds)]
    assert np.array_equal(np.sort(np.concatenate(ids)), np.arange(len(clustered_vectors)))
    assert max(map(len, ids)) < 1.5 * len(clustered_vectors) / 4


def test_a_slice_reads_nothing_of_the_lists_of_others(clustered_vectors, tmp_path):
    """Damage in lists of another shard is not noticed; in lists of its own it is refused."""
    pcpq.build(clustered_vectors, metric="dot").save(tmp_path / "index")
    (path,) = (tmp_path / "index").glob("segment-*")
    snapshot = pcpq.open(tmp_path / "index")._fitted().snapshot
    segment = snapshot.parts[0].segment
    bounds = bounds_of(snapshot, 2)
    content = path.read_bytes()
    place = content.find(np.ascontiguousarray(segment.kept[-30:]).tobytes())
    assert place > 0
    path.unlink()  # what is mapped stays as it was; a new file takes its name
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    damaged = pcpq.open(tmp_path / "index")._fitted().snapshot
    halves = [sliced(damaged, slice(int(a), int(b)))[0] for a, b in pairwise(bounds)]
    everything = Probing.exactly(len(damaged.trained.partition)), len(clustered_vectors)
    halves[0].candidates(clustered_vectors[:3], 10, *everything, halves[0].everything, 1)
    with pytest.raises(pcpq.FormatError, match="checksum"):
        halves[1].candidates(clustered_vectors[:3], 10, *everything, halves[1].everything, 1)


def halves_of(directory):
    snapshot = pcpq.open(directory)._fitted().snapshot
    return [sliced(snapshot, slice(int(a), int(b)))[0] for a, b in pairwise(bounds_of(snapshot, 2))]


def test_a_slice_has_the_second_codes_of_its_rows_and_a_single_one_maps_them(clustered_vectors, tmp_path):
    pcpq.build(clustered_vectors, metric="dot", lists_per_vector=2).save(tmp_path / "index")
    snapshot = pcpq.open(tmp_path / "index")._fitted().snapshot
    whole = snapshot.parts[0].segment
    lists = np.concatenate([half.segment.lists_of_rows()[1] for half in halves_of(tmp_path / "index")])
    assert np.array_equal(lists, whole.lists_of_rows()[1])
    (alone,) = sliced(snapshot, slice(0, len(snapshot.trained.partition)))
    assert alone.segment.second is whole.second


def test_damaged_second_codes_are_refused_when_an_index_is_sliced(clustered_vectors, tmp_path):
    pcpq.build(clustered_vectors, metric="dot", lists_per_vector=2).save(tmp_path / "index")
    (path,) = (tmp_path / "index").glob("segment-*")
    content = bytearray(path.read_bytes())
    (part,) = pcpq.open(tmp_path / "index")._fitted().snapshot.parts
    content[content.index(np.ascontiguousarray(part.segment.second.packed.blocks).tobytes()) + 5] ^= 1
    path.unlink()
    path.write_bytes(content)
    with pytest.raises(pcpq.FormatError, match="checksum"):
        halves_of(tmp_path / "index")


@pytest.mark.parametrize("value", [-1, 7, 1 << 30])
def test_second_lists_without_a_copy_of_each_row_are_refused_when_an_index_is_sliced(
    value, clustered_vectors, tmp_path
):
    """With checksums that are right."""
    pcpq.build(clustered_vectors, metric="dot", lists_per_vector=2).save(tmp_path / "index")
    forge(tmp_path / "index", "segment", lambda arrays: arrays["second_rows"].fill(value))
    with pytest.raises(pcpq.FormatError, match="second lists do not hold each of"):
        halves_of(tmp_path / "index")


def test_ties_between_scores_go_to_the_lower_id():
    scores = np.array([[1.0, 2.0, 2.0, 0.5], [3.0, 3.0, 3.0, 3.0]])
    ids = np.array([[4, 9, 2, 1], [8, 6, 7, 5]])
    best, found = top_k(scores, ids, 3)
    assert best.tolist() == [[2.0, 2.0, 1.0], [3.0, 3.0, 3.0]]
    assert found.tolist() == [[2, 9, 4], [5, 6, 7]]
    few, none = top_k(scores[:1, :1], ids[:1, :1], 2)
    assert few.tolist() == [[1.0, -np.inf]]
    assert none.tolist() == [[4, -1]]


def test_without_ray_the_import_says_what_to_install():
    code = "import sys, pcpq; assert 'ray' not in sys.modules; sys.modules['ray'] = None; import {}"
    program = code.format("pcpq.integrations.ray")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: pcpq.integrations.ray needs Ray: pip install 'pcpq[ray]'" in done.stderr
