"""The commands of the prompt: what is sent and queued, and the user's own editor."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from tui.i18n import _
from tui.prompt.external_editor import EditorError, edited, without_ctrl_c
from tui.shortcuts.command import Command, Group, Scope, keyed

if TYPE_CHECKING:
    from tui.app import HandloomApp
    from tui.workspace.context import Context


def drop_queued(app: Context) -> None:
    """Take the last queued message back into the prompt."""
    tab = app.tabs.conversation
    if tab is None or not tab.session.state.queued:
        app.flash(_("Nothing is queued."))
        return
    last = tab.session.state.queued[-1]
    if not app.workspace.prompt.text:
        app.workspace.prompt.put(last.text)
    app.attempt(tab.session.unqueue(last.id))


async def edit_prompt(app: HandloomApp) -> None:
    """Hand the terminal to the user's editor with the text of the prompt. The agents go on; nothing is painted."""
    prompt = app.workspace.prompt
    prompt.leave_list()
    try:
        with app.batch_update(), app.suspend(), without_ctrl_c():
            left = await _left_by_editor(prompt.text)
    except SuspendNotSupported:
        told = _("An editor cannot be opened in this terminal. Type here instead; {prompt.newline} inserts a new line.")
        app.report(keyed(told))
    else:
        if isinstance(left, EditorError):
            app.report(str(left))
        elif left != prompt.text:
            prompt.put(left)
    prompt.focus()


async def _left_by_editor(text: str) -> str | EditorError:
    """The edited text, or why there is none: `App.suspend` does not take the terminal back after an exception."""
    try:
        return await asyncio.to_thread(edited, text, os.environ)
    except EditorError as error:
        return error


ROWS = (
    Command("prompt.send", ("enter",), "Send", "Send the message.", Group.PROMPT, Scope.PROMPT, hint="send",
            native=True),
    Command("prompt.newline", ("ctrl+j",), "New line", "Begin a new line (shift+enter where the terminal tells).",
            Group.PROMPT, Scope.PROMPT, hint="new line", native=True),
    Command("prompt.queue", ("tab",), "Queue", "Send it when the agent is done; {prompt.send} sends it now.",
            Group.PROMPT, Scope.PROMPT, hint="queue", run=lambda app: app.submission.queue()),
    Command("queue.drop", (), "Take back from queue", "The last queued message goes back into the prompt.",
            Group.PROMPT, leader="Q", acts=True, run=drop_queued),
    Command("prompt.search", ("ctrl+r",), "Search history", "Typing narrows, {prompt.search} goes further back, Enter "
            "takes it, Esc leaves the text as it was.", Group.PROMPT, Scope.PROMPT, native=True),
    Command("prompt.editor", ("ctrl+g",), "External editor", "Write the message in $VISUAL or $EDITOR.", Group.PROMPT,
            Scope.PROMPT, slash="editor", run=lambda app: app.attempt(edit_prompt(app))),
    Command("prompt.paste", ("ctrl+v",), "Paste", "Text, or the picture in the clipboard, which goes with the message.",
            Group.PROMPT, Scope.PROMPT, native=True),
    Command("prompt.file", ("at",), "File", "At the start of a word: choose a file of the workspace.", Group.PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.reference", ("number_sign",), "Event", "At the start of a word: choose an event; the model reads "
            "what it was.", Group.PROMPT, Scope.PROMPT, native=True),
    Command("prompt.command", ("slash",), "Command", "Handloom's commands, and your own from commands/*.md in its "
            "home; // sends a slash.", Group.PROMPT, Scope.EMPTY_PROMPT, native=True),
    Command("prompt.shell", ("exclamation_mark",), "Shell", "Run a command where the agent works; it reads the result.",
            Group.PROMPT, Scope.EMPTY_PROMPT, native=True),
    Command("prompt.page_up", ("pageup",), "Scroll the chat up", "Read back without leaving the prompt.", Group.PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.page_down", ("pagedown",), "Scroll the chat down", "Read on without leaving the prompt.",
            Group.PROMPT, Scope.PROMPT, native=True),
    Command("prompt.home", ("ctrl+home",), "Start of the chat", "Scroll to the oldest loaded message.", Group.PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.end", ("ctrl+end",), "End of the chat", "Scroll to the newest message.", Group.PROMPT, Scope.PROMPT,
            native=True),
    Command("prompt.up", ("up",), "Earlier message", "At the upper edge: what was sent before.", Group.PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.down", ("down",), "Later message", "At the lower edge: what was sent after.", Group.PROMPT,
            Scope.PROMPT, native=True),
)  # fmt: skip
