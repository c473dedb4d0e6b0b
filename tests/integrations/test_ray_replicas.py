"""The order in which replicas are asked."""

from __future__ import annotations

import gc
import threading

import pytest
import ray_nodes  # noqa: F401  (before Ray, for which it sets variables)

pytest.importorskip("ray")

from pcpq.integrations.ray.replicas import Question, Replicas

pytestmark = pytest.mark.ray


def test_questions_go_to_the_replica_with_the_least_load():
    replicas = Replicas("shard", ["a", "b", "c"])
    assert [replicas.order(work)[0] for work in (500, 100, 10)] == [0, 1, 2]
    assert [replicas.order(50)[0] for _ in range(3)] == [2, 2, 1]
    replicas.done(0, 500)
    assert replicas.order(1)[0] == 0


def test_replicas_of_equal_load_alternate():
    replicas = Replicas("shard", ["a", "b"])
    asked = []
    for _ in range(4):
        asked.append(replicas.order(1)[0])
        replicas.done(asked[-1], 1)
    assert asked == [0, 1, 0, 1]


def test_a_replica_that_failed_lately_is_asked_last():
    replicas = Replicas("shard", ["a", "b", "c"])
    replicas.failed(0)
    assert replicas.order(1000)[-1] == 0
    assert replicas.order(1000)[-1] == 0


def test_an_abandoned_question_is_no_load():
    asked = []
    replicas = Replicas("shard", ["a", "b"])
    question = Question(replicas, asked.append, asked.append, work=100)
    assert [Question(replicas, asked.append, asked.append).reference for _ in range(3)] == [None] * 3
    assert asked == ["a", "b", "b", "b"]
    del question
    gc.collect()
    assert replicas.order(1)[0] == 0


def test_a_question_may_be_collected_while_another_one_is_asked():
    """Python may collect garbage at any time, also while the same thread chooses a replica."""
    replicas = Replicas("shard", ["a"])
    questions = [Question(replicas, lambda actor: actor, lambda actor: actor)]

    def collect():
        with replicas._lock:
            questions.clear()

    collecting = threading.Thread(target=collect, daemon=True)
    collecting.start()
    collecting.join(timeout=10)
    assert not collecting.is_alive()
