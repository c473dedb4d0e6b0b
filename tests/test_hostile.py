"""Forged indexes with right checksums, queries with NaN, and sizes of terabytes do no harm."""

import json
import shutil
import sys
from collections import Counter
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from forging import file_of, forge, load
from small_indexes import KEEPS, METRICS, QUERIES, TORTURE, VECTORS, small_index

import pcpq
from pcpq.ivf.probing import Probing
from pcpq.segment.codebooks import Codebooks
from pcpq.store import limits

sys.path.insert(0, str(Path(__file__).parent / "fuzz"))
import fuzz_index
from forged_cases import attacks, cases
from good_indexes import good_indexes

pytestmark = [pytest.mark.kernels, pytest.mark.torture]

LISTS = [3, 8, 16, 32]
QUANTIZERS = {
    "plain": pcpq.PQ(section_size=2, max_iterations=1, gain=False, bias=False),
    "scaled": pcpq.QPCPQ(section_size=2, max_iterations=1, gain=False, bias=False),
    "wide": pcpq.PQ(section_size=2, n_centers=20, max_iterations=1, gain=False, bias=False),
    "unpacked": pcpq.PQ(section_size=2, n_centers=70, max_iterations=1, gain=False, bias=False),
}


@pytest.fixture(scope="module")
def indexes():
    with good_indexes() as found:
        yield found


def failures(tried, indexes):
    return [f"{said}\n    {json.dumps(case)}" for case, said in fuzz_index.bad_cases(tried, indexes, Counter())]


# The fuzzer's cases, in a process of their own: a crash is a failure of the test, not its end.


def test_every_case_that_ever_went_wrong_is_answered_or_refused(indexes):
    assert len(fuzz_index.corpus()) > 30
    assert failures(fuzz_index.corpus(), indexes) == []


def test_some_forged_indexes_are_answered_or_refused(indexes):
    assert failures(islice(cases(0, indexes), 4000 if TORTURE else 150), indexes) == []


def test_native_code_chooses_lists_by_any_float(indexes):
    """Without the checks of trained arrays, which would refuse these."""
    assert failures(attacks(), indexes) == []


# What is trained


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An index of every number of lists."""
    directory = tmp_path_factory.mktemp("hostile")
    for n_lists in LISTS:
        index = small_index(n_lists=n_lists, rotation="random", keep="int8")
        index.add(VECTORS)
        index.save(directory / str(n_lists))
    return directory


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("n_lists", LISTS)
def test_trained_arrays_that_no_training_makes_are_refused(value, n_lists, made, tmp_path):
    arrays = load(made / str(n_lists) / file_of(made / str(n_lists), "trained"))[0]
    floats = [name for name, array in arrays.items() if array.dtype.kind == "f"]
    assert set(floats) >= {"centers", "spreads", "offsets", "matrix", "0.centers", "0.readout"}
    for name in floats:
        if value == 3e38 and name in ("spreads", "offsets"):
            continue  # finite, and no bound is known for them
        path = tmp_path / name
        shutil.copytree(made / str(n_lists), path)
        forge(path, "trained", lambda arrays, name=name: arrays[name].reshape(-1).__setitem__(-1, value))
        if value == 3e38 and name.startswith("0."):
            pcpq.open(path).search(QUERIES)
            continue
        with pytest.raises(pcpq.FormatError, match=rf"trained-.*{name} holds"):
            pcpq.open(path)


NUMBERS = {
    "trained": {
        "unit": [0, -1.0, 1e-300, 1e300, 10**4000, float("nan"), True, "1"],
        "residual": [-1.0, float("inf"), 10**4000],
        "bias_low": [1e300, -1e39, 10**400, float("nan")],
        "bias_step": [-1e-9, 1e39],
        "sections": [[4], [4, 2, 1], [4.0, 2], [1 << 40, 1 << 40], [0, 8], "42"],
        "dimensions": [0, 8.0, 1 << 40, 10**4000],
        "metric": ["manhattan", ["dot"], None],
        "keep": ["int4", [], 5],
        "books": [[], {}, None, [None], "x"],
    },
    "first": {
        "reach": [-1.0, 1e39, 10**4000, float("nan"), None],
        "residuals": [-1.0, float("inf"), 10**4000],
        "dense": [0, 1, "false", None, []],
        "rows_a_page": [0, -1, 1 << 70, 10**4000, 1.5],
        "later": [[], None, {"ids": None}, {"ids": [[]]}, {}],
    },
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_that_no_training_makes_are_refused(kind, made, tmp_path):
    for name, values in NUMBERS[kind].items():
        for value in values:
            path = tmp_path / "index"
            shutil.copytree(made / "8", path)
            forge(path, kind, edit_about=lambda about, name=name, value=value: about.update({name: value}))
            with pytest.raises(pcpq.FormatError, match=file_of(path, kind)):  # noqa: PT012
                index = pcpq.open(path)
                index.verify()
                raise AssertionError(f"{name} = {value!r} is accepted")
            shutil.rmtree(path)


def test_codebooks_of_different_shapes_are_refused(tmp_path):
    own = pcpq.PQ(section_size=2, n_centers=4, max_iterations=1, gain=False, bias=False)
    index = small_index(quantizer=own, codebooks="per_list")
    index.add(VECTORS)
    index.save(tmp_path / "index")
    pcpq.open(tmp_path / "index").search(QUERIES)

    def fewer(arrays):
        for name in ("1.centers", "1.readout"):
            arrays[name] = np.ascontiguousarray(arrays[name][:, :-1])

    forge(tmp_path / "index", "trained", fewer)
    with pytest.raises(pcpq.FormatError, match=r"trained-.*differ in their shapes"):
        pcpq.open(tmp_path / "index")


def test_one_codebook_for_very_many_lists_is_refused(made, tmp_path, monkeypatch):
    shutil.copytree(made / "8", tmp_path / "index")
    monkeypatch.setattr(limits, "MOST_TABLE_BYTES", 8 * 8 * 16 * 4 - 1)
    forge(tmp_path / "index", "trained", lambda arrays: arrays.update(books=np.zeros(8, np.int32)))
    with pytest.raises(pcpq.FormatError, match=r"trained-.*are too many"):
        pcpq.open(tmp_path / "index")


SIZES = {
    "huge": lambda rows: rows * np.float32(1e30),
    "as large as can be": lambda rows: rows / np.abs(rows).max() * np.float32(3e38),
    "tiny": lambda rows: rows * np.float32(1e-30),
    "denormal": lambda rows: rows * np.float32(1e-40),
    "tiny float64": lambda rows: rows.astype(np.float64) * 1e-100,
    "one outlier": lambda rows: np.where(np.arange(len(rows))[:, None] == 5, 1e14, 1).astype(np.float32) * rows,
    "tiny beside huge": lambda rows: rows * np.where(np.arange(len(rows))[:, None] % 2, 1e-20, 1e14),
    "all equal": lambda rows: np.full_like(rows, 0.3),
    "zeros": lambda rows: rows * (np.arange(len(rows))[:, None] % 3 > 0).astype(np.float32),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("size", SIZES)
def test_every_index_that_can_be_built_can_be_opened(size, metric, keep, tmp_path):
    rows, built = SIZES[size](VECTORS[:150]), 0
    number = list(SIZES).index(size) + METRICS.index(metric) + KEEPS.index(keep)
    names = list(QUANTIZERS) if TORTURE else [list(QUANTIZERS)[number % 3]]
    for name in names:
        own = "per_list" if number % 2 else "shared"
        settings = {"quantizer": QUANTIZERS[name], "n_lists": 8, "codebooks": own, "rotation": "random"}
        try:
            index = pcpq.build(rows, metric=metric, keep=keep, threads=1, **settings)
        except ValueError as error:
            assert "is zero" in str(error)  # noqa: PT017
            continue
        index.save(tmp_path / name)
        again = pcpq.open(tmp_path / name)
        again.verify()
        wanted, found = (one.search(rows[:9], k=4, probes=3, rerank=20) for one in (index, again))
        assert np.array_equal(wanted.ids, found.ids)
        assert np.array_equal(wanted.scores, found.scores, equal_nan=True)
        built += 1
    # Where directions count, zero has none.
    assert built == len(names) or (size in ("zeros", "tiny float64") and metric == "cosine")


# Ids


@pytest.mark.parametrize("k", [1, 5, 40])
def test_equal_ids_bring_nothing_of_an_earlier_search(k, simd_level):
    other = small_index(n_lists=8)
    other.add(VECTORS, np.arange(len(VECTORS)) + 10**12)
    index = small_index(n_lists=8)
    index.add(np.tile(VECTORS[:40], (5, 1)))
    segment = index._state.snapshot.parts[0].segment
    equal = replace(segment, ids=np.full_like(segment.ids, 7))
    allowed = index._state.snapshot.parts[0].everything
    for queries in (QUERIES[:1], QUERIES):
        other.search(queries, k=k, rerank=60, threads=1)
        wanted = segment.search(queries, k=k, probing=Probing.exactly(8), rerank=60, allowed=allowed, threads=1)
        other.search(queries, k=k, rerank=60, threads=1)
        found = equal.search(queries, k=k, probing=Probing.exactly(8), rerank=60, allowed=allowed, threads=1)
        assert np.array_equal(found[0], wanted[0])
        assert (found[1] == 7).all()


def test_equal_scores_come_in_the_order_of_ids(simd_level):
    index = small_index(n_lists=8)
    numbers = np.random.default_rng(3).permutation(200)
    index.add(np.tile(VECTORS[:1], (200, 1)), numbers)
    for k in (3, 20, 60):
        found = index.search(VECTORS[:1], k=k, rerank=200, threads=1)
        assert np.array_equal(found.ids[0], np.arange(k))


@pytest.mark.parametrize("kind", ["int", "str"])
def test_ids_that_are_there_twice_are_refused_when_they_are_looked_up(kind, tmp_path):
    index = small_index()
    index.add(VECTORS[:50], [f"w{i:02}" for i in range(50)] if kind == "str" else None)
    index.save(tmp_path / "index")

    def twice(arrays):
        if kind == "int":
            arrays["ids"][3] = arrays["ids"][8]
        else:
            arrays["text"][9:12] = arrays["text"][24:27]
            arrays["text_hashes"][3] = arrays["text_hashes"][8]

    forge(tmp_path / "index", "first", twice)
    opened = pcpq.open(tmp_path / "index")
    missing = "w99" if kind == "str" else 99
    for use in (lambda: missing in opened, opened.verify, lambda: opened.search(QUERIES, filter=[missing])):
        with pytest.raises(pcpq.FormatError, match=r"segment-.*occurs twice"):
            use()


def test_a_negative_id_is_refused(tmp_path):
    index = small_index()
    index.add(VECTORS[:50])
    index.save(tmp_path / "index")
    forge(tmp_path / "index", "first", lambda arrays: arrays["ids"].__setitem__(3, -5))
    with pytest.raises(pcpq.FormatError, match="id -5 is negative"):
        pcpq.open(tmp_path / "index").reconstruct([0])


def test_an_id_in_two_segments_is_refused_when_they_are_made_one(tmp_path):
    index = small_index()
    index.add(VECTORS[:50])
    index.add(VECTORS[50:60])
    index.save(tmp_path / "index")
    forge(tmp_path / "index", "second", lambda arrays: arrays["ids"].__setitem__(0, 7))
    with (
        pcpq.open(tmp_path / "index", mode="a") as opened,
        pytest.raises(pcpq.FormatError, match=r"segment-.*id 7 occurs twice"),
    ):
        opened.compact()


def test_ends_of_words_that_wrap_are_refused(tmp_path):
    index = small_index()
    index.add(VECTORS[:50], [f"w{i:02}" for i in range(50)])
    index.save(tmp_path / "index")
    # No difference of neighbours is negative in 64 bits.
    forge(
        tmp_path / "index",
        "first",
        lambda arrays: arrays["text_ends"].__setitem__(slice(1, 4), [(1 << 63) - 1, -(1 << 63), -1]),
    )
    with pytest.raises(pcpq.FormatError, match="string ids do not follow each other"):
        _ = "w07" in pcpq.open(tmp_path / "index")


# Codes


@pytest.mark.parametrize("scales_per", ["section", "vector"])
def test_codes_of_codewords_and_scales_that_are_not_there_are_refused(scales_per, tmp_path):
    quantizer = pcpq.QPCPQ(section_size=4, n_centers=5, n_scales=3, scales_per=scales_per, max_iterations=1)
    index = small_index(quantizer=quantizer, keep=None)
    index.add(VECTORS[:60])
    index.save(tmp_path / "index")
    forge(tmp_path / "index", "first", lambda arrays: arrays["codes"].__setitem__(slice(None), 255))
    opened = pcpq.open(tmp_path / "index")
    opened.search(QUERIES)
    for use in (lambda: opened.reconstruct([5]), opened._state.snapshot.parts[0].segment.rows):
        with pytest.raises(pcpq.FormatError, match=r"segment-.*a code names codeword"):
            use()


@pytest.mark.parametrize("scales", [None, 3])
def test_wide_codes_of_codewords_that_are_not_there_are_refused(scales, tmp_path):
    quantizer = pcpq.PQ(section_size=4, n_centers=20, max_iterations=1)
    if scales is not None:
        quantizer = pcpq.QPCPQ(section_size=4, n_centers=20, n_scales=scales, max_iterations=1)
    index = small_index(quantizer=quantizer, keep=None)
    index.add(VECTORS[:200])
    index.save(tmp_path / "index")
    forge(tmp_path / "index", "first", lambda arrays: arrays["codes"].__setitem__(slice(None), 255))
    opened = pcpq.open(tmp_path / "index")
    opened.search(QUERIES)
    for use in (lambda: opened.reconstruct([5]), opened._state.snapshot.parts[0].segment.rows):
        with pytest.raises(pcpq.FormatError, match=r"segment-.*a code names codeword"):
            use()


@pytest.mark.parametrize("value", [3e7, 1.23e8, 1e30, np.nan])
def test_scores_of_unpacked_codes_may_be_any_float(value, simd_level):
    """They are compared as integers, of which the least marks places without a row."""
    index = small_index(quantizer=QUANTIZERS["unpacked"], keep=None, n_lists=8)
    index.add(VECTORS)
    part = index._state.snapshot.parts[0]
    trained = part.segment.trained
    book = copy(trained.codebooks.quantizers[0])
    book.model_ = replace(book.model_, readout=np.full_like(book.model_.readout, value))
    segment = replace(part.segment, trained=replace(trained, codebooks=Codebooks((book,))))
    for rerank in (5, 10, 100, 400):
        ids, scores = np.empty((len(QUERIES), 5), np.int64), np.empty((len(QUERIES), 5))
        scanned = np.zeros((len(QUERIES), 5), np.int32)
        segment.searcher.search(
            queries=QUERIES, probes=3, rerank=rerank, out_ids=ids, out_scores=scores, out_scanned=scanned
        )
        assert ((ids >= 0) & (ids < len(VECTORS))).all()
        assert all(len(set(row)) == 5 for row in ids.tolist())
        assert (scanned > np.iinfo(np.int32).min).all()


# Queries


@pytest.mark.parametrize("coding", QUANTIZERS)
@pytest.mark.parametrize("n_lists", LISTS)
def test_queries_that_another_thread_spoils_find_ids_of_the_index(n_lists, coding, simd_level):
    keep = KEEPS[(LISTS.index(n_lists) + list(QUANTIZERS).index(coding)) % len(KEEPS)]
    index = small_index(n_lists=n_lists, quantizer=QUANTIZERS[coding], keep=keep)
    index.add(VECTORS)
    part = index._state.snapshot.parts[0]
    queries = QUERIES.copy()
    for value in (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45):
        for some in (slice(None), slice(0, 1), slice(5, 7)):
            queries[:] = QUERIES
            queries[:, some] = value
            for asked in (queries, queries[:1], queries[:3]):
                for probing in (Probing.exactly(2), Probing(2, 8, 0.1, -3.0), Probing(2, 8, 0.0, -0.5)):
                    _, ids = part.segment.search(
                        asked, k=5, probing=probing, rerank=10, allowed=part.everything, threads=1
                    )
                    assert ((ids >= -1) & (ids < len(VECTORS))).all()


# Numbers that ask for much


@pytest.fixture(scope="module")
def few():
    index = small_index()
    index.add(VECTORS)
    return index


def test_more_results_than_there_are_vectors_are_filled_up(few):
    n = len(VECTORS)
    found, all_of_them = few.search(QUERIES, k=n + 7), few.search(QUERIES, k=n)
    assert found.ids.shape == found.scores.shape == (len(QUERIES), n + 7)
    assert np.array_equal(found.ids[:, :n], all_of_them.ids)
    assert (found.ids[:, n:] == -1).all()
    assert (found.scores[:, n:] == -np.inf).all()


@pytest.mark.parametrize("filter", [None, [], [3, 4]])
def test_gigabytes_of_missing_results_are_refused(filter, few):
    there = len(VECTORS) if filter is None else len(filter)
    for queries in (QUERIES, QUERIES[0]):
        with pytest.raises(ValueError, match=rf"k is {2**30}, but there are {there} vectors"):
            few.search(queries, k=2**30, filter=filter)
    assert few.search(QUERIES[0], k=2**16, filter=filter).ids.shape == (2**16,)


def test_candidates_and_lists_beyond_all_that_there_are_take_no_room(few):
    n = len(VECTORS)
    wanted = few.search(QUERIES, k=5, probes=3, rerank=n)
    for probes, rerank in ((3, 1 << 34), (1 << 30, 1 << 34), (1 << 30, n)):
        found = few.search(QUERIES, k=5, probes=probes, rerank=rerank)
        assert np.array_equal(found.ids, wanted.ids)
    assert few.explain(QUERIES[0], k=2**30)["candidates_reranked"] == n
    segment = few._state.snapshot.parts[0].segment
    scores, ids = np.empty((len(QUERIES), 5)), np.empty((len(QUERIES), 5), np.int64)
    segment.searcher.search(queries=QUERIES, probes=1 << 60, rerank=1 << 60, out_ids=ids, out_scores=scores)
    assert np.array_equal(ids, wanted.ids)
    one, alone = np.empty(5, np.int64), np.empty(5, np.float32)
    assert few._state.snapshot.segments.search_one(QUERIES[0], 1 << 60, 0.0, -np.inf, 1 << 60, one, alone)
    assert np.array_equal(one, wanted.ids[0])
    with pytest.raises(ValueError, match="outputs have the wrong shape"):
        few._state.snapshot.segments.search_one(QUERIES[0], 1, 0.0, -np.inf, 1, one[:0], alone[:0])
