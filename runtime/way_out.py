"""The one guarded way out of a sandbox without a network: the proxy of `egress`, a process on a socket that it sees."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from core.errors import RuntimeUnavailableError
from runtime.environment import without_secrets

START_S = 10.0


@asynccontextmanager
async def way_out(socket: Path, allowed_hosts: Iterable[str], user: tuple[int, int] | None) -> AsyncIterator[None]:
    """The proxy, for as long as the context; `user` gets the socket. Raises RuntimeUnavailableError."""
    allowed = [word for host in allowed_hosts for word in ("--allow", host)]
    await asyncio.to_thread(socket.unlink, missing_ok=True)
    proxy = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "runtime.egress", "--uds", socket.name, *allowed),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=socket.parent,  # the whole path may be longer than that of a socket can be
        env=without_secrets(os.environ),
        start_new_session=True,
    )
    assert proxy.stdin is not None
    try:
        await _ready(proxy)
        if user is not None:
            await asyncio.to_thread(os.chown, socket, *user)
        yield
    finally:
        proxy.stdin.close()  # upon which it ends
        await proxy.wait()


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
