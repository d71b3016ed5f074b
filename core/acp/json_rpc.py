"""JsonRpcStream: JSON-RPC messages over two pipes, one per line. Invalid messages are answered and skipped.

The protocol library's connection uses this as its `Transport`. Its own reader has no limit for a line and ignores what
it cannot read, and some malformed responses would end its loop; those are filtered out here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from typing import Any

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The limit of one message: enough for some large pictures in base64."""
LARGE_BYTES = 256 * 1024
"""Larger messages are parsed in a thread, because that takes noticeable time."""
PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603
"""Error codes of JSON-RPC 2.0."""


class JsonRpcStream:
    """Messages in both directions. `receive` is for one reader; `send` may be called by many."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end of the input, and when our output is closed."""
        while (line := await self._line()) is not None:
            message = await self._parsed(line) if line.strip() else None
            if isinstance(message, dict):
                return message
        return None

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message, in the order of calls. Raises ConnectionError."""
        self._writer.write(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")
        await self._writer.drain()

    async def close(self) -> None:
        """Flush and close the output."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _line(self) -> bytes | None:
        """Return the next line, empty for one that was too long; None at the end."""
        is_too_long = False
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                is_too_long = True
                await self._reader.readexactly(error.consumed)
                continue
            except (asyncio.IncompleteReadError, OSError):  # an incomplete line is not a message
                return None
            if not is_too_long:
                return line
            await self._refuse(INVALID_REQUEST, f"A message has {MAX_LINE_BYTES >> 20} MB at most. Send less at once.")
            return b""

    async def _parsed(self, line: bytes) -> dict[str, Any] | None:
        try:
            message = await asyncio.to_thread(_loaded, line) if len(line) > LARGE_BYTES else _loaded(line)
        except (ValueError, RecursionError):
            await self._refuse(PARSE_ERROR, "A line is not JSON. Send one JSON-RPC 2.0 message on each line.")
            return None
        if isinstance(message, dict) and "method" not in message and "id" in message:
            return _answer(message)
        if (error := _error_in(message)) is not None:
            await self._refuse(INVALID_REQUEST, error, message.get("id") if isinstance(message, dict) else None)
            return None
        assert isinstance(message, dict)
        return message

    async def _refuse(self, code: int, text: str, id: object = None) -> None:
        """Answer a message that is not passed on."""
        id = id if isinstance(id, str | int) else None
        with suppress(ConnectionError):
            await self.send({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})


def _loaded(line: bytes) -> Any:
    """Parse a line, and replace lone surrogates. Raises ValueError, RecursionError."""
    message = json.loads(line)
    if b"\\ud" in line or b"\\uD" in line:
        text = json.dumps(message, ensure_ascii=False)
        message = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return message


def _error_in(message: object) -> str | None:
    """Return why this is neither a request nor a notification; None if it is one."""
    if not isinstance(message, dict):
        return "A message must be one JSON object. Batches are not supported."
    if not isinstance(message.get("method"), str):
        return "A message needs a method, or the id of the request that it answers."
    if "id" in message and not isinstance(message["id"], str | int | None):
        return "The id of a request must be a number or a string."
    return None


def _answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return an answer to our request in a valid form; None if it has no usable id."""
    if not isinstance(message["id"], str | int):
        log.warning("an answer without a usable id was dropped")
        return None
    if "result" in message or isinstance(message.get("error"), dict):
        return message
    return {
        "id": message["id"],
        "error": {"code": INTERNAL_ERROR, "message": "The answer had neither result nor error."},
    }
