"""The example of a service, over HTTP, on a real cluster."""

from __future__ import annotations

import http.client
import importlib.util
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ray_nodes  # before Ray, for which it sets variables
from http_service import Service, free_port

import pcpq

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
    ),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
pytest.importorskip("ray")
pytest.importorskip("fastapi")

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray_serve.py"


N = 3000
TOKEN = "a token for tests"
# Some text to be slow on.
TEXT = "ab" * 2000


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(4).normal(size=(N, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def saved(vectors, tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "index"
    attributes = {"year": np.arange(N), "text": [TEXT] * N}
    pcpq.build(vectors, metric="cosine", attributes=attributes).save(path)
    return path


@pytest.fixture(scope="module")
def example():
    from ray import cloudpickle

    found = importlib.util.spec_from_file_location("ray_serve", EXAMPLE)
    module = importlib.util.module_from_spec(found)
    sys.modules["ray_serve"] = module
    found.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)  # workers cannot import it
    yield module
    del sys.modules["ray_serve"]


@pytest.fixture(scope="module")
def services(example, saved):
    """One that is open and has no conditions, one with a token and conditions."""
    from ray import serve

    ray_nodes.cluster()
    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    plain = example.Settings(str(saved), 2, 1, 0.1)
    guarded = replace(plain, shards=1, allow_where=True, digest=example.digest_of(TOKEN.encode()))
    options = {"ray_actor_options": {"num_cpus": 0}}
    serve.run(example.service(plain, **options), name="plain", route_prefix="/plain")
    serve.run(example.service(guarded, **options), name="guarded", route_prefix="/guarded")
    address = f"http://127.0.0.1:{port}"
    yield Service(f"{address}/plain"), Service(f"{address}/guarded", TOKEN)
    serve.shutdown()


def test_a_service_answers_over_http_as_the_index_does(services, saved, vectors):
    index = pcpq.open(saved)
    for service, more in zip(services, ({}, {"where": "year >= 1000"}), strict=True):
        settings = {"k": 5, "probes": 20, **more}
        status, answer = service.ask("/search", {"queries": vectors[:3].tolist(), **settings})
        assert status == 200
        expected = index.search(vectors[:3], **settings)
        assert [one["ids"] for one in answer["results"]] == expected.ids.tolist()
        scores = np.array([one["scores"] for one in answer["results"]], np.float32)
        np.testing.assert_array_equal(scores, expected.scores)
        assert answer["generation"] == [1]
        assert answer["missing"] == []


ONE = [0.5] * 8


@pytest.mark.parametrize(
    "question",
    [
        {"queries": [[1.0, 2.0]]},
        {"queries": []},
        {"queries": [[]]},
        {"queries": [ONE, ONE[:3]]},
        {"queries": ONE},
        {"queries": "text"},
        {"queries": [[float("nan")] * 8]},
        {"queries": [[float("inf")] * 8]},
        {"queries": [[1e300] * 8]},
        {"queries": [[10**400] * 8]},
        {"queries": [["0.5", None] * 4]},
        {"queries": [ONE] * 1001},
        {"queries": [ONE] * 1000, "k": 1000},
        {"queries": [ONE], "k": 0},
        {"queries": [ONE], "k": 10_001},
        {"queries": [ONE], "k": 1 << 70},
        {"queries": [ONE], "k": "many"},
        {"queries": [ONE], "k": float("nan")},
        {"queries": [ONE], "probes": 0},
        {"queries": [ONE], "rerank": 1 << 40},
        {"queries": [ONE], "target_recall": 2.0},
        {"queries": [ONE], "target_recall": 0.9, "probes": 3},
        {"queries": [ONE], "filter": [1 << 64]},
        {"queries": [ONE], "filter": ["a"]},
        {"queries": [ONE], "filter": ["\ud800"]},
        {"queries": [ONE], "exclude": ["\udfff"]},
        {"queries": [ONE], "where": "\ud800"},
        {"queries": [ONE], "where": "x" * 10_001},
        {"queries": [ONE], "where": 7},
        {"queries": [ONE], "threads": 64},
        {"queries": [ONE], "where_limits": {"seconds": 1000}},
        {"queries": [ONE], "\ud800": 1},
        {"k": 3},
        [],
        None,
    ],
)
def test_a_request_that_makes_no_sense_is_refused(services, question):
    status, answer = services[1].ask("/search", question)
    assert status == 422, answer
    assert answer["detail"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"queries": [[' + b"9" * 10_000 + b"]]}"]
)
def test_a_body_that_is_no_json_is_refused(services, body):
    assert services[0].send("/search", body)[0] in (400, 422)


@pytest.mark.parametrize(
    "where",
    [
        "error(text) IS NULL",
        "CAST(text AS INTEGER) = 1",
        "getenv('HOME') = ''",
        "(SELECT count(*) FROM read_csv('/etc/passwd')) > 0",
        "repeat(text, 1000000000) = ''",
        "nope = 1",
        "",
    ],
)
def test_a_hostile_condition_is_refused_and_tells_nothing(services, where):
    status, answer = services[1].ask("/search", {"queries": [ONE], "where": where})
    assert status == 422
    assert TEXT[:20] not in str(answer)


def test_conditions_are_off_unless_they_are_allowed(services):
    status, answer = services[0].ask("/search", {"queries": [ONE], "where": "year > 1"})
    assert (status, "disabled" in answer["detail"]) == (403, True)


def begin(service, header, value):
    """A request whose body is still to come."""
    host, _, path = service.address.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.putrequest("POST", f"/{path}/search")
    connection.putheader("Content-Type", "application/json")
    connection.putheader(header, value)
    connection.endheaders()
    return connection


def test_large_requests_are_refused(services):
    connection = begin(services[0], "Content-Length", str((8 << 20) + 1))
    assert connection.getresponse().status == 413  # before anything of it was sent
    connection.close()


def test_large_requests_without_a_length_are_refused(services):
    connection = begin(services[0], "Transfer-Encoding", "chunked")
    status = None
    try:
        for _ in range(1000):
            connection.send(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
    except ConnectionError:  # the rest is not read
        status = 413
    else:
        status = connection.getresponse().status
    assert status == 413
    connection.close()
    assert services[0].ask("/search", {"queries": [ONE]})[0] == 200


def test_a_token_is_needed_where_there_is_one(services):
    guarded = services[1]
    for path, method in (("/search", "POST"), ("/refresh", "POST"), ("/docs", "GET"), ("/openapi.json", "GET")):
        bare = Service(guarded.address)
        for token in (None, "another", TOKEN[:-1], TOKEN + "x", "\xff"):
            assert bare.send(path, b"{}" if method == "POST" else None, token, method)[0] == 401
    assert guarded.ask("/search", {"queries": [ONE]})[0] == 200


def test_refreshing_needs_a_token(services, saved, vectors):
    plain, guarded = services
    with pcpq.open(saved, mode="a") as writer:
        writer.add(vectors[:1], [N], attributes={"year": [0]})
        writer.commit()
        generation = writer._store.manifest.generation
    assert plain.ask("/refresh", {})[0] == 403
    assert guarded.ask("/refresh", {}) == (200, {"generation": [generation], "vectors": N + 1})
    assert plain.ask("/search", {"queries": [ONE]})[1]["generation"] == [generation - 1]


def test_slow_conditions_leave_other_searches_alone(services):
    slow = " OR ".join(f"sha256(substr(text, {n})) = ''" for n in range(270))
    statuses = []

    def work():
        statuses.append(services[1].ask("/search", {"queries": [ONE], "where": slow}))

    threads = [threading.Thread(target=work) for _ in range(14)]
    for thread in threads:
        thread.start()
    assert services[1].ask("/search", {"queries": [ONE]})[0] == 200
    assert sum(thread.is_alive() for thread in threads) >= 5
    for thread in threads:
        thread.join(120)
    found = [status for status, _ in statuses]
    assert set(found) == {422, 503}
    assert found.count(503) >= 1
    assert all("2 seconds of where_limits" in str(answer) for status, answer in statuses if status == 422)


def test_a_token_comes_from_a_file_or_the_environment(example, tmp_path, monkeypatch):
    monkeypatch.delenv("PCPQ_TOKEN", raising=False)
    assert example.token_of(None) is None
    monkeypatch.setenv("PCPQ_TOKEN", TOKEN)
    assert example.token_of(None) == example.digest_of(TOKEN.encode())
    (tmp_path / "token").write_text("from a file\n")
    assert example.token_of(tmp_path / "token") == example.digest_of(b"from a file")
    (tmp_path / "token").write_text("\n")
    with pytest.raises(SystemExit):
        example.token_of(tmp_path / "token")
