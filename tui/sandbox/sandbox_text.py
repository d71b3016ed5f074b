"""What the user is told of a conversation's sandbox: what separates it, what it may, what it uses. Pure text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.sandbox_types import Job, SandboxUsage
    from core.settings.config import SandboxSettings

OPEN = _("No sandbox: commands run directly on this machine with your permissions.")
WALLED = _(
    "It can use system programs and the workspace. Your home folder and other processes are hidden, and it has its own "
    "/tmp. Files in the workspace that your own programs would execute are read-only."
)
ELSEWHERE = _("It runs on another machine: it cannot reach this one, and its files are there.")
LEFT = _(
    "Since the conversation began, these appeared in the workspace. Your own programs would execute them; check each "
    "one first:"
)
JOB_STATES = {
    "running": _("running"),
    "sleeping": _("sleeping"),
    "waiting for a disk": _("waiting for a disk"),
    "stopped": _("stopped"),
    "ending": _("ending"),
}
"""As the sandbox tells them, in words."""
MB = 1024 * 1024


def sandbox_text(
    isolation: str, why_open: str, settings: SandboxSettings, usage: SandboxUsage | None, left: Sequence[str] = ()
) -> str:
    """Paragraphs, clean."""
    if isolation == "none":
        text = f"{OPEN} {_('Reason: {why}.').format(why=why_open)}" if why_open else OPEN
        network = _("Network: unrestricted.")
    elif isolation == "remote":
        text, network = ELSEWHERE, _("Network: that of the other machine.")
    else:
        text = f"{_('Isolated by {what}.').format(what=isolation)} {WALLED}"
        hosts = ", ".join(settings.allowed_hosts)
        network = _("Network: none (sandbox.allowed_hosts in config.toml).")
        if hosts:
            network = _("Network: to {hosts} (sandbox.allowed_hosts in config.toml).").format(hosts=hosts)
    parts = [text, network]
    if settings.readable_paths and isolation not in ("none", "remote"):
        paths = ", ".join(map(str, settings.readable_paths))
        parts.append(_("Also visible: {paths}.").format(paths=paths))
    if usage is None:
        parts.append(_("It is not running; the next action starts it."))
    else:
        parts += _used(usage)
    if left:
        parts.append("\n".join([LEFT, *(f"- {what}" for what in left)]))
    return sanitize("\n\n".join(parts))


def _used(usage: SandboxUsage) -> list[str]:
    text = _(
        "Uses {processes} processes, {memory} MB of memory and {cpu} s of CPU in {uptime} s. "
        "{free} MB are free where the workspace is."
    ).format(
        processes=usage.processes,
        memory=f"{usage.memory_bytes / MB:,.0f}",
        cpu=f"{usage.cpu_s:,.1f}",
        uptime=f"{usage.uptime_s:,.0f}",
        free=f"{usage.disk_free_bytes / MB:,.0f}",
    )
    limits = _("Limits: {limits}.").format(limits="; ".join(usage.limits))
    return [text, limits if usage.limits else _("Limits: none.")]


def job_lines(jobs: Sequence[Job]) -> list[tuple[str, str]]:
    """Of each job its command, and what it does; clean."""
    return [(sanitize_line(job.command, 80), sanitize_line(_about(job), 120)) for job in jobs]


def _about(job: Job) -> str:
    began = f"{datetime.fromtimestamp(job.started_at):%H:%M:%S}"
    parts = [
        str(job.pid),
        JOB_STATES.get(job.state, job.state),
        _("since {time}").format(time=began),
        _("{seconds} s of CPU").format(seconds=f"{job.cpu_s:.1f}"),
    ]
    return " · ".join([*parts, _("the agent waits for it")] if job.foreground else parts)
