"""Starts the process that reads sessions of other agents (`core.library.update`).

Reading takes the processor for seconds, and a file that does harm takes memory: both stay out of the caller's process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import HandloomError, StoreBusyError
from core.interpreter import start_command
from core.library.library import Progress
from core.library.update import BUSY, UpdateRequest


class ReaderProcessError(HandloomError):
    """The process failed; the message is for the user, and may have text of a file."""


@dataclass(frozen=True, slots=True)
class ReaderProcess:
    """Reads the sessions of some agents into the library of a home. Cancelling ends the process; its work is kept."""

    home: Path
    sources: Sequence[str]
    """The names of the agents."""
    keeps: bool
    """Whether a copy stays when its agent deletes the session."""

    async def update(self) -> AsyncGenerator[Progress, None]:
        """Find and read all sessions, and tell how far it is.

        Raises ReaderProcessError, and StoreBusyError while another process does it.
        """
        async with aclosing(self._steps()) as steps:
            async for step in steps:
                yield Progress(**step)

    async def read(self, id: str) -> str:
        """Read the session whose copy is `id`, if it was not read in its current version.

        Returns why there is nothing to show; empty if there is something. Raises ReaderProcessError.
        """
        wrong = ""
        async with aclosing(self._steps(id)) as steps:
            async for step in steps:
                wrong = str(step["wrong"])
        return wrong

    async def _steps(self, session: str = "") -> AsyncGenerator[dict[str, Any], None]:
        request = UpdateRequest(str(self.home), list(self.sources), self.keeps, session)
        async with _started() as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(request.to_json())
            process.stdin.close()
            async for line in process.stdout:
                step = json.loads(line)
                if "error" in step:
                    raise ReaderProcessError(str(step["error"]))
                yield step
            status = await process.wait()
        if status == BUSY:
            raise StoreBusyError("Another Handloom is reading the sessions of other agents. Wait until it is done.")
        if status:
            raise ReaderProcessError(f"The process that reads sessions of other agents ended with status {status}.")


@asynccontextmanager
async def _started() -> AsyncIterator[asyncio.subprocess.Process]:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    command = start_command("core.library.update")
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=nothing)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
