"""What the user is told of a conversation's sandbox: what separates it, what it may, what it uses. Pure text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from tui.text import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.config import SandboxSettings
    from core.usage import Job, SandboxUsage

OPEN = "Nothing separates it from this machine: commands run as you."
WALLED = (
    "It sees the system's programs and the workspace. The home folder is hidden, /tmp is its own, and it knows of no "
    "other process. What your own programs would carry out later is read-only in the workspace."
)
LEFT = "Since the conversation began it holds what your own programs would carry out; look at each before you use it:"
MB = 1024 * 1024


def sandbox_text(
    isolation: str, why_open: str, settings: SandboxSettings, usage: SandboxUsage | None, left: Sequence[str] = ()
) -> str:
    """Paragraphs, clean."""
    if isolation == "none":
        told = f"{OPEN}{f' Reason: {why_open}.' if why_open else ''}"
        network = "Network: as you have it."
    else:
        told = f"Isolated by {isolation}. {WALLED}"
        hosts = ", ".join(settings.allowed_hosts)
        network = f"Network: {f'to {hosts}' if hosts else 'none'} (sandbox.allowed_hosts in config.toml)."
    parts = [told, network]
    if settings.readable_paths and isolation != "none":
        parts.append(f"In sight beyond that: {', '.join(map(str, settings.readable_paths))}.")
    if usage is None:
        parts.append("It does not run; it is started for the next action.")
    else:
        parts.append(
            f"Uses {usage.processes} processes, {usage.memory_bytes / MB:,.0f} MB of memory and {usage.cpu_s:,.1f} s "
            f"of CPU in {usage.uptime_s:,.0f} s. {usage.disk_free_bytes / MB:,.0f} MB are free where the workspace is."
        )
        parts.append(f"At most: {'; '.join(usage.limits) or 'no limits are set'}.")
    if left:
        parts.append("\n".join([LEFT, *(f"- {what}" for what in left)]))
    return sanitize("\n\n".join(parts))


def job_lines(jobs: Sequence[Job]) -> list[tuple[str, str]]:
    """Of each job its command, and what it does; clean."""
    return [
        (
            sanitize_line(job.command, 80),
            sanitize_line(
                f"{job.pid} · {job.state} · since {datetime.fromtimestamp(job.started_at):%H:%M:%S} · "
                f"{job.cpu_s:.1f} s of CPU{' · the agent waits for it' if job.foreground else ''}",
                120,
            ),
        )
        for job in jobs
    ]
