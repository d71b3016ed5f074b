"""Kernel and skills in the whole server, with and without isolation."""

from __future__ import annotations

import ast
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.events import (
    Action,
    CmdOutputObservation,
    CmdRunAction,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    Observation,
)
from runtime.isolation.confinement import Isolation
from runtime.local.local_runtime import LocalRuntime
from tests.runtime.conftest import Watcher, has_ended
from tests.runtime.isolation.confined import own

PLUGINS = ("--plugins", "jupyter,agent_skills")
KINDS = [pytest.param("none"), pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)]


@asynccontextmanager
async def started(workspace: Path, kind: str) -> AsyncIterator[LocalRuntime]:
    workspace.mkdir()
    own(workspace)
    isolation = Isolation("bubblewrap") if kind == "bubblewrap" else None
    runtime = LocalRuntime(workspace, options=PLUGINS, isolation=isolation)
    try:
        await runtime.start()
        assert runtime.isolation == kind
        yield runtime
    finally:
        await runtime.aclose()


async def cell(runtime: LocalRuntime, code: str, watcher: Watcher | None = None) -> IPythonRunCellObservation:
    observation = await done(runtime, IPythonRunCellAction(code=code, include_extra=False), watcher)
    assert isinstance(observation, IPythonRunCellObservation), observation
    return observation


async def done(runtime: LocalRuntime, action: Action, watcher: Watcher | None = None) -> Observation:
    return await runtime.execute(action, 1, watcher or Watcher())


@pytest.mark.parametrize("kind", KINDS)
async def test_cells_work_end_to_end(tmp_path: Path, kind: str) -> None:
    async with started(tmp_path / "w", kind) as runtime:
        watcher = Watcher()
        assert (await cell(runtime, "print('seen'); 1 + 1", watcher)).content == "seen\n2"
        assert watcher.shown == b"seen\r\n2\r\n"
        figure = await cell(runtime, "import matplotlib.pyplot as plt; _ = plt.plot([1, 2])")
        assert figure.image_urls is not None
        assert figure.image_urls[0].startswith("data:image/png;base64,")
        await cell(runtime, "open('a.txt', 'w').write('one\\ntwo\\n')")
        assert (await cell(runtime, "search_file('two', 'a.txt')")).content.splitlines()[1] == "Line 2: two"
        shell = await done(runtime, CmdRunAction(command="mkdir below; cd below; cat ../a.txt"))
        assert isinstance(shell, CmdOutputObservation)
        assert shell.content == "one\ntwo"
        assert (await cell(runtime, "import os; os.getcwd()")).content == repr(str(tmp_path / "w" / "below"))


@pytest.mark.parametrize("kind", KINDS)
async def test_killed_kernel_is_replaced_with_skills_and_output(tmp_path: Path, kind: str) -> None:
    async with started(tmp_path / "w", kind) as runtime:
        killed = await cell(runtime, "import os; os.kill(os.getpid(), 9)")
        assert "A fresh one takes its place" in killed.content
        assert (await cell(runtime, "find_file('nothing')")).content == '[No matches found for "nothing" in ./]'
        long = await cell(runtime, "for i in range(20_000): print(i)")
        path = long.content.rpartition("'1,200p' ")[2].removesuffix("]")
        read = await done(runtime, CmdRunAction(command=f"sed -n 12345p {path}"))
        assert isinstance(read, CmdOutputObservation)
        assert read.content == "12344"


async def test_kernel_sees_only_the_users_environment(tmp_path: Path) -> None:
    async with started(tmp_path / "w", "none") as runtime:
        said = await cell(runtime, "import os; sorted(name for name in os.environ if 'KEY' in name or 'TOKEN' in name)")
        assert set(ast.literal_eval(said.content)) <= set(os.environ)


async def test_kernels_end_with_the_server(tmp_path: Path) -> None:
    async with started(tmp_path / "w", "none") as runtime:
        pid = int((await cell(runtime, "import os; os.getpid()")).content)
    assert has_ended(pid, 0)
