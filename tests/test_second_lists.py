"""Vectors in two lists: found in either, answered once, and stored as safely as in one."""

import copy
import json
from functools import cache

import numpy as np
import pytest
from forging import forge, forge_manifest
from reference import exact, recall
from small_indexes import METRICS, QUERIES, VECTORS, check_a_stored_index_that_changes, small_index

import pcpq
from pcpq.store.manifest import MANIFEST

FAST = {"max_iterations": 2}
QUANTIZERS = {
    "plain": pcpq.PQ(section_size=2, **FAST),
    "scaled": pcpq.QPCPQ(section_size=2, n_scales=8, **FAST),
    "wide": pcpq.PQ(section_size=3, n_centers=64, **FAST),
}
N, N_LISTS = 2400, 40
EVERYTHING = {"k": 10, "probes": N_LISTS, "rerank": N}


def curved(n, seed):
    """Vectors of few dimensions, bent into many: near the borders of many lists."""
    generator = np.random.default_rng(seed)
    bend = np.random.default_rng(7).normal(size=(5, 24))
    return (np.tanh(generator.normal(size=(n, 5)) @ bend) + 0.1 * generator.normal(size=(n, 24))).astype(
        np.float32
    )


BASE, ASKED = curved(N, 0), curved(60, 1)


@cache
def trained_once(coding, metric, codebooks, lists_per_vector, keep):
    return pcpq.Index(
        metric=metric,
        n_lists=N_LISTS,
        quantizer=QUANTIZERS[coding],
        codebooks=codebooks,
        keep=keep,
        lists_per_vector=lists_per_vector,
    ).fit(BASE)


def fitted(coding="plain", metric="dot", codebooks="shared", lists_per_vector=2, keep="float32"):
    """An index without vectors, trained once for all SIMD levels."""
    return copy.copy(trained_once(coding, metric, codebooks, lists_per_vector, keep))


def filled(**parameters):
    index = fitted(**parameters)
    index.add(BASE)
    return index


def segments_of(index):
    return [part.segment for part in index._state.snapshot.parts]


def true_ids(metric, queries=ASKED, among=None):
    rows = np.arange(N) if among is None else among
    return rows[exact(BASE[rows], queries, metric, 10)[1]]


@pytest.mark.parametrize("metric", METRICS)
def test_fewer_lists_suffice_for_the_same_recall(metric):
    one, two = (filled(metric=metric, lists_per_vector=lists) for lists in (1, 2))
    truth = true_ids(metric)
    found = [recall(index.search(ASKED, k=10, probes=2, rerank=100).ids, truth) for index in (one, two)]
    assert found[1] > found[0] + 0.05
    assert recall(two.search(ASKED, k=10, probes=2, rerank=100).ids, truth) > 0.9 * recall(
        one.search(ASKED, k=10, probes=4, rerank=100).ids, truth
    )


@pytest.mark.kernels
@pytest.mark.portable
@pytest.mark.parametrize("codebooks", ["shared", "per_list"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("coding", QUANTIZERS)
def test_a_search_of_all_lists_is_exact_and_every_vector_is_found_once(coding, metric, codebooks, simd_level):
    index = filled(coding=coding, metric=metric, codebooks=codebooks)
    assert index._state.snapshot.trained.codebooks.coding == coding
    assert np.array_equal(index.search(ASKED, **EVERYTHING).ids, index.search(ASKED, k=10, exact=True).ids)
    for options in ({"probes": 1, "rerank": 10}, {"probes": 3, "rerank": 40}, {"probes": 40, "rerank": 10}):
        batch = index.search(ASKED, k=10, threads=1, **options)
        for query, ids, scores in zip(ASKED[:15], batch.ids, batch.scores, strict=False):
            single = index.search(query, k=10, **options)
            assert np.array_equal(single.ids, ids)
            assert np.array_equal(single.scores, scores)
            assert len(set(ids[ids >= 0].tolist())) == (ids >= 0).sum()


def test_candidates_are_vectors_however_many_of_their_codes_are_found():
    """With as many candidates as asked for, each search reranks so many different vectors."""
    index = filled()
    for rerank in (10, 33, 200):
        assert index.explain(ASKED[0], k=10, probes=20, rerank=rerank)["candidates_reranked"] == rerank


@pytest.mark.kernels
@pytest.mark.portable
def test_candidates_are_the_best_vectors_by_their_better_code_and_of_equal_ones_the_lower_rows(simd_level):
    """Few different vectors, whose codes are exact: codes of different rows in different lists are equal."""
    generator = np.random.default_rng(0)
    rows = generator.integers(-1, 2, size=(200, 6)).astype(np.float32)[generator.integers(200, size=4000)]
    asked = generator.integers(-1, 2, size=(60, 6)).astype(np.float32)
    quantizer = pcpq.PQ(section_size=1, **FAST)
    index = pcpq.build(rows, metric="dot", n_lists=60, quantizer=quantizer, lists_per_vector=2)
    (segment,) = segments_of(index)

    def candidates(rerank):
        """The rows and their scores by code; row -1 is missing."""
        shape = (len(asked), rerank)
        ids, scores, codes = np.empty(shape, np.int64), np.empty(shape), np.zeros(shape, np.int32)
        segment.searcher.search(
            queries=asked, probes=20, rerank=rerank, out_ids=ids, out_scores=scores, out_scanned=codes
        )
        return np.where(ids >= 0, segment.find(ids), -1), codes

    every_row, every_code = candidates(len(rows))
    for rerank in (1, 3, 10, 30):
        for found, some, codes in zip(candidates(rerank)[0], every_row, every_code, strict=True):
            order = np.lexsort((some, -codes.astype(np.int64), some < 0))
            assert np.array_equal(np.sort(found), np.sort(some[order[:rerank]]))


def test_the_rows_of_both_lists_are_counted():
    one, two = filled(lists_per_vector=1), filled()
    assert two.explain(ASKED[0], k=10, probes=N_LISTS, rerank=10)["rows_scanned"] == 2 * N
    assert one.explain(ASKED[0], k=10, probes=N_LISTS, rerank=10)["rows_scanned"] == N
    codes = [index.stats()["bytes_per_vector"]["codes"] for index in (one, two)]
    assert 2 * codes[0] < codes[1] < 2 * codes[0] + 8  # the number of a row, and padding


def test_first_lists_are_those_of_an_index_with_one_list_and_second_lists_differ():
    one, two = filled(lists_per_vector=1), filled()
    (first,), (same, second) = (segments_of(index)[0].lists_of_rows() for index in (one, two))
    assert np.array_equal(first, same)
    assert not np.any(same == second)
    assert np.array_equal(two.ids(), np.arange(N))


def test_second_lists_minimise_the_error_in_another_direction():
    index = filled()
    segment = segments_of(index)[0]
    first, second = segment.lists_of_rows()
    centroids = index._state.snapshot.trained.partition.centroids.astype(np.float64)
    rows = segment.vectors(np.arange(N)).astype(np.float64)
    residuals = rows - centroids[first]
    along = residuals / np.linalg.norm(residuals, axis=1, keepdims=True)
    others = rows[:, None] - centroids[None]
    losses = (others**2).sum(axis=2) + 1.5 * np.einsum("nld,nd->nl", others, along) ** 2
    losses[np.arange(N), first] = np.inf
    assert (losses.argmin(axis=1) == second).mean() > 0.98  # only the nearest lists are compared


@pytest.mark.parametrize("metric", METRICS)
def test_recall_is_measured_with_both_lists(metric):
    index = pcpq.build(BASE, metric=metric, n_lists=N_LISTS, lists_per_vector=2)
    truth = true_ids(metric, BASE[:300])
    for target in (0.8, 0.95):
        found = index.search(BASE[:300], k=10, target_recall=target).ids
        assert target - 0.03 < recall(found, truth)
    assert index.explain(ASKED[0], k=10, target_recall=0.8)["lists_probed"] < N_LISTS // 4


def test_filters_tombstones_and_merges_concern_both_lists(simd_level):
    index = fitted()
    for start, stop in ((0, 1500), (1500, 1505), (1505, N)):
        index.add(BASE[start:stop])
    gone = np.arange(0, N, 7)
    index.remove(gone)
    left = np.setdiff1d(np.arange(N), gone)
    expected = true_ids("dot", among=left)
    assert np.array_equal(index.search(ASKED, **EVERYTHING).ids, expected)
    assert not np.isin(index.search(ASKED, k=50, probes=3, rerank=100).ids, gone).any()
    assert not any(np.isin(index.search(query, k=50, probes=3, rerank=100).ids, gone).any() for query in ASKED)
    allowed = left[left % 3 == 1]
    for options in (EVERYTHING, {"k": 10, "probes": 5, "rerank": 60}):
        assert np.isin(index.search(ASKED, filter=allowed, **options).ids, allowed).all()
    assert np.array_equal(index.search(ASKED, filter=allowed, **EVERYTHING).ids, true_ids("dot", among=allowed))
    before = index.search(ASKED, k=10, probes=4, rerank=50).ids
    index.compact()
    assert [len(segment) for segment in segments_of(index)] == [len(left)]
    assert np.array_equal(index.search(ASKED, **EVERYTHING).ids, expected)
    assert recall(index.search(ASKED, k=10, probes=4, rerank=50).ids, before) > 0.95


def test_there_are_as_many_lists_as_with_one_per_vector():
    counts = [pcpq.build(BASE, metric="dot", lists_per_vector=lists).stats()["lists"] for lists in (1, 2)]
    assert counts == [round(2 * N**0.5)] * 2


def test_one_list_and_few_vectors():
    index = pcpq.build(VECTORS[:5], metric="dot", n_lists=1, lists_per_vector=2)
    assert np.array_equal(index.search(QUERIES, k=5).ids, exact(VECTORS[:5], QUERIES, "dot", 5)[1])
    index.remove([0, 1, 2, 3])
    assert (index.search(QUERIES, k=5).ids[:, 0] == 4).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bytes_per_vector": 100}, "bytes_per_vector is 100, and lists_per_vector is given too"),
        ({"keep": None}, "lists_per_vector=2 needs kept vectors, but keep is None"),
        ({"lists_per_vector": 3}, "lists_per_vector is 3"),
        ({"lists_per_vector": 0}, "lists_per_vector is 0"),
        ({"lists_per_vector": "2"}, "lists_per_vector is '2'"),
        ({"quantizer": pcpq.PCPQ()}, "lists_per_vector=2 needs codes in blocks, which those of PCPQ"),
        ({"quantizer": pcpq.PQ(n_centers=65)}, "lists_per_vector=2 needs codes in blocks, which those of PQ"),
    ],
)
def test_settings_that_do_not_go_with_two_lists_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        pcpq.build(BASE, **({"metric": "dot", "lists_per_vector": 2} | settings))


# Storage


@pytest.fixture
def stored(tmp_path):
    """A stored index of two lists per vector."""
    index = small_index(lists_per_vector=2)
    index.add(VECTORS)
    index.save(tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize("coding", QUANTIZERS)
def test_a_stored_index_is_changed_and_opened_again(coding, tmp_path):
    def check(opened):
        assert opened.lists_per_vector == 2
        assert all(segment.second is not None for segment in segments_of(opened))

    settings = {"quantizer": QUANTIZERS[coding], "lists_per_vector": 2}
    check_a_stored_index_that_changes(tmp_path / "index", check, **settings)


def test_opening_an_index_with_tombstones_does_not_read_second_lists(stored):
    """Their mask is made when a scan needs it."""
    with pcpq.open(stored, mode="a") as index:
        index.remove([1, 2, 3])
        index.commit()
    file = next(stored.glob("segment-*"))
    content = bytearray(file.read_bytes())
    rows = np.ascontiguousarray(segments_of(pcpq.open(stored))[0].second.rows).tobytes()
    content[content.index(rows) + 5] ^= 1
    file.write_bytes(content)
    index = pcpq.open(stored)
    assert len(index.search(QUERIES, k=10, exact=True).ids) == len(QUERIES)
    with pytest.raises(pcpq.FormatError, match="does not match its checksum"):
        index.search(QUERIES, k=10, probes=3)


def test_an_index_of_one_list_is_stored_as_before(tmp_path):
    index = small_index()
    index.add(VECTORS)
    index.save(tmp_path / "index")
    content = json.loads((tmp_path / "index" / MANIFEST).read_text())
    assert content["version"] == 1
    assert "lists_per_vector" not in content["settings"]


def test_a_damaged_code_of_a_second_list_is_noticed(stored):
    file = next(stored.glob("segment-*"))
    content = bytearray(file.read_bytes())
    index = pcpq.open(stored)
    codes = np.ascontiguousarray(segments_of(index)[0].second.packed.blocks).tobytes()
    content[content.index(codes) + 5] ^= 1
    file.write_bytes(content)
    with pytest.raises(pcpq.FormatError, match="does not match its checksum"):
        pcpq.open(stored).search(QUERIES, k=10, probes=3)
    with pytest.raises(pcpq.FormatError, match="does not match its checksum"):
        pcpq.open(stored).verify()


@pytest.mark.parametrize("value", [-1, len(VECTORS), 2**31 - 1, -(2**31)])
def test_a_second_list_that_holds_no_row_of_the_segment_is_refused(value, stored):
    """With checksums that are right."""

    def edit(arrays):
        arrays["second_rows"][:] = value

    forge(stored, "segment", edit)
    for use in (
        lambda index: index.search(QUERIES, k=10, probes=3),
        lambda index: index.search(QUERIES[0], k=10, probes=3),
        lambda index: index.search(QUERIES, k=10, filter=np.arange(300), probes=3),
        lambda index: index.verify(),
    ):
        with pytest.raises(pcpq.FormatError, match="second list"):
            use(pcpq.open(stored))


def test_a_row_with_two_copies_is_answered_once_and_refused_when_all_is_read(stored):
    def edit(arrays):
        arrays["second_rows"][:] = arrays["second_rows"][0]

    forge(stored, "segment", edit)
    index = pcpq.open(stored)
    for ids in index.search(QUERIES, k=10, probes=3, rerank=50).ids:
        assert len(set(ids.tolist())) == 10
    with pytest.raises(pcpq.FormatError, match="second lists do not hold each of 400 rows once"):
        index.verify()


@pytest.mark.parametrize(
    "edit",
    [
        lambda arrays: arrays.update(second_counts=arrays["second_counts"] + np.uint32(1)),
        lambda arrays: arrays.update(second_counts=arrays["second_counts"][:-1]),
        lambda arrays: arrays.pop("second_counts"),
        lambda arrays: arrays.pop("second_codes"),
        lambda arrays: arrays.pop("second_rows"),
        lambda arrays: arrays.pop("second_checks"),
        lambda arrays: arrays.update(second_rows=arrays["second_rows"].astype(np.int64)),
        lambda arrays: arrays.update(second_codes=arrays["second_codes"][:-1]),
    ],
)
def test_arrays_of_second_lists_that_are_missing_or_of_another_shape_are_refused(edit, stored):
    forge(stored, "segment", edit)
    with pytest.raises(pcpq.FormatError, match="segment-"):
        pcpq.open(stored)


def test_a_manifest_that_differs_from_the_trained_file_is_refused(stored):
    def as_version_1(content):
        return content | {"version": 1}

    def one_list(content):
        content["settings"].pop("lists_per_vector")
        return content

    before = (stored / MANIFEST).read_bytes()
    for change, message in (
        (as_version_1, "lists_per_vector is 2 in version 1"),
        (one_list, r"are \('dot', 'int16', 1, 8\); trained for \('dot', 'int16', 2, 8\)"),
    ):
        (stored / MANIFEST).write_bytes(before)
        forge_manifest(stored, change)
        with pytest.raises(pcpq.FormatError, match=message):
            pcpq.open(stored)


@pytest.mark.parametrize("value", [0, 3, "2", None, 2.5])
def test_a_trained_file_of_another_number_is_refused(value, stored):
    forge(stored, "trained", edit_about=lambda about: about.update(lists_per_vector=value))
    with pytest.raises(pcpq.FormatError, match="trained-"):
        pcpq.open(stored)
