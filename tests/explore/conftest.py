"""Fixtures: indexes of every kind, and a server that shows one of them."""

import http.client
import json
import threading
from datetime import date
from urllib.parse import urlsplit

import numpy as np
import pytest
from explore_shapes import HOSTILE, LARGE

import pcpq
from pcpq.explore import Queries, View


@pytest.fixture(scope="session")
def rows():
    """(2500, 16) float32: more than are searched exactly."""
    generator = np.random.default_rng(5)
    middles = generator.normal(size=(30, 16))
    found = middles[generator.integers(30, size=2500)] + 0.5 * generator.normal(size=(2500, 16))
    return found.astype(np.float32)


@pytest.fixture(scope="session")
def stored(rows, tmp_path_factory):
    """Indexes that no test changes, by name."""
    pytest.importorskip("duckdb")
    folder = tmp_path_factory.mktemp("explored")
    n = len(rows)
    names = [f"word{i}" for i in range(n)]
    attributes = {
        "even": [i % 2 == 0 for i in range(n)],
        "place": list(range(n)),
        "kind": ["ab"[i % 2] for i in range(n)],
    }
    pcpq.build(rows, names, metric="cosine", attributes=attributes).save(folder / "words")
    pcpq.build(rows, metric="euclidean").save(folder / "numbers")
    pcpq.build(rows, metric="dot", keep=None).save(folder / "codes")
    pcpq.build(rows[:300], np.arange(300) + LARGE - 299, metric="cosine").save(folder / "few")
    pcpq.Index(metric="cosine").fit(rows).save(folder / "empty")
    strange = {
        HOSTILE: [HOSTILE] * 40,
        "bytes": [b"\x00\xff" * 400] * 40,
        "day": [date(2024, 2, 29)] * 40,
        "nested": [{"a": [{"b": HOSTILE}, None]}] * 40,
        "long": ["x" * 100_000] * 40,
        "odd": [float("nan"), float("inf"), None, 1.5] * 10,
    }
    ids = [f"{HOSTILE}{i}" for i in range(40)]
    pcpq.build(rows[:40], ids, metric="dot", attributes=strange).save(folder / "hostile")
    return folder


class Served:
    """A running server, and requests to it."""

    def __init__(self, server):
        self.address, self.port = server.address, server.port
        self.token = urlsplit(server.address).path.strip("/")

    def request(self, method="GET", path="", body=None, whole=None, **headers):
        """Status, headers and body; `whole` is a path without the token."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.putrequest(
                method, f"/{self.token}/{path}" if whole is None else whole, skip_host="Host" in sent
            )
            if body is not None:
                sent.setdefault("Content-Type", "application/json")
                sent.setdefault("Content-Length", str(len(body)))
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def data(self, path):
        status, _, body = self.request(path=f"data/{path}")
        assert status == 200, body
        return json.loads(body, parse_constant=pytest.fail)

    def search(self, expected=200, **fields):
        status, _, body = self.request("POST", "data/search", json.dumps(fields).encode())
        assert status == expected, body
        return json.loads(body, parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def serve(stored, rows):
    """Serve an index by its name, once for all tests of a module; no file of it may change."""
    pytest.importorskip("uvicorn")
    from pcpq.explore.server import Server

    running, before = {}, contents(stored)

    def serve(name):
        if name not in running:
            queries = Queries("queries.npy", rows[:7] + np.float32(0.01), [f"query {i}" for i in range(7)])
            index = pcpq.open(stored / name)
            server = Server(View(index, name, queries if name in ("words", "codes") else None))
            thread = threading.Thread(target=server.run)
            thread.start()
            running[name] = index, server, thread, Served(server)
        return running[name][3]

    yield serve
    for index, server, thread, _ in running.values():
        server.stop()
        thread.join(timeout=30)
        assert not thread.is_alive()
        index.close()
    assert contents(stored) == before


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
