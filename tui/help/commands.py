"""The help: every key, and the way to the user's own keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.shortcuts.command import Command, Group, Scope
from tui.shortcuts.commands import after_help

if TYPE_CHECKING:
    from tui.app import HandloomApp


def show_help(app: HandloomApp) -> None:
    """Show every key, those of the widget with the focus first."""
    from tui.help.screen import HelpScreen

    workspace = app.workspace
    focused = workspace.focused
    about = next((w.HELP for w in (focused.ancestors_with_self if focused else ()) if getattr(w, "HELP", "")), "")
    app.push_screen(HelpScreen(workspace.keys_scope, about or ""), lambda answer: after_help(app, answer))


ROWS = (
    Command("app.help", ("f1",), "Help", "Show every key.", Group.WORKSPACE, leader="?", hint="help", slash="help",
            run=show_help),
    Command("prompt.help", ("question_mark",), "Help", "Show every key.", Group.PROMPT, Scope.EMPTY_PROMPT,
            native=True),
    Command("replay.help", ("question_mark",), "Help", "Show every key.", Group.REPLAY, Scope.REPLAY, hint="keys",
            run=show_help),
    Command("list.help", ("question_mark",), "Help", "Show every key.", Group.READING, Scope.LIST, run=show_help),
)  # fmt: skip
