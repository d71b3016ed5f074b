"""How an event's stored form lies in the database: short ones as JSON text, longer ones compressed.

`pack(body)` is a str or a smaller bytes; `unpack` is its inverse. Statements that look into a body call the SQL
function `BODY` on a connection that `install` has prepared.
"""

from __future__ import annotations

import zlib

from core.store.sqlite import aiosqlite

LEAST_CHARS = 512
"""Shorter bodies hardly shrink."""
BODY = "handloom_body"
"""The SQL function that gives a body as text."""


def pack(body: str) -> str | bytes:
    """As it is stored. Takes some 10 µs for each kilobyte."""
    if len(body) < LEAST_CHARS:
        return body
    plain = body.encode()
    packed = zlib.compress(plain, 1)
    return packed if len(packed) < len(plain) else body


def unpack(stored: str | bytes) -> str:
    """The JSON text. Raises zlib.error where the bytes are damaged."""
    return stored if isinstance(stored, str) else zlib.decompress(stored).decode()


async def install(connection: aiosqlite.Connection) -> None:
    """Let statements of this connection call `BODY`."""
    await connection.create_function(BODY, 1, unpack, deterministic=True)
