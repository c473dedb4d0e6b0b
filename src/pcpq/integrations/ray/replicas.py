"""Who is asked, and who is asked instead: several actors hold the same shard, and any of them may die."""

from __future__ import annotations

import threading
import time
import weakref
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
        self._turn = 0
        self._failed = [-AVOIDED] * len(self.actors)
        self._busy = [0] * len(self.actors)
        # A question that is collected while this thread holds it says so here, too.
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which takes turns of its own."""
        return {"name": self.name, "actors": self.actors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """With all of them well, as far as anybody knows."""
        self.__init__(**state)  # type: ignore[misc]

    def order(self, work: int) -> list[int]:
        """Whom to ask first, who has that much more to do now, and then: those that failed lately last."""
        with self._lock:
            n, first, now = len(self.actors), self._turn, time.monotonic()
            self._turn += 1
            turns = [(first + i) % n for i in range(n)]
            found = sorted(turns, key=lambda i: (now - self._failed[i] < AVOIDED, self._busy[i]))
            self._busy[found[0]] += work
        return found

    def done(self, number: int, work: int) -> None:
        """What this one was to do is done, or was in vain."""
        with self._lock:
            self._busy[number] -= work

    def failed(self, number: int) -> None:
        """Ask somebody else for a while."""
        self._failed[number] = time.monotonic()


class Question:
    """One thing that is asked of one shard, until somebody answers; `work` says how much there is to do."""

    def __init__(
        self, replicas: Replicas, ask: Callable[[Any], Any], bring: Callable[[Any], Any], work: int = 1
    ) -> None:
        self.replicas, self._ask, self._bring = replicas, ask, bring
        self._order = replicas.order(work)
        # When it is answered, or nobody waits any more.
        self._over = weakref.finalize(self, replicas.done, self._order[0], work)
        self.reference = ask(replicas.actors[self._order[0]])

    def answer(self, patience: float, attempt: float) -> Any:
        """What one of the replicas says; ShardLostError if none does for so many seconds."""
        try:
            return self._answer(patience, attempt)
        finally:
            self._over()

    def _answer(self, patience: float, attempt: float) -> Any:
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
