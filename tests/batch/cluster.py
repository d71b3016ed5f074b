"""A cluster of Ray on this machine: a head and nodes, each with a home folder of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MB = 1024 * 1024
OBJECTS = 80 * MB
"""The memory that a node has for Ray's objects."""


class Cluster:
    """A head without room for attempts, and nodes with `cpus` places each."""

    def __init__(self, folder: Path, nodes: int, cpus: int) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        self._folder, self._cpus = folder, cpus
        self._ray = RayCluster(initialize_head=True, head_node_args=self._options("head", 0))
        self.nodes = [self.add(f"node{number}") for number in range(nodes)]

    def _options(self, name: str, cpus: int) -> dict[str, Any]:
        environ = {"HANDLOOM_HOME": str(self._folder / f"home-{name}"), "HOME": str(self._folder)}
        return {
            "num_cpus": cpus,
            "memory": 64 * 1024 * MB,
            "object_store_memory": OBJECTS,
            "include_dashboard": False,
            "env_vars": environ,
        }

    @property
    def environ(self) -> dict[str, str]:
        """For a program that is to find the cluster."""
        return {"RAY_ADDRESS": self._ray.address}

    @property
    def logs(self) -> Path:
        """The folder with the logs of all nodes."""
        return Path(self._ray.head_node.get_session_dir_path())

    def home(self, number: int) -> Path:
        return self._folder / f"home-node{number}"

    def add(self, name: str) -> Any:
        """One more node."""
        return self._ray.add_node(**self._options(name, self._cpus))

    def remove(self, node: Any) -> None:
        """Kill a node, with everything that runs on it."""
        self._ray.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        self._ray.shutdown()


@contextmanager
def cluster(folder: Path, *, nodes: int = 3, cpus: int = 4) -> Iterator[Cluster]:
    """A cluster that ends with the block."""
    made = Cluster(folder, nodes, cpus)
    try:
        yield made
    finally:
        made.close()


def pause(pid: int) -> None:
    """Stop a process without ending it, as a machine that is cut off."""
    os.kill(pid, signal.SIGSTOP)
