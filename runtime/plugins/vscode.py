"""VSCodePlugin: an editor in the browser of the user, beside the agent, where one is installed.

Starts `openvscode-server`, `code-server` or `code serve-web`, whichever is found first, on loopback, behind a token
that `GET /vscode/connection_token` tells the holder of the server's key. Follows the plugin of OpenHands V0
(`openhands/runtime/plugins/vscode/__init__.py`).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from runtime.plugins.base import Place
from runtime.server.action_executor import Table

READY_S = 20.0
"""Its first start unpacks extensions."""
END_S = 1.0
MISSING = (
    "no editor is installed here: put openvscode-server, code-server or VS Code's `code` on the PATH of the sandbox"
)


class VSCodePlugin:
    """The editor's server, while it runs."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._token: str | None = None
        self._url: str | None = None
        self._starting = asyncio.Lock()

    @property
    def table(self) -> Table:
        """No action is carried out by it."""
        return {}

    @property
    def routes(self) -> Sequence[web.RouteDef]:
        return [web.get("/vscode/connection_token", self._connection_token)]

    async def start(self) -> None:
        """Start it unless it runs, and wait until it listens. Raises OSError where there is none, or it does not."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self.aclose()
                await self._start()

    async def _start(self) -> None:
        name, path = _found(self._place.environ.get("PATH", os.defpath))
        token, port = secrets.token_hex(32), _free_port()
        argv, environ = await asyncio.to_thread(_COMMANDS[name], path, port, token, self._place)
        self._process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self._place.working_dir,
            env={**self._place.environ, **environ},
            start_new_session=True,
        )
        await self._listening(name, port)
        self._token, self._url = token, f"http://127.0.0.1:{port}/?tkn={token}&folder={self._place.working_dir}"

    async def aclose(self) -> None:
        """End it and what it started."""
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
        """Wait for the line in which it tells its address; all of them do."""
        assert self._process is not None
        assert self._process.stdout is not None
        output, said = self._process.stdout, ""
        try:
            async with asyncio.timeout(READY_S):
                while line := (await output.readline()).decode("utf-8", "replace").strip():
                    said = line
                    if f":{port}" in line:
                        self._reading = asyncio.create_task(_drain(output), name="editor's output")
                        return
        except (TimeoutError, ValueError):
            said = said or f"it said nothing for {READY_S:.0f} s"
        await self.aclose()
        raise OSError(f"{name} did not start: {said or 'it said nothing'}")

    async def _connection_token(self, request: web.Request) -> web.Response:
        """V0's answer, and with it the address, or why there is none. Starts the editor where nobody did."""
        try:
            await self.start()
        except OSError as error:
            return web.json_response({"token": None, "detail": str(error)})
        return web.json_response({"token": self._token, "url": self._url})


async def _drain(output: asyncio.StreamReader) -> None:
    """What nobody reads must not stop who writes it."""
    while await output.read(65536):
        pass


def _found(path: str) -> tuple[str, str]:
    for name in _COMMANDS:
        if found := shutil.which(name, path=path):
            return name, found
    raise OSError(MISSING)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


Made = tuple[list[str], dict[str, str]]


def _openvscode(path: str, port: int, token: str, place: Place) -> Made:
    where = ["--host", "127.0.0.1", "--port", str(port), "--connection-token-file", str(_token_file(place, token))]
    data = ["--server-data-dir", str(place.folder / "vscode"), "--disable-workspace-trust", "--telemetry-level", "off"]
    return [path, *where, *data], {}


def _code_server(path: str, port: int, token: str, place: Place) -> Made:
    data = place.folder / "vscode"
    where = ["--bind-addr", f"127.0.0.1:{port}", "--auth", "password", "--user-data-dir", str(data)]
    quiet = ["--disable-telemetry", "--disable-update-check", "--disable-workspace-trust"]
    return [path, *where, *quiet, place.working_dir], {"PASSWORD": token}


def _code(path: str, port: int, token: str, place: Place) -> Made:
    where = ["--host", "127.0.0.1", "--port", str(port), "--connection-token-file", str(_token_file(place, token))]
    data = ["--server-data-dir", str(place.folder / "vscode"), "--accept-server-license-terms"]
    return [path, "serve-web", *where, *data], {}


def _token_file(place: Place, token: str) -> Path:
    """A file for its owner alone: the words of a command can be read by everybody."""
    file = place.folder / "vscode-token"
    file.touch(0o600)
    file.write_text(token, "ascii")
    return file


_COMMANDS: dict[str, Callable[[str, int, str, Place], Made]] = {
    "openvscode-server": _openvscode,
    "code-server": _code_server,
    "code": _code,
}
"""By the name of the program: its command and what it needs in its environment."""
