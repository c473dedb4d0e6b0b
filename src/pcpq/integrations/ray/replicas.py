"""Who is asked, and who is asked instead: several actors hold the same shard, and any of them may die."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

import ray
from ray.exceptions import (
    GetTimeoutError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayTaskError,
    TaskCancelledError,
    WorkerCrashedError,
)

from pcpq.integrations.ray.shard import GenerationGoneError
from pcpq.integrations.ray.wire import joined

# What says that an actor or its node is gone, not that a question was wrong.
DIED = (
    RayActorError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    TaskCancelledError,
    WorkerCrashedError,
    GetTimeoutError,
)
# Seconds between two rounds of asking all replicas, and for which one that failed is asked last.
PAUSE = 0.1
AVOIDED = 2.0


class ShardLostError(RuntimeError):
    """No replica of a shard answers."""


class Replicas:
    """Actors that hold the same shard."""

    def __init__(self, name: str, actors: Iterable[Any]) -> None:
        self.name, self.actors = name, list(actors)
        self._turn = itertools.count()
        self._failed = [-AVOIDED] * len(self.actors)

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which takes turns of its own."""
        return {"name": self.name, "actors": self.actors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """With all of them well, as far as anybody knows."""
        self.__init__(**state)  # type: ignore[misc]

    def order(self) -> list[int]:
        """Whom to ask first, and then: in turns, those that failed lately last."""
        n, first, now = len(self.actors), next(self._turn), time.monotonic()
        return sorted(((first + i) % n for i in range(n)), key=lambda i: now - self._failed[i] < AVOIDED)

    def failed(self, number: int) -> None:
        """Ask somebody else for a while."""
        self._failed[number] = time.monotonic()


class Question:
    """One thing that is asked of one shard, until somebody answers."""

    def __init__(self, replicas: Replicas, ask: Callable[[Any], Any], bring: Callable[[Any], Any]) -> None:
        self.replicas, self._ask, self._bring = replicas, ask, bring
        self._order = replicas.order()
        self.reference = ask(replicas.actors[self._order[0]])

    def answer(self, patience: float, attempt: float) -> Any:
        """What one of the replicas says; ShardLostError if none does for so many seconds."""
        deadline, problem = time.monotonic() + patience, None
        reference: Any = self.reference
        while True:
            for number in self._order:
                actor = self.replicas.actors[number]
                try:
                    reference = self._ask(actor) if reference is None else reference
                    return self._held(actor, reference, attempt)
                except DIED as error:
                    problem, reference = error, None
                    self.replicas.failed(number)
            if time.monotonic() > deadline:
                said = str(problem).strip().splitlines()
                raise ShardLostError(
                    f"{self.replicas.name}: none of {len(self.replicas.actors)} replicas answers for "
                    f"{patience:g} s: {said[0] if said else type(problem).__name__}"
                ) from problem
            time.sleep(PAUSE)

    def _held(self, actor: Any, reference: Any, attempt: float) -> Any:
        """An actor's answer, after it was given the generation if it lacks it."""
        try:
            return received(reference, attempt)
        except GenerationGoneError:
            received(self._bring(actor), attempt)
            return received(self._ask(actor), attempt)


def received(reference: Any, seconds: float | None = None) -> Any:
    """What an actor returned, in one piece or several, or what it raised as if it had been called here."""
    try:
        found = ray.get(reference, timeout=seconds)
    except DIED:
        raise
    except RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise
    return joined(found) if isinstance(reference, list) else found
