"""Connections of the command line to a Ray cluster, closed at the end of the command."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from pcpq.integrations.ray.sharded import ShardedIndex

LOCAL = "local"


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connect to a cluster by its address, such as "auto" or "10.0.0.1:6379"; "local" starts one here."""
    try:
        ray.init(
            address=address,
            namespace="pcpq",
            log_to_driver=False,  # the progress bar is shown instead
            logging_level=logging.ERROR,
            include_dashboard=False if address == LOCAL else None,
        )
    except ConnectionError as error:
        raise OSError(f"no Ray cluster answers at {address}: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def opened(path: str, address: str, shards: int | None, replicas: int) -> Iterator[ShardedIndex]:
    """Open an index on a cluster; its actors are stopped at the end of the block."""
    with connected(address), ShardedIndex.open(path, shards=shards, replicas=replicas) as index:
        yield index
