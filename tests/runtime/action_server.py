"""Action servers for tests: the application in the test's own loop, and the program as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from aiohttp import web

from core.events import CmdRunAction
from runtime.client import ActionExecutionClient
from runtime.server.request_guard import RequestGuard

KEY = "k" * 64


class Server:
    """The application in this process, on a free port of this machine."""

    def __init__(self, app: web.Application, port: int, guard: RequestGuard) -> None:
        self.app = app
        self.guard = guard
        self.port = port
        self.url = f"http://127.0.0.1:{port}"


class Process:
    """A server as a child, with its key and its socket in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "s"
        self.key_file = folder / "key"
        self.key_file.write_text(KEY)
        self.child: subprocess.Popen[bytes] | None = None

    def start(
        self, *options: str, where: tuple[str, ...] | None = None, within: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """Start it; unless it refuses, it prints `ready` first. `within` is a command prefix."""
        address = where or ("--uds", str(self.socket))
        argv = [*within, sys.executable, "-P", "-m", "runtime.server", "--working-dir", str(self.folder), *address]
        argv += ["--key-file", str(self.key_file), *options]
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return self.child

    @property
    def life(self) -> int:
        """The process of the present life of a server that has several."""
        assert self.child is not None
        return int(Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text().split()[0])

    def ready(self) -> str:
        assert self.child is not None
        assert self.child.stdout is not None
        return self.child.stdout.readline().decode()

    def refusal(self, *options: str) -> str:
        """The standard error of a server that refuses to start."""
        child = self.start(*options)
        _, said = child.communicate(timeout=10)
        assert child.returncode == 2
        return said.decode()

    async def run(self, command: str) -> str:
        async with ActionExecutionClient(KEY, uds=str(self.socket)) as client:
            return (await client.execute(CmdRunAction(command=command), 1, lambda frame: None)).content
