"""The sandbox of a conversation: what separates it from this machine, its files moved aside, its background jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from textual.content import Content

from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.sandbox_types import Job, SandboxUsage
    from core.settings.config import SandboxSettings
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab

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
BARS = "▁▂▃▄▅▆▇█"
CHART_COLUMNS = 60
ADDRESS_CHARS = 2_000


def sandbox_text(
    isolation: str,
    why_open: str,
    settings: SandboxSettings,
    usage: SandboxUsage | None,
    left: Sequence[str] = (),
    *,
    opened: Sequence[str] = (),
) -> str:
    """Paragraphs, clean. `opened` are the hosts that the user has allowed besides those of the settings."""
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
    if opened and isolation not in ("none", "remote"):
        parts.append(_("Hosts that you have allowed: {hosts}.").format(hosts=", ".join(opened)))
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
    return [text, *_memory_chart(usage), limits if usage.limits else _("Limits: none.")]


def _memory_chart(usage: SandboxUsage) -> list[str]:
    """The memory while commands ran, as one line of bars between 0 and the maximum; empty without two samples."""
    samples = [used for _ago, used in usage.memory_history]
    if len(samples) < 2:
        return []
    columns = min(len(samples), CHART_COLUMNS)
    bounds = [column * len(samples) // columns for column in range(columns + 1)]
    heights = [max(samples[begin:end]) for begin, end in pairwise(bounds)]
    most = max(heights)
    bars = "".join(BARS[used * (len(BARS) - 1) // max(most, 1)] for used in heights)
    text = _("Memory while commands ran, in the last {minutes} min; at most {memory} MB:").format(
        minutes=f"{max(usage.memory_history[0][0] / 60, 1):,.0f}",
        memory=f"{most / MB:,.0f}",
    )
    return [f"{text}\n{bars}"]


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


def show_sandbox(app: Context) -> None:
    """Show the isolation and the usage of the sandbox."""
    if app.tabs.conversation is not None:
        app.attempt(_show_sandbox(app, app.tabs.conversation))


async def _show_sandbox(app: Context, tab: ConversationTab) -> None:
    from tui.dialogs.dialog import TextScreen

    assert app.manager is not None
    session, settings = tab.session, app.manager.settings.sandbox
    used, left = await session.runtime.usage(), await session.runtime.left_behind()
    opened = session.network.opened
    text = sandbox_text(session.runtime.isolation, session.runtime.why_open, settings, used, left, opened=opened)
    app.push_screen(TextScreen(_("Sandbox"), Content(text)))


def restore_file(app: Context, name: str = "") -> None:
    """Put back a file that was moved aside as NAME.from-sandbox."""
    if app.tabs.conversation is not None:
        app.attempt(_restore_file(app, app.tabs.conversation, name))


async def _restore_file(app: Context, tab: ConversationTab, name: str) -> None:
    restored = await tab.session.leftovers.put_back(name)
    app.flash(_("{name} is back. The sandbox restarts with the next action.").format(name=restored))


def set_variable(app: Context, text: str = "") -> None:
    """Set a variable for the agent's programs, or remove the one that is named alone."""
    if app.tabs.conversation is None:
        return
    name, has_value, value = text.strip().partition("=")
    if not name:
        app.flash(_("Write /env NAME=VALUE to set a variable, or /env NAME to remove it."))
    else:
        app.attempt(_set_variable(app, app.tabs.conversation, name, value if has_value else None))


async def _set_variable(app: Context, tab: ConversationTab, name: str, value: str | None) -> None:
    await tab.session.runtime.set_environment({name: value})
    changed = _("{name} is set from the next command on.")
    removed = _("{name} is removed from the next command on.")
    app.flash((removed if value is None else changed).format(name=sanitize_line(name, 80)))


def show_jobs(app: Context) -> None:
    """Show what commands left running, and let the user end it."""
    if app.tabs.conversation is not None:
        app.attempt(_choose_job(app, app.tabs.conversation))


async def _choose_job(app: Context, tab: ConversationTab) -> None:
    from tui.dialogs.dialog import Choice, ChoiceScreen, SureScreen

    jobs = await tab.session.runtime.jobs()
    choices = [Choice(str(job.pid), *lines) for job, lines in zip(jobs, job_lines(jobs), strict=True)]
    dialog = ChoiceScreen(_("Background jobs: Enter ends one"), choices, empty=_("Nothing runs."))
    chosen = await app.push_screen_wait(dialog)
    if chosen is None:
        return
    named = next(choice.title for choice in choices if choice.key == chosen)
    question = _("End “{job}” and everything that it started?").format(job=named)
    if await app.push_screen_wait(SureScreen(question, _("end it"))):
        await tab.session.runtime.end_job(int(chosen))
        app.flash(_("Ended: {job}").format(job=named))


def show_ports(app: Context) -> None:
    """Show the ports on which the agent's programs listen, and let the user open one."""
    if app.tabs.conversation is not None:
        app.attempt(_choose_port(app, app.tabs.conversation))


async def _choose_port(app: Context, tab: ConversationTab) -> None:
    from tui.dialogs.dialog import Choice, ChoiceScreen

    ports = await tab.session.runtime.ports()
    choices = [Choice(str(each.port), str(each.port), sanitize_line(each.command, 80)) for each in ports]
    dialog = ChoiceScreen(_("Ports: Enter opens one"), choices, empty=_("No program of the agent listens on a port."))
    if (chosen := await app.push_screen_wait(dialog)) is not None:
        port = await tab.session.runtime.forward_port(int(chosen))
        _show_address(app, f"http://127.0.0.1:{port}/", _("Port {port} of the sandbox").format(port=chosen))


def open_editor(app: Context) -> None:
    """Open the workspace in the VS Code of the sandbox."""
    if app.tabs.conversation is not None:
        app.attempt(_open_editor(app, app.tabs.conversation))


async def _open_editor(app: Context, tab: ConversationTab) -> None:
    await tab.session.user_control.prepare()
    address = urlsplit(sanitize_line(await tab.session.runtime.editor(), ADDRESS_CHARS))
    port = await tab.session.runtime.forward_port(address.port or 0)
    _show_address(app, address._replace(scheme="http", netloc=f"127.0.0.1:{port}").geturl(), _("VS Code"))


def _show_address(app: Context, address: str, title: str) -> None:
    """Show and copy an address of the sandbox, and open it if this machine has a screen for web pages."""
    from tui.dialogs.dialog import TextScreen

    app.copy_to_clipboard(address, _("Copied {address}").format(address=address))
    has_screen = sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if has_screen:
        app.open_url(address)
    text = _(
        "{address}\n\nOpen this address in a web browser on this machine. It is copied, and works until the sandbox "
        "ends."
    ).format(address=address)
    app.push_screen(TextScreen(title, Content(text)))


ROWS = (
    Command("conv.sandbox", (), "Sandbox", "Show isolation, network access and resource usage.", Group.CONVERSATIONS,
            leader="s", slash="sandbox", acts=True, run=show_sandbox,
            also="network internet firewall allow host domain isolation status memory"),
    Command("conv.restore", (), "Restore a file", "Put back a file that was moved aside as NAME.from-sandbox.",
            Group.CONVERSATIONS, slash="restore", words="NAME", acts=True, run_with=restore_file),
    Command("conv.env", (), "Environment variable", "Set a variable in the sandbox, or remove it.", Group.CONVERSATIONS,
            slash="env", words="NAME=VALUE", acts=True, run_with=set_variable),
    Command("conv.jobs", (), "Background jobs", "List background jobs and stop them.", Group.CONVERSATIONS, leader="j",
            slash="jobs", acts=True, run=show_jobs),
    Command("conv.ports", (), "Ports", "Open what the agent's programs serve on a port.", Group.CONVERSATIONS,
            leader="O", slash="ports", acts=True, run=show_ports),
    Command("conv.editor", (), "Open in VS Code", "Open the workspace in the VS Code of the sandbox.",
            Group.CONVERSATIONS, leader="V", slash="vscode", acts=True, run=open_editor),
)  # fmt: skip
