"""Isolates a local sandbox from its machine: bubblewrap, resource limits, and network access through the egress proxy.

It is opened before the action server starts, returns the words that go before the server's command, and is closed after
the server has ended. If isolation is not possible, `why_open` says why.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from core.autorun_paths import NAMES
from core.errors import RuntimeUnavailableError
from core.sandbox_types import Denials
from runtime.isolation import bubblewrap, git_config
from runtime.isolation.cgroups import ControlGroup, Limits, described
from runtime.isolation.egress_proxy import ALLOWED_HOSTS, EgressProcess, egress_process
from runtime.isolation.protected_paths import Visibility
from runtime.isolation.session_folder import SessionFolder
from runtime.isolation.workspace_guard import WorkspaceGuard
from runtime.shortage_messages import memory_ran_out

WAY_OUT = "way-out"
"""The proxy's socket, in the folder that the sandbox sees."""
_ENTER = 'for file in $0; do echo $$ > "$file"; done; exec "$@"'
"""Joins the control groups before it runs the command, so that nothing runs outside of them."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """How a sandbox on this machine is isolated."""

    kind: Literal["auto", "bubblewrap", "none"] = "none"
    """For a local sandbox: `auto` uses bubblewrap if it works, `bubblewrap` refuses to start without it."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that its programs may call, in the syntax of `egress_proxy`; not enforced without bubblewrap."""
    readable_paths: tuple[Path, ...] = ()
    """Readable paths besides the system's programs."""
    hidden_paths: tuple[Path, ...] = ()
    """Paths that are always hidden, such as other conversations."""
    protected_paths: tuple[str, ...] = NAMES
    """Read-only paths, relative to the workspace."""
    limits: Limits = field(default_factory=Limits)

    def allowing(self, host: str, folder: str) -> Isolation:
        """Return a copy that also allows this host and this folder; an empty string adds none."""
        hosts = (*self.allowed_hosts, host) if host else self.allowed_hosts
        paths = (*self.readable_paths, Path(folder)) if folder else self.readable_paths
        return replace(self, allowed_hosts=hosts, readable_paths=paths)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the server: the words before its command, its options, and the descriptors that it inherits."""

    command: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    fds: tuple[int, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    """In addition to the user's environment."""
    limits: tuple[str, ...] = ()
    """Resource limits of the sandbox, as text for the user."""


class Confinement:
    """The isolation of one workspace. Making one blocks for some ten milliseconds if bubblewrap is wanted."""

    def __init__(self, workspace: Path, isolation: Isolation) -> None:
        self._workspace = workspace
        self._isolation = isolation
        self._state: Path | None = None
        self._guard = WorkspaceGuard(workspace, isolation.protected_paths)
        self._group: ControlGroup | None = None
        self._killed = 0
        self._way_out: EgressProcess | None = None
        self.why_open = "" if isolation.kind == "none" else self._why_not()
        """Why there is no isolation although it is wanted; otherwise empty."""
        self.is_closed = isolation.kind != "none" and not self.why_open
        """Whether bubblewrap is used."""

    @property
    def state(self) -> Path | None:
        """Where the server keeps what shall outlast it; what there was at first is kept beside it."""
        return self._state

    @state.setter
    def state(self, folder: Path) -> None:
        """The folder in which the server keeps data for the next start; the workspace's baseline is stored beside
        it.
        """
        self._state = folder
        self._guard.kept = folder.with_name(f"{folder.name}.before")

    def allow(self, host: str, folder: str) -> None:
        """Allow another host or folder from the next start on."""
        self._isolation = self._isolation.allowing(host, folder)

    def deny(self, denied: Callable[[], Denials]) -> None:
        """Set the function that returns the user's deny rules at each start."""
        self._guard.denied = denied

    def fallen(self) -> str:
        """Return which protection was broken since the start, for the user, or an empty string. Blocks briefly."""
        return self._guard.fallen()

    def starved(self) -> str:
        """Return a message if processes were killed for lack of memory since the last call, else an empty string.

        Only with bubblewrap: otherwise the server sees its own group and reports it. Blocks briefly.
        """
        if not self.is_closed:
            return ""
        before, self._killed = self._killed, self._group.killed_for_memory() if self._group is not None else 0
        most = self._isolation.limits.memory_bytes
        return memory_ran_out(most) if self._killed > before else ""

    def denied_calls(self) -> list[str]:
        """Return the network calls denied by rules since the last call, a line for each."""
        return self._way_out.take_denied() if self._way_out is not None else []

    def left_behind(self) -> list[str]:
        """Return new files since the conversation began that programs on the host would run. Blocks."""
        return self._guard.left_behind() if self.is_closed else []

    def moved_aside(self) -> list[str]:
        """Move aside new files that programs on the host would run; return a line for each. Blocks."""
        return self._guard.move_aside() if self.is_closed else []

    def put_back(self, name: str) -> str:
        """Restore one file that was moved aside. Raises UsageError. Blocks."""
        return self._guard.put_back(name)

    def _why_not(self) -> str:
        try:
            return bubblewrap.unavailable_reason(self._walls(self._workspace))
        except OSError as error:
            return f"the workspace cannot be read: {error.strerror}"

    def _walls(self, private: Path) -> bubblewrap.Bubblewrap:
        home = Path(os.path.expanduser("~")).resolve()
        readable = tuple(path.expanduser().resolve() for path in self._isolation.readable_paths)
        hidden = tuple(path.resolve() for path in self._isolation.hidden_paths)
        return bubblewrap.Bubblewrap(
            workspace=self._workspace,
            private=private,
            home=home,
            readable=readable,
            hidden=hidden,
            guarded=partial(self._guard.mounts, Visibility(readable, hidden, (*bubblewrap.programs(), private))),
            state=self.state,
            user=bubblewrap.sandbox_user(self._workspace),
        )

    @asynccontextmanager
    async def opened(self, folder: SessionFolder) -> AsyncIterator[Launch]:
        """Provide everything that the server needs while it runs.

        Raises RuntimeUnavailableError.
        """
        if self._isolation.kind == "bubblewrap" and self.why_open:
            raise RuntimeUnavailableError(f"Isolation is not possible: {self.why_open}; or set sandbox.isolation.")
        async with AsyncExitStack() as stack:
            group = self._group = ControlGroup(f"handloom-{folder.path.name}", self._isolation.limits)
            self._killed = 0
            files = await asyncio.to_thread(group.make)
            stack.push_async_callback(asyncio.to_thread, group.remove)
            enter = ("/bin/sh", "-c", _ENTER, " ".join(map(str, files))) if files else ()
            limits = tuple(described(self._isolation.limits, group.applied, self.is_closed))
            launch = Launch(enter, self._limits_of_each(group.applied), limits=limits)
            yield await (self._walled_in(launch, folder, stack) if self.is_closed else self._in_the_open(launch))

    async def _in_the_open(self, launch: Launch) -> Launch:
        """Prepare a start without bubblewrap: only file actions are restricted, and the browser gets the allowed
        hosts.
        """
        options = [*launch.options, "--root", str(self._workspace), "--root", tempfile.gettempdir()]
        if self.state is not None:
            await asyncio.to_thread(_make_state, self.state, None)
            options += ["--state-dir", str(self.state)]
        environ = {ALLOWED_HOSTS: ",".join(self._isolation.allowed_hosts)} if self._isolation.allowed_hosts else {}
        return replace(launch, options=tuple(options), environ=environ)

    def _limits_of_each(self, applied: frozenset[str]) -> tuple[str, ...]:
        limits = self._isolation.limits
        memory = None if "memory" in applied else limits.memory_of_each_bytes
        wanted = {"--max-memory": memory, "--max-file": limits.file_bytes, "--min-free": limits.free_bytes}
        if self.is_closed:  # without bubblewrap, all of the user's processes would count
            wanted["--max-processes"] = limits.processes
        return tuple(word for name, most in wanted.items() if most is not None for word in (name, str(most)))

    async def _walled_in(self, launch: Launch, session: SessionFolder, stack: AsyncExitStack) -> Launch:
        folder = session.inside
        try:
            await asyncio.to_thread(self._guard.look)
            walls = await asyncio.to_thread(self._walls, folder)
            words, guards = await asyncio.to_thread(walls.command)
            words, fds = await asyncio.to_thread(stack.enter_context, bubblewrap.handed_over(words))
            await asyncio.to_thread(self._guard.hold, guards, walls.user)
            stack.push_async_callback(asyncio.to_thread, self._guard.release)
            await asyncio.to_thread(session.note, self._guard.placeholders)
            if walls.state is not None:
                await asyncio.to_thread(_make_state, walls.state, walls.user)
            environ = await asyncio.to_thread(git_config.identity_environment, folder)
            await asyncio.to_thread(_hand_over, folder, walls.user)
        except (bubblewrap.BubblewrapError, OSError) as error:
            raise RuntimeUnavailableError(f"The sandbox cannot be isolated: {error}.") from error
        options = launch.options
        if walls.state is not None:
            options += ("--state-dir", str(walls.state_inside))
        if self._isolation.allowed_hosts:
            socket = folder / WAY_OUT
            hosts, denied = self._isolation.allowed_hosts, self._guard.denials.hosts
            self._way_out = await stack.enter_async_context(egress_process(socket, hosts, denied, walls.user))
            options += ("--proxy", str(socket))
        return Launch((*launch.command, *words), options, fds, environ, launch.limits)


def _make_state(folder: Path, user: tuple[int, int] | None) -> None:
    folder.mkdir(0o700, parents=True, exist_ok=True)
    if user is not None:
        os.chown(folder, *user)


def _hand_over(folder: Path, user: tuple[int, int] | None) -> None:
    """Give the folder that the sandbox sees to the user of its processes."""
    if user is not None:
        for path in (folder, *folder.iterdir()):
            os.chown(path, *user)
