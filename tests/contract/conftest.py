"""The runtimes that the contract holds for, and one of them, started, for each test."""

from __future__ import annotations

import os
import select
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from core.events import Action, CmdOutputObservation, CmdRunAction, FileEditAction, Observation
from core.protocols import Runtime
from runtime.local.local_runtime import LocalRuntime
from tests.contract.in_process import InProcessRuntime
from tests.contract.remote_here import RemoteHere
from tests.fleets import Contained
from tests.machine import REQUIREMENTS
from tests.runtime.conftest import Watcher
from tests.runtime.isolation.confined import BUBBLEWRAP, own

NO_CHANGE_TIMEOUT_S = 0.5
"""Short to wait for, long for a busy machine."""
_OPTIONS = ("--no-change-timeout", str(NO_CHANGE_TIMEOUT_S))


def _bubblewrapped(folder: Path) -> LocalRuntime:
    own(folder)
    return LocalRuntime(folder, options=_OPTIONS, isolation=BUBBLEWRAP)


def _contained(folder: Path) -> Contained:
    own(folder)
    return Contained(folder, options=_OPTIONS)


WithServer = LocalRuntime | Contained | RemoteHere
SERVED: Mapping[str, Callable[[Path], WithServer]] = {
    "local": lambda folder: LocalRuntime(folder, options=_OPTIONS),
    "bubblewrap": _bubblewrapped,
    "docker": _contained,
    "remote": lambda folder: RemoteHere(folder, _OPTIONS),
}
"""Runtimes with a server of their own, which may die. Add one here, and the suite holds for it."""
RUNTIMES: Mapping[str, Callable[[Path], Runtime]] = {
    **SERVED,
    "in-process": lambda folder: InProcessRuntime(folder, NO_CHANGE_TIMEOUT_S),
}


def _named(runtimes: Iterable[str]) -> list[Any]:
    """Each runtime by name, which is also the marker of one that not every machine has."""
    return [pytest.param(name, marks=getattr(pytest.mark, name) if name in REQUIREMENTS else ()) for name in runtimes]


O = TypeVar("O", bound=Observation)  # noqa: E741  # an observation


class Place:
    """A runtime that is started, its workspace, and the frames that came from it."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self.runtime = runtime
        self.folder = folder
        self.watcher = Watcher()
        self._last_id = 0

    async def do(self, action: Action) -> Observation:
        """Carry out one action under the next id."""
        self._last_id += 1
        return await self.runtime.execute(action, self._last_id, self.watcher)

    async def get(self, kind: type[O], action: Action) -> O:
        """Carry out an action whose observation is of this kind."""
        observation = await self.do(action)
        assert isinstance(observation, kind), observation
        return observation

    async def run(self, command: str, **fields: Any) -> CmdOutputObservation:
        return await self.get(CmdOutputObservation, CmdRunAction(command=command, **fields))

    async def edit(self, command: str, path: Path, **fields: Any) -> Observation:
        return await self.do(FileEditAction(command=command, path=str(path), **fields))


class Life:
    """Whether a process still has the pipe `life` of the workspace open for writing.

    The kernel hangs up when the last one has gone, in whatever sandbox it was and whatever number it had there.
    """

    def __init__(self, folder: Path) -> None:
        os.mkfifo(folder / "life")
        (folder / "life").chmod(0o666)
        self._fd = os.open(folder / "life", os.O_RDONLY | os.O_NONBLOCK)

    def has_ended(self, within_s: float = 60.0) -> bool:
        """Wait until all processes that opened it have ended. There must have been one."""
        poll = select.poll()
        poll.register(self._fd, select.POLLHUP)
        return bool(poll.poll(within_s * 1000))

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture(autouse=True)
def no_remote_server_stays() -> Iterator[None]:
    """A remote server is not ended by its runtime."""
    yield
    RemoteHere.end_servers()


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    with closing(Life(tmp_path)) as life:
        yield life


@pytest.fixture(params=_named(RUNTIMES))
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Runtime:
    """Every runtime, not yet started."""
    return RUNTIMES[request.param](tmp_path)


@pytest.fixture
async def place(runtime: Runtime, tmp_path: Path) -> AsyncIterator[Place]:
    """Every runtime, started."""
    await runtime.start()
    yield Place(runtime, tmp_path)
    await runtime.aclose()


@pytest.fixture(params=_named(SERVED))
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Place, WithServer]]:
    """Every runtime that has a server, started; with the runtime itself for its server's process."""
    runtime = SERVED[request.param](tmp_path)
    await runtime.start()
    yield Place(runtime, tmp_path), runtime
    await runtime.aclose()
