"""A forked server behaves and ends like a started one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from core.events import CmdOutputObservation, CmdRunAction
from runtime.local.local_runtime import LocalRuntime
from tests.doubles import ignore
from tests.runtime.conftest import has_ended
from tests.warm_servers import WarmRuntime


async def seen(kind: type[LocalRuntime], workspace: Path) -> tuple[str, int, bool]:
    """The environment and the umask of its commands, how many files the server has open, whether it leads a session.

    Only root may count the files, because the server hides its process from others; else their number is 0.
    """
    runtime = kind(workspace)
    await runtime.start()
    pid = runtime.server_pid
    assert pid is not None
    said = await runtime.execute(CmdRunAction(command="env | grep -v ^_= | sort; umask"), 1, ignore)
    assert isinstance(said, CmdOutputObservation)
    is_leader = os.getsid(pid) == pid
    open_files = len(os.listdir(f"/proc/{pid}/fd")) if os.getuid() == 0 else 0
    await runtime.aclose()
    assert has_ended(pid, 0)
    return said.content, open_files, is_leader


async def test_warm_server_equals_a_started_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await seen(WarmRuntime, tmp_path)
    monkeypatch.setenv("SET_AFTERWARDS", "yes")  # the process that forks has begun before
    started, forked = [await seen(kind, tmp_path) for kind in (LocalRuntime, WarmRuntime)]
    assert "SET_AFTERWARDS=yes" in forked[0]
    assert forked == started


async def test_concurrently_forked_servers_have_their_own_folders(tmp_path: Path) -> None:
    runtimes = []
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        runtimes.append(WarmRuntime(tmp_path / str(number)))
    await asyncio.gather(*(runtime.start() for runtime in runtimes))
    for number, runtime in enumerate(runtimes):
        said = await runtime.execute(CmdRunAction(command="pwd"), 1, ignore)
        assert isinstance(said, CmdOutputObservation)
        assert said.content == str(tmp_path / str(number))
    await asyncio.gather(*(runtime.aclose() for runtime in runtimes))
