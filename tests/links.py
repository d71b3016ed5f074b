"""A relay of TCP connections between a client and a server on this machine, which breaks on purpose."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal

PIECE_BYTES = 16 * 1024
DELAY_S = 0.02


Kind = Literal["cut", "half-close", "stall", "delay"]


@dataclass(frozen=True)
class Fate:
    """The fault of one connection, after a number of bytes in one direction."""

    kind: Kind
    """`cut` resets a connection; `half-close` ends one direction; `stall` silently drops data."""
    back: bool
    """Whether the bytes that count come back from the server."""
    at_bytes: int


def random_fate(rng: random.Random, longest: int, unharmed: float = 0.3) -> Fate | None:
    """A fate within so many bytes; None, as often as `unharmed` says, for a connection that lives."""
    if rng.random() < unharmed:
        return None
    kinds: tuple[Kind, ...] = ("cut", "cut", "cut", "half-close", "stall", "delay")
    return Fate(
        rng.choice(kinds), rng.random() < 0.6, int(rng.random() ** 2 * longest)
    )  # most of what matters is at the beginning


class Link:
    """Connections to one local port. `fate` is called for each new one."""

    def __init__(self, to_port: int, fate: Callable[[], Fate | None]) -> None:
        self.to_port = to_port
        self.fate = fate
        self.port = 0
        self.connections = 0
        """That were made so far."""
        self.broken = 0
        """That met their fate."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Reset all connections that there are."""
        for writer in self._writers:
            writer.transport.abort()

    def stall(self) -> None:
        """Silently drop data, also on new connections, until `heal`."""
        self._flows.clear()

    def heal(self) -> None:
        """Let through what comes. Connections that were stalled lack a piece, and are reset."""
        self.cut()
        self._flows.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        fate = self.fate()
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.to_port)
            self._writers.add(back)
            with suppress(OSError):
                await asyncio.gather(
                    self._pump(reader, back, fate if fate and not fate.back else None),
                    self._pump(there, writer, fate if fate and fate.back else None),
                )
            self._writers.discard(back)
            back.transport.abort()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fate: Fate | None) -> None:
        passed = 0
        while data := await reader.read(PIECE_BYTES):
            await self._flows.wait()
            if fate is not None and passed + len(data) >= fate.at_bytes:
                self.broken += 1
                writer.write(data[: fate.at_bytes - passed])
                match fate.kind:
                    case "cut":
                        await writer.drain()
                        raise ConnectionResetError
                    case "half-close":
                        writer.write_eof()
                    case "delay":
                        await asyncio.sleep(DELAY_S)
                        writer.write(data[fate.at_bytes - passed :])
                if fate.kind != "delay":
                    while await reader.read(PIECE_BYTES):
                        pass
                    return
                fate = None
            else:
                writer.write(data)
            passed += len(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


@asynccontextmanager
async def linked(to_port: int, fate: Callable[[], Fate | None] = lambda: None) -> AsyncIterator[Link]:
    """A link to this port, intact until the test or a connection's fate breaks it."""
    link = Link(to_port, fate)
    relay = await asyncio.start_server(link.serve, "127.0.0.1", 0)
    link.port = relay.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        relay.close()
        link.heal()
        link.cut()
        await relay.wait_closed()
