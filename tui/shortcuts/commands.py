"""The leader key, the help, and the user's own keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.i18n import _
from tui.shortcuts.command import Command, Group, Scope

if TYPE_CHECKING:
    from tui.app import HandloomApp

SHOWN = 3
"""Problems that are shown at once; `handloom keys` lists all of them."""


def shortened(problems: tuple[str, ...]) -> list[str]:
    """The first problems, and how many more there are."""
    text = list(problems[:SHOWN])
    if len(problems) > SHOWN:
        text.append(_("And {count} more. Run handloom keys to see all.").format(count=len(problems) - SHOWN))
    return text


def show_help(app: HandloomApp) -> None:
    """Show every key, those of the focused widget first."""
    from tui.shortcuts.help_screen import HelpScreen

    focused = app.workspace.focused
    about = next((w.HELP for w in (focused.ancestors_with_self if focused else ()) if getattr(w, "HELP", "")), "")
    app.push_screen(HelpScreen(app.workspace.keys_scope, about or ""), lambda answer: after_help(app, answer))


def after_help(app: HandloomApp, answer: str | None) -> None:
    """Open the file of keys if the user left the help or the settings for it."""
    if answer == "keys":
        edit_keys(app)


def edit_keys(app: HandloomApp) -> None:
    from tui.shortcuts.own_keys import edit_file

    if app.options.home is not None:
        app.attempt(edit_file(app, app.options.home))


ROWS = (
    Command("app.leader", ("ctrl+x",), "Leader", "Wait for a second key and show the choices.", Group.WORKSPACE,
            run=lambda app: app.leader.press()),
    Command("app.keys", (), "Keyboard shortcuts", "Change the keys of commands: opens config.toml in your editor, then "
            "checks it.", Group.WORKSPACE, slash="keys", run=edit_keys),
    Command("app.help", ("f1",), "Help", "Show every key.", Group.WORKSPACE, leader="?", hint="help", slash="help",
            run=show_help,
            also="paste image version about doctor feedback bug report status shortcuts keybindings keys hotkeys"),
    Command("prompt.help", ("question_mark",), "Help", "Show every key.", Group.PROMPT, Scope.EMPTY_PROMPT,
            native=True),
    Command("replay.help", ("question_mark",), "Help", "Show every key.", Group.REPLAY, Scope.REPLAY, hint="keys",
            run=show_help),
    Command("list.help", ("question_mark",), "Help", "Show every key.", Group.READING, Scope.LIST, run=show_help),
)  # fmt: skip
