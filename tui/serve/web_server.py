"""The web server of `handloom serve`: one page, its terminal's files, and the socket to the workspace.

The terminal in the page is that of textual-serve (xterm.js and its glue, https://github.com/Textualize/textual-serve);
the server is ours, because whoever reaches the socket has a shell on this machine. It listens on loopback, answers no
other Host, accepts the socket from no other Origin, and requires the token. The token is in no other request line, in
no cookie, which other ports of the machine would get, and in no Referer. Pages of other sites can only reach an empty
page.

The workspace is a child process on a pseudo-terminal. A viewer that attaches gets a redrawn screen and what is printed
from then on. While nobody is attached, output is dropped and the workspace continues. There is one viewer at a time: a
later one takes over.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import pty
import re
import secrets
import signal
import struct
import sys
import termios
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler

from core.errors import UsageError
from core.interpreter import start_command
from tui.terminal_io.escapes import FOCUS_ON

Send = Callable[[bytes], Awaitable[None]]
"""Takes the terminal's output; raises ConnectionError if the viewer is gone."""

CHUNK_BYTES = 64 * 1024
MAX_CELLS = 1000
"""Limit for rows and for columns."""
END_S = 10.0
"""How long the workspace may take to close its conversations before it is killed. Its log is complete in any case."""
_SCREEN_IS_SET_UP = FOCUS_ON.encode()
"""Printed by the workspace when its screen is set up; a viewer that attaches before misses nothing."""
_OTHER_TERMINAL = ("TMUX", "TMUX_PANE", "STY", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "VTE_VERSION", "KITTY_WINDOW_ID",
            "WT_SESSION", "LC_TERMINAL", "COLUMNS", "LINES", "SSH_TTY", "SSH_CONNECTION", "SSH_CLIENT")  # fmt: skip
"""Variables about the terminal in which the server was started."""
HOST = "127.0.0.1"
MAX_MESSAGE_BYTES = 1024 * 1024
"""Limit for one message, such as pasted text."""
HEARTBEAT_S = 15.0
"""A viewer that does not answer within this is gone."""
ENDED, TAKEN_OVER, GONE, REFUSED = 4000, 4001, 4002, 4003
"""Close codes of the socket; `page.js` has what the user reads."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
        "img-src 'self' data: blob:; connect-src 'self' {ws}; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}


def terminal_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the child, without variables about another terminal."""
    return {name: value for name, value in environ.items() if name not in _OTHER_TERMINAL} | {
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }


class ServedTerminal:
    """One child process and its terminal. `start` it once; `aclose` it."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command = list(command)
        self._environ = terminal_environment(environ)
        self._process: asyncio.subprocess.Process | None = None
        self._master = -1
        self._viewer: Send | None = None
        self._readable = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._typed = bytearray()
        self._is_drawn = False
        """Whether the workspace has set up its screen; before, a signal would end it."""
        self.ended = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self, columns: int, lines: int) -> None:
        """Start the child on a terminal of this size, in cells. Raises OSError."""
        self._master, slave = pty.openpty()
        try:
            self.resize(columns, lines)
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=self._environ,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
        finally:
            os.close(slave)
        os.set_blocking(self._master, False)
        asyncio.get_running_loop().add_reader(self._master, self._readable.set)
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        """Send the output to the viewer until the child has ended. A slow viewer slows the child."""
        assert self._process is not None
        while data := await self._next():
            self._is_drawn = self._is_drawn or _SCREEN_IS_SET_UP in data
            viewer = self._viewer
            if viewer is None:
                continue
            try:
                await viewer(data)
            except (ConnectionError, RuntimeError):
                self.detach(viewer)
        asyncio.get_running_loop().remove_reader(self._master)
        await self._process.wait()
        self.ended.set()

    async def _next(self) -> bytes:
        """The next bytes of output; empty at the end."""
        while True:
            self._readable.clear()
            try:
                return os.read(self._master, CHUNK_BYTES)
            except BlockingIOError:
                await self._readable.wait()
            except OSError:  # EIO: the other side was closed
                return b""

    # -- the viewer --------------------------------------------------------------------------------------------------

    def attach(self, viewer: Send, columns: int, lines: int) -> None:
        """Send output to this viewer only, beginning with the whole screen."""
        self._viewer = viewer
        self.resize(columns, lines)
        if self._is_drawn and self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGUSR1)  # `HandloomApp` redraws its screen

    def detach(self, viewer: Send) -> None:
        """Send nothing more to this viewer, unless another one has taken over."""
        if self._viewer == viewer:
            self._viewer = None

    def is_attached(self, viewer: Send) -> bool:
        return self._viewer == viewer

    def resize(self, columns: int, lines: int) -> None:
        """Set the terminal's size in cells."""
        columns, lines = (min(max(1, number), MAX_CELLS) for number in (columns, lines))
        with suppress(OSError):  # the child may have ended
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, data: bytes) -> None:
        """Send input to the child. What it does not read yet is buffered without limit."""
        if self._master < 0 or self.ended.is_set():
            return
        self._typed += data
        self._write()

    def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            del self._typed[: os.write(self._master, self._typed)]
        except BlockingIOError:
            pass
        except OSError:  # the child has ended
            self._typed.clear()
        if self._typed:
            loop.add_writer(self._master, self._write)
        else:
            loop.remove_writer(self._master)

    async def aclose(self) -> None:
        """Terminate the child, kill it after END_S, and wait until it has ended."""
        if self._process is None:
            return
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(END_S):
                    await self.ended.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    self._process.kill()
        if self._reading is not None:
            await self._reading
        loop = asyncio.get_running_loop()
        loop.remove_writer(self._master)
        os.close(self._master)
        self._process = None


class WorkspaceServer:
    """Serves one workspace, which is started for the first viewer and again after it has ended."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], token: str = "") -> None:
        """Without `token`, a new one is generated."""
        self.token = token or secrets.token_urlsafe(32)
        self.port = 0
        self._command = command
        self._environ = environ
        self._terminal: ServedTerminal | None = None
        self._starting = asyncio.Lock()
        self._viewers: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None
        self._is_ending = False

    @property
    def address(self) -> str:
        """The address with the token. It is shown on the terminal and nowhere else."""
        return f"http://{HOST}:{self.port}/#{self.token}"

    async def start(self, port: int = 0) -> None:
        """Listen on this port of loopback; 0 takes a free one. Raises OSError."""
        app = web.Application(middlewares=[self._guarded])
        app.router.add_get("/", self._page)
        app.router.add_get("/{name:page\\.(?:css|js)}", self._page)
        app.router.add_get("/ws/{token}", self._socket)
        app.router.add_static("/static", _front_end())
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def aclose(self) -> None:
        """Close the viewers, the workspace with its conversations, and the server."""
        self._is_ending = True
        await asyncio.gather(*(viewer.close(code=GONE) for viewer in list(self._viewers)), return_exceptions=True)
        async with self._starting:
            if self._terminal is not None:
                await self._terminal.aclose()
                self._terminal = None
        if self._runner is not None:
            await self._runner.cleanup()

    # -- access --------------------------------------------------------------------------------------------------------

    @property
    def _hosts(self) -> tuple[str, ...]:
        return (f"{HOST}:{self.port}", f"localhost:{self.port}")

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests for another host, and add the security headers."""
        if request.headers.get("Host", "") not in self._hosts:  # a foreign name that resolves to this machine
            raise web.HTTPMisdirectedRequest(text="This server only accepts requests for its own address.")
        response = await handler(request)
        if not response.prepared:
            sockets = " ".join(f"ws://{host}" for host in self._hosts)
            response.headers.update({name: value.replace("{ws}", sockets) for name, value in HEADERS.items()})
        return response

    def _may_connect(self, request: web.Request) -> bool:
        origin = request.headers.get("Origin", "")
        ours = origin in {f"http://{host}" for host in self._hosts}
        return ours and secrets.compare_digest(request.match_info["token"].encode(), self.token.encode())

    # -- routes --------------------------------------------------------------------------------------------------------

    async def _page(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", "page.html")
        text = resources.files("tui.serve").joinpath(name).read_text("utf-8")
        return web.Response(text=text, content_type=_TYPES[name])

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        viewer = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE_BYTES)
        await viewer.prepare(request)
        if not self._may_connect(request):
            await viewer.close(code=REFUSED)
            return viewer
        columns, lines = (_cells(request.query.get(name)) for name in ("width", "height"))
        self._viewers.add(viewer)
        terminal: ServedTerminal | None = None
        try:
            terminal = await self._running(columns or 80, lines or 24)
            if terminal is None:
                await viewer.close(code=GONE)
                return viewer
            for other in self._viewers - {viewer}:
                await other.close(code=TAKEN_OVER)
            terminal.attach(viewer.send_bytes, columns or 80, lines or 24)
            await self._handle_messages(viewer, terminal)
        finally:
            self._viewers.discard(viewer)
            if terminal is not None:
                terminal.detach(viewer.send_bytes)
        return viewer

    async def _running(self, columns: int, lines: int) -> ServedTerminal | None:
        """Return the workspace's terminal, started if needed; None once the server ends."""
        async with self._starting:
            if self._is_ending:
                return None
            if self._terminal is not None and self._terminal.ended.is_set():
                await self._terminal.aclose()
                self._terminal = None
            if self._terminal is None:
                terminal = ServedTerminal(self._command, self._environ)
                await terminal.start(columns, lines)
                self._terminal = terminal
            return self._terminal

    async def _handle_messages(self, viewer: web.WebSocketResponse, terminal: ServedTerminal) -> None:
        """Handle the page's messages until it is closed or the workspace ends."""
        watching = asyncio.create_task(self._close_at_end(viewer, terminal))
        try:
            async for message in viewer:
                if message.type is WSMsgType.TEXT:
                    await _handle_message(message.data, viewer, terminal)
        finally:
            watching.cancel()

    async def _close_at_end(self, viewer: web.WebSocketResponse, terminal: ServedTerminal) -> None:
        await terminal.ended.wait()
        await viewer.close(code=ENDED)


async def _handle_message(text: str, viewer: web.WebSocketResponse, terminal: ServedTerminal) -> None:
    """Handle one message of the page; unknown ones are ignored."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return
    match message:
        case ["stdin", str() as typed] if terminal.is_attached(viewer.send_bytes):
            terminal.type(typed.encode("utf-8", "replace"))
        case ["resize", {"width": int() as columns, "height": int() as lines}]:
            if terminal.is_attached(viewer.send_bytes):
                terminal.resize(columns, lines)
        case ["ping", str() as when]:
            await viewer.send_json(["pong", when])


def _cells(text: str | None) -> int:
    """Parse a number of cells; 0 if it is not valid."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 4 else 0


def _front_end() -> Path:
    """The folder with the page's terminal."""
    return Path(str(resources.files("textual_serve").joinpath("static")))


MAX_TOKEN_BYTES = 200


async def serve(options: argparse.Namespace) -> int:
    """Serve until a signal; standard output has the address only. Raises UsageError."""

    token = _token(Path(options.token_file)) if options.token_file else ""
    server = WorkspaceServer([*start_command("tui", *_workspace_options(options))], os.environ, token)
    try:
        await server.start(options.port)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(
            f"Cannot listen on port {options.port} of {HOST}: {why}. Choose another port: handloom serve --port N"
        ) from error
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        sys.stderr.write("Open this URL in a browser. Anyone who has it can act as you. Ctrl+C stops the server.\n")
        await stop.wait()
    finally:
        await server.aclose()
    return 0


def _token(file: Path) -> str:
    """Read the token from a private file, which is created if missing. Blocks. Raises UsageError."""
    try:
        with suppress(FileExistsError), open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(f"{secrets.token_urlsafe(32)}\n")
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as kept:
            about = os.fstat(kept.fileno())
            token = kept.read(MAX_TOKEN_BYTES + 1).decode("ascii").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise UsageError(f"Cannot use the token file {file}: {why}. Remove it, or name another.") from error
    if about.st_mode & 0o077 or about.st_uid != os.getuid():
        raise UsageError(f"Other users can read the token in {file}. Run: chmod 600 {file}")
    if not re.fullmatch(r"[A-Za-z0-9_-]{32,128}", token):
        raise UsageError(
            f"{file} contains no valid token (at least 32 letters, digits, - and _). Remove it to have one generated."
        )
    return token


def _workspace_options(options: argparse.Namespace) -> list[str]:
    """The options for the workspace's command line."""
    arguments = []
    for name in ("model", "runtime", "agent", "instructions", "workspace", "repo", "confirm"):
        if (value := getattr(options, name)) is not None:
            arguments += [f"--{name}", value]
    if options.resume is not None:
        arguments += ["--resume", *([options.resume] if options.resume else [])]
    return arguments
