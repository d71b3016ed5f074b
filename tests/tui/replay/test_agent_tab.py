"""A session is followed while its agent writes it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from itertools import pairwise
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import UsageError
from tui.file_watcher import EDITED, watch
from tui.replay.agent_tab import _MODIFIED, REST, AgentSession, _grow


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify")
async def test_file_that_another_replaces_is_followed(tmp_path: Path) -> None:
    path, changed = tmp_path / "session.jsonl", asyncio.Event()
    path.write_text("first\n")
    followed = watch(path, changed.set)
    assert followed is not None
    path.with_suffix(".new").write_text("second\n")
    for change in (lambda: os.replace(path.with_suffix(".new"), path), lambda: path.write_text("third\n")):
        change()
        async with asyncio.timeout(30):
            await changed.wait()
        changed.clear()
    followed.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify")
async def test_database_is_followed_by_its_log_and_not_by_its_neighbours(tmp_path: Path) -> None:
    """SQLite writes to the log alone, which its agent makes when it starts and removes when it ends."""
    path, changed = tmp_path / "sessions.db", asyncio.Event()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE sessions (id)")
    followed = watch(path.parent, changed.set, EDITED | _MODIFIED, names=[path.name, f"{path.name}-wal"])
    assert followed is not None
    (tmp_path / "agent.log").write_text("noise\n")
    await asyncio.sleep(0)
    assert not changed.is_set()
    connection.execute("PRAGMA journal_mode = WAL")
    async with asyncio.timeout(30):
        for number in range(3):
            changed.clear()
            before = path.stat().st_mtime_ns
            connection.execute("INSERT INTO sessions VALUES (?)", (number,))
            await changed.wait()
            assert path.stat().st_mtime_ns == before
    connection.close()
    followed.close()


async def test_session_that_cannot_be_read_is_told_once_and_read_when_it_changes() -> None:
    faults: list[Exception | None] = [UsageError("It is cut off."), UsageError("It is cut off."), None]
    told: list[str] = []
    tab: Any = SimpleNamespace(has_changed=False, is_reading=False, needs_refresh=False, rests_until=0.0, wrong="")

    async def read() -> None:
        fault = faults.pop(0)
        tab.has_changed = bool(faults)  # its agent has written meanwhile
        if fault is not None:
            raise fault

    def nothing(tab: object) -> None:
        pass

    app: Any = SimpleNamespace(wake=nothing, report=told.append, tabs=SimpleNamespace(all=[]))
    fork: Any = nothing
    await _grow(app, tab, AgentSession(read, fork, None))
    assert told == ["It is cut off."]
    assert (tab.needs_refresh, tab.is_reading, tab.wrong, faults) == (True, False, "", [])


async def test_session_that_takes_long_rests_longer() -> None:
    tab: Any = SimpleNamespace(has_changed=False, is_reading=False, needs_refresh=False, rests_until=0.0, wrong="")
    begun: list[float] = []
    took_s = 0.1

    async def read() -> None:
        begun.append(monotonic())
        tab.has_changed = len(begun) < 3  # its agent never stops
        await asyncio.sleep(took_s)

    app: Any = SimpleNamespace(wake=lambda tab: None, tabs=SimpleNamespace(all=[]))
    fork: Any = read
    await _grow(app, tab, AgentSession(read, fork, None))
    assert [later - earlier > 0.95 * (1 + REST) * took_s for earlier, later in pairwise(begun)] == [True, True]
