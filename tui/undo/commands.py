"""Undo, redo and forks: the user sees what would change before it happens, and the result afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.i18n import _, counted
from tui.plan.commands import look_for_plan
from tui.replay.commands import fork_here
from tui.shortcuts.command import Command, Group, keyed
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_start import fork_from

if TYPE_CHECKING:
    from core.events import UndoObservation
    from core.undo.undo import UndoPreview
    from tui.chat.view import ChatView
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab


# -- undo ----------------------------------------------------------------------------------------------------------


def undo(app: Context) -> None:
    """Undo in the current conversation."""
    if app.tabs.conversation is not None:
        app.attempt(_undo(app, app.tabs.conversation))


def redo(app: Context) -> None:
    """Redo in the current conversation."""
    if app.tabs.conversation is not None:
        app.attempt(_redo(app, app.tabs.conversation))


def undo_from(app: Context, message: ChatView.UndoWanted) -> None:
    """Undo from a message in the chat on."""
    shown = app.workspace.chats.tab_of(message.view)
    for tab in app.tabs.conversations:
        if tab is shown:
            app.attempt(_undo(app, tab, message.event_id))


async def _undo(app: Context, tab: ConversationTab, first: int | None = None) -> None:
    from tui.undo.screen import UndoScreen

    assert app.manager is not None
    turns = await tab.session.undo.turns()
    if not turns:
        app.flash(_("There is nothing to undo yet."))
        return
    beside = await app.manager.others_at_work(tab.session)
    screen = UndoScreen(turns, tab.session.undo.preview, first=first, beside=beside)
    chosen = await app.push_screen_wait(screen)
    if chosen is None:
        return
    done = await tab.session.undo.undo(
        chosen.preview, chat=chosen.chat, files=chosen.files, overwrite=chosen.overwrite
    )  # fmt: skip
    prompt = app.workspace.prompt
    if done.done and chosen.chat and app.tabs.current is tab and not prompt.text:
        prompt.put(chosen.preview.text)
        prompt.focus()
    look_for_plan(app, tab)
    _report(app, done, _("Undone. {files}; {conv.redo} redoes it."))


async def _redo(app: Context, tab: ConversationTab) -> None:
    from core.undo.undo import Turn
    from tui.undo.screen import UndoScreen

    assert app.manager is not None
    preview = await tab.session.undo.preview_redo()
    message = await tab.event(preview.first)
    assert message is not None

    async def again(first: int) -> UndoPreview:
        return preview

    turns = [Turn(preview.first, preview.text, message.timestamp)]
    beside = await app.manager.others_at_work(tab.session)
    chosen = await app.push_screen_wait(UndoScreen(turns, again, beside=beside, redo=True))
    if chosen is None:
        return
    done = await tab.session.undo.redo(chosen.preview, overwrite=chosen.overwrite)
    if done.done and app.tabs.current is tab and app.workspace.prompt.text == preview.text:
        app.workspace.prompt.take()
    _report(app, done, _("Redone. {files}."))


def _report(app: Context, done: UndoObservation, text: str) -> None:
    if not done.done:
        app.report(_("Not undone. {why}").format(why=done.why))
        return
    app.flash(keyed(text, files=counted(done.changed, "{n} file changed", "{n} files changed")))
    if done.kept:
        kept = ", ".join(sanitize_line(path, 60) for path in done.kept[:10])
        app.report(_("These files could not be removed: {files}").format(files=kept))


# -- forks ---------------------------------------------------------------------------------------------------------


def fork(app: Context) -> None:
    """Fork the conversation from the selected event, else from its end; a replay from the event that is shown."""
    tab = app.tabs.conversation
    if tab is None:
        fork_here(app)
        return
    latest = tab.session.stream.latest_id
    if latest < 0:
        app.flash(_("No events yet."))
    else:
        at = _selected_event(app)
        app.attempt(fork_from(app, tab.id, latest if at is None else at))


def _selected_event(app: Context) -> int | None:
    """The event under the cursor of the pane in focus; None if there is none, or another pane has the focus."""
    events, chat = app.workspace.events_view, app.workspace.chat
    if events.has_focus and events.row is not None:
        return events.row.id
    if chat.has_focus and chat.cursor is not None and chat.cursor.event_id >= 0:
        return chat.cursor.event_id
    return None


ROWS = (
    Command("conv.undo", (), "Undo", "Undo a message and everything after it: the chat, the files, or both.",
            Group.CONVERSATIONS, leader="u", slash="undo", acts=True, run=undo),
    Command("conv.redo", (), "Redo", "Redo what was undone last.", Group.CONVERSATIONS, leader="R", slash="redo",
            acts=True, run=redo),
    Command("conv.fork", (), "Fork", "Continue from the selected event, or the end, in a new conversation.",
            Group.CONVERSATIONS, leader="f", slash="fork", run=fork),
)  # fmt: skip
