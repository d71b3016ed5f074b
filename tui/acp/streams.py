"""Standard input and output as a wire that belongs to the protocol alone."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from core.acp.wire import MAX_LINE_BYTES, Wire
from core.errors import UsageError
from tui.i18n import _


@asynccontextmanager
async def standard_streams() -> AsyncIterator[Wire]:
    """The wire on standard input and output, which nobody else can write to while this is entered.

    Whatever else prints meets standard error; whatever else reads finds nothing. Raises UsageError where they cannot
    be waited for, such as a file as input.
    """
    loop = asyncio.get_running_loop()
    incoming, outgoing = _taken()
    reader, ended = asyncio.StreamReader(limit=MAX_LINE_BYTES), asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(ended)
    try:
        source, _protocol = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), incoming)
        sink, _sink_protocol = await loop.connect_write_pipe(lambda: protocol, outgoing)
    except (ValueError, OSError) as error:
        raise UsageError(_("This command talks with an editor through pipes. Let an editor start it.")) from error
    watch = asyncio.create_task(_end_with(ended, reader))
    wire = Wire(reader, asyncio.StreamWriter(sink, protocol, None, loop))
    try:
        yield wire
    finally:
        watch.cancel()
        await wire.close()
        source.close()


def _taken() -> tuple[Any, Any]:
    """The standard streams as our own files; their numbers lead elsewhere from here on."""
    sys.stdout.flush()
    incoming, outgoing = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return incoming, outgoing


async def _end_with(gone: asyncio.StreamReader, reader: asyncio.StreamReader) -> None:
    """End the input when nobody reads the output: then nobody is there."""
    await gone.read()
    reader.feed_eof()
