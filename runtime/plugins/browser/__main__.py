"""`python -m runtime.plugins.browser`: the worker process, only started by BrowserPlugin.

Requests are read from standard input. Answers go to a duplicate of standard output, so that a stray print cannot
corrupt them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from playwright.async_api import Error

from runtime.plugins.browser import chromium, worker


def main() -> int:
    """Work until standard input ends. Exit status 1: Chromium could not be started or has ended."""
    parser = argparse.ArgumentParser(prog="python -m runtime.plugins.browser")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--workspace", type=Path, required=True)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    why_unconfined = chromium.why_unconfined()

    def say(message: dict[str, Any]) -> None:
        line = memoryview(json.dumps(message).encode() + b"\n")
        while line:  # a write to a pipe may be partial
            line = line[answers.write(line) :]

    try:
        asyncio.run(_serve(options, why_unconfined, say))
    except (chromium.NoChromiumError, Error) as error:
        say({"failed": _shortened(str(error))})
        return 1
    return 0


def _shortened(why: str) -> str:
    """Return the first line and Chromium's last fatal message; its command line alone fills a screen."""
    lines = [line.strip() for line in why.splitlines()]
    fatal = [line for line in lines if ":FATAL:" in line or "error while loading" in line]
    return ": ".join([*lines[:1], *fatal[-1:]])


async def _serve(options: argparse.Namespace, why_unconfined: str, say: worker.Say) -> None:
    lines = asyncio.StreamReader(limit=worker.MAX_REQUEST_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer)
    await worker.serve(options.folder, options.workspace, why_unconfined, lines, say)


if __name__ == "__main__":
    sys.exit(main())
