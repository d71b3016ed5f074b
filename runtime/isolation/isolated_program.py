"""`python -P -m runtime.isolation.isolated_program ISOLATION COMMAND...` runs a program isolated like the agent's
commands.

It is used by `tui.runtime_factory` for MCP servers that a workspace configures: the agent can write their files, so
what they run may be the agent's. ISOLATION is JSON made by `command_prefix`. Standard input, output and error and the
exit status are the program's, and it ends when this process ends, however that happens.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

from core.errors import RuntimeUnavailableError
from core.interpreter import start_command
from core.sandbox_types import Denials, DeniedHosts
from runtime.isolation.confinement import Confinement, Isolation, SessionFolder
from runtime.isolation.egress_proxy import PROXY_SOCKET


def command_prefix(workspace: Path, isolation: Isolation, denials: Denials) -> tuple[str, ...]:
    """Return the words before a command that run it isolated. Resource limits are not passed on."""
    config = {
        "workspace": str(workspace),
        "allowed_hosts": isolation.allowed_hosts,
        "readable_paths": [str(path) for path in isolation.readable_paths],
        "hidden_paths": [str(path) for path in isolation.hidden_paths],
        "protected_paths": isolation.protected_paths,
        "denials": asdict(denials),
    }
    return start_command("runtime.isolation.isolated_program", json.dumps(config))


def main() -> int:
    """Run the program; return its exit status, or 126 with a line on standard error if that is impossible."""
    config = json.loads(sys.argv[1])
    isolation = Isolation(
        "bubblewrap",
        allowed_hosts=tuple(config["allowed_hosts"]),
        readable_paths=tuple(map(Path, config["readable_paths"])),
        hidden_paths=tuple(map(Path, config["hidden_paths"])),
        protected_paths=tuple(config["protected_paths"]),
    )
    denials = Denials(**config["denials"] | {"hosts": tuple(DeniedHosts(**one) for one in config["denials"]["hosts"])})
    try:
        return asyncio.run(_run(Path(config["workspace"]), isolation, denials, sys.argv[2:]))
    except (RuntimeUnavailableError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 126


async def _run(workspace: Path, isolation: Isolation, denials: Denials, command: Sequence[str]) -> int:
    """Run the program. Raises RuntimeUnavailableError, OSError."""
    confinement = await asyncio.to_thread(Confinement, workspace, isolation)
    confinement.guard.denied = lambda: denials
    folder = await asyncio.to_thread(SessionFolder)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, folder.remove)
        launch = await stack.enter_async_context(confinement.opened(folder, has_proxy=bool(isolation.allowed_hosts)))
        if isolation.allowed_hosts:
            proxied = start_command("runtime.server.proxy_forwarder", str(folder.inside / PROXY_SOCKET))
            command = (*proxied, *command)
        process = await asyncio.create_subprocess_exec(
            *launch.command, *command, pass_fds=launch.fds, env={**os.environ, **launch.environ}
        )
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, process.kill)
        return abs(await process.wait())


if __name__ == "__main__":
    sys.exit(main())
