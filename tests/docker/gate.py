"""A relay in front of the container engine that can be closed.

With TLS it is at an address that is no loopback to Handloom, as if the engine were another machine's.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from runtime.isolation.egress_proxy import relay
from tests.containers import engine_environ

ELSEWHERE = "127.0.0.2"


class Gate:
    """Relays to the engine of the tests while open; when closed, no socket listens and every connection is cut."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._port = 0
        self._folder = Path(tempfile.mkdtemp(prefix="gate-", dir="/tmp"))
        self._socket = self._folder / "s"
        self._engine = engine_environ().get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        if self._tls is not None:
            return f"tcp://{ELSEWHERE}:{self._port}"
        return f"unix://{self._socket}"

    async def open(self) -> None:
        """Accept connections."""
        if self._tls is not None:
            self._server = await asyncio.start_server(self._pass, ELSEWHERE, self._port, ssl=self._tls)
            self._port = self._server.sockets[0].getsockname()[1]
            return
        self._server = await asyncio.start_unix_server(self._pass, self._socket)

    async def close(self) -> None:
        """Refuse connections, and cut the existing ones."""
        if self._server is not None:
            self._server.close()
        self._socket.unlink(missing_ok=True)
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        try:
            await relay((reader, writer), await asyncio.open_unix_connection(self._engine))
        except asyncio.CancelledError:
            pass  # by `close`
        finally:
            self._passing.discard(task)
            writer.transport.abort()  # with TLS, closing would wait for the other side's farewell

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Gate]:
        """Open; shut and taken away at the end."""
        await self.open()
        try:
            yield self
        finally:
            await self.close()
            shutil.rmtree(self._folder)
