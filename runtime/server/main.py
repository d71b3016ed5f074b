"""`python -m runtime.server`: read the key, harden, listen, say so, and end with everything that was started.

The server ends on SIGTERM and SIGINT and, with `--stdin-lifeline`, when its standard input ends: a launcher
holds the other side of that pipe, so the server cannot outlive it, whatever kills it.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from core.plugins import required
from runtime.plugins.base import Place
from runtime.plugins.startup import PluginStartup
from runtime.server import processes
from runtime.server.app import ActionServer
from runtime.server.bash import NO_CHANGE_TIMEOUT_S, BashSession
from runtime.server.executor import ActionExecutor
from runtime.server.files import Files
from runtime.server.forwarder import Forwarder
from runtime.server.guard import Guard
from runtime.server.hardening import harden, limit, take_key
from runtime.server.kept_history import KeptHistory
from runtime.server.outputs import Outputs
from runtime.server.shell import ShellError
from runtime.server.tasks import TaskList
from runtime.server.terminal_routes import TerminalRoutes

KEEPALIVE_S = 75.0
"""Longer than clients keep an idle connection (aiohttp: 15 s): none sends into one that we just closed."""
SHUTDOWN_S = 0.2
"""For requests that are under way: what they wait for is killed first."""
END_WITHIN_S = 2
"""Then the kernel ends a server that could not end itself."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to end.

    Exit status 2: there is no key, or a plugin, a folder or an address that cannot be had.
    """
    options = _parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    try:
        guard = Guard(take_key(options.key_file))
        options.plugins = required(filter(None, options.plugins.split(",")))
        options.working_dir = options.working_dir.resolve(strict=True)
        options.root = [folder.resolve(strict=True) for folder in options.root or [Path("/")]]
        options.history = KeptHistory(options.state_dir / "undo") if options.state_dir else None
        umask = harden()
        limit(resource.RLIMIT_DATA, options.max_memory)
        limit(resource.RLIMIT_NPROC, options.max_processes)
        limit(resource.RLIMIT_FSIZE, options.max_file)
        listener = _listen(options)
    except (OSError, ValueError) as error:
        return _refuse(error)
    try:
        return asyncio.run(_serve(options, listener, guard, umask))
    finally:
        processes.kill_descendants(os.getpid())
        if options.uds:
            options.uds.unlink(missing_ok=True)


async def _serve(options: argparse.Namespace, listener: socket.socket, guard: Guard, umask: int) -> int:
    working_dir = str(options.working_dir)
    ended = _end_signals(options.stdin_lifeline)
    way_out = Forwarder(options.proxy) if options.proxy else None
    environ = os.environ | (await way_out.start() if way_out else {})
    # Beside the socket is the launcher's folder: on its disk, in a sandbox too, and removed by it.
    outputs = Outputs(folders=[str(options.uds.parent)] if options.uds else None)
    bash = BashSession(
        working_dir, env=environ, umask=umask, no_change_timeout_s=options.no_change_timeout, outputs=outputs
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, processes.reap_orphans)
    files, tasks = Files(lambda: bash.cwd, umask, options.root, options.history), TaskList(options.session_dir)
    private = Path(tempfile.mkdtemp(prefix="p", dir=options.uds.parent if options.uds else None))
    place = Place(working_dir, private, lambda: bash.cwd, environ, umask, outputs)
    plugins = PluginStartup(options.plugins, place)
    executor = ActionExecutor([bash.table, files.table, tasks.table, *plugins.tables])
    routes = [*TerminalRoutes(bash).table, *plugins.routes]
    runner = web.AppRunner(
        ActionServer(executor, guard, working_dir, umask, routes=routes).app,
        handler_cancellation=True,
        keepalive_timeout=KEEPALIVE_S,
        shutdown_timeout=SHUTDOWN_S,
        access_log=None,
    )
    try:
        await asyncio.gather(bash.start(), outputs.remove_abandoned())
        await runner.setup()
        await _accept(listener, guard, runner)
        sys.stdout.write(f"ready {_address(listener)}\n")
        sys.stdout.flush()
        if not options.lazy_plugins:
            plugins.begin()
        await ended.wait()
    except ShellError as error:
        return _refuse(error)
    finally:
        signal.alarm(END_WITHIN_S)
        listener.close()
        processes.kill_descendants(os.getpid())  # first, so that nothing of what follows waits for any of it
        await bash.aclose()
        await asyncio.gather(outputs.aclose(), plugins.aclose())
        await runner.cleanup()
        await asyncio.to_thread(shutil.rmtree, private, ignore_errors=True)
        if way_out:
            await way_out.aclose()
    return 0


def _refuse(error: Exception) -> int:
    sys.stderr.write(f"runtime.server: {error}\n")
    return 2


def _end_signals(has_lifeline: bool) -> asyncio.Event:
    """An event that is set when the server is told to end, or when its lifeline is let go of."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)

    def read_stdin() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            ended.set()

    if has_lifeline:
        loop.add_reader(0, read_stdin)
    return ended


def _listen(options: argparse.Namespace) -> socket.socket:
    """The bound socket; on a path only its owner can use it. Raises OSError; ValueError for what others could reach."""
    if options.uds is None:
        if not ipaddress.ip_address(options.host).is_loopback:
            raise ValueError(f"{options.host} is no address of this machine's loopback, and others could call it")
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        return socket.create_server((options.host, options.port), family=family)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(options.uds))
    options.uds.chmod(0o600)
    return listener


async def _accept(listener: socket.socket, guard: Guard, runner: web.AppRunner) -> None:
    assert runner.server is not None
    server = runner.server
    loop = asyncio.get_running_loop()
    if listener.family == socket.AF_UNIX:
        await loop.create_unix_server(lambda: guard.watch(server), sock=listener)
    else:
        await loop.create_server(lambda: guard.watch(server), sock=listener)


def _address(listener: socket.socket) -> str:
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"http://{host}:{name[1]}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m runtime.server", description="The action server of a sandbox.")
    parser.add_argument("--working-dir", type=Path, required=True, help="the folder in which commands start")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--uds", type=Path, help="listen on this Unix socket")
    where.add_argument("--port", type=int, help="listen on this port; 0 takes a free one")
    parser.add_argument(
        "--host", default="127.0.0.1", help="with --port: the address, one of loopback (default: %(default)s)"
    )
    parser.add_argument("--key-file", type=Path, required=True, help="holds the key; is read once and removed")
    parser.add_argument("--plugins", default="", help="names, with commas between them")
    parser.add_argument("--lazy-plugins", action="store_true", help="start a plugin when an action first needs it")
    parser.add_argument("--session-dir", type=Path, help="where the plan is written as TASKS.md")
    parser.add_argument(
        "--root", type=Path, action="append", help="files are worked on beneath this folder only; again for more"
    )
    parser.add_argument(
        "--state-dir", type=Path, help="where the way back of edits is kept; else it ends with the server"
    )
    parser.add_argument("--no-change-timeout", type=float, default=NO_CHANGE_TIMEOUT_S, help="seconds of silence")
    parser.add_argument("--proxy", type=Path, help="the Unix socket of a proxy, which commands are told of")
    parser.add_argument("--max-memory", type=int, metavar="BYTES", help="data of one process")
    parser.add_argument("--max-processes", type=int, metavar="N", help="processes and threads of this user")
    parser.add_argument("--max-file", type=int, metavar="BYTES", help="the longest file")
    parser.add_argument("--stdin-lifeline", action="store_true", help="end when standard input ends")
    return parser
