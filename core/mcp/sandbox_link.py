"""The link between the MCP host and a server in the sandbox of a conversation: a socket in a folder that is then gone.

The runtime starts the program and carries its input and output. The host connects to the socket once, and gets neither
the key of the sandbox nor the server's variables. Either side notices the end of the other.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from core.mcp.mcp_host_client import ServerError
from core.sandbox_types import Streams

CONNECT_S = 30.0
"""How long the host may take to connect; it may have to start first."""
LIMIT_BYTES = 64 * 1024
"""How much of the host's messages is buffered for the sandbox."""


async def open_link(tell_host: Callable[[str], Awaitable[None]]) -> Streams:
    """Call `tell_host` with the path of a new socket, and return the streams of the host's connection.

    Raises ServerError.
    """
    connected: asyncio.Future[Streams] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if connected.done():
            writer.close()
        else:
            connected.set_result((reader, writer))

    folder = await asyncio.to_thread(lambda: tempfile.TemporaryDirectory(prefix="handloom-mcp-"))  # mode 0700
    try:
        path = str(Path(folder.name) / "s")
        listener = await asyncio.start_unix_server(accept, path, limit=LIMIT_BYTES)
        try:
            await tell_host(path)
            async with asyncio.timeout(CONNECT_S):
                return await connected
        finally:
            listener.close()
    except TimeoutError:
        raise ServerError("The MCP host did not connect.") from None
    except OSError as error:
        raise ServerError(
            f"No socket can be made in {folder.name}: {error.strerror or error}. Make room, and try again."
        ) from error
    finally:
        await asyncio.to_thread(folder.cleanup)
