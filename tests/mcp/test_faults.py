"""Faulty servers affect only their callers, who get an answer in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.events import ErrorObservation, MCPObservation
from core.mcp.supervisor import ServerState
from tests.mcp.faulty import ERROR, MODES, OK
from tests.mcp.supervised import Supervised, faulty, supervised
from tests.stopped_clock import stopped_clock

pytestmark = pytest.mark.asyncio(loop_scope="module")

WITHIN_S = 5.0
"""Which the calls may wait for at most; how fast servers and their host work does not count."""
HOSTILE = ("\x1b", "\x9b", "\u202e", "\U000e0041", "\ud800")
NO_PROGRAM: dict[str, dict[str, Any]] = {
    "no_such_program": {"command": "handloom-no-such-program"},
    "not_executable": {"command": "/etc/passwd"},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervised]:
    async with supervised(tmp_path_factory.mktemp("faults"), {"fine": faulty("fine")}) as made:
        yield made


async def test_there_are_forty_faults() -> None:
    assert len(MODES) - 1 >= 40


@pytest.mark.parametrize("mode", sorted(MODES))
async def test_other_tools_work_and_the_error_is_returned_in_time(it: Supervised, mode: str) -> None:
    pid = it.supervisor._host.pid
    await it.set({"fine": faulty("fine"), "bad": NO_PROGRAM.get(mode) or faulty(mode, start_s=3.0)})

    with stopped_clock(after_s=WITHIN_S):
        good, bad = await asyncio.gather(it.call("fine__echo"), it.call("bad__echo"))
    assert (type(good), good.content) == (MCPObservation, "said again")
    assert isinstance(bad, {OK: MCPObservation, ERROR: ErrorObservation}[MODES[mode]]), bad.content
    assert bad.content.strip()
    if mode.startswith("asks_"):
        assert bad.content == "refused: True"
    tools = await it.box.tools()
    for text in [str(tool.schema()) for tool in tools] + [bad.content, it.server("bad").reason, *it.told]:
        assert not any(char in text for char in HOSTILE)
    names = [tool.name for tool in tools]
    assert len(set(names)) == len(names) <= 2 * 128
    assert all(len(name) <= 64 and name.replace("-", "_").isidentifier() for name in names)
    assert it.supervisor._host.pid == pid, "the host died of it"


async def test_flood_of_tool_changes_is_listed_once_a_second(it: Supervised) -> None:
    """Only listing is delayed, never calls of other tools: both are requested during the flood."""
    await it.set({"fine": faulty("fine"), "bad": faulty("list_changed_flood")})
    assert it.server("bad").state is ServerState.READY
    for _ in range(20):
        assert isinstance(await it.call("fine__echo"), MCPObservation)


async def test_child_processes_end_with_their_server(it: Supervised) -> None:
    await it.set({"fine": faulty("fine")})
    others = lingering()
    await it.set({"fine": faulty("fine"), "bad": faulty("lingering_child")})
    assert isinstance(await it.call("bad__echo"), MCPObservation)
    started = lingering() - others
    assert len(started) == 2, "the server and what it started"
    await it.set({"fine": faulty("fine")})
    async with asyncio.timeout(20):
        while started & lingering():
            await asyncio.sleep(0.05)


def lingering() -> set[int]:
    """The processes of the server that starts another one, and of that one."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"lingering_child" in path.read_bytes():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found
