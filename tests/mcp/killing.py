"""Kills a server while an agent waits for it, and measures the time until the agent gets the error."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from core.conversations.conversation_manager import ConversationManager
from core.events import MCPAction, Observation
from core.mcp.supervisor import ServerState
from core.session.agent_session import AgentSession

TOLD_S = 5.0
"""Time limit until an agent is told that a server is gone."""
WAIT_S = 60.0


async def killed_at_work(session: AgentSession, name: str, pid: int) -> float:
    """Kill a server while the agent waits for a call of `name`. Returns the seconds until the agent got the error."""
    async with asyncio.timeout(WAIT_S):
        while (waiting := await _waiting(session, name)) is None:
            await session.changed()
        os.kill(pid, signal.SIGKILL)
        killed_at = time.monotonic()
        while not any(
            e.cause == waiting and isinstance(e.event, Observation) for e in await session.stream.read(limit=500)
        ):
            await session.changed()
    return time.monotonic() - killed_at


async def _waiting(session: AgentSession, name: str) -> int | None:
    """The id of a call of this name that nothing has answered."""
    events = await session.stream.read(limit=500)
    answered = {e.cause for e in events if isinstance(e.event, Observation)}
    calls = [e.id for e in events if isinstance(e.event, MCPAction) and e.event.name == name and e.id not in answered]
    return calls[0] if calls else None


async def until_ready(manager: ConversationManager, folder: str, name: str) -> None:
    """Return once a server is there again."""

    def is_ready() -> bool:
        return all(s.state is ServerState.READY for s in manager.mcp.at(folder) if s.spec.name == name)

    async with asyncio.timeout(WAIT_S), manager.mcp._changed:
        await manager.mcp._changed.wait_for(is_ready)


def pid_of(host_pid: int | None, words: str) -> int:
    """The process under the MCP host whose command holds these words; the newest, which is the server itself."""
    found = [pid for pid in _below(host_pid or 0) if words in _command(pid)]
    assert found, f"no process of the MCP host has {words!r} in its command"
    return max(found)


def _below(pid: int) -> list[int]:
    children = [int(one) for one in _read(pid, f"task/{pid}/children").split()]
    return [*children, *(deeper for child in children for deeper in _below(child))]


def _command(pid: int) -> str:
    return _read(pid, "cmdline").replace("\0", " ")


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:  # it has ended
        return ""
