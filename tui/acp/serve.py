"""`handloom acp`: serve one editor until it disconnects or the process is asked to end.

Only the protocol uses standard input and output.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from acp.connection import Connection

from core.acp.json_rpc import MAX_LINE_BYTES, JsonRpcStream
from core.errors import ExitStatus, UsageError
from tui.acp.server import Server
from tui.cli.output import notice
from tui.i18n import _

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager


@asynccontextmanager
async def standard_streams() -> AsyncIterator[JsonRpcStream]:
    """The stream on standard input and output, which nobody else can write to while this is entered.

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
    stream = JsonRpcStream(reader, asyncio.StreamWriter(sink, protocol, None, loop))
    try:
        yield stream
    finally:
        watch.cancel()
        await stream.close()
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


log = logging.getLogger(__name__)


async def serve(connect: Callable[[], Awaitable[ConversationManager]]) -> int:
    """Answer the editor on standard input and output. Whatever ends it, all that was said is stored.

    Raises UsageError where these are no pipes.
    """
    if sys.stdin.isatty():
        notice(_("This waits for an editor on standard input. Ctrl+C ends it."))
    told_to_end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told_to_end.set)
    server = Server(connect)
    async with standard_streams() as stream:
        connection = Connection(server.methods, stream, listening=False)
        server.connection = connection
        waits = [asyncio.create_task(connection.main_loop()), asyncio.create_task(told_to_end.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            with suppress(Exception):  # what a request raises while it is cancelled is no reason not to store
                await connection.close()
            await server.aclose()
    return ExitStatus.INTERRUPTED if told_to_end.is_set() else ExitStatus.FINISHED
