"""`python -m runtime.server`: read the key, harden, listen, say so, and end with everything that was started.

A life of the server is everything from its shell's start to the end of what that started; usually there is one. The
server ends on SIGTERM and SIGINT and, with `--stdin-lifeline`, when its standard input ends: a launcher
holds the other side of that pipe, so the server cannot outlive it, whatever kills it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from aiohttp import web

from core.plugin_requirements import required
from runtime.plugins.base import PluginContext
from runtime.plugins.plugin_startup import PluginStartup
from runtime.protocol import is_web_host
from runtime.server import processes
from runtime.server.action_executor import ActionExecutor
from runtime.server.app import ActionServer
from runtime.server.bash_session import NO_CHANGE_TIMEOUT_S, BashSession
from runtime.server.edit_history import KeptHistory, OwnedHistory
from runtime.server.file_actions import Files
from runtime.server.hardening import filter_calls, harden, heed_keys, limit, take_key
from runtime.server.idle_timeout import Absence
from runtime.server.lease import Ownership, one_after_another
from runtime.server.listener import accept, address, bind, tls
from runtime.server.outputs import Outputs
from runtime.server.proxy_forwarder import Forwarder
from runtime.server.request_guard import Guard
from runtime.server.shell import ShellError
from runtime.server.shortage_watch import Shortage
from runtime.server.task_file import TaskList
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
        if options.filter_calls:
            filter_calls()
        absence = Absence(options.idle_exit)
        guard = Guard(take_key(options.key_file), absence, options.allow_host)
        options.plugins = required(filter(None, options.plugins.split(",")))
        if options.uds and options.private_dir is None:
            options.private_dir = options.uds.parent
        options.working_dir = options.working_dir.resolve(strict=True)
        options.root = [folder.resolve(strict=True) for folder in options.root or [Path("/")]]
        options.umask = harden()
        heed_keys()
        limit(resource.RLIMIT_DATA, options.max_memory)
        limit(resource.RLIMIT_NPROC, options.max_processes)
        limit(resource.RLIMIT_FSIZE, options.max_file)
        options.tls = tls(options.tls_cert, options.tls_key)
        listener = bind(options)
    except (OSError, ValueError) as error:
        return _refuse(error)
    live = partial(_live, options, listener, guard, absence)
    try:
        return one_after_another(live) if options.lives else live(True)
    finally:
        if options.uds:
            options.uds.unlink(missing_ok=True)


def _live(options: argparse.Namespace, listener: socket.socket, guard: Guard, absence: Absence, is_first: bool) -> int:
    """One life of the server; the first one says on standard output that it is ready."""
    undo = options.state_dir / "undo" if options.state_dir else None
    try:
        options.history = (OwnedHistory if options.lives else KeptHistory)(undo) if undo else None
    except (OSError, ValueError) as error:
        return _refuse(error)
    try:
        return asyncio.run(_serve(options, listener, guard, absence, is_first))
    finally:
        processes.kill_descendants(os.getpid())


async def _serve(
    options: argparse.Namespace, listener: socket.socket, guard: Guard, absence: Absence, is_first: bool
) -> int:
    working_dir, umask = str(options.working_dir), options.umask
    ended = _end_signals(options.stdin_lifeline or options.lives)
    way_out = Forwarder(options.proxy) if options.proxy else None
    environ = os.environ | (await way_out.start() if way_out else {})
    # The launcher's folder is on its disk, in a sandbox too, and it removes it.
    outputs = Outputs(folders=[str(options.private_dir)] if options.private_dir else None)
    bash = BashSession(
        working_dir, env=environ, umask=umask, no_change_timeout_s=options.no_change_timeout, outputs=outputs
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, processes.reap_orphans)
    files, tasks = Files(lambda: bash.cwd, umask, options.root, options.history), TaskList(options.session_dir)
    private = Path(tempfile.mkdtemp(prefix="p", dir=options.private_dir))
    context = PluginContext(working_dir, private, lambda: bash.cwd, environ, umask, outputs, options.state_dir)
    plugins = PluginStartup(options.plugins, context)
    shortage = Shortage(working_dir, options.min_free)
    executor = ActionExecutor([bash.table, files.table, tasks.table, *plugins.tables], shortage)
    routes = [*TerminalRoutes(bash).table, *plugins.routes]
    claimed = options.history.claim if isinstance(options.history, OwnedHistory) else None
    ownership = Ownership(ended.set, claimed)
    runner = web.AppRunner(
        ActionServer(
            executor, guard, working_dir, umask, routes=routes, ownership=ownership, web_hosts=dict(options.web_host)
        ).app,
        handler_cancellation=True,
        keepalive_timeout=KEEPALIVE_S,
        shutdown_timeout=SHUTDOWN_S,
        access_log=None,
    )
    accepting: asyncio.Server | None = None
    try:
        await asyncio.gather(bash.start(), outputs.remove_abandoned())
        await runner.setup()
        accepting = await accept(listener, guard, runner, options.tls)
        absence.begin(ended.set)
        if is_first:
            sys.stdout.write(f"ready {address(listener, options.tls)}\n")
            sys.stdout.flush()
        if not options.lazy_plugins:
            plugins.begin()
        await ended.wait()
    except ShellError as error:
        return _refuse(error)
    finally:
        signal.alarm(END_WITHIN_S)
        if accepting is not None:
            accepting.close()
        processes.kill_descendants(os.getpid())  # first, so that nothing of what follows waits for any of it
        await bash.aclose()
        await shortage.aclose()
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


def _web_host(text: str) -> tuple[str, int]:
    """Raises ValueError, which argparse tells."""
    url, _equals, port = text.rpartition("=")
    if not (port.isascii() and port.isdigit() and is_web_host(url, int(port))):
        raise ValueError(text)
    return url, int(port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="handloom-server", description="The action server of a sandbox.")
    parser.add_argument("--working-dir", type=Path, required=True, help="the folder in which commands start")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--uds", type=Path, help="listen on this Unix socket")
    where.add_argument("--listen-fd", type=int, help="listen on this Unix socket, which is inherited and bound")
    where.add_argument("--port", type=int, help="listen on this port; 0 takes a free one")
    parser.add_argument(
        "--host", default="127.0.0.1", help="with --port: the address; without TLS, of loopback (default: %(default)s)"
    )
    parser.add_argument("--private-dir", type=Path, help="for the server's own files; by default beside --uds")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="the server's certificate and those above it")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key, readable by its owner alone")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which others call it; again for more",
    )
    parser.add_argument(
        "--web-host",
        action="append",
        default=[],
        type=_web_host,
        metavar="URL=PORT",
        help="where the user sees what listens on this port here, for the agent to be told; again for more",
    )
    parser.add_argument("--lives", action="store_true", help="begin anew after each conversation, and after a failure")
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
    parser.add_argument("--min-free", type=int, metavar="BYTES", help="of the disk; end what runs when less is left")
    parser.add_argument("--filter-calls", action="store_true", help="forbid system calls that a sandbox does without")
    parser.add_argument("--idle-exit", type=float, metavar="SECONDS", help="end when nobody was connected for so long")
    parser.add_argument("--stdin-lifeline", action="store_true", help="end when standard input ends")
    return parser
