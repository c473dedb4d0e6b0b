"""The writer of a directory: an actor that holds the lock and the changes that are not yet committed."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from pcpq.building import open_index
from pcpq.index import Index, generation_of, state_of
from pcpq.integrations.ray.replicas import DIED, PAUSE, received

# Seconds to wait for a writer that is being restarted.
PATIENCE = 60.0


class WriterLostError(RuntimeError):
    """The writer died, and changes that were not committed are lost. They must be repeated."""


class Writer:
    """Actor with an index that is open for writing."""

    def __init__(self, directory: str) -> None:
        self.directory, self.life = directory, uuid4().hex
        self._index: Index | None = None

    def begin(self) -> tuple[str, int]:
        """Open the index; return an id that changes with every restart of the actor, and the generation."""
        if self._index is None:
            self._index = open_index(self.directory, mode="a")
        return self.life, self._generation()

    def change(self, life: str, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the index; raise a WriterLostError if the actor was restarted since `begin`."""
        if life != self.life or self._index is None:
            raise WriterLostError(f"the writer of {self.directory} was restarted")
        found = getattr(self._index, method)(*arguments, **options)
        return self._generation() if method == "commit" else found

    def holds(self, ids: Any) -> list[bool]:
        """Return for each id whether it is in the index, including changes that are not committed."""
        assert self._index is not None
        return [one in self._index for one in ids]

    def facts(self) -> tuple[int, int]:
        """Return the number of vectors and the next free integer id."""
        assert self._index is not None
        return len(self._index), state_of(self._index).next_id

    def close(self) -> None:
        """Close the index, so that another process can write to the directory."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def _generation(self) -> int:
        assert self._index is not None
        return generation_of(self._index)


class Writing:
    """Client of a writer. If changes are lost with the actor, the next call raises a WriterLostError."""

    def __init__(self, directory: str, actor: Any) -> None:
        self.directory, self._actor = directory, actor
        self._life: str | None = None
        self._generation = 0
        self.pending = 0  # changes since the last commit

    def change(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Change the index. The change is stored and visible to searches after `commit`."""
        life = self._begin()
        self.pending += 1
        return self._call(lambda: self._actor.change.remote(life, method, *arguments, **options))

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return the result of a method of the writer that changes nothing."""
        self._begin()
        return self._call(lambda: getattr(self._actor, method).remote(*arguments))

    def commit(self) -> int:
        """Store changes; return the generation. If the writer dies, the stored generation shows the outcome."""
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
        """Return the id of the running actor; wait for its restart if it died."""
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
