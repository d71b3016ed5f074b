"""A passage: a socket of this machine that leads to one in a container, through the engine, wherever that is.

Each connection is one program in the container that hands bytes on, started when the connection is made and there for
as long as it is. Invariant: a connection ends when its other end does, so that who has one on this machine sees what
befalls the link.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from runtime.containers.dialing import Streams, dialed, output, run

PIECE_BYTES = 64 * 1024
START_S = 20.0
"""For a link that drops everything in silence: until the program runs, nobody notices that the near side has gone."""


class Passage:
    """Leads from `socket`, a path where nothing is yet, to what `command` in the container is connected to.

    `url` is the engine's address, `version` that of its API, `container` the id. Open it, and close it in the end.
    """

    def __init__(self, url: str, version: str, container: str, command: Sequence[str], socket: str) -> None:
        self._url = url
        self._version = version
        self._container = container
        self._command = command
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Let connections through from here on. Raises OSError."""
        self._server = await asyncio.start_unix_server(self._pass, self._socket)

    async def aclose(self) -> None:
        """End all connections. May be called twice."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        try:
            async with dialed(self._url) as far:
                async with asyncio.timeout(START_S):
                    await run(far, self._version, self._container, self._command)
                await _either((reader, writer), far)
        except (OSError, asyncio.CancelledError):
            pass  # who is connected sees the end of it; cancelled by `aclose` alone
        finally:
            self._passing.discard(task)
            writer.close()


async def _either(near: Streams, far: Streams) -> None:
    """Hand bytes on both ways until one side ends."""
    ways = {asyncio.create_task(_there(near[0], far[1])), asyncio.create_task(_back(far[0], near[1]))}
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _there(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(PIECE_BYTES):
            writer.write(data)
            await writer.drain()


async def _back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        async for data in output(reader):
            writer.write(data)
            await writer.drain()
