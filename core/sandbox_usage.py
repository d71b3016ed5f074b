"""What a sandbox uses: said by a runtime, shown by the screen. Pure data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """A process that a command started and that still runs. Its text is foreign."""

    pid: int
    """In the sandbox, whose numbers need not be the machine's."""
    command: str
    started_at: float
    """In seconds since 1970."""
    cpu_s: float
    state: str
    foreground: bool
    """Whether it is part of the command that the agent waits for."""


@dataclass(frozen=True, slots=True)
class SandboxUsage:
    """What everything in a sandbox uses together."""

    processes: int
    memory_bytes: int
    cpu_s: float
    """Of what runs, and of its children that have ended."""
    disk_free_bytes: int
    uptime_s: float
    limits: tuple[str, ...] = ()
    """What it may use at most, for people."""
    oom_kills: int = 0
    """Processes that the kernel has killed because memory ran out, as far as it is known inside."""
