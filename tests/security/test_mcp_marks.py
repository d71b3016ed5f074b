"""Annotations of MCP tools: a closed read-only tool does not ask after untrusted content."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.events import AgentState, MCPAction
from core.mcp.supervisor import ServerState
from core.settings.config import Settings
from tests.doubles import FINISH, bash, call, write_script
from tests.mcp.supervised import START_S, supervised
from tests.session.test_session import of_type
from tests.warm_servers import WarmRuntime

MARKED = """
import json, os, sys
for line in sys.stdin:
    order = json.loads(line)
    if "id" not in order:
        continue
    tools = [{"name": name, "description": "A tool.", "inputSchema": {"type": "object"}, "annotations": marks}
             for name, marks in json.loads(open(os.environ["MARKS"]).read()).items()]
    said = {"initialize": {"protocolVersion": order.get("params", {}).get("protocolVersion", ""),
                           "capabilities": {"tools": {}}, "serverInfo": {"name": "m", "version": "1"}},
            "tools/list": {"tools": tools},
            "tools/call": {"content": [{"type": "text", "text": "called"}]}}.get(order["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": order["id"], "result": said}), flush=True)
"""
READS = {"tool_calls": [bash("cat ~/Downloads/notes.txt 2>/dev/null; echo read")]}
CLOSED = {"readOnlyHint": True, "openWorldHint": False}
MARKS: dict[str, Any] = {
    "closed": CLOSED,
    "open": {"readOnlyHint": True, "openWorldHint": True},
    "untold": {"readOnlyHint": True},
    "writing": {"readOnlyHint": False, "openWorldHint": False},
    "plain": {},
}


def marked(tmp_path: Path, marks: dict[str, Any]) -> dict[str, Any]:
    """The settings of a server whose tools have these marks."""
    (tmp_path / "marks.json").write_text(json.dumps(marks))
    (tmp_path / "marked.py").write_text(MARKED)
    command = {"command": sys.executable, "args": [str(tmp_path / "marked.py")], "env": ["MARKS"]}
    return {**command, "start_s": START_S, "sandbox": False}


async def rules(tmp_path: Path, tool: str, *, mode: str = "never") -> list[str]:
    """Which rule asks about a call of this tool after something foreign was read; at most one."""
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "policy.toml").write_text('allow = ["bash(*)"]\n')  # so that only the tool asks
    settings = Settings.model_validate({"agent": {"confirm": mode}, "mcp": {"servers": {"m": marked(tmp_path, MARKS)}}})
    environ = {"MARKS": str(tmp_path / "marks.json")}
    turns = [READS, {"tool_calls": [call(f"m__{tool}", text="a secret")]}, FINISH]
    async with ConversationManager(tmp_path / "home", settings, make_runtime=WarmRuntime, environ=environ) as manager:
        session = await manager.create(workspace=str(workspace), model=write_script(tmp_path, turns))
        await manager.mcp.settled(str(workspace), START_S)
        async with asyncio.timeout(START_S):
            await session.send("go")
            await session.settled()
        calls = of_type(await session.stream.read(), MCPAction)
        waits = session.state.agent_state is AgentState.AWAITING_USER_CONFIRMATION
        asked = [one.judgement.rule for one in calls if one.judgement is not None]
        assert waits == bool(asked)
        assert len(calls) == 1
        return asked


@pytest.mark.parametrize("tool", MARKS)
async def test_only_closed_read_only_tools_do_not_ask(tmp_path: Path, tool: str) -> None:
    assert await rules(tmp_path, tool) == ([] if tool == "closed" else ["taint"])


async def test_read_only_mark_does_not_change_the_mode(tmp_path: Path) -> None:
    assert await rules(tmp_path, "closed", mode="risky") == ["mode risky"]


async def test_changed_mark_is_a_changed_tool(tmp_path: Path) -> None:
    environ = {"MARKS": str(tmp_path / "marks.json")}
    server = marked(tmp_path, {"one": {"readOnlyHint": True, "openWorldHint": True}, "two": CLOSED})
    async with supervised(tmp_path, {"m": server}, environ) as it:
        assert it.box.harmless() == {"m__two"}
    marked(tmp_path, {"one": CLOSED, "two": CLOSED})
    async with supervised(tmp_path, {"m": server}, environ) as it:
        assert it.server("m").state is ServerState.READY
        assert [tool["name"] for tool, _ in it.server("m").changed] == ["one"]
        assert it.box.harmless() == {"m__two"}
        await it.supervisor.approve("m", [tool["hash"] for tool, _ in it.server("m").changed])
        assert it.box.harmless() == {"m__one", "m__two"}
