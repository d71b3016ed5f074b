"""Hooks of the user's own, as commands on this machine. Their time and what is read of them are bounded."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from core.trust.hooks import Hook

MAX_SAID_BYTES = 8 * 1024
"""Of standard error; the rest is read and dropped."""
END_S = 1.0
"""How long what is ended may take to be gone."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a hook ended."""

    status: int | None
    """None where it could not be run, or not to its end."""
    said: str = ""
    """Foreign."""
    is_late: bool = False


async def run_on_host(hook: Hook, line: bytes, folder: Path) -> Ended:
    """Run a hook in a folder, with a line on its standard input. Cancelling ends it, and all that it started."""
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            hook.command,
            cwd=folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return Ended(None, error.strerror or str(error))
    try:
        async with asyncio.timeout(hook.timeout_s):
            said = await _through(process, line)
            return Ended(await process.wait(), said)
    except TimeoutError:
        return Ended(None, is_late=True)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await process.wait()
        # What set itself apart from the hook may hold its pipe for ever, and Process has no way to close it.
        process._transport.close()  # type: ignore[attr-defined]


async def _through(process: asyncio.subprocess.Process, line: bytes) -> str:
    """Write the line, read to the end; what it said."""
    assert process.stdin is not None
    assert process.stderr is not None
    with suppress(ConnectionError):  # it need not read
        process.stdin.write(line)
        await process.stdin.drain()
        process.stdin.close()
    kept = b""
    while chunk := await process.stderr.read(4096):
        kept = (kept + chunk)[:MAX_SAID_BYTES]
    return kept.decode("utf-8", "replace")
