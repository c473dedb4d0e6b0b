"""A search service on a Ray cluster, with an HTTP endpoint whose requests and responses have types.

    python examples/ray_serve.py words.pcpq --shards 2 --replicas 2
    curl -X POST http://127.0.0.1:8000/search -H 'Content-Type: application/json' \
         -d '{"queries": [[0.1, 0.2, 0.3]], "k": 3, "where": "year > 2020"}'

Actors hold the index; the service only asks them. `POST /refresh` goes on to what was committed since, while
searches go on. The types are at http://127.0.0.1:8000/docs.
"""

# Types stay types here, not text: FastAPI reads them where this module may not be there.
import argparse
import asyncio
import time

import numpy as np
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field
from ray import serve

from pcpq.integrations.ray import ShardedIndex, ShardLostError

app = FastAPI(title="pcpq")


class SearchRequest(BaseModel):
    """What to search for."""

    queries: list[list[float]] = Field(min_length=1, description="one list of numbers a query")
    k: int = Field(10, ge=1, le=10_000)
    target_recall: float | None = Field(None, gt=0, le=1)
    probes: int | None = Field(None, ge=1)
    rerank: int | None = Field(None, ge=1)
    filter: list[int] | list[str] | None = Field(None, description="ids that may be found")
    exclude: list[int] | list[str] | None = Field(None, description="ids that may not")
    where: str | None = Field(None, description="a condition on attributes")
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


@serve.deployment
@serve.ingress(app)
class SearchService:
    """One index for all requests."""

    def __init__(self, path: str, shards: int, replicas: int, num_cpus: float = 1.0) -> None:
        self.index = ShardedIndex.open(path, shards=shards, replicas=replicas, num_cpus=num_cpus)

    @app.post("/search")
    async def search(self, request: SearchRequest) -> SearchResponse:
        """The best vectors for each query."""
        settings = request.model_dump(exclude={"queries", "partial"})
        try:
            queries = np.array(request.queries, np.float32)
            found = await asyncio.to_thread(self.index.search, queries, partial=True, **settings)
        except ValueError as error:  # numbers that are no matrix, dimensions, conditions
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

    @app.post("/refresh")
    async def refresh(self) -> Generation:
        """Go on to the newest generation on disk."""
        try:
            await asyncio.to_thread(self.index.refresh)
        except ShardLostError as error:
            raise HTTPException(503, str(error)) from error
        return Generation(generation=list(self.index.generation), vectors=len(self.index))


def main() -> None:
    """Serve until somebody stops it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", help="a directory that all nodes see")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=1)
    options = parser.parse_args()
    serve.run(SearchService.bind(options.index, options.shards, options.replicas))  # type: ignore[attr-defined]
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
