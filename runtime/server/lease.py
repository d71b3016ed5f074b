"""`--lives`: one life of the server after another, for conversations that use it one after another.

Each life is a process of its own, made by a fork of this one, which holds the key and the socket and does nothing else.
Invariant: a life begins after everything of the one before has ended, also where that was killed; so no conversation
finds a shell, a variable or a process of another. Who calls between two lives waits in the socket's queue.

Whose server this is: it has one shell, so one conversation has it at a time, from its claim to the server's end.

Invariant: once somebody has claimed it, nothing is carried out for anybody else in this life. Who lets go of it ends
the life, and with it everything that he started; so does the next one who claims it, where its owner has not been heard
of for a while. A server that nobody claims, such as one on this machine, serves whoever has the key.
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
from runtime.server.hardening import adopt_orphans
from runtime.server.request_guard import Handler, RefusedError

SHORT_S = 1.0
"""A life that was shorter, and failed, is not followed by another at once."""
REFUSED = 2
"""The exit status of a life that cannot begin; neither could the next."""


def one_after_another(live: Callable[[bool], int]) -> int:
    """Live until told to end; the answer is the exit status. `live` is told whether it is the first.

    In a life, standard input is its lifeline.
    """
    is_first, is_told_to_end = True, False
    lifeline = -1

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_told_to_end, lifeline
        is_told_to_end = True
        if lifeline >= 0:
            os.close(lifeline)
            lifeline = -1

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in numbers:
        signal.signal(number, end)
    while not is_told_to_end:
        begun_at = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # or one that comes here finds no lifeline to let go of
        held, lifeline = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(lifeline)
            _live(live, is_first, held, numbers)
        os.close(held)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        if lifeline >= 0:
            os.close(lifeline)
            lifeline = -1
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        _end_what_is_left()
        if status == REFUSED:
            return REFUSED
        if status != 0 and time.monotonic() - begun_at < SHORT_S and not is_told_to_end:
            time.sleep(SHORT_S)
        is_first = False
    return 0


def _live(live: Callable[[bool], int], is_first: bool, lifeline: int, numbers: tuple[signal.Signals, ...]) -> None:
    """Be a life, in the process that was made for it. Never returns."""
    status = 1
    try:
        os.dup2(lifeline, 0)
        os.close(lifeline)
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        adopt_orphans()
        status = live(is_first)
    finally:
        os._exit(status)


def _end_what_is_left() -> None:
    """Of a life that was killed: its processes are ours then."""
    processes.kill_descendants(os.getpid())
    with suppress(ChildProcessError):
        while os.waitpid(-1, 0)[0]:
            pass


ABSENT_S = 600.0
"""Without a request of the owner; a client that lives asks every minute."""
_NAME = re.compile(r"[A-Za-z0-9_-]{16,64}")
_ANYBODYS = frozenset(("/alive", "/owner"))
_IN_USE = "this server is used by another conversation"


class Ownership:
    """Of one life of a server. `leave` ends the life; `claimed` is told the owner once, and may block."""

    def __init__(
        self,
        leave: Callable[[], None] | None = None,
        claimed: Callable[[str], None] | None = None,
        absent_s: float = ABSENT_S,
    ) -> None:
        self._leave = leave
        self._claimed = claimed
        self._absent_s = absent_s
        self._owner: str | None = None
        self._heard_at = 0.0
        self.table = [web.put("/owner", self._claim), web.delete("/owner", self._let_go)]

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware: refuses whoever is not the owner, where there is one. Raises RefusedError."""
        if self._owner is not None:
            if request.headers.get(OWNER_HEADER) == self._owner:
                self._heard_at = asyncio.get_running_loop().time()
            elif request.path not in _ANYBODYS:
                raise RefusedError(409, _IN_USE)
        return await handler(request)

    async def _claim(self, request: web.Request) -> web.Response:
        name = request.headers.get(OWNER_HEADER, "")
        if not _NAME.fullmatch(name):
            raise RefusedError(400, f"{OWNER_HEADER} has 16 to 64 letters, digits, - and _")
        now = asyncio.get_running_loop().time()
        if self._owner is None:
            self._owner, self._heard_at = name, now
            if self._claimed is not None:
                try:
                    await asyncio.to_thread(self._claimed, name)
                except OSError as error:
                    self._owner = None
                    raise RefusedError(500, f"its owner's history of edits cannot be kept: {error}") from error
        if self._owner == name:
            return web.json_response({})
        if self._leave is not None and now - self._heard_at > self._absent_s:
            self._leave()
            raise RefusedError(503, "this server is being freed; try again in a moment")
        raise RefusedError(409, _IN_USE)

    async def _let_go(self, request: web.Request) -> web.Response:
        if self._owner is None or request.headers.get(OWNER_HEADER) != self._owner:
            raise RefusedError(409, _IN_USE if self._owner is not None else "nobody has claimed this server")
        if self._leave is None:
            raise RefusedError(501, "this server's end is its launcher's")
        self._leave()
        return web.json_response({})
