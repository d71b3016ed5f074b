"""The specification of a container, without an engine."""

from __future__ import annotations

from pathlib import Path

from runtime.docker.container_spec import ContainerOptions, ContainerSpec
from runtime.isolation.cgroups import Limits


def test_container_has_no_capabilities_no_network_and_a_read_only_root(tmp_path: Path) -> None:
    limits = Limits(memory_bytes=2**30, processes=256)
    asked = ContainerSpec("image", tmp_path, (1000, 1000), ContainerOptions(), limits).parameters("a", "home", tmp_path)
    expected = {
        "user": "1000:1000",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "read_only": True,
        "network_mode": "none",
        "pids_limit": 256,
        "mem_limit": 2**30,
        "memswap_limit": 2**30,
    }
    assert {name: asked[name] for name in expected} == expected
    assert not asked.keys() & {"cap_add", "privileged", "pid_mode", "ipc_mode", "devices", "ports"}
