"""Addresses of the page: its files, its data, and errors as JSON."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from pcpq.explore.guard import Guard, Json, refusal
from pcpq.explore.parameters import parsed, wanted_search
from pcpq.explore.view import View

# The only files that are served, by their name in the address: no path of a request reaches the file system.
FILES = {
    "": ("page.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
    "elements.js": ("elements.js", "text/javascript"),
    "charts.js": ("charts.js", "text/javascript"),
    "map.js": ("map.js", "text/javascript"),
    "results.js": ("results.js", "text/javascript"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
MOST_BODY = 1 << 16
MOST_QUERY = 1 << 12
# Errors of wrong input, of files that have changed and of missing packages. Any other is a bug.
EXPECTED = (ValueError, OSError, LookupError, ImportError, MemoryError, NotImplementedError)
log = logging.getLogger("pcpq.explore")

Endpoint = Callable[[Request], Awaitable[Response]]


def make_application(view: View, token: str) -> Guard:
    """Return the application that shows a view to those who know the token."""
    routes = [Route(f"/{name}", file_at(*file)) for name, file in FILES.items()]
    routes += [
        Route("/data/overview", answering(lambda _: view.overview)),
        Route("/data/map", answering(lambda _: view.map)),
        Route("/data/colours", answering(lambda request: lambda: view.colours(colour_in(request)))),
        Route("/data/search", searching(view), methods=["POST"]),
    ]
    application = Starlette(routes=routes, exception_handlers={HTTPException: refused})
    application.router.redirect_slashes = False
    return Guard(application, token)


def file_at(name: str, kind: str) -> Endpoint:
    """Return an endpoint that answers with a file of this package."""
    body = (files("pcpq.explore") / name).read_bytes()

    async def endpoint(request: Request) -> Response:
        return Response(body, media_type=kind)

    return endpoint


def answering(asked: Callable[[Request], Callable[[], Any]]) -> Endpoint:
    """Return an endpoint that answers with JSON; the work is done in a thread."""

    async def endpoint(request: Request) -> Response:
        return await answer(lambda: asked(request)())

    return endpoint


def searching(view: View) -> Endpoint:
    """Return the endpoint of searches."""

    async def endpoint(request: Request) -> Response:
        try:
            body = await body_of(request)
        except ClientDisconnect:
            return Response(status_code=400)
        return await answer(lambda: view.search(wanted_search(parsed(body))))

    return endpoint


async def answer(work: Callable[[], Any]) -> Response:
    """Do the work in a thread and return its result; an error is JSON with one line, never a traceback."""
    try:
        return Json(await run_in_threadpool(work))
    except EXPECTED as error:
        status = 404 if isinstance(error, LookupError) else 400
        return refusal(status, message_of(error))
    except Exception:
        log.exception("an answer failed")
        return refusal(500, "this is a bug in pcpq: the terminal shows the details")


def message_of(error: BaseException) -> str:
    """Return the message of an error as one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error.args[0]) if isinstance(error, LookupError) and error.args else str(error)
    return " ".join(text.split())[:1000] or type(error).__name__


async def refused(request: Request, error: Exception) -> Response:
    """Return an error of an address or a method as JSON."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = error.detail if isinstance(error, HTTPException) else "error"
    return refusal(status, message)


def colour_in(request: Request) -> str | None:
    """Return the attribute that the map is coloured by; None: by list."""
    if len(request.url.query) > MOST_QUERY:
        raise ValueError(f"the query has more than {MOST_QUERY:,} characters")
    return request.query_params.get("by")


async def body_of(request: Request) -> bytes:
    """Return the body of a request of JSON, unless it is too long."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "expected a body of application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY:
            raise HTTPException(413, f"the request has more than {MOST_BODY:,} bytes")
    return bytes(body)
