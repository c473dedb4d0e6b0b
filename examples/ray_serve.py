"""A search service on a Ray cluster, with an HTTP endpoint whose requests and responses have types.

    PCPQ_TOKEN=... python examples/ray_serve.py words.pcpq --shards 2 --replicas 2 --allow-where
    curl -X POST http://127.0.0.1:8000/search -H "Authorization: Bearer $PCPQ_TOKEN" \
         -H 'Content-Type: application/json' -d '{"queries": [[0.1, 0.2, 0.3]], "k": 3, "where": "year > 2020"}'

Actors hold the index; the service only asks them. `POST /refresh` goes on to what was committed since, while
searches go on; it needs a token. Without a token anyone who reaches the port can search. Conditions are off
unless they are allowed: they cost more than a search, so they have limits and few threads of their own. The
types are at http://127.0.0.1:8000/docs.
"""

# Types stay types here, not text: FastAPI reads them where this module may not be there.
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

# Of a request.
MOST_BYTES = 8 << 20
MOST_QUERIES, MOST_RESULTS, MOST_IDS = 1000, 100_000, 100_000
# Requests and searches at once; of those with a condition, how many run, how many wait, and their limits.
MOST_REQUESTS, THREADS, CONDITION_THREADS, CONDITIONS_WAITING = 100, 8, 2, 8
LIMITS = WhereLimits(seconds=2.0, memory=256 << 20, length=10_000)
TOKEN = "PCPQ_TOKEN"

Message = dict[str, Any]
Id = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Ids = Annotated[list[Id], Field(max_length=MOST_IDS)] | Annotated[list[str], Field(max_length=MOST_IDS)]


@dataclass(frozen=True)
class Settings:
    """What the operator decides; of the token, only a digest goes to the cluster."""

    path: str
    shards: int = 1
    replicas: int = 1
    num_cpus: float = 1.0
    allow_where: bool = False
    digest: bytes | None = None


class SearchRequest(BaseModel):
    """What to search for."""

    model_config = ConfigDict(extra="forbid")

    queries: list[list[FiniteFloat]] = Field(
        min_length=1, max_length=MOST_QUERIES, description="one list of numbers a query"
    )
    k: int = Field(10, ge=1, le=10_000)
    target_recall: float | None = Field(None, gt=0, le=1)
    probes: int | None = Field(None, ge=1, le=1_000_000)
    rerank: int | None = Field(None, ge=1, le=100_000)
    filter: Ids | None = Field(None, description="ids that may be found")
    exclude: Ids | None = Field(None, description="ids that may not")
    where: str | None = Field(None, max_length=LIMITS.length, description="a condition on attributes")
    partial: bool = Field(False, description="answer even if a shard is gone, and say which")


class Neighbours(BaseModel):
    """The answer to one query, best first; shorter than k where fewer are found."""

    ids: list[int] | list[str]
    scores: list[float]


class SearchResponse(BaseModel):
    """All answers, and by which generation of the index."""

    results: list[Neighbours]
    generation: list[int]
    missing: list[str]


class Generation(BaseModel):
    """What searches see now."""

    generation: list[int]
    vectors: int


class Guard:
    """Before anything of a request is read: the token, if there is one, and the size."""

    def __init__(self, app: Any, digest: bytes | None) -> None:
        self.app, self.digest = app, digest

    async def __call__(self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Any) -> None:
        """Pass a request on, or refuse it."""
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
        """Whether a header has the token; how long that takes tells nothing of it."""
        kind, _, token = header.partition(b" ")
        right = hmac.compare_digest(digest_of(token.strip()), self.digest or b"")
        return right and kind.lower() == b"bearer"


def limited(receive: Callable[[], Awaitable[Message]]) -> Callable[[], Awaitable[Message]]:
    """For bodies that do not say how long they are."""
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
    """Of the same length for every token."""
    return hashlib.sha256(token).digest()


async def refused(request: Request, error: Exception) -> Response:
    """What is wrong with a request, without quoting it: not everything in it can be sent back."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    detail = [{"loc": [str(part) for part in one["loc"]], "msg": str(one["msg"])} for one in found[:20]]
    return Response(json.dumps({"detail": detail}), 422, media_type="application/json")


def service(settings: Settings, **options: Any) -> Any:
    """The service as Ray Serve runs it; `options` are those of a deployment."""
    app = FastAPI(title="pcpq")
    app.add_middleware(Guard, digest=settings.digest)
    app.add_exception_handler(RequestValidationError, refused)

    # With few requests at once, slow ones would keep all others waiting.
    @serve.deployment(max_ongoing_requests=MOST_REQUESTS)
    @serve.ingress(app)
    class SearchService:
        """One index for all requests."""

        def __init__(self) -> None:
            self.index = ShardedIndex.open(
                settings.path,
                shards=settings.shards,
                replicas=settings.replicas,
                num_cpus=settings.num_cpus,
            )
            self.threads = ThreadPoolExecutor(THREADS)
            # Of their own: slow conditions leave the others to searches without any.
            self.condition_threads = ThreadPoolExecutor(CONDITION_THREADS)
            self.conditions = 0

        @app.post("/search")
        async def search(self, request: SearchRequest) -> SearchResponse:
            """The best vectors for each query."""
            if request.where is not None and not settings.allow_where:
                raise HTTPException(403, "conditions are off: see --allow-where")
            if len(request.queries) * request.k > MOST_RESULTS:
                raise HTTPException(422, f"{len(request.queries)} queries for {request.k}: too many results")
            try:
                queries = np.array(request.queries, np.float32)
                found = await self.found(queries, request)
            except (ValueError, TimeoutError) as error:  # numbers that are no matrix, dimensions, conditions
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
            """What shards find, asked in a thread."""
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
            """Go on to the newest generation on disk."""
            if settings.digest is None:
                raise HTTPException(403, "only with a token: see --token-file")
            try:
                await asyncio.to_thread(self.index.refresh)
            except ShardLostError as error:
                raise HTTPException(503, str(error)) from error
            return Generation(generation=list(self.index.generation), vectors=len(self.index))

    return SearchService.options(**options).bind()  # type: ignore[attr-defined]


def token_of(file: Path | None) -> bytes | None:
    """The digest of the token in a file or in the environment; None without one."""
    token = os.environ.get(TOKEN, "").encode() if file is None else file.read_bytes()
    if file is not None and not token.strip():
        raise SystemExit(f"{file} holds no token")
    return digest_of(token.strip()) if token.strip() else None


def main() -> None:
    """Serve until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", help="a directory that all nodes see")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--allow-where", action="store_true", help="let requests have conditions on attributes")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"all requests need its token (default: ${TOKEN}, if set)",
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
