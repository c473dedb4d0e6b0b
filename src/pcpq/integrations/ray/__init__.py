"""Builds and searches on several machines, with Ray.

sources.py     vectors in local files, in files that fsspec reads, or in a Ray Data dataset
sampling.py    the training sample of a build in one process, gathered from the sources
encoding.py    a range of vectors as a file of encoded rows, sorted by list
merging.py     the files of encoded rows merged into one segment, a range of lists at a time
tasks.py       a limited number of Ray tasks at a time
building.py    build: sampling, encoding and merging as tasks, then one commit
slices.py      a range of lists of an index
candidates.py  candidates that a slice returns for a query
wire.py        queries and results in pieces that Ray sends with a call
shard.py       the actor that searches a slice of a generation
answers.py     results of the whole index from the candidates of all shards
replicas.py    calls to the replicas of a shard, with failover
view.py        one generation of an index on many shards, searched as one index
writer.py      the actor that writes to a directory
writing.py     changes, sent to the directories that they belong to
sharded.py     ShardedIndex
terminal.py    connections of the command line
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
