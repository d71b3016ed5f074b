"""A process that reads sessions of other agents: `python -m core.library.update`, with a request on standard input.

Reading thousands of sessions takes the processor for minutes, so that runs at a low priority. The process writes a line
of JSON for each step, and for an error; its end is the end of the request. `core.library.reader_process` starts it. The
processes that it starts end with it, also if it is killed, and have no part in its output. It ends with the process
that reads its output, also if that is killed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self, TypeVar

from core.errors import HandloomError, StoreBusyError
from core.library.library import Library, Progress, chosen_sources
from core.secrets import Redactor, from_environment

T = TypeVar("T")
NICENESS = 10
WORKERS = 4
MAX_MEMORY = 3 * 1024**3
"""Addresses of a process that reads, in bytes; a session of the largest size that is read takes a third."""
BUSY = 3
"""The exit status if another process is updating the library."""


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """What the process shall do."""

    home: str
    sources: list[str]
    """The names of the agents."""
    keeps: bool
    session: str = ""
    """The copy of the only session to read; empty to find and read all."""

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class Workers:
    """Processes that read sessions. If the system ends one, the sessions that were being read are tried alone."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None
        self._changes = Lock()
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in one of the processes. Raises BrokenExecutor if it ends every process that calls it."""
        with suppress(BrokenExecutor):
            return await asyncio.wrap_future(await asyncio.to_thread(self._submit, function, *args))
        async with self._one_at_a_time:
            return await asyncio.to_thread(_call_alone, function, *args)

    def _submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        with self._changes:
            if self._pool is None:
                self._pool = _pool(self._count)
            try:
                return self._pool.submit(function, *args)
            except BrokenExecutor:
                self._pool = None
                raise


def _call_alone(function: Callable[..., T], *args: Any) -> T:
    with _pool(1) as pool:
        return pool.submit(function, *args).result()


def _pool(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, get_context("forkserver"), initializer=_begin)


def _begin() -> None:
    """What a process that reads does first: its many small objects are in no cycles, and looking for some takes a fifth
    of the time.
    """
    gc.disable()
    _limit_memory()
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the end of the process that gives the sessions, which otherwise leaves this one waiting for more."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _limit_memory() -> None:
    """Have a session that takes too much memory fail, instead of the process that finds or reads it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, hard))


async def _run(wanted: UpdateRequest) -> None:
    redactor, sources = Redactor(from_environment(os.environ)), chosen_sources(wanted.sources)
    home = Path(wanted.home)
    if wanted.session:
        async with Library(home, redactor=redactor, sources=sources, keeps=wanted.keeps) as library:
            record = await library.read_now(wanted.session)
            _write({"wrong": "" if record.was_read else record.wrong})
        return
    async with Workers(min(WORKERS, os.cpu_count() or 1)) as workers:
        call = workers.call
        async with Library(home, redactor=redactor, sources=sources, keeps=wanted.keeps, apart=call) as library:
            _tell(await library.find(_tell))
            _tell(await library.read_pending(_tell))


def _tell(progress: Progress) -> None:
    _write(asdict(progress))


def _write(step: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(step) + "\n")
    sys.stdout.flush()


def _keep_output() -> None:
    """Have processes that are started inherit no end of the pipe, whose reader would wait for them too.

    End this process when nobody reads the pipe any more.
    """
    sys.stdout = os.fdopen(os.dup(1), "w")
    Thread(target=_end_with_reader, args=[sys.stdout.fileno()], daemon=True).start()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


def _end_with_reader(pipe: int) -> None:
    ended = select.poll()
    ended.register(pipe, 0)  # an error is always told, and there is one when the other end is closed
    ended.poll()
    os._exit(1)


def main() -> int:
    _keep_output()
    wanted = UpdateRequest(**json.load(sys.stdin))
    _limit_memory()
    if not wanted.session:
        with suppress(OSError):
            os.nice(NICENESS)
    try:
        asyncio.run(_run(wanted))
    except StoreBusyError:
        return BUSY
    except HandloomError as error:
        _write({"error": str(error)})
    except BrokenPipeError:  # the reader has ended; what was read is stored
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
