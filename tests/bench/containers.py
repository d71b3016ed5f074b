"""Containers: from nothing and from the spare to the first command's answer, and paused and resumed; beside the engine.

The limit of a cold start is `docker run` of a shell that ends at once, on the same image, by the same client; that of
pausing is the engine's own call. Measured only where an engine answers and `handloom image build` has made the image.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from core.errors import RuntimeUnavailableError
from core.events import CmdOutputObservation, CmdRunAction
from runtime.docker.container_spec import ContainerOptions
from runtime.docker.docker_runtime import DockerRuntime
from runtime.docker.warm_pool import WarmPool
from runtime.isolation.confinement import Isolation
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.size import sized
from tests.containers import base_image, engine, sandbox_image
from tests.machine import name_the_engine
from tests.runtime.isolation.confined import own

STARTS = sized(7, 1)
PAUSES = sized(15, 2)
SETTLES_S = 0.1
"""Time between pausing and resuming; the engine refuses an immediate resume."""


def measure() -> list[Figure]:
    name_the_engine(os.environ)
    try:
        with engine():
            sandbox_image()
    except RuntimeUnavailableError as error:
        print(f"containers: not measured: {error}")
        return []
    with folder() as place:
        place.chmod(0o755)
        (workspace := place / "workspace").mkdir()
        own(workspace)
        return asyncio.run(_measure(place / "home", workspace))


async def _measure(home: Path, workspace: Path) -> list[Figure]:
    bare = [await asyncio.to_thread(_timed, _run_bare) for _ in range(STARTS)]
    cold = await _starts(_fleet(home / "cold", spares=0), workspace)
    warm = await _starts(_fleet(home / "warm", spares=1), workspace)
    paused, resumed, bare_pauses, bare_resumes = await _pauses(_fleet(home / "paused", spares=0), workspace)
    shell = "docker run of a shell"
    return [
        Figure("container, start to the first command's answer", "ms", cold, Limit(shell, bare), [Target(1000)]),
        Figure("the same from a spare one", "ms", warm, Limit(shell, bare), [Target(300)]),
        Figure("container paused", "ms", paused, Limit("the engine's call", bare_pauses), [Target(1.5, "ratio")]),
        Figure("container resumed, to an answer", "ms", resumed, Limit("the engine's call", bare_resumes)),
    ]


def _fleet(home: Path, *, spares: int) -> WarmPool:
    return WarmPool(home, ContainerOptions(base=base_image(), spares=spares), Isolation())


async def _starts(fleet: WarmPool, workspace: Path) -> list[float]:
    """Of conversations, one after the other; the first one, for which nothing can be ready, does not count."""
    taken = []
    for _ in range(STARTS + 1):
        runtime = DockerRuntime(fleet, workspace)
        started_at = perf_counter()
        await runtime.start()
        await _answers(runtime)
        taken.append(milliseconds_since(started_at))
        await fleet.settled()
        await runtime.aclose()
    await fleet.aclose()
    return taken[1:]


async def _answers(runtime: DockerRuntime) -> None:
    observation = await runtime.execute(CmdRunAction(command="true"), 1, lambda frame: None)
    assert isinstance(observation, CmdOutputObservation)


async def _pauses(fleet: WarmPool, workspace: Path) -> tuple[list[float], list[float], list[float], list[float]]:
    """Pause and resume by Handloom, and by the engine alone."""
    runtime = DockerRuntime(fleet, workspace)
    await runtime.start()
    assert runtime.container_name is not None
    ours: tuple[list[float], list[float]] = ([], [])
    bare: tuple[list[float], list[float]] = ([], [])
    container = runtime.container
    with engine() as client:
        same = client.containers.get(runtime.container_name)
        for _ in range(PAUSES):
            for taken, pause, resume in (
                (ours, container.pause, lambda: _resume(runtime)),
                (bare, lambda: asyncio.to_thread(same.pause), lambda: asyncio.to_thread(same.unpause)),
            ):
                for samples, change in zip(taken, (pause, resume), strict=True):
                    started_at = perf_counter()
                    await change()
                    samples.append(milliseconds_since(started_at))
                    await asyncio.sleep(SETTLES_S)
    await runtime.aclose()
    await fleet.aclose()
    return *ours, *bare


async def _resume(runtime: DockerRuntime) -> None:
    await runtime.container.unpause()
    await _answers(runtime)


def _timed(work: Callable[[], object]) -> float:
    started_at = perf_counter()
    work()
    return milliseconds_since(started_at)


def _run_bare() -> None:
    with engine() as client:
        client.containers.run(sandbox_image(), ["true"], remove=True, network_mode="none")
