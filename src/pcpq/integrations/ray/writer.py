"""The one writer of a directory: an actor that holds its lock, and what it has not committed yet."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from pcpq.building import open_index
from pcpq.index import Index, generation_of, state_of
from pcpq.integrations.ray.replicas import DIED, PAUSE, received

# Seconds for which a writer may be away.
PATIENCE = 60.0


class WriterLostError(RuntimeError):
    """The writer died, and with it what it had not committed: do it again."""


class Writer:
    """An index open for writing, in a process of its own."""

    def __init__(self, directory: str) -> None:
        self.directory, self.life = directory, uuid4().hex
        self._index: Index | None = None

    def begin(self) -> tuple[str, int]:
        """Which life of the actor this is, and the generation it goes on from."""
        if self._index is None:
            self._index = open_index(self.directory, mode="a")
        return self.life, self._generation()

    def change(self, life: str, method: str, *arguments: Any, **options: Any) -> Any:
        """add, upsert, remove, compact or commit, unless this is another life than the caller believes."""
        if life != self.life or self._index is None:
            raise WriterLostError(f"the writer of {self.directory} began anew")
        found = getattr(self._index, method)(*arguments, **options)
        return self._generation() if method == "commit" else found

    def holds(self, ids: Any) -> list[bool]:
        """Which ids are there, committed or not."""
        assert self._index is not None
        return [one in self._index for one in ids]

    def facts(self) -> tuple[int, int]:
        """How many vectors there are, and the next number that has none."""
        assert self._index is not None
        return len(self._index), state_of(self._index).next_id

    def close(self) -> None:
        """Let others write."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def _generation(self) -> int:
        assert self._index is not None
        return generation_of(self._index)


class Writing:
    """A writer as its caller has it: what was lost with the actor is said, never passed over."""

    def __init__(self, directory: str, actor: Any) -> None:
        self.directory, self._actor = directory, actor
        self._life: str | None = None
        self._generation = 0
        self.pending = 0  # changes since the last commit

    def change(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Change something; it lasts, and is found, after commit."""
        life = self._begin()
        self.pending += 1
        return self._call(lambda: self._actor.change.remote(life, method, *arguments, **options))

    def ask(self, method: str, *arguments: Any) -> Any:
        """Something about what is there."""
        self._begin()
        return self._call(lambda: getattr(self._actor, method).remote(*arguments))

    def commit(self) -> int:
        """Make changes last; returns the generation. If the writer dies, the directory tells how it ended."""
        life, before = self._begin(), self._generation
        try:
            self._generation = received(self._actor.change.remote(life, "commit"))
        except (*DIED, WriterLostError) as error:
            self._life = None
            self._begin()
            if self._generation != before + 1:
                raise self._lost() from error
        self.pending = 0
        return self._generation

    def _begin(self) -> str:
        """The life of the actor that changes go to; one that just died has another soon."""
        deadline = time.monotonic() + PATIENCE
        while self._life is None:
            try:
                self._life, self._generation = received(self._actor.begin.remote())
            except DIED:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)
        return self._life

    def _call(self, ask: Any) -> Any:
        try:
            return received(ask())
        except (*DIED, WriterLostError) as error:
            self._life = None
            raise self._lost() from error

    def _lost(self) -> WriterLostError:
        lost, self.pending = self.pending, 0
        return WriterLostError(
            f"the writer of {self.directory} died; {lost} changes since the last commit are gone, do them again"
        )
