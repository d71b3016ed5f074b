"""The leader key, and the user's own keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.i18n import _
from tui.shortcuts.command import Command, Group

if TYPE_CHECKING:
    from tui.app import HandloomApp

TOLD = 3
"""Messages that are shown at once; `handloom keys` lists all of them."""


def shortened(problems: tuple[str, ...]) -> list[str]:
    """The first of them, and how many more there are."""
    text = list(problems[:TOLD])
    if len(problems) > TOLD:
        text.append(_("And {count} more: handloom keys tells all of them.").format(count=len(problems) - TOLD))
    return text


def after_help(app: HandloomApp, answer: str | None) -> None:
    """Open the file of keys, if the user left the help or the settings for it."""
    if answer == "keys":
        edit_keys(app)


def edit_keys(app: HandloomApp) -> None:
    """Open the file of the user's own keys in their editor."""
    from tui.shortcuts.keys_file import edit_file

    if app.options.home is not None:
        app.attempt(edit_file(app, app.options.home))


ROWS = (
    Command("app.leader", ("ctrl+x",), "Leader", "Wait for a second key and show the choices.", Group.WORKSPACE,
            run=lambda app: app.leader.press()),
    Command("app.keys", (), "Keyboard shortcuts", "Change the keys of commands: opens config.toml in your editor, then "
            "checks it.", Group.WORKSPACE, slash="keys", run=edit_keys),
)  # fmt: skip
