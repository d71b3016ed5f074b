"""`handloom serve`: the workspace in a web browser, until Ctrl+C."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import secrets
import signal
import sys
from contextlib import suppress
from pathlib import Path

from core.errors import UsageError
from core.interpreter import start_command

MAX_TOKEN_BYTES = 200


async def serve(options: argparse.Namespace) -> int:
    """Serve until a signal; standard output has the address only. Raises UsageError."""
    from tui.serve.web_server import HOST, WorkspaceServer

    token = _token(Path(options.token_file)) if options.token_file else ""
    server = WorkspaceServer([*start_command("tui", *_workspace_options(options))], os.environ, token)
    try:
        await server.start(options.port)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(
            f"Cannot listen on port {options.port} of {HOST}: {why}. Choose another port: handloom serve --port N"
        ) from error
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        sys.stderr.write("Open this URL in a browser. Anyone who has it can act as you. Ctrl+C stops the server.\n")
        await stop.wait()
    finally:
        await server.aclose()
    return 0


def _token(file: Path) -> str:
    """Read the token from a private file, which is created if missing. Blocks. Raises UsageError."""
    try:
        with suppress(FileExistsError), open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(f"{secrets.token_urlsafe(32)}\n")
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as kept:
            about = os.fstat(kept.fileno())
            token = kept.read(MAX_TOKEN_BYTES + 1).decode("ascii").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise UsageError(f"Cannot use the token file {file}: {why}. Remove it, or name another.") from error
    if about.st_mode & 0o077 or about.st_uid != os.getuid():
        raise UsageError(f"Other users can read the token in {file}. Run: chmod 600 {file}")
    if not re.fullmatch(r"[A-Za-z0-9_-]{32,128}", token):
        raise UsageError(
            f"{file} contains no valid token (at least 32 letters, digits, - and _). Remove it to have one generated."
        )
    return token


def _workspace_options(options: argparse.Namespace) -> list[str]:
    """The options for the workspace's command line."""
    arguments = []
    for name in ("model", "runtime", "agent", "workspace", "repo"):
        if (value := getattr(options, name)) is not None:
            arguments += [f"--{name}", value]
    if options.resume is not None:
        arguments += ["--resume", *([options.resume] if options.resume else [])]
    return arguments
