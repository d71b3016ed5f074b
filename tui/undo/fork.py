"""Forks: another conversation that begins with the events of one, up to a chosen event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.dialogs.dialog import Choice, ChoiceScreen
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from tui.workspace.context import Context


async def fork_from(app: Context, conversation_id: str, event_id: int) -> None:
    """Ask with which files, then show a fork of any conversation, from this event on, in a new tab."""
    assert app.manager is not None
    choices = [
        Choice("copy", _("A copy of the files at that point"), _("without .git and what it ignores")),
        Choice("same", _("The same folder"), _("both conversations work in it")),
    ]
    title = _("Fork from event {id}: with which files?").format(id=event_id)
    chosen = await app.push_screen_wait(ChoiceScreen(title, choices))
    if chosen is None:
        return
    session = await app.manager.fork(conversation_id, event_id, copy_files=chosen == "copy")
    await app.tabs.add(session)
    folder = sanitize_line(session.info.workspace, 200)
    if chosen == "copy":
        app.report(_("The fork works in its own copy of the files: {folder}").format(folder=folder))
    else:
        app.flash(_("The fork works in {folder}, like the original.").format(folder=folder))
