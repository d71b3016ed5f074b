"""The commands of the chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.i18n import _
from tui.shortcuts.command import Command, Group, Scope

if TYPE_CHECKING:
    from tui.workspace.context import Context


def toggle_details(app: Context) -> None:
    """Fold or unfold the block under the cursor, else every block; in the prompt, unfold a pasted text."""
    workspace, tab = app.workspace, app.tabs.current
    if workspace.focused is workspace.prompt and workspace.prompt.expand_chip():
        return
    if tab is None:
        return
    if workspace.focused is workspace.chat and workspace.chat.cursor is not None:
        workspace.chat.action_fold()
        return
    blocks = [block for block in tab.chat.blocks if block.can_fold]
    folded = any(block.folded for block in blocks)
    for block in blocks:
        if block.folded == folded:
            tab.chat.toggle(block)


def copy_answer(app: Context) -> None:
    """Copy what the agent said last, as it wrote it."""
    blocks = app.tabs.current.chat.blocks if app.tabs.current is not None else []
    answer = next((block for block in reversed(blocks) if block.is_answer), None)
    if answer is None:
        app.flash(_("The agent has not answered yet."))
    else:
        app.workspace.chat.copy(answer.text)


ROWS = (
    Command("detail.toggle", ("ctrl+o",), "Fold or unfold output", "Show tool output in full, or folded; in the "
            "prompt, a pasted text in the place of its chip.", Group.PANES, slash="fold", run=toggle_details),
    Command("answer.copy", (), "Copy the last answer", "Copy the agent's last answer as it was written.", Group.PANES,
            leader="y", slash="copy", run=copy_answer),
    Command("chat.fold", ("space",), "Fold or unfold",
            "Fold or unfold the output of the block under the cursor.", Group.READING,
            Scope.CHAT, hint="fold", native=True),
    Command("chat.copy", ("c",), "Copy", "Copy the block under the cursor.", Group.READING, Scope.CHAT, hint="copy",
            native=True),
    Command("chat.undo", ("u",), "Undo from here", "Undo the message under the cursor and everything after it.",
            Group.READING, Scope.CHAT, native=True),
    Command("chat.copy_code", ("y",), "Copy the code",
            "Copy the visible code; press again for the next. For a command, copy its output.",
            Group.READING, Scope.CHAT, native=True),
    Command("chat.diff", ("d",), "Diff side by side",
            "Show diffs side by side, or in one column.", Group.READING, Scope.CHAT,
            native=True),
)  # fmt: skip
