"""What separates a local sandbox from the machine it runs on: walls, limits, and one guarded way out.

It is opened before the action server is started, gives the words that stand before the server's own command, and is
closed after the server has ended. Nothing here decides in silence: where there can be no walls, `why_open` says why.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from core.errors import RuntimeUnavailableError
from runtime import bubblewrap, git_identity, protected
from runtime.control_group import ControlGroup, Limits
from runtime.egress import ALLOWED_HOSTS
from runtime.environment import without_secrets
from runtime.survey import Baseline, nested_places

MB = 1024 * 1024
PROXY_START_S = 10.0
_ENTER = 'for file in $0; do echo $$ > "$file"; done; exec "$@"'
"""Goes into its control groups before it becomes the command, so that nothing is ever outside."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """How a local sandbox is to be separated."""

    kind: Literal["auto", "bubblewrap", "none"] = "none"
    """`auto` takes bubblewrap where it works, `bubblewrap` refuses to start where it does not."""
    allowed_hosts: tuple[str, ...] = ()
    """Whom its programs may call, as `egress` reads it; without walls nobody asks."""
    readable_paths: tuple[Path, ...] = ()
    """What is in sight beyond the system's programs."""
    hidden_paths: tuple[Path, ...] = ()
    """What is out of sight wherever it lies, such as the conversations of others."""
    protected_paths: tuple[str, ...] = protected.PROTECTED
    """What is read-only in the workspace, relative to it."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the server: the words before its command, its options, and the descriptors that it inherits."""

    command: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    fds: tuple[int, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    """Beyond the user's own."""
    limits: tuple[str, ...] = ()
    """What the sandbox may use at most, for people."""


class Confinement:
    """Of one workspace. Making one blocks for some ten milliseconds where walls are wished for."""

    def __init__(self, workspace: Path, isolation: Isolation) -> None:
        self._workspace = workspace
        self._isolation = isolation
        self.state: Path | None = None
        """Where the server keeps what shall outlast it."""
        self._baseline: Baseline | None = None
        self._held: protected.Held | None = None
        self._group: ControlGroup | None = None
        self._killed = 0
        self.why_open = "" if isolation.kind == "none" else self._why_not()
        """Why there are no walls although they are wished for; empty where there are, or nobody wishes."""
        self.is_closed = isolation.kind != "none" and not self.why_open
        """Whether there are walls."""

    def allow(self, host: str, folder: str) -> None:
        """More that the walls let through, from the next opening on."""
        hosts = (*self._isolation.allowed_hosts, host) if host else self._isolation.allowed_hosts
        paths = (*self._isolation.readable_paths, Path(folder)) if folder else self._isolation.readable_paths
        self._isolation = replace(self._isolation, allowed_hosts=hosts, readable_paths=paths)

    def fallen(self) -> str:
        """Which wall fell since the opening, for the user; empty where they stand. Blocks for a moment."""
        replaced = self._held.replaced() if self._held is not None else None
        return "" if replaced is None else f"{replaced} was replaced on this machine, so it is not protected any more"

    def starved(self) -> str:
        """What to tell where processes were killed for want of memory since this was asked last; empty where none was.

        Blocks for a moment.
        """
        before, self._killed = self._killed, self._group.killed_for_memory() if self._group is not None else 0
        most = self._isolation.limits.memory_bytes
        if self._killed <= before or most is None:
            return ""
        return f"The sandbox ran out of memory, so a process was killed: all together may use {most // MB} MB."

    def left_behind(self) -> list[str]:
        """What is there now, and was not when the conversation began, that the host would carry out. Blocks."""
        if self._baseline is None and self.is_closed and (kept := self._kept_beginning) is not None and kept.exists():
            self._baseline = self._first_look()
        return [] if self._baseline is None else self._baseline.new()

    def _why_not(self) -> str:
        try:
            return bubblewrap.why_not(self._walls(self._workspace))
        except OSError as error:
            return f"the workspace cannot be looked at: {error.strerror}"

    def _walls(self, private: Path) -> bubblewrap.Walls:
        home = Path(os.path.expanduser("~")).resolve()
        readable = tuple(path.expanduser().resolve() for path in self._isolation.readable_paths)
        return bubblewrap.Walls(
            workspace=self._workspace,
            private=private,
            home=home,
            readable=readable,
            hidden=tuple(path.resolve() for path in self._isolation.hidden_paths),
            protected=self._isolation.protected_paths,
            nested=nested_places(self._baseline.first.places) if self._baseline else (),
            state=self.state,
            user=bubblewrap.somebody(self._workspace),
        )

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncIterator[Launch]:
        """Everything that has to be there while the server runs; `folder` is where its socket will be.

        Raises RuntimeUnavailableError.
        """
        if self._isolation.kind == "bubblewrap" and self.why_open:
            raise RuntimeUnavailableError(f"There can be no isolation: {self.why_open}; or set sandbox.isolation.")
        async with AsyncExitStack() as stack:
            group = self._group = ControlGroup(folder.name, self._isolation.limits)
            self._killed = 0
            files = await asyncio.to_thread(group.make)
            stack.push_async_callback(asyncio.to_thread, group.remove)
            enter = ("/bin/sh", "-c", _ENTER, " ".join(map(str, files))) if files else ()
            limits = tuple(_described(self._isolation.limits, group.applied, self.is_closed))
            launch = Launch(enter, self._limits_of_each(group.applied), limits=limits)
            yield await (self._walled_in(launch, folder, stack) if self.is_closed else self._in_the_open(launch))

    async def _in_the_open(self, launch: Launch) -> Launch:
        """Files are worked on in the workspace and where temporary ones are; commands are bound by nothing, and the
        browser learns which addresses around it may open all the same."""
        options = [*launch.options, "--root", str(self._workspace), "--root", tempfile.gettempdir()]
        if self.state is not None:
            await asyncio.to_thread(_make_state, self.state, None)
            options += ["--state-dir", str(self.state)]
        environ = {ALLOWED_HOSTS: ",".join(self._isolation.allowed_hosts)} if self._isolation.allowed_hosts else {}
        return replace(launch, options=tuple(options), environ=environ)

    def _limits_of_each(self, applied: frozenset[str]) -> tuple[str, ...]:
        limits = self._isolation.limits
        memory = None if "memory" in applied else limits.memory_of_each_bytes
        wanted = {"--max-memory": memory, "--max-file": limits.file_bytes}
        if self.is_closed:  # outside, all of the user's processes would count
            wanted["--max-processes"] = limits.processes
        return tuple(word for name, most in wanted.items() if most is not None for word in (name, str(most)))

    async def _walled_in(self, launch: Launch, folder: Path, stack: AsyncExitStack) -> Launch:
        try:
            self._baseline = await asyncio.to_thread(self._first_look)
            walls = await asyncio.to_thread(self._walls, folder)
            words, guards = await asyncio.to_thread(walls.command)
            words, fds = await asyncio.to_thread(stack.enter_context, bubblewrap.handed_over(words))
            self._held = await asyncio.to_thread(protected.Held, guards, walls.user)
            stack.push_async_callback(asyncio.to_thread, self._held.close)
            if walls.state is not None:
                await asyncio.to_thread(_make_state, walls.state, walls.user)
            environ = await asyncio.to_thread(git_identity.settings_for, folder)
            await asyncio.to_thread(_hand_over, folder, walls.user)
        except (bubblewrap.BubblewrapError, OSError) as error:
            raise RuntimeUnavailableError(f"The sandbox cannot be walled in: {error}.") from error
        options = launch.options
        if walls.state is not None:
            options += ("--state-dir", str(walls.state_inside))
        if self._isolation.allowed_hosts:
            options += ("--proxy", str(await self._open_a_way_out(folder, walls.user, stack)))
        return Launch((*launch.command, *words), options, fds, environ, launch.limits)

    @property
    def _kept_beginning(self) -> Path | None:
        """Beside what the sandbox may keep, where it sees nothing."""
        return None if self.state is None else self.state.with_name(f"{self.state.name}.before")

    def _first_look(self) -> Baseline:
        before = self._baseline.before if self._baseline is not None else None
        return Baseline(self._workspace, self._isolation.protected_paths, self._kept_beginning, before)

    async def _open_a_way_out(self, folder: Path, user: tuple[int, int] | None, stack: AsyncExitStack) -> Path:
        socket = folder / "way-out"
        allowed = [word for host in self._isolation.allowed_hosts for word in ("--allow", host)]
        proxy = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "runtime.egress", "--uds", str(socket), *allowed),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",
            env=without_secrets(os.environ),
            start_new_session=True,
        )
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        assert proxy.stderr is not None
        stack.push_async_callback(proxy.wait)
        stack.callback(proxy.stdin.close)
        try:
            async with asyncio.timeout(PROXY_START_S):
                if await proxy.stdout.readline():
                    if user is not None:
                        await asyncio.to_thread(os.chown, socket, *user)
                    return socket
                said = (await proxy.stderr.read()).decode("utf-8", "replace").strip()
        except TimeoutError:
            said = "it did not start in time"
        raise RuntimeUnavailableError(f"The sandbox has no way out: {said}. Correct sandbox.allowed_hosts.")


def _make_state(folder: Path, user: tuple[int, int] | None) -> None:
    folder.mkdir(0o700, parents=True, exist_ok=True)
    if user is not None:
        os.chown(folder, *user)


def _hand_over(folder: Path, user: tuple[int, int] | None) -> None:
    """Give the folder of the sockets to whoever the sandbox's processes are."""
    if user is not None:
        for path in (folder, *folder.iterdir()):
            os.chown(path, *user)


def _described(limits: Limits, applied: frozenset[str], is_closed: bool) -> Iterator[str]:
    """The limits that hold, and for whom: for all processes together, or for each."""
    if limits.memory_bytes is not None and "memory" in applied:
        yield f"{limits.memory_bytes // MB} MB of memory in all"
    elif limits.memory_of_each_bytes is not None:
        yield f"{limits.memory_of_each_bytes // MB} MB of memory for each process"
    if limits.cpus is not None and "cpu" in applied:
        yield f"{limits.cpus:g} processors"
    if limits.processes is not None and ("pids" in applied or is_closed):
        yield f"{limits.processes} processes and threads"
    if limits.file_bytes is not None:
        yield f"{limits.file_bytes // MB} MB for one file"
