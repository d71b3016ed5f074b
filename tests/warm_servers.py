"""A LocalRuntime for tests that are about something else: its server starts without half a second of imports.

One process has imported the server, and forks from itself what would otherwise be started with `python -m
runtime.server`. A forked server has the same arguments, environment, descriptors and session as one that was started,
and shares nothing with another one. A server in isolation cannot be forked; it is started as usual. Tests of
the start, of the server as a process and of its walls use LocalRuntime.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import BinaryIO

from runtime.local.local_runtime import LocalRuntime

MAX_REQUEST_BYTES = 1 << 20


class WarmRuntime(LocalRuntime):
    """Implements core.protocols.Runtime. Knows no facts, so that conversations do not depend on the machine."""

    async def facts(self) -> Mapping[str, str]:
        return {}

    async def _spawn(
        self, command: Sequence[str], fds: Sequence[int], stderr: BinaryIO, environ: Mapping[str, str]
    ) -> asyncio.subprocess.Process:
        if command[0] != sys.executable:  # it is within bubblewrap
            return await super()._spawn(command, fds, stderr, environ)
        (listener,) = fds
        arguments = [*command[command.index("runtime.server") + 1 :]]
        ours, theirs = socket.socketpair()
        with theirs:
            request = json.dumps([arguments, dict(environ)]).encode()
            given = [theirs.fileno(), stderr.fileno(), listener]
            pid, pidfd = await asyncio.to_thread(_warm().fork, request, given)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        return ForkedProcess(pid, pidfd, reader, writer)


class ForkedProcess(asyncio.subprocess.Process):
    """A server that is no child of this process. Its exit status is not known here."""

    def __init__(self, pid: int, pidfd: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = writer, reader, None
        self._pidfd = pidfd
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(pidfd, self._end)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        return 0

    def kill(self) -> None:
        if self._ended.is_set():
            raise ProcessLookupError
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


class WarmServer:
    """The process that forks them."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        atexit.register(self.close)

    def fork(self, request: bytes, fds: Sequence[int]) -> tuple[int, int]:
        """A new server's pid, and a descriptor of its process."""
        with self._turn:
            socket.send_fds(self._socket, [request], fds)
            said, (pidfd,), _, _ = socket.recv_fds(self._socket, 64, 1)
        return int(said), pidfd

    def close(self) -> None:
        """End it; forked servers run until their own lifeline closes."""
        self._socket.close()
        self._process.wait()


@functools.cache
def _warm() -> WarmServer:
    return WarmServer()


def main() -> None:
    """Import the server, and fork one for each request until the client ends."""
    import_module("runtime.server.__main__")

    requests = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for them
    while True:
        request, fds, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 3)
        if not request:
            return
        if (pid := os.fork()) == 0:
            requests.close()
            _serve(*json.loads(request), *fds)
        pidfd = os.pidfd_open(pid)
        socket.send_fds(requests, [str(pid).encode()], [pidfd])
        for fd in (pidfd, *fds):
            os.close(fd)


def _serve(arguments: list[str], environ: dict[str, str], io: int, err: int, listener: int) -> None:
    """In the child: as a fresh Python would be."""
    from runtime.server.main import main as serve

    status = 70
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd, number in ((io, 0), (io, 1), (err, 2)):
            os.dup2(fd, number)
        for fd in (io, err):
            os.close(fd)
        os.environ.clear()
        os.environ.update(environ)
        arguments[arguments.index("--listen-fd") + 1] = str(listener)
        status = serve(arguments)
        sys.stdout.flush()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
