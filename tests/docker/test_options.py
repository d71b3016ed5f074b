"""Container options, from the settings to their effect inside."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.errors import ConfigurationError
from core.settings.config import DockerSettings, SandboxSettings, Settings
from runtime.docker.container_spec import ContainerOptions, ContainerSpec
from runtime.docker.docker_runtime import DockerRuntime
from runtime.isolation.cgroups import Limits
from tests.containers import base_image, engine, sandbox_image
from tests.runtime.isolation.confined import own, run
from tui.runtime_factory import RuntimeFactory

FOLDER = Path("/sandboxes/x")


@asynccontextmanager
async def started(
    folder: Path, sandbox: SandboxSettings | None = None, **docker: object
) -> AsyncIterator[DockerRuntime]:
    """A runtime as the settings make it, started."""
    sandbox_image()
    (workspace := folder / "workspace").mkdir()
    own(workspace)
    chosen = DockerSettings.model_validate({"base": base_image(), "spares": 0, **docker})
    settings = Settings(runtime="docker", docker=chosen, sandbox=sandbox or SandboxSettings())
    async with RuntimeFactory(folder / "home", lambda: settings, {**os.environ, "MINE": "of this machine"}) as runtimes:
        runtime = runtimes(str(workspace))
        assert isinstance(runtime, DockerRuntime)
        try:
            await runtime.start()
            yield runtime
        finally:
            await runtime.aclose()


@pytest.mark.docker
async def test_container_has_configured_variables_hosts_and_volumes(tmp_path: Path) -> None:
    (tools := tmp_path / "tools").mkdir()
    (tools / "tool").write_text("sharp")
    (both := tmp_path / "both").mkdir()
    own(both)
    async with started(
        tmp_path,
        environment=("COLOUR=blue", "MINE"),
        extra_hosts=("db.example:10.1.2.3",),
        volumes=(f"{tools}:/tools:ro", f"{both}:/both"),
    ) as runtime:
        told = await run(runtime, "echo $COLOUR; echo $MINE; cat /tools/tool; echo; grep db.example /etc/hosts")
        assert told.content.split() == ["blue", "of", "this", "machine", "sharp", "10.1.2.3", "db.example"]
        assert (await run(runtime, "echo x > /tools/tool")).exit_code != 0
        assert (await run(runtime, "echo x > /both/made")).exit_code == 0
    assert (both / "made").read_text() == "x\n"


@pytest.mark.docker
async def test_limits_are_enforced_and_reported(tmp_path: Path) -> None:
    limits = SandboxSettings(max_memory_mb=512, max_cpus=1.5, max_processes=200, max_file_mb=1)
    async with started(tmp_path, limits) as runtime:
        told = await run(runtime, "head -c 3M /dev/zero > big; ls -l big | cut -d' ' -f5; nproc")
        assert told.content.split()[-2] == str(2**20)
        used = await runtime.usage()
        assert used is not None
        assert used.limits[:3] == ("512 MB of memory in all", "1.5 processors", "200 processes and threads")
        assert runtime.container_name is not None
        with engine() as client:
            made = client.api.inspect_container(runtime.container_name)["HostConfig"]
        assert (made["Memory"], made["NanoCpus"], made["PidsLimit"]) == (512 * 2**20, 1_500_000_000, 200)


def test_gpus_are_requested() -> None:
    def devices(count: int) -> object:
        return specification(gpus=count).parameters("name", "home", FOLDER)["device_requests"]

    assert devices(0) is None
    assert devices(-1) == [{"Driver": "", "Count": -1, "DeviceIDs": [], "Capabilities": [["gpu"]], "Options": {}}]


def specification(**options: int) -> ContainerSpec:
    return ContainerSpec("image", Path("/work"), (1000, 1000), ContainerOptions(**options), Limits())  # type: ignore[arg-type]


def test_equal_specifications_have_the_same_key() -> None:
    assert specification().key == specification(spares=3).key
    assert specification().key != specification(gpus=1).key


@pytest.mark.parametrize(
    ("docker", "told"),
    [
        ({"extra_hosts": ("db.example",)}, r"docker\.extra_hosts cannot be 'db.example': write NAME:VALUE"),
        ({"environment": ("NOT_SET_HERE",)}, r"docker\.environment names NOT_SET_HERE, which is not set"),
        ({"environment": ("=x",)}, r"docker\.environment cannot be '=x'"),
        ({"volumes": ("/tmp:relative",)}, r"docker\.volumes cannot be '/tmp:relative': write FOLDER:/PATH"),
        ({"volumes": ("/tmp:/x:rx",)}, r"docker\.volumes cannot be '/tmp:/x:rx'"),
        ({"volumes": ("/no/such:/x",)}, r"docker\.volumes names /no/such, which is not a folder"),
    ],
)
def test_invalid_option_is_reported_with_the_correct_form(
    tmp_path: Path, docker: dict[str, tuple[str, ...]], told: str
) -> None:
    settings = Settings(runtime="docker", docker=DockerSettings.model_validate(docker))
    make: Callable[[str], object] = RuntimeFactory(tmp_path, lambda: settings, {})
    with pytest.raises(ConfigurationError, match=told):
        make(str(tmp_path))


def test_remote_engine_has_its_own_folders_and_no_checkpoints(tmp_path: Path) -> None:
    docker = DockerSettings(engine="ssh://elsewhere.example", volumes=("/no/such:/x",))
    runtimes = RuntimeFactory(tmp_path, lambda: Settings(runtime="docker", docker=docker), {})
    runtime = runtimes(str(tmp_path))
    assert isinstance(runtime, DockerRuntime)
    assert runtime.is_elsewhere
    assert runtimes.checkpoints(str(tmp_path), "conversation") is None
