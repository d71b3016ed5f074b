"""A process that updates the library: `python -m core.library.update`, with a request as JSON on standard input.

Reading thousands of sessions takes the processor for minutes, so the workspace has this process do it, at a low
priority. It writes a line of JSON for each step; its end is the end of the update.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from core.errors import HandloomError, StoreBusyError
from core.library.library import Library, Progress, chosen_sources
from core.secrets import Redactor, from_environment

NICENESS = 10
WORKERS = 4
MAX_MEMORY = 3 * 1024**3
"""Addresses of one worker, in bytes; a session of the largest size that is read takes a third."""
BUSY = 3
"""The exit status if another process is updating the library."""


def request(home: Path, sources: list[str], *, keeps: bool) -> str:
    """What the process reads."""
    return json.dumps({"home": str(home), "sources": sources, "keeps": keeps})


async def _update(wanted: dict[str, Any]) -> None:
    workers, context = min(WORKERS, os.cpu_count() or 1), get_context("forkserver")
    with ProcessPoolExecutor(workers, context, initializer=_limit_memory) as executor:
        library = Library(
            Path(wanted["home"]),
            redactor=Redactor(from_environment(os.environ)),
            sources=chosen_sources(wanted["sources"]),
            keeps=wanted["keeps"],
            executor=executor,
        )
        async with library:
            _tell(await library.find(_tell))
            _tell(await library.read_pending(_tell))


def _limit_memory() -> None:
    """Have a session that takes too much memory fail, instead of the process that reads it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, hard))


def _tell(progress: Progress) -> None:
    sys.stdout.write(json.dumps({"found": progress.found, "pending": progress.pending}) + "\n")
    sys.stdout.flush()


def main() -> int:
    with suppress(OSError):
        os.nice(NICENESS)
    try:
        asyncio.run(_update(json.load(sys.stdin)))
    except StoreBusyError:
        return BUSY
    except HandloomError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except BrokenPipeError:  # the workspace has ended; what was read is stored
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
