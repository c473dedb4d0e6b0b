"""Changes to one or several directories, each with its own writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from pcpq.integrations.ray.view import Directory
from pcpq.integrations.ray.writer import Writer, Writing
from pcpq.io.arrays import as_vectors
from pcpq.io.ids import as_asked
from pcpq.segment.attributes import as_table

# Seconds to wait until writers release their locks; a lock is released at the latest when its process ends.
CLOSING = 10.0


class Writers:
    """Writers of all directories. An existing id stays in its directory; new ids go to the smallest one."""

    def __init__(self, directories: Sequence[Directory], options: dict[str, Any]) -> None:
        self._paths, self._options = [directory.path for directory in directories], options
        self._actors: list[Any] = []
        self._writers: list[Writing] = []

    def _started(self) -> list[Writing]:
        if not self._writers:
            remote: Any = ray.remote(Writer)
            for path in self._paths:
                actor = remote.options(max_restarts=-1, **self._options).remote(path)
                self._actors.append(actor)
                self._writers.append(Writing(path, actor))
        return self._writers

    def add(self, vectors: Any, ids: Any, attributes: Any) -> NDArray[Any]:
        """Add vectors to the smallest directory; return their ids."""
        writers = self._started()
        if len(writers) == 1:
            found: NDArray[Any] = writers[0].change("add", vectors, ids, attributes=attributes)
            return found
        facts = [writer.ask("facts") for writer in writers]
        if ids is None:
            first = max(next_id for _, next_id in facts)
            ids = np.arange(first, first + len(vectors))
        for writer in writers:
            known = np.array(writer.ask("holds", list(as_asked(ids))))
            if known.any():
                raise ValueError(f"id {as_asked(ids)[known][0]!s} is in the index already; upsert replaces it")
        smallest = int(np.argmin([count for count, _ in facts]))
        added: NDArray[Any] = writers[smallest].change("add", vectors, ids, attributes=attributes)
        return added

    def upsert(self, vectors: Any, ids: Any, attributes: Any) -> NDArray[Any]:
        """Replace existing ids in their directories and add the others to the smallest one; return the ids."""
        writers = self._started()
        if len(writers) == 1:
            found: NDArray[Any] = writers[0].change("upsert", vectors, ids, attributes=attributes)
            return found
        wanted, vectors = as_asked(ids), as_vectors(vectors)
        table = None if attributes is None else as_table(attributes, len(wanted))
        targets = np.full(len(wanted), int(np.argmin([writer.ask("facts")[0] for writer in writers])))
        for number, writer in enumerate(writers):
            targets[np.array(writer.ask("holds", list(wanted)))] = number
        for number, writer in enumerate(writers):
            some = np.flatnonzero(targets == number)
            if len(some):
                rows = None if table is None else table.take(some)
                writer.change("upsert", vectors[some], wanted[some], attributes=rows)
        return wanted

    def remove(self, ids: Any) -> int:
        """Remove ids from the directories that hold them; return how many existed."""
        return sum(int(writer.change("remove", ids)) for writer in self._started())

    def commit(self) -> None:
        """Commit every directory that was changed."""
        for writer in self._writers:
            if writer.pending:
                writer.commit()

    def close(self) -> None:
        """Stop the writers; when this returns, other processes can write to the directories."""
        closing = [actor.close.remote() for actor in self._actors]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=CLOSING)
        for actor in self._actors:
            ray.kill(actor)
        self._actors, self._writers = [], []
