"""Builds and searches on several machines, with Ray.

sources.py   vectors in files, anywhere that fsspec reads, or in a Ray Data dataset; any of their rows
sampling.py  the sample that a build in one process would train on, gathered from them
encoding.py  some of the vectors as a file of rows, in the order of their lists
merging.py   a few lists of all such files, in their place of one segment
tasks.py     tasks, a few at a time
building.py  build: all of this as tasks, and one commit
candidates.py  what a slice tells of its rows
slices.py    some lists of an index, and nothing else of it
wire.py      queries and answers in pieces that travel with calls
shard.py     what an actor does: searches in its slice of a generation
answers.py   candidates of all shards to answers: those of the index as a whole
replicas.py  who is asked, and who is asked instead
view.py      an index in many hands that searches as one
writer.py    the one writer of a directory
writing.py   changes, to whichever directory they belong
sharded.py   ShardedIndex
terminal.py  for the command line
"""

from __future__ import annotations

try:
    import ray as _ray  # noqa: F401
except ImportError as error:
    raise ImportError("pcpq.integrations.ray needs Ray: pip install 'pcpq[ray]'") from error

from pcpq.integrations.ray.building import build
from pcpq.integrations.ray.replicas import ShardLostError
from pcpq.integrations.ray.sharded import PartialResult, ShardedIndex
from pcpq.integrations.ray.writer import WriterLostError

__all__ = ["PartialResult", "ShardLostError", "ShardedIndex", "WriterLostError", "build"]
