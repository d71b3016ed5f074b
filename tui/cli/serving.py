"""`handloom serve`: the workspace in a web browser, until Ctrl+C."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys

from core.errors import UsageError


async def serve(options: argparse.Namespace) -> int:
    """Serve until a signal ends it; the address is the one line on standard output. Raises UsageError."""
    from tui.serve.server import HOST, WorkspaceServer

    server = WorkspaceServer([sys.executable, "-P", "-m", "tui", *_passed_on(options)], os.environ)
    try:
        await server.start(options.port)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(
            f"Port {options.port} of {HOST} cannot be had: {why}. Choose another: handloom serve --port N"
        ) from error
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        sys.stderr.write("Open this address in a browser. Whoever has it can do here what you can. Ctrl+C ends it.\n")
        await stop.wait()
    finally:
        await server.aclose()
    return 0


def _passed_on(options: argparse.Namespace) -> list[str]:
    """The options that are the workspace's own, as its command line takes them."""
    arguments = []
    for name in ("model", "runtime", "agent", "workspace", "repo"):
        if (value := getattr(options, name)) is not None:
            arguments += [f"--{name}", value]
    if options.resume is not None:
        arguments += ["--resume", *([options.resume] if options.resume else [])]
    return arguments
