"""`handloom acp`: serve one editor until it goes, or until the process is told to end."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from acp.connection import Connection

from core.exit_status import ExitStatus
from tui.acp.server import Server
from tui.acp.streams import standard_streams
from tui.cli.lines import notice
from tui.i18n import _

if TYPE_CHECKING:
    from core.manager.conversation_manager import ConversationManager

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
    async with standard_streams() as wire:
        connection = Connection(server.methods, wire, listening=False)
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
