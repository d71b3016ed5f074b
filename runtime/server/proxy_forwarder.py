"""A port in the sandbox that forwards to the proxy on the host, for programs that take a proxy as host and port.

`python -P -m runtime.server.proxy_forwarder SOCKET COMMAND...` runs a program with such a port in its environment.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from runtime.isolation.egress_proxy import relay

NAMES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")
DIRECT = ("no_proxy", "NO_PROXY")


class ProxyForwarder:
    """Listens on loopback and forwards each connection to the Unix socket `target`."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._server: asyncio.Server | None = None

    async def start(self) -> dict[str, str]:
        """Start listening; return the environment variables for programs. Raises OSError."""
        port = await self.listen()
        direct = dict.fromkeys(DIRECT, "localhost,.localhost,127.0.0.1,0.0.0.0,::1")
        return dict.fromkeys(NAMES, f"http://127.0.0.1:{port}") | direct

    async def listen(self) -> int:
        """Start listening; return the port. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def aclose(self) -> None:
        """Stop listening. Open connections end with the server."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.close()  # the proxy has ended
            return
        await relay((reader, writer), far)


async def _run(target: Path, command: Sequence[str]) -> int:
    forwarder = ProxyForwarder(target)
    environ = os.environ | await forwarder.start()
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environ)
        return abs(await process.wait())
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be run: {error.strerror or error}\n")
        return 127
    finally:
        await forwarder.aclose()


if __name__ == "__main__":
    sys.exit(asyncio.run(_run(Path(sys.argv[1]), sys.argv[2:])))
