"""WorkerLink: one worker process, what is asked of it, and its end.

Each request gets one answer, or WorkerGoneError when the worker ends before it gave one. The worker is asked to end by
the end of its standard input; `kill` ends it and everything that belongs to it at once, and so does its own death.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.interpreter import start_command
from runtime.plugins.browser import process_tree
from runtime.protocol import MAX_LINE_BYTES
from runtime.server import processes

Message = dict[str, Any]
PARTING_S = 1.0
"""For a worker that is asked to end: Chromium closes in a tenth of that."""


class WorkerGoneError(Exception):
    """The worker ended, or was never there; the text says why as far as that is known."""


class WorkerLink:
    """One worker; `begin` starts it. Messages without an `id` go to `on_message`."""

    def __init__(self, folder: Path, on_message: Callable[[Message], None], command: Sequence[str] = ()) -> None:
        self.folder = folder
        """Its own, made by `begin` and removed with it: profile, cache, downloads under way."""
        self.about: Message = {}
        """What the worker said of itself when it was ready."""
        self._on_message = on_message
        self._command = command  # of what speaks as our worker does; empty for our worker
        self._asked: dict[int, asyncio.Future[Message]] = {}
        self._number = 0
        self._has_ended = False
        self._ready: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._life: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._to_worker: asyncio.WriteTransport | None = None

    @property
    def is_gone(self) -> bool:
        """Whether nothing can be asked of it any more; what it left behind may still be cleared away."""
        return self._life is None or self._has_ended

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def begin(self, working_dir: str, environ: Mapping[str, str]) -> None:
        """Start the process and wait until it is ready. Raises WorkerGoneError. Cancelling ends it."""
        await asyncio.to_thread(self.folder.mkdir, mode=0o700)
        self._process = self._spawn(working_dir, environ)
        self._life = asyncio.create_task(self._live(self._process), name="browser worker")
        try:
            self.about = await asyncio.shield(self._ready)
        except BaseException:
            await self.kill()
            raise

    async def ask(self, request: Message) -> Message:
        """The answer to one request. Raises WorkerGoneError. Cancelling cancels the request in the worker as well."""
        self._number += 1
        number = self._number
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self.tell({**request, "id": number})
            said: Message = await answer
            return said
        except asyncio.CancelledError:
            self.tell({"do": "cancel", "id": number})
            raise
        finally:
            self._asked.pop(number, None)

    def tell(self, message: Message) -> None:
        """Send what needs no answer; nothing happens where the worker is gone."""
        if self._to_worker is not None and not self.is_gone:
            self._to_worker.write(json.dumps(message).encode() + b"\n")
        elif (asked := self._asked.get(message.get("id", 0))) is not None and not asked.done():
            asked.set_exception(WorkerGoneError("the browser has ended"))

    async def kill(self) -> None:
        """End it and everything that belongs to it, now. May be called twice."""
        if self._process is not None and self._life is not None:
            await asyncio.to_thread(process_tree.end, self._process.pid, self.folder)
            await asyncio.wait([self._life])

    async def aclose(self) -> None:
        """Let it end by itself, and kill it where it does not within PARTING_S."""
        if self._life is None:
            return
        if self._to_worker is not None:
            self._to_worker.close()
        await asyncio.wait([self._life], timeout=PARTING_S)
        await self.kill()

    async def _live(self, process: subprocess.Popen[bytes]) -> None:
        """Take what the worker says until it ends, and then end what it leaves behind."""
        assert process.stdin is not None
        assert process.stdout is not None
        loop = asyncio.get_running_loop()
        processes.of_the_server.add(self._members)
        ended = asyncio.create_task(
            processes.wait_for_exit(process)
        )  # from now on, or the server's reaper takes its status
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        came, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        self._to_worker, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        why = "the browser ended"
        try:
            while line := await reader.readline():
                self._take(json.loads(line))
        except ValueError:
            why = "the browser's worker said what makes no sense"
        finally:
            self._has_ended = True
            await asyncio.to_thread(process_tree.end, process.pid, self.folder)
            status = await ended
            came.close()
            self._to_worker.close()
            processes.of_the_server.discard(self._members)
            self._fail(WorkerGoneError(f"{why} (status {status})"))
            await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    def _members(self) -> set[int]:
        return set() if self._process is None else process_tree.members(self._process.pid, self.folder)

    def _spawn(self, working_dir: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        places = ("--folder", str(self.folder), "--workspace", working_dir)
        return subprocess.Popen(
            self._command or start_command("runtime.plugins.browser", *places),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=working_dir,
            env={**environ, **_own_places(self.folder)},
            start_new_session=True,
        )

    def _take(self, message: Message) -> None:
        if "ready" in message and not self._ready.done():
            self._ready.set_result(message["ready"])
        elif "failed" in message and not self._ready.done():
            self._ready.set_exception(WorkerGoneError(str(message["failed"])))
        elif (answer := self._asked.get(message.get("id", 0))) is not None:
            if not answer.done():
                answer.set_result(message)
        elif "id" not in message:
            self._on_message(message)

    def _fail(self, error: WorkerGoneError) -> None:
        for waiting in (self._ready, *self._asked.values()):
            if not waiting.done():
                waiting.set_exception(error)
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # nobody may be left who asks


def _own_places(folder: Path) -> dict[str, str]:
    """Where Chromium keeps what belongs to a user: with the worker, and gone with it."""
    names = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR")
    return dict.fromkeys(names, str(folder))
