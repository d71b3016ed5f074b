"""Which conversation uses the server, and `--lives`: one server process after another for several conversations.

A server has one shell, so one conversation claims it at a time, until the server ends (Lease). Once claimed, nothing is
carried out for anybody else. Releasing the lease ends the server process and everything that it started; so does the
next claim if the owner has been silent for a while. A server that nobody claims serves everybody who has the key.

With `--lives`, each process is a fork of one that holds the key and the socket and does nothing else. A new one starts
only after everything of the previous one has ended, so no conversation finds a shell, a variable or a process of
another. Connections wait meanwhile in the socket's queue.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from aiohttp import web

from runtime.protocol import OWNER_HEADER
from runtime.server import processes
from runtime.server.request_guard import Handler, RefusedError

SHORT_S = 1.0
"""After a failure within this time, the next process is delayed."""
REFUSED = 2
"""The exit status of a process that cannot start; the next one could not either."""


def serve_repeatedly(serve: Callable[[bool], int]) -> int:
    """Run one server process after another until a signal ends it; return the exit status.

    `serve` is called in each process, with whether it is the first. Its standard input ends when it has to end.
    """
    is_first, is_ending = True, False
    lifeline = -1

    def close_lifeline() -> None:
        nonlocal lifeline
        if lifeline >= 0:
            os.close(lifeline)
            lifeline = -1

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        is_ending = True
        close_lifeline()

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in numbers:
        signal.signal(number, end)
    while not is_ending:
        begun_at = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # a signal here would find no lifeline to close
        held, lifeline = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(lifeline)
            _serve(serve, is_first, held, numbers)
        os.close(held)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        close_lifeline()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        processes.kill_descendants(os.getpid())  # of a server that was killed; we have adopted them
        with suppress(ChildProcessError):
            while os.waitpid(-1, 0)[0]:
                pass
        if status == REFUSED:
            return REFUSED
        if status != 0 and time.monotonic() - begun_at < SHORT_S and not is_ending:
            time.sleep(SHORT_S)
        is_first = False
    return 0


def _serve(serve: Callable[[bool], int], is_first: bool, lifeline: int, numbers: tuple[signal.Signals, ...]) -> None:
    """Run `serve` in the forked process. Never returns."""
    status = 1
    try:
        os.dup2(lifeline, 0)
        os.close(lifeline)
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        processes.adopt_orphans()
        status = serve(is_first)
    finally:
        os._exit(status)


ABSENT_S = 600.0
"""An owner without a request for this long loses the lease to the next claim; a client asks every minute."""
_NAME = re.compile(r"[A-Za-z0-9_-]{16,64}")
_PUBLIC_PATHS = frozenset(("/alive", "/owner"))
_IN_USE = "this server is used by another conversation"


class Lease:
    """The lease of one server process. `shut_down` ends it; `on_claim` is called once with the owner, and may block."""

    def __init__(
        self,
        shut_down: Callable[[], None] | None = None,
        on_claim: Callable[[str], None] | None = None,
        absent_s: float = ABSENT_S,
    ) -> None:
        self._shut_down = shut_down
        self._on_claim = on_claim
        self._absent_s = absent_s
        self._owner: str | None = None
        self._heard_at = 0.0
        self.table = [web.put("/owner", self._claim), web.delete("/owner", self._release)]

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Middleware: refuse everybody but the owner, if there is one. Raises RefusedError."""
        if self._owner is not None:
            if request.headers.get(OWNER_HEADER) == self._owner:
                self._heard_at = asyncio.get_running_loop().time()
            elif request.path not in _PUBLIC_PATHS:
                raise RefusedError(409, _IN_USE)
        return await handler(request)

    async def _claim(self, request: web.Request) -> web.Response:
        name = request.headers.get(OWNER_HEADER, "")
        if not _NAME.fullmatch(name):
            raise RefusedError(400, f"{OWNER_HEADER} has 16 to 64 letters, digits, - and _")
        now = asyncio.get_running_loop().time()
        if self._owner is None:
            self._owner, self._heard_at = name, now
            if self._on_claim is not None:
                try:
                    await asyncio.to_thread(self._on_claim, name)
                except OSError as error:
                    self._owner = None
                    raise RefusedError(500, f"the owner's edit history cannot be stored: {error}") from error
        if self._owner == name:
            return web.json_response({})
        if self._shut_down is not None and now - self._heard_at > self._absent_s:
            self._shut_down()
            raise RefusedError(503, "this server is being freed; try again in a moment")
        raise RefusedError(409, _IN_USE)

    async def _release(self, request: web.Request) -> web.Response:
        if self._owner is None or request.headers.get(OWNER_HEADER) != self._owner:
            raise RefusedError(409, _IN_USE if self._owner is not None else "nobody has claimed this server")
        if self._shut_down is None:
            raise RefusedError(501, "only its launcher can end this server")
        self._shut_down()
        return web.json_response({})
