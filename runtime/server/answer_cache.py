"""AnswerCache: actions that outlast the connection that requested them, their stored answers, and the routes to them.

`POST /execute_action` with a token in RESUME_HEADER starts an action or joins it, `GET /actions/{token}?after=N`
continues after frame N, and `DELETE /actions/{token}` interrupts the action and forgets its answer. Closing a response
interrupts nothing. AFTER_HEADER of an answer names the frame before its first line.

Invariants: a token is carried out at most once, however often and however late it arrives; frames are numbered from 1
and read in order, without gaps except for frames dropped while nobody read; the observation is kept until it is
released; an action that nobody asked for during `Times.keep_s` is interrupted. Answers, frames and remembered tokens
are limited in number and size.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from aiohttp import web

from core.events import Action, Frame, Observation
from runtime.protocol import AFTER_HEADER, NDJSON_TYPE, RESUME_HEADER, encode_frame, encode_observation
from runtime.server.action_executor import Handler
from runtime.server.request_guard import RefusedError

FRAMES_BYTES = 1024 * 1024
"""How much of the newest frames of one action is kept; older ones are dropped, since the observation has everything."""
AHEAD_BYTES = 256 * 1024
"""How much may wait for a reader before the command has to wait."""
MAX_KEPT = 64
"""Answers kept at once. A conversation needs one or two."""
MAX_REMEMBERED = 10_000
"""Released tokens remembered for `Times.keep_s`, because their request may still arrive."""


@dataclass(frozen=True, slots=True)
class Times:
    """Time limits in seconds."""

    keep_s: float = 600.0
    """How long an action or its observation waits for the next request; longer than a turn."""
    turn_s: float = 60.0
    """The longest single response. A client that still listens asks again, which tells a dead connection from a
    quiet one.
    """
    beat_s: float = 2.0
    """After this silence a reader gets an empty line, so that it can tell a quiet connection from a dead one."""


TIMES = Times()


class CachedAnswer:
    """The answer to one action so far, as encoded lines, and its reader."""

    def __init__(self) -> None:
        self._lines: dict[int, bytes] = {}
        self._lines_bytes = 0
        self.last = 0
        """The number of the newest frame; 0 if there is none."""
        self.is_complete = False
        self._observation = b""
        self._reader: Reader | None = None

    async def add(self, frame: Frame) -> None:
        """Store a frame. Waits while the reader is far behind."""
        line = encode_frame(frame) + b"\n"
        self.last += 1
        self._lines[self.last] = line
        self._lines_bytes += len(line)
        while self._lines_bytes > FRAMES_BYTES and len(self._lines) > 1:
            self._lines_bytes -= len(self._lines.pop(next(iter(self._lines))))
        while (reader := self._reader) is not None:
            reader.changed.set()
            if self._bytes_after(reader.position) <= AHEAD_BYTES:
                return
            reader.taken.clear()
            await reader.taken.wait()

    def end(self, observation: Observation | None) -> None:
        """Complete the answer with an observation, or with None if the action was interrupted."""
        if observation is not None:
            self._observation = encode_observation(observation) + b"\n"
        self.is_complete = True
        if self._reader is not None:
            self._reader.changed.set()

    def reader(self, after: int) -> Reader:
        """Return a new reader of the stored frames after this number; it replaces the previous reader."""
        self._detach_reader()
        self._reader = Reader(self, max(after, next(iter(self._lines), self.last + 1) - 1))
        return self._reader

    def take(self, reader: Reader) -> bytes:
        """Return everything that this reader does not have yet, and advance it."""
        taken = b"".join(self._lines[number] for number in range(reader.position + 1, self.last + 1))
        reader.position = self.last
        reader.has_all = self.is_complete
        reader.taken.set()
        return taken + self._observation

    def detach(self, reader: Reader) -> None:
        """Detach a reader, if it was not replaced. The action no longer waits for it."""
        if self._reader is reader:
            self._detach_reader()

    def is_read_by(self, reader: Reader) -> bool:
        """Return whether a reader may go on: it was not replaced, and nothing that it lacks was dropped."""
        return self._reader is reader and (reader.position == self.last or reader.position + 1 in self._lines)

    def _detach_reader(self) -> None:
        if self._reader is not None:
            self._reader.taken.set()
            self._reader.changed.set()
            self._reader = None

    def _bytes_after(self, number: int) -> int:
        total = 0
        for later in range(self.last, number, -1):
            total += len(self._lines.get(later, b""))
            if total > AHEAD_BYTES:
                break
        return total


class Reader:
    """A reader of an answer. Call `CachedAnswer.detach` at the end."""

    def __init__(self, answer: CachedAnswer, position: int) -> None:
        self.position = position
        """The number of the last frame that was read."""
        self.has_all = False
        """Whether nothing more will come for this reader."""
        self.changed, self.taken = asyncio.Event(), asyncio.Event()
        self._answer = answer

    async def lines(self, times: Times) -> AsyncGenerator[bytes, None]:
        """Yield whole lines as they come, the observation last; ends without it when `turn_s` is over."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + times.turn_s
        while self._answer.is_read_by(self):
            self.changed.clear()
            if taken := self._answer.take(self):
                yield taken
            if self._answer.is_complete or loop.time() >= ends_at:
                return
            try:
                async with asyncio.timeout(times.beat_s):
                    await self.changed.wait()
            except TimeoutError:
                yield b"\n"


STALLED_S = 10.0
"""Time limit for a reader that takes nothing."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,64}")
_UNKNOWN = "there is no such action: it never arrived, or its answer was released"


class AnswerCache:
    """The answers of one server by token, and the routes to them."""

    def __init__(self, execute: Handler, times: Times) -> None:
        self._times = times
        self._execute = execute
        self._answers: dict[str, CachedAnswer] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._done: dict[str, float] = {}
        """When each token was released."""
        self.table = [
            web.get(r"/actions/{token}", self._continue, allow_head=False),
            web.delete(r"/actions/{token}", self._delete),
        ]

    async def answer(self, request: web.Request, action: Action, action_id: int) -> web.StreamResponse:
        """Start or join the action of a request that has a token. Raises RefusedError."""
        answer = self.begin(_checked(request.headers[RESUME_HEADER]), action, action_id)
        if answer is None:
            raise RefusedError(410, "this action was released and is not carried out again")
        return await self._respond(request, answer, 0)

    def begin(self, token: str, action: Action, action_id: int) -> CachedAnswer | None:
        """Return the answer for this token, starting the action if necessary, or None for a released token.

        Raises RefusedError if MAX_KEPT actions are running.
        """
        if token in self._done:
            return None
        if (answer := self.find(token)) is not None:
            return answer
        if len(self._answers) >= MAX_KEPT and not self._make_room():
            raise RefusedError(429, "too many actions are running; wait for one of them")
        answer = self._answers[token] = CachedAnswer()
        task = self._tasks[token] = asyncio.create_task(self._run(answer, action, action_id))
        task.add_done_callback(lambda _: self._ended(token, answer))
        self._restart_timer(token)
        return answer

    def find(self, token: str) -> CachedAnswer | None:
        """Return the answer for this token if it is kept, and restart its `keep_s`."""
        if token in self._answers:
            self._restart_timer(token)
        return self._answers.get(token)

    async def release(self, token: str) -> bool:
        """Interrupt the action if it runs, and forget its answer; return False for an unknown token.

        Returns when the action has ended. A request with this token that arrives later is not carried out.
        """
        is_known = token in self._tasks
        self._forget(token)
        if (task := self._tasks.get(token)) is not None:
            await asyncio.wait([task])
        return is_known

    async def aclose(self) -> None:
        """Interrupt all actions and wait until they have ended."""
        for token in list(self._answers):
            self._forget(token)
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _run(self, answer: CachedAnswer, action: Action, action_id: int) -> None:
        answer.end(await self._execute(action, action_id, answer.add))

    def _ended(self, token: str, answer: CachedAnswer) -> None:
        if not answer.is_complete:  # it was interrupted
            answer.end(None)
        if token not in self._answers:
            self._tasks.pop(token, None)

    def _restart_timer(self, token: str) -> None:
        self._stop_timer(token)
        self._timers[token] = asyncio.get_running_loop().call_later(self._times.keep_s, self._forget, token)

    def _stop_timer(self, token: str) -> None:
        if (timer := self._timers.pop(token, None)) is not None:
            timer.cancel()

    def _make_room(self) -> bool:
        """Forget the oldest answer whose action has ended; return False if there is none."""
        ended = next((token for token, answer in self._answers.items() if answer.is_complete), None)
        if ended is not None:
            self._forget(ended)
        return ended is not None

    def _forget(self, token: str) -> None:
        now = asyncio.get_running_loop().time()
        self._done.pop(token, None)  # so that the newest is last
        self._done[token] = now
        while len(self._done) > MAX_REMEMBERED or now - self._done[next(iter(self._done))] > self._times.keep_s:
            del self._done[next(iter(self._done))]
        self._stop_timer(token)
        self._answers.pop(token, None)
        if (task := self._tasks.get(token)) is not None:
            if task.done():
                del self._tasks[token]
            else:
                task.cancel()

    async def _continue(self, request: web.Request) -> web.StreamResponse:
        answer = self.find(_checked(request.match_info["token"]))
        if answer is None:
            raise RefusedError(404, _UNKNOWN)
        after = request.query.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) <= 15) or int(after) > answer.last:
            raise RefusedError(400, "'after' is the number of a frame that was sent, or 0")
        return await self._respond(request, answer, int(after))

    async def _delete(self, request: web.Request) -> web.Response:
        token = _checked(request.match_info["token"])
        if not await self.release(token):
            raise RefusedError(404, _UNKNOWN)
        return web.json_response({"token": token})

    async def _respond(self, request: web.Request, answer: CachedAnswer, after: int) -> web.StreamResponse:
        """Write lines until the end of the answer or of the reader's turn."""
        reader = answer.reader(after)
        try:
            response = web.StreamResponse(headers={"Content-Type": NDJSON_TYPE, AFTER_HEADER: str(reader.position)})
            await response.prepare(request)
            async with aclosing(reader.lines(self._times)) as lines:
                async for taken in lines:
                    async with asyncio.timeout(STALLED_S):
                        await (response.write_eof if reader.has_all else response.write)(taken)
            await response.write_eof()
        except (TimeoutError, ConnectionError):  # the reader may return
            if request.transport is not None:
                request.transport.abort()
        finally:
            answer.detach(reader)
        return response


def _checked(token: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise RefusedError(400, "a token has 16 to 64 letters, digits, - and _")
    return token
