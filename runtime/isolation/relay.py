"""Copies bytes between two connections, as fast as the slower one."""

from __future__ import annotations

import asyncio
from contextlib import suppress

PIECE_BYTES = 64 * 1024


async def relay(
    near: tuple[asyncio.StreamReader, asyncio.StreamWriter], far: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Copy bytes in both directions until both sides have ended, then close both. A broken side has ended."""
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_hand_on(near[0], far[1]))
            both.create_task(_hand_on(far[0], near[1]))
    finally:
        near[1].close()
        far[1].close()


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(PIECE_BYTES):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()
