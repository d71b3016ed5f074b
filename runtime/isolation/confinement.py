"""Isolates a local sandbox from its machine: bubblewrap, resource limits, and network access through the egress proxy.

A Confinement is opened before the action server starts, returns the words that go before the server's command, and is
closed after the server has ended. If isolation is not possible, `why_open` says why.

Each local runtime has a SessionFolder on the host:

    lock            locked by our process while it uses the folder
    s               the server's socket; the server inherits its descriptor, and the sandbox cannot see its path
    log             the server's standard error
    placeholders    mount points that were made in the workspace's `.git`
    git             the socket of git's forwarder without isolation; with it, the socket is in `inside`
    inside/         what the sandbox sees: its key, the proxy's socket, its private files

All of these folders are in one folder with mode 0700. Nothing that belongs to another user is opened. All calls on them
block for milliseconds, and the folders of killed runtimes are removed at the next start.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal

from core.autorun_paths import NAMES
from core.errors import RuntimeUnavailableError
from core.events import Observation, Refusal
from core.sandbox_types import GitAccess
from core.secrets.variable_names import without_secret_variables
from runtime.isolation import bubblewrap, git_config, protected_paths
from runtime.isolation.cgroups import ControlGroup, Limits, described
from runtime.isolation.egress_proxy import ALLOWED_HOSTS, PROXY_SOCKET, EgressProcess, egress_process
from runtime.isolation.git_forwarder import GIT_SOCKET, GitProcess, git_forwarder
from runtime.isolation.protected_paths import Mounts, Visibility
from runtime.isolation.refusals import Boundaries, host_refusals, printed_refusals
from runtime.isolation.workspace_guard import WorkspaceGuard
from runtime.sandbox_facts import (
    BUBBLEWRAP,
    NETWORK,
    NO_SANDBOX,
    SANDBOX,
    UNLIMITED,
    WITH_STATE,
    network_text,
    ordered,
    parsed,
    run_script,
)
from runtime.shortage_messages import memory_ran_out

ABANDONED_S = 60.0
"""A folder without a lock is being made, or its process was killed at least this long ago."""
SOCKET = "s"
SOCKET_PATH_BYTES = 100
"""macOS allows 104 bytes for the path of a socket, Linux 108."""
_NAME_BYTES = 16
"""The name of a session's folder, the socket's, and separators."""
_JOIN_GROUPS = 'for file in $0; do echo $$ > "$file"; done; exec "$@"'
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


def session_parent() -> Path:
    """Return the parent folder of all session folders, made if missing. Raises OSError."""
    name = f"handloom-{os.geteuid()}"
    above = [Path(tempfile.gettempdir()), Path("/tmp")]  # noqa: S108  # used only where it is ours alone
    if runtime_dir := os.environ.get("XDG_RUNTIME_DIR"):
        above.append(Path(runtime_dir))
    for folder in above:
        if len(os.fsencode(folder / name)) + _NAME_BYTES > SOCKET_PATH_BYTES:
            continue
        with suppress(OSError):
            (folder / name).mkdir(mode=0o700, exist_ok=True)
            if _is_ours(folder / name):
                return folder / name
    return _parent_of_this_process()


@cache
def _parent_of_this_process() -> Path:
    """Make a folder where another user holds every usual name; it is removed when the process ends, if it is empty."""
    folder = Path(tempfile.mkdtemp(prefix="handloom-", dir="/tmp"))
    atexit.register(_remove_if_empty, folder)
    return folder


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _is_ours(folder: Path) -> bool:
    """Return whether only we can use a folder. Raises OSError."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


class SessionFolder:
    """A new folder of one runtime, locked until `remove`. Raises OSError."""

    def __init__(self) -> None:
        self._create()

    def _create(self) -> None:
        parent = session_parent()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix="", dir=parent))  # with mode 0700
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            with suppress(OSError):  # it was removed as abandoned
                self.inside.mkdir(mode=0o700)
                if (self.path / "lock").stat().st_ino == os.fstat(self._lock).st_ino:
                    return
            os.close(self._lock)

    @property
    def inside(self) -> Path:
        """What the sandbox sees."""
        return self.path / "inside"

    @property
    def socket(self) -> Path:
        return self.path / SOCKET

    @property
    def log(self) -> Path:
        return self.path / "log"

    def note(self, placeholders: Iterable[Path]) -> None:
        """Record the mount points to remove from the workspace if we are killed. Raises OSError."""
        (self.path / "placeholders").write_text(json.dumps([str(path) for path in placeholders]), "utf-8")

    def remove(self) -> None:
        """Remove the folder. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_abandoned() -> None:
    """Remove what killed runtimes left: their folders, and their placeholders in workspaces."""
    with suppress(OSError):
        for folder in session_parent().iterdir():
            with suppress(OSError):
                _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    """Remove a folder. Raises OSError, BlockingIOError if it is in use."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        if time.time() - folder.lstat().st_mtime > ABANDONED_S:
            shutil.rmtree(folder, ignore_errors=True)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(OSError, ValueError, TypeError):
            protected_paths.remove_left(map(Path, json.loads((folder / "placeholders").read_bytes())))
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


class Confinement:
    """The isolation of one workspace. Making one blocks for some ten milliseconds if bubblewrap is wanted."""

    def __init__(self, workspace: Path, isolation: Isolation) -> None:
        self._workspace = workspace
        self._isolation = isolation
        self._state: Path | None = None
        self.guard = WorkspaceGuard(workspace, isolation.protected_paths)
        self._group: ControlGroup | None = None
        self._killed = 0
        self.egress: EgressProcess | None = None
        """The proxy, while the sandbox runs; without isolation there is none."""
        self.opened_hosts: tuple[str, ...] = ()
        """Hosts that the user has allowed besides those of the settings."""
        self._boundaries: Boundaries | None = None
        self.git_access: GitAccess | None = None
        """What git reaches with tokens and ssh keys of the user, from the next start on."""
        self.git: GitProcess | None = None
        """The forwarder that does that, while the sandbox runs."""
        self.why_open = "" if isolation.kind == "none" else self._why_not()
        """Why there is no isolation although it is wanted; otherwise empty."""
        self.is_closed = isolation.kind != "none" and not self.why_open
        """Whether bubblewrap is used."""
        self.guard.is_active = self.is_closed

    @property
    def state(self) -> Path | None:
        """The folder in which the server stores data for the next start, with the workspace's baseline beside it."""
        return self._state

    @state.setter
    def state(self, folder: Path) -> None:
        self._state = folder
        self.guard.baseline_file = folder.with_name(f"{folder.name}.before")

    def allow(self, host: str, folder: str) -> None:
        """Allow another host or folder from the next start on."""
        self._isolation = self._isolation.allowing(host, folder)

    def memory_message(self) -> str:
        """Return a message if processes were killed for lack of memory since the last call, else an empty string.

        Only with bubblewrap: otherwise the server sees its own group and reports it. Blocks briefly.
        """
        if not self.is_closed:
            return ""
        before, self._killed = self._killed, self._group.killed_for_memory() if self._group is not None else 0
        return memory_ran_out(self._isolation.limits.memory_bytes) if self._killed > before else ""

    def facts(self) -> dict[str, str]:
        """Return what the agent is told about the sandbox, from a look at the workspace that can write nothing.

        Does not need a running sandbox. Blocks for some ten milliseconds, at most `sandbox_facts.TIMEOUT_S`.
        """
        folder, environ = str(self._workspace), without_secret_variables(os.environ)
        printed = b""
        with suppress(OSError, bubblewrap.BubblewrapError):  # the next start of the sandbox reports it
            if self.is_closed:
                sandbox = replace(self._bubblewrap(self._workspace), mounts=Mounts, state=None, is_read_only=True)
                with bubblewrap.hidden_arguments(sandbox.command()[0]) as (words, fds):
                    printed = run_script(words, folder="/", environ={**environ, **WITH_STATE}, fds=fds)
            else:
                printed = run_script((), folder=folder, environ=environ)
        return ordered({**parsed(printed), **self.boundary()})

    def boundary(self) -> dict[str, str]:
        """Return what separates the sandbox from this machine, and what network it has, for the agent."""
        if not self.is_closed:
            return {SANDBOX: NO_SANDBOX, NETWORK: UNLIMITED}
        return {SANDBOX: BUBBLEWRAP, NETWORK: network_text((*self._isolation.allowed_hosts, *self.opened_hosts))}

    async def open_hosts(self, hosts: Iterable[str]) -> None:
        """Let the sandbox connect to these hosts too, now and after each start; replaces those of the last call."""
        self.opened_hosts = tuple(hosts)
        if self.egress is not None:
            await self.egress.open_hosts(self.opened_hosts)

    def refusals(self, observation: Observation) -> list[Refusal]:
        """Return what was refused since the last call, also as far as a failed action printed it."""
        calls = self.egress.take_refused() if self.egress is not None else []
        printed = printed_refusals(observation, self._boundaries, calls) if self._boundaries is not None else []
        return [*host_refusals(calls), *printed]

    def _why_not(self) -> str:
        try:
            return bubblewrap.unavailable_reason(self._bubblewrap(self._workspace))
        except OSError as error:
            return f"the workspace cannot be read: {error.strerror}"

    def _bubblewrap(self, private: Path) -> bubblewrap.Bubblewrap:
        home = Path(os.path.expanduser("~")).resolve()
        readable = tuple(path.expanduser().resolve() for path in self._isolation.readable_paths)
        hidden = tuple(path.resolve() for path in self._isolation.hidden_paths)
        return bubblewrap.Bubblewrap(
            workspace=self._workspace,
            private=private,
            home=home,
            readable=readable,
            hidden=hidden,
            mounts=partial(self.guard.mounts, Visibility(readable, hidden, (*bubblewrap.programs(), private))),
            state=self.state,
            user=bubblewrap.sandbox_user(self._workspace),
        )

    @asynccontextmanager
    async def opened(self, folder: SessionFolder, *, has_proxy: bool = True) -> AsyncIterator[Launch]:
        """Provide everything that the server needs while it runs, with `has_proxy` a proxy also if it allows nothing.

        Raises RuntimeUnavailableError.
        """
        if self._isolation.kind == "bubblewrap" and self.why_open:
            raise RuntimeUnavailableError(f"Isolation is not possible: {self.why_open}; or set sandbox.isolation.")
        async with AsyncExitStack() as stack:
            group = self._group = ControlGroup(f"handloom-{folder.path.name}", self._isolation.limits)
            self._killed = 0
            files = await asyncio.to_thread(group.make)
            stack.push_async_callback(asyncio.to_thread, group.remove)
            join = ("/bin/sh", "-c", _JOIN_GROUPS, " ".join(map(str, files))) if files else ()
            limits = tuple(described(self._isolation.limits, group.applied, self.is_closed))
            launch = Launch(join, self._limit_options(group.applied), limits=limits)
            if self.is_closed:
                launch = await self._isolated(launch, folder, stack, has_proxy=has_proxy)
            else:
                launch = await self._unisolated(launch)
            yield await self._with_git(launch, folder, stack)

    async def _unisolated(self, launch: Launch) -> Launch:
        """Prepare a start without bubblewrap: only file actions are restricted, and the browser gets the allowed
        hosts.
        """
        options = [*launch.options, "--root", str(self._workspace), "--root", tempfile.gettempdir()]
        if self.state is not None:
            await asyncio.to_thread(_make_state_folder, self.state, None)
            options += ["--state-dir", str(self.state)]
        environ = {ALLOWED_HOSTS: ",".join(self._isolation.allowed_hosts)} if self._isolation.allowed_hosts else {}
        return replace(launch, options=tuple(options), environ=environ)

    async def _with_git(self, launch: Launch, session: SessionFolder, stack: AsyncExitStack) -> Launch:
        """Start git's forwarder, if git needs it."""
        socket = (session.inside if self.is_closed else session.path) / GIT_SOCKET
        forwarder = git_forwarder(
            socket,
            self.git_access,
            allowed_hosts=self._isolation.allowed_hosts if self.is_closed else ("*",),
            denied=self.guard.denials.hosts,
            user=await asyncio.to_thread(bubblewrap.sandbox_user, self._workspace) if self.is_closed else None,
            is_closed=self.is_closed,
        )
        self.git = await stack.enter_async_context(forwarder)
        return launch if self.git is None else replace(launch, options=(*launch.options, "--git", str(socket)))

    def _limit_options(self, applied: frozenset[str]) -> tuple[str, ...]:
        limits = self._isolation.limits
        memory = None if "memory" in applied else limits.memory_of_each_bytes
        wanted = {"--max-memory": memory, "--max-file": limits.file_bytes, "--min-free": limits.free_bytes}
        if self.is_closed:  # without bubblewrap, all of the user's processes would count
            wanted["--max-processes"] = limits.processes
        return tuple(word for name, most in wanted.items() if most is not None for word in (name, str(most)))

    async def _isolated(
        self, launch: Launch, session: SessionFolder, stack: AsyncExitStack, *, has_proxy: bool
    ) -> Launch:
        folder = session.inside
        try:
            await asyncio.to_thread(self.guard.audit)
            sandbox = await asyncio.to_thread(self._bubblewrap, folder)
            words, mounts = await asyncio.to_thread(sandbox.command)
            words, fds = await asyncio.to_thread(stack.enter_context, bubblewrap.hidden_arguments(words))
            await asyncio.to_thread(session.note, mounts.placeholders)
            await asyncio.to_thread(self.guard.hold, mounts, sandbox.user)
            stack.push_async_callback(asyncio.to_thread, self.guard.release)
            if sandbox.state is not None:
                await asyncio.to_thread(_make_state_folder, sandbox.state, sandbox.user)
            environ = await asyncio.to_thread(git_config.identity_environment, folder)
            await asyncio.to_thread(_give_to, folder, sandbox.user)
        except (bubblewrap.BubblewrapError, OSError) as error:
            raise RuntimeUnavailableError(f"The sandbox cannot be isolated: {error}.") from error
        options = launch.options
        if sandbox.state is not None:
            options += ("--state-dir", str(sandbox.state_inside))
        self._boundaries = await asyncio.to_thread(self._boundaries_of, sandbox, mounts)
        if has_proxy:
            socket = folder / PROXY_SOCKET
            hosts, denied = self._isolation.allowed_hosts, self.guard.denials.hosts
            self.egress = await stack.enter_async_context(egress_process(socket, hosts, denied, sandbox.user))
            stack.callback(self._forget_proxy)
            options += ("--proxy", str(socket))
        return Launch((*launch.command, *words), options, fds, environ, launch.limits)

    def _forget_proxy(self) -> None:
        self.egress = None

    async def started(self) -> None:
        """Return when the proxy listens, with every host that the user allowed. Raises RuntimeUnavailableError."""
        if self.egress is not None:
            await self.egress.started()
            if self.opened_hosts:
                await self.egress.open_hosts(self.opened_hosts)

    def _boundaries_of(self, sandbox: bubblewrap.Bubblewrap, mounts: Mounts) -> Boundaries:
        def paths(*kinds: str) -> tuple[str, ...]:
            return tuple(str(mount.path) for mount in mounts.mounts if mount.access in kinds)

        denials = self.guard.denials
        return Boundaries(
            workspace=str(self._workspace),
            home=str(sandbox.home),
            visible=tuple(map(str, (*sandbox.readable, *bubblewrap.programs(), *mounts.writable, sandbox.private))),
            read_only=paths("read-only", "empty"),
            hidden=paths("hidden file", "hidden folder"),
            denied=(*denials.unreadable, *denials.unwritable),
        )


def _make_state_folder(folder: Path, user: tuple[int, int] | None) -> None:
    folder.mkdir(0o700, parents=True, exist_ok=True)
    if user is not None:
        os.chown(folder, *user)


def _give_to(folder: Path, user: tuple[int, int] | None) -> None:
    """Give the folder that the sandbox sees to the user of its processes."""
    if user is not None:
        for path in (folder, *folder.iterdir()):
            os.chown(path, *user)
