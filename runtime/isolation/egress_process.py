"""The one guarded way out of a sandbox without a network: the proxy of `egress`, a process on a socket that it sees."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from core.errors import RuntimeUnavailableError
from core.interpreter import start_command
from core.sandbox_types import DeniedHosts
from runtime.environment import without_secrets

START_S = 10.0
MAX_TOLD = 10
"""Of calls that rules denied, between two commands."""


class WayOut:
    """A proxy that runs."""

    def __init__(self) -> None:
        self._denied: dict[str, None] = {}

    async def listen(self, said: asyncio.StreamReader) -> None:
        """Take in what the proxy says until it ends."""
        while line := await said.readline():
            if len(self._denied) < MAX_TOLD:
                self._denied[line.decode("utf-8", "replace").strip()] = None

    def take_denied(self) -> list[str]:
        """Which calls rules have denied since this was asked last, a line each."""
        denied, self._denied = list(self._denied), {}
        return denied


@asynccontextmanager
async def way_out(
    socket: Path, allowed_hosts: Iterable[str], denied: Iterable[DeniedHosts], user: tuple[int, int] | None
) -> AsyncIterator[WayOut]:
    """The proxy, for as long as the context; `user` gets the socket. Raises RuntimeUnavailableError."""
    rules = [word for host in allowed_hosts for word in ("--allow", host)]
    rules += [word for hosts in denied for word in ("--deny", hosts.glob, hosts.rule)]
    await asyncio.to_thread(socket.unlink, missing_ok=True)
    proxy = await asyncio.create_subprocess_exec(
        *start_command("runtime.isolation.egress_proxy", "--uds", socket.name, *rules),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=socket.parent,  # the whole path may be longer than that of a socket can be
        env=without_secrets(os.environ),
        start_new_session=True,
    )
    assert proxy.stdin is not None
    assert proxy.stdout is not None
    opened = WayOut()
    listening: asyncio.Task[None] | None = None
    try:
        await _ready(proxy)
        if user is not None:
            await asyncio.to_thread(os.chown, socket, *user)
        listening = asyncio.create_task(opened.listen(proxy.stdout))
        yield opened
    finally:
        proxy.stdin.close()  # upon which it ends
        await proxy.wait()
        if listening is not None:
            await listening


async def _ready(proxy: asyncio.subprocess.Process) -> None:
    assert proxy.stdout is not None
    assert proxy.stderr is not None
    said = "it did not start in time"
    try:
        async with asyncio.timeout(START_S):
            if await proxy.stdout.readline():
                return
            said = (await proxy.stderr.read()).decode("utf-8", "replace").strip()
    except TimeoutError:
        pass
    raise RuntimeUnavailableError(f"The sandbox has no way out: {said}. Correct sandbox.allowed_hosts.")
