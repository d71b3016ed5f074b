"""The user's own keys as rows of the settings screen. They are changed in the file, so a row only says what is."""

from __future__ import annotations

from core.settings.config import Origin
from core.settings.editable_settings import Effect, Kind, Setting
from tui.commands import COMMANDS, KEYMAP, ROWS, all_keys, key_of
from tui.i18n import _

SECTION = "keys"
ABOUT = _("Which keys give which commands; Enter opens the file in your editor.")
IN_FILE = _("Keys are written into config.toml: {name} opens it, or Enter here.")
NONE = "(none)"


class KeyRow(Setting):
    """One command with keys of the user's own."""

    @property
    def section(self) -> str:
        """That of all keys; ids of commands have dots, too."""
        return SECTION

    @property
    def field(self) -> str:
        """The command's id."""
        return self.name.removeprefix(f"{SECTION}.")

    @property
    def fixed_by(self) -> tuple[str, str]:
        """Where it is changed."""
        return IN_FILE, key_of("app.keys")


def rows() -> list[Setting]:
    """A row for each command whose keys were changed, or one that says that there are none."""
    found = [
        _row(command.id, f"{command.title}. {command.help}", ", ".join(all_keys(command)), _default(command.id))
        for command in COMMANDS
        if command.id in KEYMAP.changed
    ]
    return found or [_row(NONE, _("No command has keys of your own; help shows those that there are."), "", "")]


def _default(id: str) -> str:
    command = next(row for row in ROWS if row.id == id)
    return ", ".join(all_keys(command))


def _row(id: str, help: str, value: str, default: str) -> Setting:
    origin = Origin.DEFAULT if id == NONE else Origin.FILE
    return KeyRow(f"{SECTION}.{id}", help, Kind.TEXT, value, default, origin, Effect.NEXT_START)
