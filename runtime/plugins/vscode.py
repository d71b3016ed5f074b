"""VSCodePlugin: VS Code in the user's browser, if a VS Code server is installed.

Starts `openvscode-server`, the server in `code-server`, or `code serve-web`, whichever is found first, on loopback,
protected by a token. code-server's own start page would ask for a password instead of taking a token from the address.
`GET /vscode/connection_token` returns that token to the holder of the server's key. Follows the plugin of OpenHands V0
(`openhands/runtime/plugins/vscode/__init__.py`).
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from runtime.plugins.base import PluginContext
from runtime.server.action_executor import Table

READY_S = 20.0
"""The first start unpacks extensions."""
END_S = 1.0
PROGRAMS = ("openvscode-server", "code-server", "code")
"""In the order in which they are looked for."""
MISSING = (
    "no editor is installed here: put openvscode-server, code-server or VS Code's `code` on the PATH of the sandbox;"
    " for Docker: handloom image build --with vscode"
)
SETTINGS = {
    "chat.disableAIFeatures": True,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
}
"""Settings of the editor's user: the agent is Handloom's, so the page shows the explorer and nothing about another."""
UNKNOWN_CODE_SERVER = "{path} has no VS Code server beside it, or no node to run it: install another code-server 4"


class VSCodePlugin:
    """Starts and ends the editor's server, and answers the route that returns its address."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._token: str | None = None
        self._url: str | None = None
        self._starting = asyncio.Lock()

    @property
    def table(self) -> Table:
        """Empty: this plugin carries out no actions."""
        return {}

    @property
    def routes(self) -> Sequence[web.RouteDef]:
        return [web.get("/vscode/connection_token", self._connection_token)]

    async def start(self) -> None:
        """Start the server unless it runs, and wait until it listens. Raises OSError if that fails."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self.aclose()
                await self._start()

    async def _start(self) -> None:
        name, path = _find_program(self._context.environ.get("PATH", os.defpath))
        token, port = secrets.token_hex(32), _free_port()
        argv = await asyncio.to_thread(_command, name, path, port, token, self._context)
        self._process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self._context.working_dir,
            env={**self._context.environ, "CODE_SERVER_PARENT_PID": ""},  # set in a terminal of code-server
            start_new_session=True,
        )
        await self._listening(name, port)
        folder = quote(self._context.working_dir)
        self._token, self._url = token, f"http://127.0.0.1:{port}/?tkn={token}&folder={folder}"

    async def aclose(self) -> None:
        """End the server and its child processes."""
        self._token = self._url = None
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                async with asyncio.timeout(END_S):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None

    async def _listening(self, name: str, port: int) -> None:
        """Wait for the line in which the server prints its address, as all three do."""
        assert self._process is not None
        assert self._process.stdout is not None
        output, last = self._process.stdout, ""
        try:
            async with asyncio.timeout(READY_S):
                while line := (await output.readline()).decode("utf-8", "replace").strip():
                    last = line
                    if f":{port}" in line:
                        self._reading = asyncio.create_task(_drain(output), name="editor's output")
                        return
        except (TimeoutError, ValueError):
            last = last or f"it printed nothing for {READY_S:.0f} s"
        await self.aclose()
        raise OSError(f"{name} did not start: {last or 'it printed nothing'}")

    async def _connection_token(self, request: web.Request) -> web.Response:
        """Answer V0's `token` and the address, or why there is none. Starts the editor if it is not running."""
        try:
            await self.start()
        except OSError as error:
            return web.json_response({"token": None, "detail": str(error)})
        return web.json_response({"token": self._token, "url": self._url})


async def _drain(output: asyncio.StreamReader) -> None:
    """Read and discard output, so that the program does not block on a full pipe."""
    while await output.read(65536):
        pass


def _find_program(path: str) -> tuple[str, str]:
    for name in PROGRAMS:
        if found := shutil.which(name, path=path):
            return name, found
    raise OSError(MISSING)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _command(name: str, path: str, port: int, token: str, context: PluginContext) -> list[str]:
    """Return the command line of a program. Blocks. Raises OSError if code-server is not a known one."""
    data = str(context.folder / "vscode")
    settings = context.folder / "vscode" / "data" / "User" / "settings.json"
    if not settings.exists():
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps(SETTINGS, indent=2), "ascii")
    token_file = context.folder / "vscode-token"  # every user can read the arguments of a command
    token_file.touch(0o600)
    token_file.write_text(token, "ascii")
    where = ["--host", "127.0.0.1", "--port", str(port), "--connection-token-file", str(token_file)]
    if name == "code":
        return [path, "serve-web", *where, "--server-data-dir", data, "--accept-server-license-terms"]
    start = _bundled_server(path, context.environ.get("PATH", os.defpath)) if name == "code-server" else [path]
    return [*start, *where, "--server-data-dir", data, "--disable-workspace-trust", "--telemetry-level", "off"]


def _bundled_server(path: str, search: str) -> list[str]:
    """Return the command that starts the VS Code server in a code-server, as archives, Debian and npm install it."""
    for folder in Path(path).resolve().parents:
        for top in (folder, folder / "lib" / "code-server"):
            server, own_node = top / "lib" / "vscode" / "out" / "server-main.js", top / "lib" / "node"
            node = str(own_node) if own_node.is_file() else shutil.which("node", path=search)
            if server.is_file() and node:
                return [node, str(server)]
    raise OSError(UNKNOWN_CODE_SERVER.format(path=path))
