"""A number of bytes, and what fits it."""

import logging

import numpy as np
import pytest

import pcpq
from pcpq.datasets import load_words
from pcpq.tuning.budget import DESIGNS, design_for


@pytest.fixture(scope="module")
def words():
    return load_words()[0]


@pytest.mark.parametrize("budget", [30, 65, 85, 140, 240])
def test_an_index_takes_no_more_than_its_budget(budget, words):
    index = pcpq.build(words, metric="cosine", bytes_per_vector=budget)
    taken = sum(index.stats()["bytes_per_vector"].values())
    assert 0.75 * budget < taken <= budget


def test_more_bytes_find_more(words):
    queries = words[::100]
    unit = words / np.linalg.norm(words, axis=1, keepdims=True)
    true = np.argsort(-(unit[::100] @ unit.T), axis=1)[:, :10]
    recalls = []
    for budget in (30, 85, 160):
        index = pcpq.build(words, metric="cosine", bytes_per_vector=budget)
        found = index.search(queries, probes=1000, rerank=200).ids
        recalls.append(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, true, strict=True)]))
    assert recalls == sorted(recalls)
    assert recalls[-1] > recalls[0] + 0.3


def test_the_choice_is_explained(words, caplog):
    with caplog.at_level(logging.INFO, logger="pcpq"):
        index = pcpq.build(words, metric="cosine", bytes_per_vector=160)
    assert "keep='int8'" in index.stats()["chosen"]
    assert "of 160 bytes per vector, 400 as float32" in index.stats()["chosen"]
    assert index.stats()["chosen"] in caplog.text


def test_the_choice_survives_the_disk(words, tmp_path):
    index = pcpq.build(words[:3000], metric="cosine", bytes_per_vector=160)
    index.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index") as again:
        assert again.stats()["chosen"] == index.stats()["chosen"]


def test_iterators_have_a_budget_too(words):
    batches = (words[i : i + 5000] for i in range(0, 20_000, 5000))
    index = pcpq.build(batches, metric="cosine", bytes_per_vector=140)
    assert index.keep == "int8"
    assert len(index) == 20_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bytes_per_vector": 10}, r"bytes_per_vector is 10; 20,000 vectors of 100 dimensions need \d+"),
        ({"bytes_per_vector": 100, "keep": "int8"}, "bytes_per_vector is 100, and keep is given too"),
        (
            {"bytes_per_vector": 100, "quantizer": pcpq.PQ()},
            "bytes_per_vector is 100, and quantizer is given too",
        ),
    ],
)
def test_what_does_not_fit_is_named(options, message, words):
    with pytest.raises(ValueError, match=message):
        pcpq.build(words, metric="cosine", **options)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 65, 384])
def test_sizes_are_those_of_real_indexes(dimensions):
    vectors = np.random.default_rng(0).normal(size=(3000, dimensions)).astype(np.float32)
    for design in DESIGNS if dimensions < 100 else DESIGNS[3:4]:
        index = pcpq.Index(metric="dot", quantizer=design.quantizer(dimensions), keep=design.keep)
        index.fit(vectors)
        index.add(vectors)
        taken = sum(index.stats()["bytes_per_vector"].values())
        assert design.bytes_per_vector(dimensions, 3000) == pytest.approx(taken, rel=0.15)


def test_better_designs_take_more_bytes():
    for n in (20_000, 10_000_000):
        sizes = [design.bytes_per_vector(100, n) for design in DESIGNS]
        assert sizes == sorted(sizes, reverse=True)
        assert design_for(sizes[0], 100, n)[0] is DESIGNS[0]
