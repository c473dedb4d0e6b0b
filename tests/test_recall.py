"""From measured recall to probes and candidates."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcpq.search.recall_curve import (
    CANDIDATES,
    MOST_CANDIDATES,
    RESULTS,
    SLACK,
    SURE,
    RecallCurve,
    candidates_for,
    probes_to_measure,
)


def made_up(n_lists=200, best=1.0, error=0.002):
    """Recall that rises with probes and candidates towards `best`, and falls with the number of results."""
    probes = probes_to_measure(n_lists)
    k = np.log(np.array(RESULTS))[:, None, None]
    p = np.log(np.array(probes) / n_lists)[None, :, None]
    r = np.log(np.array(CANDIDATES))[None, None, :]
    means = best * np.exp(0.1 * p * (1 + 0.3 * k)) * (1 - 0.4 * np.exp(-1.5 * r))
    rows = tuple(50.0 * count for count in probes)
    errors = np.full(means.shape, error)
    return RecallCurve(RESULTS, probes, CANDIDATES, rows, means, errors, 400, "held out")


@settings(deadline=None)
@given(
    k=st.integers(1, 100),
    target=st.floats(0.3, 0.97),
    more=st.floats(0.0, 0.02),
)
def test_more_recall_never_costs_less(k, target, more):
    curve = made_up()
    cheap, dear = curve.choose(k, target), curve.choose(k, target + more)
    assert cheap.rerank >= k
    assert target - SLACK <= cheap.recall <= dear.recall + 1e-9

    def cost(choice):
        return 58 * choice.probes + 60 * choice.rerank

    # Between two numbers of candidates the cost may differ by what one more list costs.
    assert cost(cheap) <= cost(dear) + 58


def test_one_list_less_is_probed_where_one_more_exceeds_the_target_by_far():
    curve = made_up(error=0.0)
    means = curve.means.copy()
    means[2, :, :] = np.interp(np.arange(len(curve.probes)), [0, 1, 2, 40], [0.5, 0.897, 0.935, 1.0])[:, None]
    steep = replace(curve, means=means)
    assert steep.choose(10, 0.9)[::2] == (2, pytest.approx(0.897))
    assert steep.choose(10, 0.905).probes == 3  # 0.897 is not near enough
    assert steep.choose(10, 0.93).probes == 3
    assert steep.reach(10) == pytest.approx(means[2].max())


@pytest.mark.parametrize("k", RESULTS)
def test_what_was_measured_is_what_is_chosen_by(k):
    curve = made_up(error=0.0)
    number = RESULTS.index(k)
    for i, probes in enumerate(curve.probes[2:], 2):
        for j in (3, 6):
            target, measured = float(curve.sure[number, i, j]), float(curve.means[number, i, j])
            choice = curve.choose(k, target, rerank=candidates_for(k, CANDIDATES[j]))
            assert choice.probes in (probes, probes - 1)  # one list less if that is as good as measured
            assert target <= choice.recall <= measured + 1e-12
            assert choice.recall == pytest.approx(measured, abs=SLACK)


def test_a_measured_recall_of_one_is_not_sure():
    curve = made_up()
    perfect = replace(curve, means=np.ones_like(curve.means), errors=np.zeros_like(curve.means))
    assert np.allclose(perfect.sure, 400 / (400 + SURE**2))
    many = replace(perfect, queries=40_000)
    assert (many.sure > perfect.sure).all()


def test_uncertain_measurements_ask_for_more():
    assert made_up(error=0.02).choose(10, 0.8).probes > made_up(error=0.0).choose(10, 0.8).probes


def test_what_is_out_of_reach_gives_the_best_there_is():
    curve = made_up(best=0.9)
    strict, relaxed = curve.choose(10, 0.95), curve.choose(10, 0.95, strict=False)
    assert strict.recall < 0.91
    assert strict.probes == 200
    # Unless the target is strict, the last half percent is not paid for at any price.
    assert relaxed.probes < strict.probes
    assert relaxed.recall > strict.recall - 0.01


def test_a_filter_asks_for_more_lists_but_not_more_candidates():
    curve = made_up()
    all_of_them, some = curve.choose(10, 0.9), curve.choose(10, 0.9, share=0.1)
    assert some.probes > all_of_them.probes
    assert some.rerank <= 4 * all_of_them.rerank


def test_more_results_than_were_measured_are_guessed():
    curve = made_up()
    hundred, thousand = curve.choose(100, 0.9), curve.choose(1000, 0.9)
    assert thousand.rerank >= 1000
    assert hundred.probes < thousand.probes <= 200
    assert candidates_for(2000, 1.0) == 2000
    assert candidates_for(100, 64.0) == MOST_CANDIDATES


@given(n=st.integers(1, 100_000))
def test_probes_to_measure_rise_to_all_lists(n):
    probes = probes_to_measure(n)
    assert probes[0] == 1
    assert probes[-1] == n
    assert list(probes) == sorted(set(probes))


def test_words_and_back():
    curve = made_up()
    again = RecallCurve.from_json(json.loads(json.dumps(curve.to_json())))
    assert np.allclose(again.means, curve.means, atol=1e-5)
    assert again.choose(10, 0.9) == pytest.approx(curve.choose(10, 0.9), rel=1e-3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("results", []),
        ("results", [1, 3, 3, 30, 100]),
        ("results", [0, 3, 10, 30, 100]),
        ("probes", "many"),
        ("probes", [1.5]),
        ("candidates", [2.0, 1.0]),
        ("candidates", [float("nan")] * len(CANDIDATES)),
        ("rows", [1.0]),
        ("means", [[[2.0]]]),
        ("means", None),
        ("errors", [[["x"]]]),
        ("queries", 0),
        ("queries", 1.5),
        ("kind", "guessed"),
    ],
)
def test_words_that_cannot_be_right_are_refused(field, value):
    words = made_up().to_json() | {field: value}
    with pytest.raises((ValueError, TypeError)):
        RecallCurve.from_json(words)


def test_numbers_out_of_range_are_refused():
    words = made_up().to_json()
    words["means"][0][0][0] = float("nan")
    with pytest.raises(ValueError, match="out of range"):
        RecallCurve.from_json(words)
