"""A search service on a Ray cluster with a typed HTTP endpoint.

    PCPQ_TOKEN=... python examples/ray_serve.py words.pcpq --shards 2 --replicas 2 --allow-where
    curl -X POST http://127.0.0.1:8000/search -H "Authorization: Bearer $PCPQ_TOKEN" \
         -H 'Content-Type: application/json' -d '{"queries": [[0.1, 0.2, 0.3]], "k": 3, "where": "year > 2020"}'

Ray actors hold the index; the service sends queries to them. `POST /refresh` loads the newest commit while
searches continue; it requires a token. Without a token, any client that reaches the port can search. Conditions
(`where`) are disabled unless --allow-where is given: they cost more than a search, so they have limits and few
threads of their own. http://127.0.0.1:8000/docs shows the types of requests and responses.
"""

# No `from __future__ import annotations`: FastAPI evaluates the types where this module cannot be imported.
import argparse
import asyncio
import functools
import hashlib
import hmac
import json
import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from ray import serve

from pcpq import WhereLimits
from pcpq.integrations.ray import ShardedIndex, ShardLostError

# Limits of a request.
MOST_BYTES = 8 << 20
MOST_QUERIES, MOST_RESULTS, MOST_IDS = 1000, 100_000, 100_000
# Concurrent requests and searches; running and waiting conditions, and their limits.
MOST_REQUESTS, THREADS, CONDITION_THREADS, CONDITIONS_WAITING = 100, 8, 2, 8
LIMITS = WhereLimits(seconds=2.0, memory=256 << 20, length=10_000)
TOKEN = "PCPQ_TOKEN"

Message = dict[str, Any]
Id = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Ids = Annotated[list[Id], Field(max_length=MOST_IDS)] | Annotated[list[str], Field(max_length=MOST_IDS)]


@dataclass(frozen=True)
class Settings:
    """Settings of the service. Only a digest of the token is sent to the cluster."""

    path: str
    shards: int = 1
    replicas: int = 1
    num_cpus: float = 1.0
    allow_where: bool = False
    digest: bytes | None = None


class SearchRequest(BaseModel):
    """Queries and options of a search."""

    model_config = ConfigDict(extra="forbid")

    queries: list[list[FiniteFloat]] = Field(
        min_length=1, max_length=MOST_QUERIES, description="one list of numbers per query"
    )
    k: int = Field(10, ge=1, le=10_000)
    target_recall: float | None = Field(None, gt=0, le=1)
    probes: int | None = Field(None, ge=1, le=1_000_000)
    rerank: int | None = Field(None, ge=1, le=100_000)
    filter: Ids | None = Field(None, description="ids that may be found")
    exclude: Ids | None = Field(None, description="ids that must not be found")
    where: str | None = Field(None, max_length=LIMITS.length, description="SQL condition on attributes")
    partial: bool = Field(False, description="return results even if a shard is lost, and name it")


class Neighbours(BaseModel):
    """Results of one query, best first; fewer than k if fewer are found."""

    ids: list[int] | list[str]
    scores: list[float]


class SearchResponse(BaseModel):
    """Results of all queries, and the generation of the index."""

    results: list[Neighbours]
    generation: list[int]
    missing: list[str]


class Generation(BaseModel):
    """The generation that searches see now."""

    generation: list[int]
    vectors: int


class Guard:
    """Checks the token, if there is one, and the size, before the body of a request is read."""

    def __init__(self, app: Any, digest: bytes | None) -> None:
        self.app, self.digest = app, digest

    async def __call__(self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Any) -> None:
        """Forward a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        size = headers.get(b"content-length", b"0")
        if self.digest is not None and not self.knows(headers.get(b"authorization", b"")):
            await Response("a token is needed", 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        elif not size.isdigit() or int(size[:20]) > MOST_BYTES:
            await Response(f"more than {MOST_BYTES} bytes", 413)(scope, receive, send)
        else:
            await self.app(scope, limited(receive), send)

    def knows(self, header: bytes) -> bool:
        """Whether a header has the right token, compared in constant time."""
        kind, _, token = header.partition(b" ")
        right = hmac.compare_digest(digest_of(token.strip()), self.digest or b"")
        return right and kind.lower() == b"bearer"


def limited(receive: Callable[[], Awaitable[Message]]) -> Callable[[], Awaitable[Message]]:
    """Limit the size of bodies without a content length."""
    read = 0

    async def some() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > MOST_BYTES:
            raise HTTPException(413, f"more than {MOST_BYTES} bytes")
        return message

    return some


def digest_of(token: bytes) -> bytes:
    """A digest of a token, of constant length."""
    return hashlib.sha256(token).digest()


async def refused(request: Request, error: Exception) -> Response:
    """Report what is wrong with a request, without quoting it: not all of it can be sent back."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    detail = [{"loc": [str(part) for part in one["loc"]], "msg": str(one["msg"])} for one in found[:20]]
    return Response(json.dumps({"detail": detail}), 422, media_type="application/json")


def service(settings: Settings, **options: Any) -> Any:
    """The Ray Serve application; `options` are options of a deployment."""
    app = FastAPI(title="pcpq")
    app.add_middleware(Guard, digest=settings.digest)
    app.add_exception_handler(RequestValidationError, refused)

    # With few concurrent requests, slow ones would block all others.
    @serve.deployment(max_ongoing_requests=MOST_REQUESTS)
    @serve.ingress(app)
    class SearchService:
        """Serves one index."""

        def __init__(self) -> None:
            self.index = ShardedIndex.open(
                settings.path,
                shards=settings.shards,
                replicas=settings.replicas,
                num_cpus=settings.num_cpus,
            )
            self.threads = ThreadPoolExecutor(THREADS)
            # Separate threads: slow conditions do not block searches without one.
            self.condition_threads = ThreadPoolExecutor(CONDITION_THREADS)
            self.conditions = 0

        @app.post("/search")
        async def search(self, request: SearchRequest) -> SearchResponse:
            """Find the best vectors for each query."""
            if request.where is not None and not settings.allow_where:
                raise HTTPException(403, "conditions are disabled: see --allow-where")
            if len(request.queries) * request.k > MOST_RESULTS:
                raise HTTPException(422, f"{len(request.queries)} queries for {request.k}: too many results")
            try:
                queries = np.array(request.queries, np.float32)
                found = await self.found(queries, request)
            except (ValueError, TimeoutError) as error:  # ragged rows, wrong dimensions, conditions
                raise HTTPException(422, str(error)) from error
            if found.missing and not request.partial:
                raise HTTPException(503, f"gone: {', '.join(found.missing)}")
            results = []
            for scores, ids in zip(found.scores, found.ids, strict=True):
                there = np.isfinite(scores)
                results.append(Neighbours(ids=ids[there].tolist(), scores=scores[there].tolist()))
            return SearchResponse(
                results=results, generation=list(self.index.generation), missing=list(found.missing)
            )

        async def found(self, queries: Any, request: SearchRequest) -> Any:
            """Search in a thread."""
            asked = request.model_dump(exclude={"queries", "partial"})
            work = functools.partial(self.index.search, queries, partial=True, where_limits=LIMITS, **asked)
            loop = asyncio.get_running_loop()
            if request.where is None:
                return await loop.run_in_executor(self.threads, work)
            if self.conditions >= CONDITION_THREADS + CONDITIONS_WAITING:
                raise HTTPException(503, "too many conditions at once: try again")
            self.conditions += 1
            try:
                return await loop.run_in_executor(self.condition_threads, work)
            finally:
                self.conditions -= 1

        @app.post("/refresh")
        async def refresh(self) -> Generation:
            """Load the newest commit."""
            if settings.digest is None:
                raise HTTPException(403, "requires a token: see --token-file")
            try:
                await asyncio.to_thread(self.index.refresh)
            except ShardLostError as error:
                raise HTTPException(503, str(error)) from error
            return Generation(generation=list(self.index.generation), vectors=len(self.index))

    return SearchService.options(**options).bind()  # type: ignore[attr-defined]


def token_of(file: Path | None) -> bytes | None:
    """The digest of the token in a file or in the environment; None without a token."""
    token = os.environ.get(TOKEN, "").encode() if file is None else file.read_bytes()
    if file is not None and not token.strip():
        raise SystemExit(f"{file} holds no token")
    return digest_of(token.strip()) if token.strip() else None


def main() -> None:
    """Serve until the process is stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", help="directory of the index, which all nodes see")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--allow-where", action="store_true", help="allow conditions on attributes in requests")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"file with a token that all requests need (default: ${TOKEN}, if set)",
    )
    given = parser.parse_args()
    serve.run(
        service(
            Settings(
                given.index,
                given.shards,
                given.replicas,
                allow_where=given.allow_where,
                digest=token_of(given.token_file),
            )
        )
    )
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
