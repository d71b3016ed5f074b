"""Tries every way out of a sandbox, and tells by which something got out."""

from __future__ import annotations

import asyncio
import os
import platform
import shlex
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from core.autorun_paths import NAMES
from runtime.isolation.bubblewrap import hidden_arguments
from runtime.server_runtime import ServerRuntime
from tests.runtime.isolation.confined import run
from tests.runtime.probes import probes


@dataclass(frozen=True)
class Goals:
    """Targets of a hostile command: the placeholders of `probes`."""

    secret: Path
    outside: Path
    socket: Path
    abstract: str
    port: int
    address: str
    pid: int
    python: str = sys.executable
    code: Path = Path(hidden_arguments.__code__.co_filename)


@asynccontextmanager
async def goals(folder: Path) -> AsyncIterator[Goals]:
    """A secret, a process and sockets of the host, in a folder beside the workspace."""
    outside = folder / "outside"
    outside.mkdir()
    (outside / "secret").write_text("canary")
    abstract = f"handloom-{os.getpid()}"
    with (
        socket.create_server(("", 0)) as listener,
        socket.socket(socket.AF_UNIX) as with_file,
        socket.socket(socket.AF_UNIX) as without_file,
    ):
        with_file.bind(str(folder / "socket"))
        with_file.listen()
        without_file.bind("\0" + abstract)
        without_file.listen()
        process = await asyncio.create_subprocess_exec("sleep", "300")
        try:
            yield Goals(
                secret=outside / "secret",
                outside=outside,
                socket=folder / "socket",
                abstract=abstract,
                port=listener.getsockname()[1],
                address=address_of_this_machine(),
                pid=process.pid,
            )
        finally:
            process.kill()
            await process.wait()


def address_of_this_machine() -> str:
    """An address of this machine that others could use; without a network, an unused one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "192.0.2.1"


async def outcomes_of(runtime: ServerRuntime, machine: Goals, groups: tuple[str, ...] = ()) -> dict[str, bool]:
    """Of each way out, in order, whether it led out. `groups` chooses some."""
    tried = {name: command for name, command in probes() if not groups or name.startswith(groups)}
    if platform.machine() != "x86_64":  # the numbers of calls are of one machine
        tried = {name: command for name, command in tried.items() if not name.startswith("call:")}
    blanks = asdict(machine)
    script = "".join(
        f"echo '>' {shlex.quote(name)}; timeout 5 bash -c {shlex.quote(command.format(**blanks))} 2>/dev/null\n"
        for name, command in tried.items()
    )
    workspace = Path((await run(runtime, "pwd")).content)
    before = contents(workspace)
    said = await run(runtime, script, timeout=300)
    outcomes, last = dict[str, bool](), ""
    for line in said.content.splitlines():
        if line.startswith("> "):
            last = line[2:]
            outcomes[last] = False
        elif line.strip() == "ESCAPED":
            outcomes[last] = True
    assert list(outcomes) == list(tried)
    for name in contents(workspace).items() - before.items():
        outcomes |= {tried: True for tried in outcomes if tried.startswith(f"persistence: {name[0]}")}
    return outcomes


def contents(workspace: Path) -> dict[str, tuple[str, ...]]:
    """The content on the host of each name that outside programs would run or obey."""
    return {
        name: tuple(sorted(str(path) for path in (workspace / name, *(workspace / name).rglob("*"))))
        for name in NAMES
        if (workspace / name).exists()
    }
