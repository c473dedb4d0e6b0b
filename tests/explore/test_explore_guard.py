"""Attacks on `pcpq explore`: other sites, other programs, and requests that are not what they should be."""

import json
import socket

import pytest

from pcpq.explore.application import MOST_BODY

SAFE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
}


def error_of(answer, status):
    """The message of an error, which is JSON with one line."""
    assert answer[0] == status, answer
    assert answer[1]["content-type"] == "application/json"
    found = json.loads(answer[2])
    assert list(found) == ["error"]
    assert "Traceback" not in found["error"]
    return found["error"]


def assert_safe(headers):
    assert {name: headers.get(name) for name in SAFE} == SAFE
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "set-cookie" not in headers
    assert "server" not in headers
    assert not any(name.startswith("access-control") for name in headers)


@pytest.mark.parametrize("path", ["", "page.css", "page.js", "data/overview", "data/map", "data/colours"])
def test_without_the_token_nothing_is_served(serve, path):
    words = serve("words")
    wrong = words.token[:-1] + ("A" if words.token[-1] != "A" else "B")
    for token in (
        "",
        wrong,
        words.token.lower() + "x",
        words.token + "x",
        words.token[:-1],
        "%00",
        "%C3%A9",
        "%ff",
    ):
        assert "token" in error_of(words.request(whole=f"/{token}/{path}"), 403)
    assert "token" in error_of(words.request(whole=f"/{path}"), 403)
    assert "token" in error_of(words.request(whole=f"//{words.token}/{path}"), 403)
    assert words.request(path=path)[0] == 200


def test_searches_need_the_token(serve):
    body = b'{"id": "word1"}'
    assert "token" in error_of(serve("words").request("POST", body=body, whole="/data/search"), 403)
    for name in ("Cookie", "Authorization"):
        headers = {name: f"token={serve('words').token}"}
        assert "token" in error_of(
            serve("words").request("POST", body=body, whole="/data/search", **headers), 403
        )


def test_tokens_are_long_and_new_for_every_server(serve):
    tokens = {serve(name).token for name in ("words", "few", "empty")}
    assert len(tokens) == 3
    assert all(len(token) == 32 for token in tokens)


def test_tokens_are_compared_in_constant_time(serve, monkeypatch):
    from pcpq.explore import guard

    compared = []

    def compare(one, other):
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(guard.secrets, "compare_digest", compare)
    assert serve("words").request()[0] == 200
    assert len(compared) == 1


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "127.0.0.1@evil.example",
        "0.0.0.0",
        "127.0.0.2",
    ]
    + ["", "localhost.", "localhost:80:80", "127.0.0.1:port", "[::1]", "2130706433", "127.1", None],
)
def test_other_hosts_are_refused(serve, host):
    answer = serve("words").request(Host=host)
    if host is None:  # the server refuses HTTP/1.1 without a host by itself
        assert answer[0] == 400
    else:
        assert "127.0.0.1" in error_of(answer, 421)


def test_two_hosts_are_refused(serve):
    words = serve("words")
    text = f"GET /{words.token}/ HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n"
    assert raw(words, text).split()[1] in (b"400", b"421")
    assert raw(words, f"GET /{words.token}/ HTTP/1.0\r\n\r\n").split()[1] == b"421"
    assert raw(words, f"GET http://evil.example/{words.token}/ HTTP/1.1\r\nHost: evil.example\r\n\r\n").split()[
        1
    ] in (
        b"400",
        b"403",
        b"421",
    )


def raw(served, text):
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        connection.sendall(text.encode())
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while part := connection.recv(65536):
            found += part
    return found


def test_names_of_this_machine_are_hosts_also_through_a_tunnel(serve):
    for host in ("127.0.0.1", "localhost", "127.0.0.1:9", "LOCALHOST:65535"):
        assert serve("words").request(Host=host)[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", ""]
)
def test_other_origins_are_refused(serve, origin):
    words = serve("words")
    assert "other sites" in error_of(words.request(Origin=origin), 403)
    answer = words.request("POST", "data/search", b'{"id": "word1"}', Origin=origin)
    assert "other sites" in error_of(answer, 403)


def test_the_own_origin_is_allowed(serve):
    words = serve("words")
    origin = f"http://127.0.0.1:{words.port}"
    assert words.request("POST", "data/search", b'{"id": "word1"}', Origin=origin)[0] == 200
    status, headers, _ = words.request("OPTIONS", "data/search", Origin=origin)
    assert status == 405
    assert_safe(headers)


def test_every_answer_has_the_headers(serve):
    words = serve("words")
    answers = [words.request(path=path) for path in ("", "page.js", "data/overview", "nothing")]
    answers += [words.request(whole="/"), words.request(Host="evil.example"), words.request(Origin="null")]
    answers += [words.request("POST", "data/search", b"{"), words.request("DELETE", "data/search")]
    for _, headers, _ in answers:
        assert_safe(headers)


@pytest.mark.parametrize(
    "path",
    [
        "../page.html",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "view.py",
        "__init__.py",
        "/etc/passwd",
    ]
    + ["page.js/../view.py", "page.js%00.html", "..\\..\\x", "data", "data/", "static/page.css", "PAGE.JS"],
)
def test_paths_reach_nothing_but_the_files_of_the_page(serve, path):
    assert error_of(serve("words").request(path=path), 404)


def test_an_address_without_its_last_slash_leads_to_the_page(serve):
    words = serve("words")
    status, headers, _ = words.request(whole=f"/{words.token}")
    assert (status, headers["location"]) == (308, f"/{words.token}/")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "POST"])
def test_other_methods_are_refused(serve, method):
    assert error_of(serve("words").request(method, "data/overview"), 405)


def test_searches_are_posts_of_json(serve):
    words = serve("words")
    assert error_of(words.request("GET", "data/search"), 405)
    body = b'{"id": "word1"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert "json" in error_of(words.request("POST", "data/search", body, Content_Type=kind), 415)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"1", b"null", b'"id"', b"\xff\xfe", b'{"id": NaN}', b'{"id": "word1", "k": Infinity}']
    + [b"[" * 60_000, b'{"k": ' + b"9" * 60_000 + b"}", b'{"a":' * 12_000],
)
def test_bodies_that_are_no_json_object_are_refused(serve, body):
    assert error_of(serve("words").request("POST", "data/search", body), 400)


def test_long_bodies_are_refused(serve):
    words = serve("words")
    body = json.dumps({"id": "x" * MOST_BODY}).encode()
    assert "bytes" in error_of(words.request("POST", "data/search", body), 413)
    chunks = b"".join(b"1000\r\n" + b"x" * 0x1000 + b"\r\n" for _ in range(MOST_BODY // 0x1000 + 1))
    text = f"POST /{words.token}/data/search HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    text += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert raw(words, text + chunks.decode() + "0\r\n\r\n").split()[1] == b"413"


def test_a_bug_is_no_traceback(serve, monkeypatch, caplog):
    from pcpq.explore.view import View

    def fail(self):
        raise RuntimeError("secret")

    monkeypatch.setattr(View, "map", fail)
    message = error_of(serve("words").request(path="data/map"), 500)
    assert "secret" not in message
    assert "secret" in caplog.text


def test_only_this_machine_can_connect(serve):
    from pcpq.explore.server import listening

    with listening(0) as found:
        assert found.getsockname()[0] == "127.0.0.1"
    for address in others():
        with socket.socket() as other:
            other.settimeout(5)
            assert other.connect_ex((address, serve("words").port)) != 0


def others():
    """Addresses of this machine on networks."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    except OSError:
        return []
    return sorted({str(one[4][0]) for one in found if not str(one[4][0]).startswith("127.")})
