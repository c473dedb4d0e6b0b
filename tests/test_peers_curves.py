"""Curves of the peers benchmark: which settings are measured, and what is stored of them."""

from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.repository

N = 200


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    import peers_curves
    import peers_indexes
    import peers_tuning

    return peers_curves, peers_indexes, peers_tuning


def made_up_contestant(indexes):
    """An index that finds the true neighbours of a share of queries that grows with the width."""

    class Growing(indexes.Contestant):
        package = module = "numpy"
        reranks = (20, 10)

        def build(self, vectors, metric):
            self.count = len(vectors)

        def configure(self, setting):
            missed = np.exp(-setting.width / (40 if setting.rerank >= 20 else 60))
            self.missed = max(missed, 0.01)  # no setting finds more

        def search(self, queries):
            found = np.repeat(queries[:, :1].astype(np.int64) * indexes.K, indexes.K, 1) + np.arange(indexes.K)
            order = np.random.default_rng(0).permutation(len(queries))
            found[order[: round(self.missed * len(queries))]] = -1
            return found

        def search_one(self, query):
            return np.arange(indexes.K) + int(query[0]) * indexes.K

        def bytes_per_vector(self):
            return 100.04

    return Growing


@pytest.fixture
def traced(bench):
    """The tuner of the contestant above, and its curves."""
    curves, indexes, tuning = bench
    entry = indexes.Entry("growing", made_up_contestant(indexes), [{}])
    rows = np.arange(N, dtype=np.float32)[:, None]
    queries = tuning.Queries(rows, np.arange(N * indexes.K).reshape(N, indexes.K))
    tuner = tuning.Tuner(entry, rows, "dot", queries)
    chosen = tuner.choose([0.9, 0.95], [500], thorough=False)
    return tuner, curves.trace(tuner, chosen), queries


def test_a_curve_rises_from_half_to_what_can_be_reached(traced):
    _, curves, _ = traced
    for points in curves.values():
        recalls = [point.recall for point in points]
        assert recalls == sorted(recalls)
        assert len(set(recalls)) >= 12
        assert recalls[0] == pytest.approx(0.5, abs=0.02)
        assert recalls[-1] == pytest.approx(0.99)


def test_settings_that_are_too_slow_are_left_out(bench, traced, monkeypatch):
    curves, _, _ = bench
    tuner, _, _ = traced
    monkeypatch.setattr(curves, "SLOWEST", 0.0)
    assert curves.trace(tuner, {}) == {"batch": [], "single": []}


def test_points_have_settings_recall_and_the_interval_of_the_rounds(bench, traced):
    curves, _, _ = bench
    _, found, queries = traced
    some = {mode: {"growing": points[:2]} for mode, points in found.items()}
    batch, single = curves.report_curves(some, queries, 3)
    assert (batch["mode"], single["mode"], batch["queries"]) == ("batch", "single", N)
    for point, candidate in zip(batch["contestants"]["growing"], found["batch"], strict=False):
        assert point["recall"] == pytest.approx(candidate.recall, abs=1e-4)
        assert (point["width"], point["rerank"]) == (candidate.setting.width, candidate.setting.rerank)
        assert point["qps_interval"][0] <= point["qps"] <= point["qps_interval"][1]
        assert point["bytes_per_vector"] == 100.0
    assert single["contestants"]["growing"][0]["recall"] == 1.0  # as single queries have it, not the batch
