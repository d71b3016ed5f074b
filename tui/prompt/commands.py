"""The commands of the prompt: sending, queueing, and the user's own editor.

The editor gets the text in a private file. Whatever fails raises before the prompt has changed, and the file is always
removed.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from tui.i18n import _
from tui.shortcuts.command import Command, Group, Scope, keyed

if TYPE_CHECKING:
    from tui.app import HandloomApp
    from tui.workspace.context import Context

MAX_BYTES = 4 * 1024 * 1024
"""The most that the editor may return."""


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


# -- the user's editor -------------------------------------------------------------------------------------------------


class EditorError(Exception):
    """The text could not be edited; the message says why and what to do."""


async def edit_prompt(app: HandloomApp) -> None:
    """Edit the text of the prompt in the user's editor, which gets the terminal. The agents go on."""
    prompt = app.workspace.prompt
    prompt.close_list()
    try:
        with app.batch_update(), app.suspend(), without_ctrl_c():
            text = await _edited_or_error(prompt.text)
    except SuspendNotSupported:
        message = _(
            "An editor cannot be opened in this terminal. Type here instead; {prompt.newline} inserts a new line."
        )
        app.report(keyed(message))
    else:
        if isinstance(text, EditorError):
            app.report(str(text))
        elif text != prompt.text:
            prompt.put(text)
    prompt.focus()


async def _edited_or_error(text: str) -> str | EditorError:
    """Returns the error, because `App.suspend` does not take the terminal back after an exception."""
    try:
        return await asyncio.to_thread(edited, text, os.environ)
    except EditorError as error:
        return error


def editor_of(environ: Mapping[str, str]) -> list[str]:
    """The user's editor and its arguments. Raises EditorError."""
    name = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    try:
        command = shlex.split(name)
    except ValueError as error:
        message = _("$EDITOR is not a valid command: {command}. Set it to your editor, such as vi.")
        raise EditorError(message.format(command=name)) from error
    if not command:
        raise EditorError(_("$EDITOR is empty. Set it to your editor, such as vi."))
    return command


def edited(text: str, environ: Mapping[str, str]) -> str:
    """The text as the editor returned it. Blocks while the user edits. Raises EditorError."""
    command = editor_of(environ)
    with tempfile.TemporaryDirectory(prefix="handloom-edit-") as folder:  # 0700
        file = Path(folder, "message.md")
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
            opened.write(text)
        try:
            done = subprocess.run([*command, str(file)], check=False)
        except OSError as error:
            message = _(
                "Cannot start the editor {editor}: {why}. Set $VISUAL or $EDITOR to an "
                "installed editor. Your text was not changed."
            )
            raise EditorError(message.format(editor=command[0], why=error.strerror or error)) from error
        if done.returncode != 0:
            message = _("{editor} exited with status {status}. Your text was not changed.")
            raise EditorError(message.format(editor=command[0], status=done.returncode))
        try:
            if file.stat().st_size > MAX_BYTES:
                message = _("The edited text is larger than {n} MB. Your text was not changed.")
                raise EditorError(message.format(n=MAX_BYTES // 2**20))
            changed = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EditorError(_("Cannot read the edited text. Your text was not changed.")) from error
    changed = changed.replace("\r\n", "\n")
    return changed if text.endswith("\n") else changed.removesuffix("\n")  # editors add one at the end


@contextmanager
def without_ctrl_c() -> Iterator[None]:
    """Ignore SIGINT while the editor runs: it is in the same process group, so its ctrl+c reaches the app, too."""
    before = signal.signal(signal.SIGINT, lambda *_unused: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


ROWS = (
    Command("prompt.send", ("enter",), "Send", "Send the message.", Group.PROMPT, Scope.PROMPT, hint="send",
            native=True),
    Command("prompt.newline", ("ctrl+j",), "New line", "Insert a new line (shift+enter in terminals that report it).",
            Group.PROMPT, Scope.PROMPT, hint="new line", native=True),
    Command("prompt.queue", ("tab",), "Queue", "Send it when the agent is done; {prompt.send} sends it now.",
            Group.PROMPT, Scope.PROMPT, hint="queue", run=lambda app: app.submission.queue()),
    Command("queue.drop", (), "Take back from queue", "Put the last queued message back into the prompt.",
            Group.PROMPT, leader="Q", acts=True, run=drop_queued),
    Command("prompt.search", ("ctrl+r",), "Search history",
            "Type to search; {prompt.search} goes to older matches, Enter inserts one, Esc keeps the text as it was.",
            Group.PROMPT, Scope.PROMPT, native=True),
    Command("prompt.editor", ("ctrl+g",), "External editor", "Write the message in $VISUAL or $EDITOR.", Group.PROMPT,
            Scope.PROMPT, slash="editor", run=lambda app: app.attempt(edit_prompt(app)),
            also="vim vi emacs nano"),
    Command("prompt.paste", ("ctrl+v",), "Paste", "Paste text, or attach the image in the clipboard.",
            Group.PROMPT, Scope.PROMPT, native=True),
    Command("prompt.file", ("at",), "File", "At the start of a word: choose a file in the workspace.", Group.PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.reference", ("number_sign",), "Event",
            "At the start of a word: choose an event for the model to read.", Group.PROMPT, Scope.PROMPT, native=True),
    Command("prompt.command", ("slash",), "Command", "Handloom's commands, and your own from commands/*.md in its "
            "home; // sends a slash.", Group.PROMPT, Scope.EMPTY_PROMPT, native=True),
    Command("prompt.shell", ("exclamation_mark",), "Shell",
            "Run a command where the agent works; the agent reads the result.",
            Group.PROMPT, Scope.EMPTY_PROMPT, native=True),
    Command("prompt.page_up", ("pageup",), "Scroll the chat up",
            "Scroll the chat up without leaving the prompt.", Group.PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.page_down", ("pagedown",), "Scroll the chat down",
            "Scroll the chat down without leaving the prompt.",
            Group.PROMPT, Scope.PROMPT, native=True),
    Command("prompt.home", ("ctrl+home",), "Start of the chat", "Scroll to the oldest loaded message.", Group.PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.end", ("ctrl+end",), "End of the chat", "Scroll to the newest message.", Group.PROMPT, Scope.PROMPT,
            native=True),
    Command("prompt.up", ("up",), "Earlier message",
            "On the first line: the previous message of the history.", Group.PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.down", ("down",), "Later message",
            "On the last line: the next message of the history.", Group.PROMPT,
            Scope.PROMPT, native=True),
)  # fmt: skip
