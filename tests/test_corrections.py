import numpy as np
import pytest

import pcpq
from pcpq.datasets import load_words


@pytest.fixture(scope="module")
def words():
    vectors = load_words()[0][:6000]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def recall(quantizer, words, anchored=False):
    """10@10 of the residuals to the mean vector, on rows that were not trained on."""
    mean = words[:4000].mean(axis=0)
    quantizer.fit(words[:4000] - mean, directions=words[:4000])
    codes = quantizer.encode(words - mean, directions=words)
    queries = words[5500:]
    exact = queries @ words[:5500].T
    if anchored:
        estimates = quantizer.scores(queries, codes[:5500], anchors=mean)
    else:
        estimates = quantizer.scores(queries, codes[:5500]) + (queries @ mean)[:, None]
    top, found = (np.argpartition(-scores, 9, axis=1)[:, :10] for scores in (exact, estimates))
    return np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(top, found, strict=True)])


@pytest.mark.parametrize("method", [pcpq.PQ, pcpq.QPCPQ])
def test_gain_and_bias_raise_recall_on_real_words(method, words):
    plain = recall(method(section_size=4, gain=False, bias=False), words)
    corrected = recall(method(section_size=4, gain=True, bias=True), words)
    assert corrected > plain + 0.02


@pytest.mark.parametrize("method", [pcpq.PQ, pcpq.QPCPQ])
def test_an_anchored_bias_raises_recall_on_real_words(method, words):
    gain_only = recall(method(section_size=4, gain=True, bias=False), words)
    assert recall(method(section_size=4, gain=True, bias="anchor"), words, anchored=True) > gain_only + 0.01


def test_auto_takes_what_helps(words):
    quantizer = pcpq.PQ(section_size=4)
    found = recall(quantizer, words)
    assert quantizer.model_.bias_weight > 0
    assert found > recall(pcpq.PQ(section_size=4, gain=False, bias=False), words) + 0.05


def test_auto_leaves_out_what_does_not_pay():
    # Every row is a codeword: nothing is left to mend.
    rows = np.tile(np.random.default_rng(0).normal(size=(10, 8)), (30, 1))
    quantizer = pcpq.PQ(section_size=4).fit(rows)
    assert (quantizer.model_.gain, quantizer.model_.bias_weight) == (False, 0.0)


@pytest.mark.parametrize(("gain", "bias"), [(True, True), (True, False), (False, True), (False, False)])
def test_what_is_asked_for_is_stored(gain, bias, words):
    quantizer = pcpq.PQ(section_size=4, gain=gain, bias=bias).fit(words[:500], directions=words[:500] + 0.1)
    codes = quantizer.encode(words[:10], directions=words[:10] + 0.1)
    assert (codes.gains is not None, codes.biases is not None) == (gain, bias)


def test_without_directions_a_gain_leaves_a_bias_nothing_to_do(words):
    quantizer = pcpq.QPCPQ(section_size=4, gain=True).fit(words)
    assert quantizer.model_.bias_weight == 0.0


def test_queries_decide_where_they_are_given(words):
    # Queries that point away from every vector have no neighbours the bias could help.
    away = pcpq.PQ(section_size=4, gain=False).fit(words, queries=np.tile(-words.mean(axis=0), (50, 1)))
    towards = pcpq.PQ(section_size=4, gain=False).fit(words, queries=words[::10])
    assert away.model_.bias_weight < towards.model_.bias_weight
