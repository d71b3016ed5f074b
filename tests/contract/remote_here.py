"""A RemoteRuntime whose server is on this machine: a process that its runtime neither starts nor ends."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import ClassVar

from core.sandbox_types import Say, silently
from runtime.remote.remote_runtime import RemoteRuntime, parse_address
from tests.runtime.action_server import KEY

NOWHERE = "http://127.0.0.1:1"


class RemoteHere(RemoteRuntime):
    """Starts a server on loopback when it is started first; the caller ends it."""

    servers: ClassVar[list[tuple[subprocess.Popen[bytes], str]]] = []

    def __init__(self, folder: Path, options: tuple[str, ...] = (), patience_s: float = 20.0) -> None:
        super().__init__(parse_address(NOWHERE), lambda: KEY, working_dir=str(folder), patience_s=patience_s)
        self._options = options
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The server's own address."""
        return self._address.url

    @property
    def server_pid(self) -> int | None:
        """The process of the server's present life."""
        if self._server is None:
            return None
        children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children").read_text().split()
        return int(children[0]) if children else None

    async def start(self, say: Say = silently) -> None:
        if self._server is None:
            await asyncio.to_thread(self._launch)
        await super().start(say)

    def _launch(self) -> None:
        state = tempfile.mkdtemp(prefix="handloom-state-")
        key = Path(state, "key")
        key.write_text(KEY)
        self._server = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "runtime.server", "--lives", "--port", "0", "--key-file", key),
                *("--working-dir", self._working_dir, "--root", self._working_dir, "--root", tempfile.gettempdir()),
                *("--state-dir", state, *self._options),
            ],
            stdout=subprocess.PIPE,
        )
        self.servers.append((self._server, state))
        assert self._server.stdout is not None
        self._address = parse_address(self._server.stdout.readline().decode().split()[1])

    @classmethod
    def end_servers(cls) -> None:
        """End all that were started."""
        while cls.servers:
            server, state = cls.servers.pop()
            with server:
                server.terminate()
            shutil.rmtree(state)
