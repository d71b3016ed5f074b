"""The web server of `handloom serve`: one page, its terminal's files, and the socket to the workspace.

The terminal in the page is that of textual-serve (xterm.js and its glue, https://github.com/Textualize/textual-serve);
the server is ours, because whoever reaches the socket has a shell on this machine. It listens on loopback, answers no
other Host, takes the socket from no other Origin, and wants the token, which never stands in an address that is sent:
not in a request line but the socket's own, not in a cookie, which other ports of the machine would get, not in a
Referer. What a page of another site can reach is a page without anything in it.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler

from tui.serve.served_terminal import ServedTerminal

HOST = "127.0.0.1"
MAX_MESSAGE_BYTES = 1024 * 1024
"""Of one message from the page: what is pasted at once."""
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


class WorkspaceServer:
    """Serves one workspace, started when the first viewer comes and anew when it has ended."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], token: str = "") -> None:
        """Without a token it is one that nobody has had before."""
        self.token = token or secrets.token_urlsafe(32)
        self.port = 0
        self._new_terminal: Callable[[], ServedTerminal] = lambda: ServedTerminal(command, environ)
        self._terminal: ServedTerminal | None = None
        self._starting = asyncio.Lock()
        self._viewers: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None
        self._is_ending = False

    @property
    def address(self) -> str:
        """What the user opens; it has the token in it, so it is shown on the terminal and nowhere else."""
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
        """Tell the pages, close the workspace and its conversations, then the server. None begins after that."""
        self._is_ending = True
        await asyncio.gather(*(viewer.close(code=GONE) for viewer in list(self._viewers)), return_exceptions=True)
        async with self._starting:
            if self._terminal is not None:
                await self._terminal.aclose()
                self._terminal = None
        if self._runner is not None:
            await self._runner.cleanup()

    # -- who may ask what ----------------------------------------------------------------------------------------------

    @property
    def _hosts(self) -> tuple[str, ...]:
        return (f"{HOST}:{self.port}", f"localhost:{self.port}")

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what was not asked of this server by its own name; add what browsers hold a page to."""
        if request.headers.get("Host", "") not in self._hosts:  # a name of others that was pointed at us
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

    # -- what is served ------------------------------------------------------------------------------------------------

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
            await self._converse(viewer, terminal)
        finally:
            self._viewers.discard(viewer)
            if terminal is not None:
                terminal.detach(viewer.send_bytes)
        return viewer

    async def _running(self, columns: int, lines: int) -> ServedTerminal | None:
        """The workspace's terminal; another one where it has ended, and none once the server ends."""
        async with self._starting:
            if self._is_ending:
                return None
            if self._terminal is not None and self._terminal.ended.is_set():
                await self._terminal.aclose()
                self._terminal = None
            if self._terminal is None:
                terminal = self._new_terminal()
                await terminal.start(columns, lines)
                self._terminal = terminal
            return self._terminal

    async def _converse(self, viewer: web.WebSocketResponse, terminal: ServedTerminal) -> None:
        """Pass on what the page says until it goes or the workspace ends."""
        watching = asyncio.create_task(self._close_at_end(viewer, terminal))
        try:
            async for message in viewer:
                if message.type is WSMsgType.TEXT:
                    await _obey(message.data, viewer, terminal)
        finally:
            watching.cancel()

    async def _close_at_end(self, viewer: web.WebSocketResponse, terminal: ServedTerminal) -> None:
        await terminal.ended.wait()
        await viewer.close(code=ENDED)


async def _obey(text: str, viewer: web.WebSocketResponse, terminal: ServedTerminal) -> None:
    """Do what one message of the page asks for; what is none of its kinds is ignored."""
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
    """A number of cells as the page says it; 0 where it is none."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 4 else 0


def _front_end() -> Path:
    """The folder with the terminal of the page."""
    return Path(str(resources.files("textual_serve").joinpath("static")))
