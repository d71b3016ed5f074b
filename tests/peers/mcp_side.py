"""Published MCP servers, used by a scripted agent in one conversation; one is killed during a call.

One of PyPI, two of npm, each in the version named here and in a folder of the user's cache. The killed one dies while
the agent waits for it: the agent gets an error, continues with the others, and uses it again after its restart.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from core.conversations.conversation_manager import ConversationManager
from core.events import Envelope, MCPAction, MCPObservation, Observation
from core.settings.config import Settings
from runtime.local.local_runtime import LocalRuntime
from tests.doubles import FINISH, call, write_script
from tests.mcp.killing import TOLD_S, killed_at_work, pid_of, until_ready
from tests.peers.installing import MCP, install

NPM = ("@modelcontextprotocol/server-everything@2026.8.31", "@modelcontextprotocol/server-filesystem@2026.8.31")
START_S = 60.0
RUN_S = 120.0
KILLED = "everything"
LONG = f"{KILLED}__trigger-long-running-operation"


def main() -> int:
    """0 where every call was answered as it should be, 1 where one was not, 2 where something is not to be had."""
    python, programs = install(MCP), installed_by_npm()
    if python is None or programs is None:
        return 2
    with tempfile.TemporaryDirectory(prefix="handloom-peers-") as folder:
        return asyncio.run(conversation(Path(folder), python.parent, programs))


def installed_by_npm() -> Path | None:
    """The folder of the programs, installed if missing; None with a message if that fails."""
    folder = user_cache_path("handloom") / "peers" / "npm"
    if not (folder / ".installed").exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", *NPM], cwd=folder, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"The servers of npm could not be installed: {error}", file=sys.stderr)
            return None
        (folder / ".installed").touch()
    return folder / "node_modules" / ".bin"


async def conversation(folder: Path, python_programs: Path, npm_programs: Path) -> int:
    """Have an agent use all three servers and kill one. Reports the result of each call."""
    home, workspace = folder / "home", folder / "workspace"
    workspace.mkdir()
    servers: dict[str, Any] = {
        "time": {"command": str(python_programs / "mcp-server-time")},
        "everything": {"command": str(npm_programs / "mcp-server-everything")},
        "files": {"command": str(npm_programs / "mcp-server-filesystem"), "args": [str(workspace)]},
    }
    asked, again = calls(str(workspace / "note.txt")), (call(f"{KILLED}__get-sum", a=2, b=2), "is 4")
    turns = [*({"tool_calls": [one]} for one, _ in asked), FINISH, {"tool_calls": [again[0]]}, FINISH]
    settings = Settings.model_validate({"agent": {"confirm": "never"}, "mcp": {"servers": servers}})
    async with ConversationManager(home, settings, make_runtime=LocalRuntime, environ=os.environ) as manager:
        session = await manager.create(workspace=str(workspace), model=write_script(folder, turns))
        await manager.mcp.settled(str(workspace), START_S)
        pid = pid_of(manager.mcp._host.pid, f"mcp-server-{KILLED}")
        async with asyncio.timeout(RUN_S):
            await session.send("Use all of your tools.")
            told_s = await killed_at_work(session, LONG, pid)
            await session.settled()
            await until_ready(manager, str(workspace), KILLED)
            await session.send("Use the one that was away again.")
            await session.settled()
        events = list(await session.stream.read(limit=500))
        is_new = pid_of(manager.mcp._host.pid, f"mcp-server-{KILLED}") != pid
        states = ", ".join(f"{server.spec.name} {server.state}" for server in manager.mcp.at(str(workspace)))
    told = [answer_to(envelope, events) for envelope in events if isinstance(envelope.event, MCPAction)]
    bad = len(asked) + 1 - len(told)
    for (one, words), answer in zip([*asked, again], told, strict=False):
        fits = answer is not None and words in answer.content
        bad += not fits
        print(f"{'ok ' if fits else 'BAD'}  {one['name']:<42} {answer.content[:70]!r}" if answer else f"BAD  {one}")
    in_time = told_s <= TOLD_S and is_new
    print(
        f"{'ok ' if in_time else 'BAD'}  {KILLED}, process {pid}, was killed; the agent was told after {told_s:.2f} s"
    )
    print(f"{len(asked) + 1} calls of tools of {states}; {bad} answered otherwise than they should be")
    return int(bool(bad) or not in_time)


def calls(note: str) -> list[tuple[dict[str, Any], str]]:
    """The agent's calls for the first message, and the expected results; `LONG` is running when its server dies."""
    return [
        (call("time__convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"), "21:00"),
        (call("everything__get-sum", a=1, b=2), "is 3"),
        (call("everything__get-tiny-image"), "image"),
        (call("files__write_file", path=note, content="by a server"), "Successfully wrote"),
        (call("files__read_text_file", path="/etc/passwd"), "Access denied"),
        (call("mcp_list_resources", server="everything"), "demo://"),
        (call(LONG, duration=600, steps=5), f"The MCP server {KILLED} failed."),
        (call("time__convert_time", source_timezone="UTC", time="13:00", target_timezone="Asia/Tokyo"), "22:00"),
        (call("files__read_text_file", path=note), "by a server"),
    ]


def answer_to(call: Envelope, events: list[Envelope]) -> Observation | None:
    """The only observation of a call; None if there is not exactly one."""
    found = [e.event for e in events if e.cause == call.id and isinstance(e.event, Observation)]
    kinds = [event for event in found if event.kind in (MCPObservation.kind, "error")]
    return kinds[0] if len(kinds) == 1 else None
