"""WorkerClient: one worker process, its requests, and the end of all processes that belong to it.

Each request gets one answer, or WorkerGoneError if the worker ends first. Closing the worker's standard input asks it
to end; `kill` ends it and all its processes at once, and so does its own death.

Chromium leaves the worker's session, and its crash handlers leave their parents, but the command line of each contains
the worker's folder, because the profile is in it. So they are found even when the worker and Chromium are both dead.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.interpreter import start_command
from runtime.protocol import MAX_LINE_BYTES
from runtime.server import processes

KILL_ROUNDS = 50
"""A process that forks while it is killed leaves a child for the next round, as in `processes`."""


def worker_processes(leader: int, folder: Path) -> set[int]:
    """Return all living processes of the session `leader` and of a Chromium whose files are in `folder`. Blocks."""
    return processes.session_members(leader) | set(_chromium_processes(folder))


def end_processes(leader: int, folder: Path) -> None:
    """Send SIGKILL to all of them and to those forked meanwhile. Blocks for milliseconds."""
    for _ in range(KILL_ROUNDS):
        living = worker_processes(leader, folder)
        if not living:
            return
        processes.kill_all(living)


def zygotes(folder: Path) -> set[int]:
    """Return Chromium's zygotes, from which it forks its renderers; without them it opens no page. Blocks.

    A renderer that has just been forked still has the command line of its zygote. It has no children.
    """
    found = {pid for pid in _chromium_processes(folder) if b"--type=zygote" in _command_line(pid)}
    below = {pid: processes.descendants(pid) for pid in found}
    forked = found & set[int]().union(*below.values())
    return {pid for pid in found if pid not in forked or below[pid]}


def _chromium_processes(folder: Path) -> Iterator[int]:
    wanted = f"{folder}/".encode()  # with a slash, so that `folder` does not match a longer name
    if sys.platform != "linux":
        listing = subprocess.run(["ps", "-axo", "pid=,args="], capture_output=True, check=False, timeout=5).stdout
        yield from (int(line.split(None, 1)[0]) for line in listing.splitlines() if wanted in line)
        return
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and wanted in _command_line(int(process.name)):
            yield int(process.name)


def _command_line(pid: int) -> bytes:
    with suppress(OSError):  # it has ended
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


Message = dict[str, Any]
END_S = 1.0
"""How long a worker may take to end when asked; Chromium closes in a tenth of that."""


class WorkerGoneError(Exception):
    """The worker has ended or could not be started; the text says why as far as that is known."""


class WorkerClient:
    """A connection to one worker, started by `begin`. Messages without an `id` go to `on_message`."""

    def __init__(self, folder: Path, on_message: Callable[[Message], None], command: Sequence[str] = ()) -> None:
        self.folder = folder
        """Holds profile, cache and unfinished downloads. Created by `begin`, removed when the worker has ended."""
        self.about: Message = {}
        """The content of the worker's `ready` message."""
        self._on_message = on_message
        self._command = command  # another program with the worker's protocol; empty for our worker
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._number = 0
        self._has_ended = False
        self._ready: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._life: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._to_worker: asyncio.WriteTransport | None = None

    @property
    def is_gone(self) -> bool:
        """Whether the worker takes no more requests. Its processes and folder may still be being removed."""
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
        """Send a request and return its answer. Raises WorkerGoneError. Cancelling also cancels it in the worker."""
        self._number += 1
        number = self._number
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            self.send({**request, "id": number})
            result: Message = await answer
            return result
        except asyncio.CancelledError:
            self.send({"do": "cancel", "id": number})
            raise
        finally:
            self._answers.pop(number, None)

    def send(self, message: Message) -> None:
        """Send a message without waiting for an answer. Does nothing if the worker is gone."""
        if self._to_worker is not None and not self.is_gone:
            self._to_worker.write(json.dumps(message).encode() + b"\n")
        elif (answer := self._answers.get(message.get("id", 0))) is not None and not answer.done():
            answer.set_exception(WorkerGoneError("the browser has ended"))

    async def kill(self) -> None:
        """Kill the worker and all its processes. May be called twice."""
        if self._process is not None and self._life is not None:
            await asyncio.to_thread(end_processes, self._process.pid, self.folder)
            await asyncio.wait([self._life])

    async def aclose(self) -> None:
        """Ask the worker to end, and kill it if it has not ended within END_S."""
        if self._life is None:
            return
        if self._to_worker is not None:
            self._to_worker.close()
        await asyncio.wait([self._life], timeout=END_S)
        await self.kill()

    async def _live(self, process: subprocess.Popen[bytes]) -> None:
        """Read the worker's messages until it ends, then kill the processes it leaves behind."""
        assert process.stdin is not None
        assert process.stdout is not None
        loop = asyncio.get_running_loop()
        processes.own_processes.add(self._members)
        # Begun at once, or the server's reaper takes the exit status.
        ended = asyncio.create_task(processes.wait_for_exit(process))
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        from_worker, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        self._to_worker, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        why = "the browser ended"
        try:
            while line := await reader.readline():
                self._take(json.loads(line))
        except ValueError:
            why = "the browser's worker sent an invalid message"
        finally:
            self._has_ended = True
            await asyncio.to_thread(end_processes, process.pid, self.folder)
            status = await ended
            from_worker.close()
            self._to_worker.close()
            processes.own_processes.discard(self._members)
            self._fail(WorkerGoneError(f"{why} (status {status})"))
            await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    def _members(self) -> set[int]:
        return set() if self._process is None else worker_processes(self._process.pid, self.folder)

    def _spawn(self, working_dir: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        options = ("--folder", str(self.folder), "--workspace", working_dir)
        return subprocess.Popen(
            self._command or start_command("runtime.plugins.browser.worker", *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=working_dir,
            env={**environ, **_private_folders(self.folder)},
            start_new_session=True,
        )

    def _take(self, message: Message) -> None:
        if "ready" in message and not self._ready.done():
            self._ready.set_result(message["ready"])
        elif "failed" in message and not self._ready.done():
            self._ready.set_exception(WorkerGoneError(str(message["failed"])))
        elif (answer := self._answers.get(message.get("id", 0))) is not None:
            if not answer.done():
                answer.set_result(message)
        elif "id" not in message:
            self._on_message(message)

    def _fail(self, error: WorkerGoneError) -> None:
        for waiting in (self._ready, *self._answers.values()):
            if not waiting.done():
                waiting.set_exception(error)
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # mark it as retrieved


def _private_folders(folder: Path) -> dict[str, str]:
    """Point the user's folders of Chromium into the worker's folder, so that they are removed with it."""
    names = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR")
    return dict.fromkeys(names, str(folder))
