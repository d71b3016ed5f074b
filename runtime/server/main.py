"""`python -m runtime.server`: reads the key, hardens the process, listens, and ends with everything that it started.

The server ends on SIGTERM and SIGINT and, with `--stdin-lifeline`, when its standard input ends: a launcher holds the
other end of that pipe, so the server cannot outlive it, however it dies. With `--lives` one server process follows
another, see `lease`.

Without TLS it listens on a Unix socket that only its owner can use, or on loopback. An address that others could reach
needs TLS and a name; the file of the TLS key must be readable by its owner only.

The key is in this process, next to commands that a model wrote. So the process allows no core dumps and no access to
its memory, and makes files that only its owner can read. Each measure is used if the system has it; none of them
replaces a sandbox.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import hashlib
import ipaddress
import logging
import os
import resource
import shutil
import signal
import socket
import ssl
import stat
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from aiohttp import web

from core.plugin_requirements import required
from runtime.isolation import seccomp
from runtime.isolation.git_ssh import ssh_command
from runtime.plugins.base import PluginContext, PluginStartup
from runtime.protocol import is_web_host
from runtime.server import processes
from runtime.server.action_executor import ActionExecutor, TaskList
from runtime.server.app import ActionServer, TerminalRoutes
from runtime.server.bash_session import NO_CHANGE_TIMEOUT_S, BashSession
from runtime.server.edit_history import DiskHistory
from runtime.server.file_actions import Files
from runtime.server.file_viewer import FileViewer
from runtime.server.lease import Lease, serve_repeatedly
from runtime.server.mcp_proxy import MCPProxy
from runtime.server.mcp_stdio import MCPStdio
from runtime.server.outputs import Outputs
from runtime.server.ports import PortRoutes
from runtime.server.proxy_forwarder import ProxyForwarder
from runtime.server.request_guard import HEADER_TIMEOUT_S, IdleTimeout, RequestGuard
from runtime.server.shell import Environment, ShellError
from runtime.server.shortage_watch import MEMORY_MONITOR, ShortageWatch, memory_interval_s

KEEPALIVE_S = 75.0
"""Longer than clients keep an idle connection (aiohttp: 15 s), so that none sends into one that was just closed."""
SHUTDOWN_S = 0.2
"""For requests in progress: what they wait for is killed first."""
OWNER_FOLDER_CHARS = 32
BROWSER = "browser"
"""The plugin that can show files."""
END_WITHIN_S = 5
"""After this the kernel ends a server that could not end itself; on a busy machine an orderly end takes over two."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal ends the server.

    Exit status 2: the key, a plugin, a folder or the address is not available.
    """
    options = _parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    try:
        if options.filter_calls:
            filter_calls()
        idle_timeout = IdleTimeout(options.idle_exit)
        guard = RequestGuard(take_key(options.key_file), idle_timeout, options.allow_host)
        options.plugins = required(filter(None, options.plugins.split(",")))
        if options.uds and options.private_dir is None:
            options.private_dir = options.uds.parent
        options.working_dir = options.working_dir.resolve(strict=True)
        options.root = [folder.resolve(strict=True) for folder in options.root or [Path("/")]]
        options.umask = harden()
        processes.restore_key_signals()
        limit(resource.RLIMIT_DATA, options.max_memory)
        limit(resource.RLIMIT_NPROC, options.max_processes)
        limit(resource.RLIMIT_FSIZE, options.max_file)
        options.tls = tls(options.tls_cert, options.tls_key)
        listener = bind(options)
    except (OSError, ValueError) as error:
        return _refuse(error)
    run = partial(_run, options, listener, guard, idle_timeout)
    try:
        return serve_repeatedly(run) if options.lives else run(True)
    finally:
        if options.uds:
            options.uds.unlink(missing_ok=True)


def _run(
    options: argparse.Namespace, listener: socket.socket, guard: RequestGuard, idle_timeout: IdleTimeout, is_first: bool
) -> int:
    """Run one server process; the first one prints that it is ready."""
    undo = options.state_dir / "undo" if options.state_dir else None
    try:
        options.history = DiskHistory(undo) if undo and not options.lives else None
    except (OSError, ValueError) as error:
        return _refuse(error)
    try:
        return asyncio.run(_serve(options, listener, guard, idle_timeout, is_first))
    finally:
        processes.kill_descendants(os.getpid())


async def _serve(
    options: argparse.Namespace, listener: socket.socket, guard: RequestGuard, idle_timeout: IdleTimeout, is_first: bool
) -> int:
    working_dir, umask = str(options.working_dir), options.umask
    ended = _end_signals(options.stdin_lifeline or options.lives)
    forwarder = ProxyForwarder(options.proxy) if options.proxy else None
    environment = Environment(os.environ | (await forwarder.start() if forwarder else {}))
    git = ProxyForwarder(options.git) if options.git else None
    git_entry: dict[str, int | str] = {"port": await git.listen(), "ssh": ssh_command(options.git)} if git else {}
    # The launcher's folder is on its disk, also in a sandbox, and the launcher removes it.
    outputs = Outputs(folders=[str(options.private_dir)] if options.private_dir else None)
    bash = BashSession(
        working_dir,
        environment=environment,
        umask=umask,
        no_change_timeout_s=options.no_change_timeout,
        outputs=outputs,
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, processes.reap_orphans)
    files, tasks = Files(lambda: bash.cwd, umask, options.root, options.history), TaskList(options.session_dir)
    private = Path(tempfile.mkdtemp(prefix="p", dir=options.private_dir))
    context = PluginContext(working_dir, private, lambda: bash.cwd, environment, umask, outputs, options.state_dir)
    plugins = PluginStartup(options.plugins, context)
    shortage = ShortageWatch(
        working_dir, options.min_free, memory_interval_s(environment.get(MEMORY_MONITOR, "")), options.max_memory
    )
    executor = ActionExecutor([bash.table, files.table, tasks.table, *plugins.tables], shortage)
    servers = MCPProxy(working_dir, environment, umask)
    routes = [
        *TerminalRoutes(bash).table,
        *PortRoutes().table,
        *servers.table,
        *MCPStdio(working_dir, environment, umask).table,
        *plugins.routes,
    ]

    def load_history(owner: str) -> None:
        """Nobody can undo the edits of another owner."""
        if options.lives and options.state_dir:
            name = hashlib.sha256(owner.encode()).hexdigest()[:OWNER_FOLDER_CHARS]
            files.use_history(DiskHistory(options.state_dir / "undo" / name))

    lease = Lease(ended.set, load_history)
    web_hosts = dict(options.web_host)
    runner = web.AppRunner(
        ActionServer(
            executor, guard, working_dir, umask, routes=routes, lease=lease, web_hosts=web_hosts, git=git_entry
        ).app,
        handler_cancellation=True,
        keepalive_timeout=KEEPALIVE_S,
        shutdown_timeout=SHUTDOWN_S,
        access_log=None,
    )
    accepting: asyncio.Server | None = None
    viewer = FileViewer(options.root if BROWSER in plugins.plugins else ())
    try:
        await asyncio.gather(bash.start(), outputs.remove_abandoned(), viewer.start())
        await runner.setup()
        accepting = await accept(listener, guard, runner, options.tls)
        idle_timeout.start(ended.set)
        if is_first:
            sys.stdout.write(f"ready {address(listener, options.tls)}\n")
            sys.stdout.flush()
        if not options.lazy_plugins:
            plugins.start_all()
        await ended.wait()
    except ShellError as error:
        return _refuse(error)
    finally:
        signal.alarm(END_WITHIN_S)
        if accepting is not None:
            accepting.close()
        processes.kill_descendants(os.getpid())  # first, so that nothing below waits for these processes
        await bash.aclose()
        await asyncio.gather(*(part.aclose() for part in (shortage, outputs, plugins, servers, viewer)))
        await runner.cleanup()
        await asyncio.to_thread(shutil.rmtree, private, ignore_errors=True)
        for one in filter(None, (forwarder, git)):
            await one.aclose()
    return 0


def _refuse(error: Exception) -> int:
    sys.stderr.write(f"runtime.server: {error}\n")
    return 2


def _end_signals(has_lifeline: bool) -> asyncio.Event:
    """Return an event that is set by a signal to end, or when the lifeline is closed."""
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
    """Parse an option. Raises ValueError, which argparse reports."""
    url, _equals, port = text.rpartition("=")
    if not (port.isascii() and port.isdigit() and is_web_host(url, int(port))):
        raise ValueError(text)
    return url, int(port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="handloom-server", description="The action server of a sandbox.")
    parser.add_argument("--working-dir", type=Path, required=True, help="the folder in which commands start")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--uds", type=Path, help="listen on this Unix socket")
    where.add_argument("--listen-fd", type=int, help="listen on this inherited and bound Unix socket")
    where.add_argument("--port", type=int, help="listen on this port; 0 takes a free one")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address for --port; without TLS it must be loopback (default: %(default)s)",
    )
    parser.add_argument(
        "--private-dir", type=Path, help="folder for the server's own files (default: the folder of --uds)"
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="the server's certificate chain")
    parser.add_argument(
        "--tls-key", type=Path, metavar="FILE", help="the key of the certificate, readable by its owner only"
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name by which clients call the server; repeatable",
    )
    parser.add_argument(
        "--web-host",
        action="append",
        default=[],
        type=_web_host,
        metavar="URL=PORT",
        help="where the user can open what listens on PORT in the sandbox, for the agent; repeatable",
    )
    parser.add_argument("--lives", action="store_true", help="restart after each conversation and after a failure")
    parser.add_argument("--key-file", type=Path, required=True, help="file with the key; read once and removed")
    parser.add_argument("--plugins", default="", help="names separated by commas")
    parser.add_argument("--lazy-plugins", action="store_true", help="start a plugin when an action first needs it")
    parser.add_argument("--session-dir", type=Path, help="folder in which the task list is written as TASKS.md")
    parser.add_argument(
        "--root", type=Path, action="append", help="allow file actions below this folder only; repeatable"
    )
    parser.add_argument("--state-dir", type=Path, help="folder for the undo history of edits (default: kept in memory)")
    parser.add_argument(
        "--no-change-timeout",
        type=float,
        default=NO_CHANGE_TIMEOUT_S,
        help="seconds without output after which the model is asked what to do",
    )
    parser.add_argument("--proxy", type=Path, help="the Unix socket of a proxy for commands")
    parser.add_argument("--git", type=Path, help="the Unix socket of a forwarder for git")
    parser.add_argument("--max-memory", type=int, metavar="BYTES", help="memory limit of all processes together")
    parser.add_argument("--max-processes", type=int, metavar="N", help="limit for processes and threads of this user")
    parser.add_argument("--max-file", type=int, metavar="BYTES", help="limit for the size of a file")
    parser.add_argument(
        "--min-free", type=int, metavar="BYTES", help="end running commands when less disk space is free"
    )
    parser.add_argument("--filter-calls", action="store_true", help="forbid system calls that a sandbox does not need")
    parser.add_argument(
        "--idle-exit", type=float, metavar="SECONDS", help="end when no client was connected for this long"
    )
    parser.add_argument("--stdin-lifeline", action="store_true", help="end when standard input ends")
    return parser


def bind(options: argparse.Namespace) -> socket.socket:
    """Return the bound socket; on a path, only its owner can use it. Raises OSError; ValueError for an open address."""
    if options.listen_fd is not None:
        os.set_inheritable(options.listen_fd, False)  # processes started by the server must not inherit it
        return socket.socket(fileno=options.listen_fd)
    if options.uds is None:
        if not ipaddress.ip_address(options.host).is_loopback:
            if not (options.tls_cert and options.tls_key):
                raise ValueError(
                    f"{options.host} is not a loopback address, so others could call it; give --tls-cert and --tls-key"
                )
            if not options.allow_host:
                raise ValueError(f"clients call {options.host} by a host name; give it with --allow-host")
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        return socket.create_server((options.host, options.port), family=family)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(options.uds))
    options.uds.chmod(0o600)
    return listener


def tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS settings, for TLS 1.2 or newer, or None without files. Raises OSError, ValueError."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ValueError("--tls-cert and --tls-key go together")
    if stat.S_IMODE(key.stat().st_mode) & 0o077:
        raise ValueError(f"other users can read {key}; run chmod 600 on it, and replace it if they did")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise ValueError(f"{certificate} and {key} are not a certificate and its key: {error.reason}") from error
    return context


async def accept(
    listener: socket.socket, guard: RequestGuard, runner: web.AppRunner, context: ssl.SSLContext | None
) -> asyncio.Server:
    """Start to accept connections, each watched by the guard."""
    assert runner.server is not None
    server = runner.server
    loop = asyncio.get_running_loop()
    if listener.family == socket.AF_UNIX:
        return await loop.create_unix_server(lambda: guard.watch(server), sock=listener)
    timeout_s = HEADER_TIMEOUT_S if context is not None else None
    return await loop.create_server(
        lambda: guard.watch(server), sock=listener, ssl=context, ssl_handshake_timeout=timeout_s
    )


def address(listener: socket.socket, context: ssl.SSLContext | None) -> str:
    """Return the address for the line that says that the server is ready."""
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"{'https' if context is not None else 'http'}://{host}:{name[1]}"


_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_FILTER_LINE_BYTES = 8


class _Filter(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = [("lines", ctypes.c_ushort), ("program", ctypes.c_char_p)]


def harden() -> int:
    """Protect this process and adopt orphans. Returns the previous umask, which commands get."""
    umask = os.umask(0o077)
    limit(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    processes.adopt_orphans()
    return umask


def filter_calls() -> None:
    """Forbid the system calls listed in `seccomp`, for this process and all that it starts. This cannot be undone.

    An existing filter, such as a container's, stays in force. The filter applies to the calling thread, so call this
    before starting others. Raises OSError.
    """
    program = seccomp.program() if sys.platform == "linux" else None
    if program is None:
        raise OSError("system calls cannot be filtered on this architecture; leave out --filter-calls")
    libc = ctypes.CDLL(None, use_errno=True)
    nothing = (ctypes.c_ulong(0),) * 3
    lines = _Filter(len(program) // _FILTER_LINE_BYTES, program)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *nothing) or libc.prctl(
        _PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(lines), *nothing[1:]
    ):
        why = os.strerror(ctypes.get_errno())
        raise OSError(f"the kernel refuses a filter for system calls: {why}; leave out --filter-calls")


def limit(what: int, most: int | None) -> None:
    """Set a limit of the `resource` module for this process and all that it starts; None sets no limit."""
    if most is not None:
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def take_key(path: Path) -> str:
    """Read the key from a file and remove the file. Raises OSError; ValueError if it is empty."""
    try:
        key = path.read_text("ascii").strip()
    finally:
        path.unlink(missing_ok=True)
    if not key:
        raise ValueError(f"the key file is empty: {path}")
    return key
