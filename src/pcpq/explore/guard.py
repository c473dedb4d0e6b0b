"""Refuses requests that do not come from the page, and adds the headers of every response.

The server listens on 127.0.0.1, but other programs and every site that a browser shows can send requests there.
They do not know the token, which is part of the address. A site that lets its own name point to 127.0.0.1 (DNS
rebinding) sends that name as Host. The token is in no cookie: a browser sends cookies to every port of a host.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response

from pcpq.explore.values import as_json

# Any port: a tunnel may begin at another one than the server's.
HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Json(Response):
    """A response of JSON values."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return as_json(content)


class Guard:
    """The application behind a token, for requests of its own page only."""

    def __init__(self, application: Any, token: str) -> None:
        self._application, self._token = application, token.encode("ascii")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] != "http":  # the server has neither websockets nor a lifespan
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._refusal(scope)
        if refused is not None:
            await refused(scope, receive, send_with_headers)
        else:
            await self._application(without_token(scope), receive, send_with_headers)

    def _refusal(self, scope: Any) -> Response | None:
        """Return the answer to a request that is refused; None if it is allowed."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not HOST.fullmatch(hosts[0].lower()):
            return refusal(421, "this server answers to 127.0.0.1 and localhost only")
        origins = headers.getlist("origin")
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return refusal(403, "requests of other sites are refused")
        token, slash, _ = scope["path"].removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode("utf-8", "surrogatepass"), self._token):
            return refusal(403, "the token is missing or wrong: open the address that pcpq explore printed")
        return None if slash else RedirectResponse(f"/{token}/", 308)


def refusal(status: int, message: str) -> Json:
    """Return an error as JSON."""
    return Json({"error": message}, status)


def without_token(scope: Any) -> Any:
    """Return the scope of a request whose path begins after the token."""
    rest = "/" + scope["path"].removeprefix("/").partition("/")[2]
    return {**scope, "path": rest, "raw_path": rest.encode("utf-8", "surrogatepass"), "root_path": ""}
