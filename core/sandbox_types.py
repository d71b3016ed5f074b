"""Plain data that the core and the runtimes exchange about a sandbox: progress, usage, denials, git, variables.

In a module of its own because a runtime may not import the core's protocols.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from core.errors import ConfigurationError

Say = Callable[[str], None]
"""Takes one line about the progress of a slow step. Must not block or raise."""


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]
"""Opens what a program's input is read from and its output is written to."""


def silently(line: str) -> None:
    """A `Say` that ignores progress."""


@dataclass(frozen=True, slots=True)
class Job:
    """A process that a command started and that is still running. Its text is untrusted."""

    pid: int
    """As the sandbox sees it; the host may use another number."""
    command: str
    started_at: float
    """In seconds since 1970."""
    cpu_s: float
    state: str
    foreground: bool
    """Whether it is part of the command that the agent waits for."""


@dataclass(frozen=True, slots=True)
class Port:
    """A TCP port on which a program of the agent listens. Its text is untrusted."""

    port: int
    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class SandboxUsage:
    """Resources that all processes of a sandbox use together."""

    processes: int
    memory_bytes: int
    cpu_s: float
    """Of running processes and their ended children."""
    disk_free_bytes: int
    uptime_s: float
    limits: tuple[str, ...] = ()
    """The limits of the sandbox, as text for the user."""
    oom_kills: int = 0
    """Processes that the kernel killed for lack of memory, as far as the sandbox can tell."""
    memory_history: tuple[tuple[float, int], ...] = ()
    """How many seconds ago which bytes of memory were used, oldest first; only while commands ran."""


@dataclass(frozen=True, slots=True)
class DeniedHosts:
    """Hosts that one rule denies."""

    glob: str
    """As `core.globs` reads it."""
    rule: str
    """The rule, as text for the user."""


@dataclass(frozen=True, slots=True)
class Denials:
    """Files, folders and hosts that the user's rules deny and a sandbox can enforce. Made by `core.security`.

    Paths are absolute and without symbolic links; a folder includes everything in it. Files that do not exist are not
    among them, because nothing can be mounted there.
    """

    unreadable: tuple[str, ...] = ()
    unwritable: tuple[str, ...] = ()
    hosts: tuple[DeniedHosts, ...] = ()
    notes: tuple[str, ...] = ()
    """One line for the user about each existing file that is denied but cannot be enforced."""

    @property
    def denies_every_host(self) -> bool:
        """Whether only this machine itself may be called."""
        return any(host.glob == "*" for host in self.hosts)


@dataclass(frozen=True, slots=True)
class GitPlace:
    """A repository that git reaches by https or ssh. Both ends of a comparison are made by `GitPlace`."""

    scheme: str
    """`https` or `ssh`."""
    host: str
    port: int
    path: str
    """As git sends it: with its slash at the front, except for `git@HOST:PATH`; without `.git` and a slash at the
    end."""
    user: str = ""
    """The user of ssh; empty for the one that ssh takes itself."""

    @classmethod
    def of(cls, scheme: str, host: str, port: int, path: str, user: str = "") -> GitPlace:
        """The place with its host and path in the form that is compared."""
        return cls(scheme, host.lower().rstrip("."), port, path.rstrip("/").removesuffix(".git"), user)

    @property
    def address(self) -> str:
        """HOST, or HOST:PORT if the port is not that of https."""
        return self.host if self.port == HTTPS_PORT else f"{self.host}:{self.port}"


HTTPS_PORT, SSH_PORT = 443, 22


@dataclass(frozen=True, slots=True)
class GitCredential:
    """What Handloom says to a git host for the user."""

    name: str
    """The name of the secret, for messages."""
    user: str = ""
    password: str = field(default="", repr=False)
    """Empty if no secret of that name is stored."""


@dataclass(frozen=True, slots=True)
class GitAccess:
    """What git in a sandbox reaches with the user's tokens and ssh keys, which stay outside of the sandbox."""

    credential: Callable[[str], GitCredential]
    """The token of a host of `hosts`. Blocks. Raises ConfigurationError."""
    hosts: tuple[str, ...]
    """The hosts for which a token has a name, as HOST or HOST:PORT."""
    repository: GitPlace | None = None
    """The repository of the conversation."""
    allowed_hosts: tuple[str, ...] = ()
    """The hosts that the user opened to the agent, all of whose repositories it reaches: `sandbox.allowed_hosts`."""


MAX_VALUE_BYTES = 100_000
"""The kernel starts no program with a variable of over 128 KiB."""
MAX_VARIABLES = 1_000
"""The most variables that can be set at once."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_READ_ONLY = frozenset({"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"})
"""Variables that bash does not let anybody set."""


def check_variables(variables: Mapping[str, str | None]) -> None:
    """Raise ValueError, which names the variable, unless programs can have these; None stands for no value."""
    if len(variables) > MAX_VARIABLES:
        raise ValueError(f"at most {MAX_VARIABLES} variables can be set at once")
    for name, value in variables.items():
        if not _NAME.fullmatch(name) or name in _READ_ONLY or name.startswith("__handloom"):
            raise ValueError(f"{name[:100]!r} cannot be the name of a variable")
        if value is not None and "\0" in value:
            raise ValueError(f"the value of {name} has a NUL in it")
        if value is not None and len(value.encode("utf-8", "surrogateescape")) > MAX_VALUE_BYTES:
            raise ValueError(f"the value of {name} has over {MAX_VALUE_BYTES:,} bytes")


VARIABLE_PREFIX = "SANDBOX_ENV_"
"""A variable with this prefix is passed without it, as in OpenHands V0 (`openhands/runtime/base.py`)."""


def sandbox_variables(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables: those with the prefix, and over them `sandbox.environment`. Raises ConfigurationError."""
    prefixed = {
        name.removeprefix(VARIABLE_PREFIX): value for name, value in environ.items() if name.startswith(VARIABLE_PREFIX)
    }
    variables = prefixed | dict(variable("sandbox.environment", text, environ) for text in names)
    try:
        check_variables(variables)
    except ValueError as error:
        raise ConfigurationError(
            f"sandbox.environment, or {VARIABLE_PREFIX}NAME in the environment: {error}."
        ) from error
    return variables


def variable(setting: str, text: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return name and value of NAME=VALUE, or of NAME, whose value is in `environ`. Raises ConfigurationError."""
    name, has_value, value = text.partition("=")
    if not name:
        raise ConfigurationError(f"{setting} cannot be {text!r}: write NAME=VALUE, or NAME.")
    if has_value:
        return name, value
    if name not in environ:
        raise ConfigurationError(f"{setting} names {name}, which is not set. Set it, or remove it from the list.")
    return name, environ[name]
