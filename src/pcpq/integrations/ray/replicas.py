"""Calls to the replicas of a shard: if an actor dies, another one is called."""

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

# Errors that mean that an actor or its node is lost, not that a call was invalid.
DIED = (
    RayActorError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    TaskCancelledError,
    WorkerCrashedError,
    GetTimeoutError,
)
# Seconds between two rounds of calls to all replicas, and seconds for which a failed one is called last.
PAUSE = 0.1
AVOIDED = 2.0


class ShardLostError(RuntimeError):
    """No replica of a shard responds."""


class Replicas:
    """Actors that hold the same shard, with their load and failures."""

    def __init__(self, name: str, actors: Iterable[Any]) -> None:
        self.name, self.actors = name, list(actors)
        self._first = 0
        self._failed = [-AVOIDED] * len(self.actors)
        self._busy = [0] * len(self.actors)
        # Reentrant: garbage collection can finalize a Question while this thread holds the lock.
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, which counts load and failures itself."""
        return {"name": self.name, "actors": self.actors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the replicas without load or failures."""
        self.__init__(**state)  # type: ignore[misc]

    def order(self, work: int) -> list[int]:
        """Order replicas by load; recently failed ones come last. `work` is added to the load of the first."""
        with self._lock:
            n, first, now = len(self.actors), self._first, time.monotonic()
            self._first += 1
            numbers = [(first + i) % n for i in range(n)]
            found = sorted(numbers, key=lambda i: (now - self._failed[i] < AVOIDED, self._busy[i]))
            self._busy[found[0]] += work
        return found

    def done(self, number: int, work: int) -> None:
        """Subtract the work of a finished or abandoned call from the load of a replica."""
        with self._lock:
            self._busy[number] -= work

    def failed(self, number: int) -> None:
        """Call this replica last for a while."""
        self._failed[number] = time.monotonic()


class Question:
    """A call to one shard, repeated on other replicas until one responds; `work` is its share of the load."""

    def __init__(
        self, replicas: Replicas, ask: Callable[[Any], Any], load: Callable[[Any], Any], work: int = 1
    ) -> None:
        self.replicas, self._ask, self._load = replicas, ask, load
        self._order = replicas.order(work)
        # Called when there is an answer, or when the Question is discarded.
        self._over = weakref.finalize(self, replicas.done, self._order[0], work)
        self.reference = ask(replicas.actors[self._order[0]])

    def answer(self, patience: float, attempt: float) -> Any:
        """Return the result of one of the replicas; raise a ShardLostError after `patience` seconds.

        `attempt` is the timeout of one call in seconds.
        """
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
                lines = str(problem).strip().splitlines()
                raise ShardLostError(
                    f"{self.replicas.name}: none of {len(self.replicas.actors)} replicas answers for "
                    f"{patience:g} s: {lines[0] if lines else type(problem).__name__}"
                ) from problem
            time.sleep(PAUSE)

    def _held(self, actor: Any, reference: Any, attempt: float) -> Any:
        """Return the result of an actor; if the generation is not loaded there, load it and call again."""
        try:
            return received(reference, attempt)
        except GenerationGoneError:
            received(self._load(actor), attempt)
            return received(self._ask(actor), attempt)


def received(reference: Any, seconds: float | None = None) -> Any:
    """Return the result of an actor, in one or several pieces, or raise the exception that it raised."""
    try:
        found = ray.get(reference, timeout=seconds)
    except DIED:
        raise
    except RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise
    return joined(found) if isinstance(reference, list) else found
