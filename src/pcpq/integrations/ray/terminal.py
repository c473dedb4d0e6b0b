"""For the command line: a connection to a cluster that ends with the command."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from pcpq.integrations.ray.sharded import ShardedIndex

LOCAL = "local"


@contextmanager
def connected(address: str) -> Iterator[None]:
    """To a cluster, such as "auto" or "10.0.0.1:6379"; "local" starts one on this machine."""
    try:
        ray.init(
            address=address,
            namespace="pcpq",
            log_to_driver=False,  # a bar shows what workers do
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
    """An index on a cluster, whose actors end with the command."""
    with connected(address), ShardedIndex.open(path, shards=shards, replicas=replicas) as index:
        yield index
