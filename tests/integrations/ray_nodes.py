"""A real cluster of several nodes on this machine, one per session, and functions that kill its processes."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import threading
import time
from pathlib import Path

# Before Ray is imported: no address but 127.0.0.1, nothing sent home, and time to start on a busy machine.
os.environ.update(
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
    RAY_USAGE_STATS_ENABLED="0",
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
    RAY_raylet_start_wait_time_s="180",
    RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S="60",
    RAY_gcs_server_request_timeout_seconds="120",
    RAY_gcs_rpc_server_connect_timeout_s="60",
)

MEMORY = 80 << 20  # of objects, a node


@functools.cache
def cluster():
    """Two nodes of one CPU each; tests add others and take them away."""
    import ray
    from ray.cluster_utils import Cluster

    found = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1,
            "object_store_memory": MEMORY,
            "include_dashboard": False,
            "node_ip_address": "127.0.0.1",
            # A node that is gone is known to be after a few seconds.
            "_system_config": {"health_check_period_ms": 500, "health_check_failure_threshold": 6},
        },
    )
    new_node(found)
    ray.init(address=found.address, log_to_driver=False, logging_level="error")

    @atexit.register
    def stop():
        ray.shutdown()
        found.shutdown()

    return found


def new_node(found, cpus=1):
    node = found.add_node(num_cpus=cpus, object_store_memory=MEMORY, node_ip_address="127.0.0.1")
    found.wait_for_nodes()
    return node


def raylets(found) -> set[str]:
    return {str(one.process.pid) for node in found.list_all_nodes() for one in node.all_processes["raylet"]}


def workers(found, name: str) -> list[int]:
    """Processes of this cluster that are at work on a task or an actor of this name."""
    ours, pids = raylets(found), []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(f"ray::{name}".encode()):
                variables = (folder / "environ").read_bytes().split(b"\0")
                if {f"RAY_RAYLET_PID={pid}".encode() for pid in ours} & set(variables):
                    pids.append(int(folder.name))
    return pids


def kill_one(found, name: str, seconds: float = 60.0) -> int:
    """Kill the first process of this name that is found."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for pid in workers(found, name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return pid
        time.sleep(0.001)
    raise AssertionError(f"nothing called {name} was seen for {seconds} s")


class Meanwhile(threading.Thread):
    """A call in a thread, while the test goes on; `end` returns or raises what it did."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work, self.result, self.error = work, None, None
        self.start()

    def run(self):
        try:
            self.result = self.work()
        except BaseException as error:
            self.error = error

    def end(self, seconds=120.0):
        self.join(seconds)
        assert not self.is_alive(), "it does not come to an end"
        if self.error is not None:
            raise self.error
        return self.result
