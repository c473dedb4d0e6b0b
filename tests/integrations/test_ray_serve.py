"""The example of a service, over HTTP, on a real cluster."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import ray_nodes  # before Ray, for which it sets variables

import pcpq

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
    ),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
pytest.importorskip("ray")
pytest.importorskip("fastapi")

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray_serve.py"


def ask(address, path, question):
    request = urllib.request.Request(
        f"{address}{path}", json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_a_service_answers_over_http_as_the_index_does(tmp_path, monkeypatch):
    from ray import cloudpickle, serve

    ray_nodes.cluster()
    vectors = np.random.default_rng(4).normal(size=(3000, 8)).astype(np.float32)
    index = pcpq.build(vectors, metric="cosine", attributes={"year": np.arange(3000)})
    index.save(tmp_path / "index")
    found = importlib.util.spec_from_file_location("ray_serve", EXAMPLE)
    example = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "ray_serve", example)
    found.loader.exec_module(example)
    cloudpickle.register_pickle_by_value(example)  # workers cannot import it
    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    try:
        service = example.SearchService.options(ray_actor_options={"num_cpus": 0})
        serve.run(service.bind(str(tmp_path / "index"), 2, 1, 0.1))
        address = f"http://127.0.0.1:{port}"
        settings = {"k": 5, "probes": 20, "where": "year >= 1000"}
        answer = ask(address, "/search", {"queries": vectors[:3].tolist(), **settings})
        expected = index.search(vectors[:3], **settings)
        assert [one["ids"] for one in answer["results"]] == expected.ids.tolist()
        np.testing.assert_array_equal(
            np.array([one["scores"] for one in answer["results"]], np.float32), expected.scores
        )
        assert answer["generation"] == [1]
        assert answer["missing"] == []
        for wrong in ({"queries": [[1.0, 2.0]]}, {"queries": []}, {"queries": [[0.0] * 8], "k": 0}):
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask(address, "/search", wrong)
            assert refused.value.code == 422
        with pcpq.open(tmp_path / "index", mode="a") as writer:
            writer.remove([0])
            writer.commit()
        assert ask(address, "/refresh", {}) == {"generation": [2], "vectors": 2999}
        assert 0 not in ask(address, "/search", {"queries": vectors[:1].tolist()})["results"][0]["ids"]
    finally:
        serve.shutdown()
