"""The sandbox of a conversation: what separates it from this machine, its files moved aside, its background jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.i18n import _
from tui.shortcuts.command import Command, Group

if TYPE_CHECKING:
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab


def show_sandbox(app: Context) -> None:
    """Show the isolation and the usage of the sandbox."""
    if app.tabs.conversation is not None:
        app.attempt(_show_sandbox(app, app.tabs.conversation))


async def _show_sandbox(app: Context, tab: ConversationTab) -> None:
    from tui.dialogs.dialog import TextScreen
    from tui.sandbox.sandbox_text import sandbox_text

    assert app.manager is not None
    session, settings = tab.session, app.manager.settings.sandbox
    used, left = await session.runtime.usage(), await session.runtime.left_behind()
    text = sandbox_text(session.runtime.isolation, session.runtime.why_open, settings, used, left)
    app.push_screen(TextScreen(_("Sandbox"), Content(text)))


def restore_file(app: Context, name: str = "") -> None:
    """Put back a file that was moved aside as NAME.from-sandbox."""
    if app.tabs.conversation is not None:
        app.attempt(_restore_file(app, app.tabs.conversation, name))


async def _restore_file(app: Context, tab: ConversationTab, name: str) -> None:
    restored = await tab.session.leftovers.put_back(name)
    app.flash(_("{name} is back. The sandbox restarts with the next action.").format(name=restored))


def show_jobs(app: Context) -> None:
    """Show what commands left running, and let the user end it."""
    if app.tabs.conversation is not None:
        app.attempt(_choose_job(app, app.tabs.conversation))


async def _choose_job(app: Context, tab: ConversationTab) -> None:
    from tui.dialogs.dialog import Choice, ChoiceScreen, SureScreen
    from tui.sandbox.sandbox_text import job_lines

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


ROWS = (
    Command("conv.sandbox", (), "Sandbox", "Show isolation, network access and resource usage.", Group.CONVERSATIONS,
            leader="s", slash="sandbox", acts=True, run=show_sandbox),
    Command("conv.restore", (), "Restore a file", "Put back a file that was moved aside as NAME.from-sandbox.",
            Group.CONVERSATIONS, slash="restore", words="NAME", acts=True, run_with=restore_file),
    Command("conv.jobs", (), "Background jobs", "List background jobs and stop them.", Group.CONVERSATIONS, leader="j",
            slash="jobs", acts=True, run=show_jobs),
)  # fmt: skip
