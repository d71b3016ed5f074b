"""A cluster of Ray on this machine: a head and nodes, each with a home folder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MB = 1024 * 1024
OBJECTS = 80 * MB
"""The memory that a node has for Ray's objects."""


class Cluster:
    """A head without room for attempts, and nodes with `cpus` places each."""

    def __init__(self, folder: Path, nodes: int, cpus: int, environ: Mapping[str, str]) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        self._folder, self._cpus, self._environ = folder, cpus, environ
        self._ray: Any = RayCluster(initialize_head=True, head_node_args=self._options("head", 0))
        self.nodes = [self.add(f"node{number}") for number in range(nodes)]

    def _options(self, name: str, cpus: int) -> dict[str, Any]:
        own = {"HANDLOOM_HOME": str(self._folder / f"home-{name}"), "HOME": str(self._folder)}
        environ = {**self._environ, **own}
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

    def add(self, name: str, cpus: int = 0) -> Any:
        """One more node."""
        return self._ray.add_node(**self._options(name, cpus or self._cpus))

    def remove(self, node: Any) -> None:
        """Kill a node, with everything that runs on it."""
        self._ray.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        self._ray.shutdown()


@contextmanager
def cluster(folder: Path, *, nodes: int = 3, cpus: int = 4, **environ: str) -> Iterator[Cluster]:
    """A cluster that ends with the block; its nodes have `environ`."""
    made = Cluster(folder, nodes, cpus, environ)
    try:
        yield made
    finally:
        made.close()


def processes_of(title: str) -> list[int]:
    """The processes with a title that begins so: Ray names its workers after their tasks."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.joinpath("cmdline").read_bytes().startswith(title.encode()):
                found.append(int(folder.name))
        except OSError:
            pass
    return found
