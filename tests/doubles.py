"""Doubles of the model, and of a runtime for tests that need a faulty one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from core.errors import RuntimeUnavailableError, UsageError
from core.events import Action, CmdOutputObservation, Frame, Observation, PageShown, TerminalOutput
from core.protocols import FrameSink
from core.sandbox_types import Connect, Denials, GitAccess, Job, Port, SandboxUsage, Say, silently


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call of a scripted turn."""
    return {"name": name, "arguments": arguments}


def bash(command: str, **arguments: Any) -> dict[str, Any]:
    return call("execute_bash", command=command, security_risk="LOW", **arguments)


FINISH: dict[str, Any] = {"text": "Ready.", "tool_calls": [call("finish", message="All is done.")]}


def write_script(folder: Path, turns: Sequence[dict[str, Any]], name: str = "script.yaml") -> str:
    """A scripted model's name, for turns in the form of its file."""
    path = folder / name
    path.write_text(yaml.safe_dump({"version": 1, "turns": json.loads(json.dumps(list(turns)))}), "utf-8")
    return f"scripted:{path}"


class Unconfined:
    """The answers of a runtime without a sandbox."""

    isolation = "none"
    why_open = ""
    is_elsewhere = False
    workspace_host = ""
    web_hosts: Mapping[str, int] = MappingProxyType({})
    runs_servers = False

    async def facts(self) -> Mapping[str, str]:
        """Nothing is known."""
        return {}

    async def list_folder(self, path: str) -> list[str]:
        """It has no files."""
        return []

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        """It has no files."""
        return None

    def allow(self, *, host: str = "", folder: str = "") -> None:
        """Nothing is closed."""

    async def open_hosts(self, hosts: Sequence[str]) -> None:
        """Nothing is closed."""

    def allow_git(self, access: GitAccess) -> None:
        """There is no git."""

    def deny(self, denied: Callable[[], Denials]) -> None:
        """Nothing is enforced."""

    def keep(self, folder: Path) -> None:
        """There is nothing to keep."""

    async def put_back(self, name: str) -> str:
        """Nothing is moved aside."""
        raise UsageError("Nothing is moved aside.")

    async def rest(self) -> None:
        """The same as its end."""
        await self.aclose()

    async def aclose(self) -> None:
        """Nothing runs."""

    async def usage(self) -> SandboxUsage | None:
        """Nothing runs."""
        return None

    async def left_behind(self) -> list[str]:
        """Nothing is looked for."""
        return []

    async def came_back(self) -> list[str]:
        """Nothing was away."""
        return []

    async def watch_page(self) -> AsyncGenerator[PageShown, None]:
        """There is no browser."""
        raise UsageError("There is no browser.")
        yield

    async def run_server(
        self, command: Sequence[str], environ: Mapping[str, str], hosts: Sequence[str], connect: Connect
    ) -> str:
        """It runs none."""
        raise UsageError("This sandbox runs no servers.")

    async def jobs(self) -> list[Job]:
        """None."""
        return []

    async def end_job(self, pid: int) -> None:
        """There is no job."""

    async def ports(self) -> list[Port]:
        """None."""
        return []

    async def forward_port(self, port: int) -> int:
        """The same port."""
        return port

    async def editor(self) -> str:
        """There is none."""
        raise UsageError("There is no editor.")

    async def type_keys(self, keys: bytes) -> None:
        """There is no terminal."""

    async def resize_terminal(self, rows: int, columns: int) -> None:
        """There is no terminal."""

    async def give_terminal_back(self) -> None:
        """There is no terminal."""

    async def set_environment(self, variables: Mapping[str, str | None]) -> None:
        """No program is started."""


class ScriptedRuntime(Unconfined):
    """A runtime that calls `answer` with each action and returns or raises its result."""

    working_dir = "/workspace"

    def __init__(self, answer: Callable[[Action], Observation | BaseException | None] | None = None) -> None:
        self.answer = answer or (lambda action: CmdOutputObservation(command="", content="ok"))
        self.executed: list[Action] = []
        self.cancelled = 0
        self.started = asyncio.Event()

    async def start(self, say: Say = silently) -> None:
        pass

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        self.executed.append(action)
        on_frame(TerminalOutput(action_id, b"partly\r\n"))
        self.started.set()
        answer = self.answer(action)
        try:
            while answer is None:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def aclose(self) -> None:
        pass


def gone() -> RuntimeUnavailableError:
    return RuntimeUnavailableError("The sandbox has ended. Send a message to start a new one.")


def ignore(frame: Frame) -> None:
    """A frame sink that does not care."""
