"""The user's own keys: their file, opened in the editor and checked, and their rows in the settings screen.

The table of commands is made once, so changed keys apply from the next start.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from core.environment import CONFIG
from core.settings.config import Origin
from core.settings.editable_settings import Effect, Kind, Setting
from tui.commands import COMMANDS, KEYMAP, ROWS, all_keys, key_of
from tui.i18n import _
from tui.prompt.commands import EditorError, editor_of, without_ctrl_c
from tui.shortcuts import keymap
from tui.shortcuts.command import keyed
from tui.shortcuts.commands import shortened
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from tui.app import HandloomApp

EXAMPLE = """
[keys]
# A command's id, and the keys that replace its default keys; an empty list removes them.
# `handloom keys` lists commands and keys, `handloom keys --test` shows what a key sends.
# "conv.new" = ["ctrl+t", "leader n"]
"""

# -- the file ----------------------------------------------------------------------------------------------------------


async def edit_file(app: HandloomApp, home: Path) -> None:
    """Open the file in the user's editor, which gets the terminal, then report what is wrong with it."""
    try:
        with app.batch_update(), app.suspend(), without_ctrl_c():
            problem = await asyncio.to_thread(_edit, home / CONFIG)
    except SuspendNotSupported:
        text = _("No editor can run in this terminal. Edit {file} elsewhere, then check it with: handloom keys")
        app.report(text.format(file=sanitize_line(str(home / CONFIG), 200)))
        return
    if problem:
        app.report(problem)
        return
    if app.manager is not None:
        await app.manager.read_settings()  # raises if other sections of the file are wrong
    problems = await asyncio.to_thread(_problems, home)
    if problems:
        app.report("\n".join(shortened(problems)))
    else:
        app.flash(_("The keys are valid. They take effect at the next start."))


def _problems(home: Path) -> tuple[str, ...]:
    """What the next start will report. Blocks."""
    return keymap.applied([row.translated() for row in ROWS], keymap.read(home, os.environ)).problems


def _edit(file: Path) -> str:
    """Let the user edit the file. Returns what is wrong with it afterwards. Blocks while the editor runs."""
    try:
        _add_section(file)
        command = editor_of(os.environ)
        done = subprocess.run([*command, str(file)], check=False)
        if done.returncode:
            return _("{editor} exited with status {status}.").format(editor=command[0], status=done.returncode)
        tomllib.loads(file.read_text("utf-8"))
    except EditorError as error:
        return str(error)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        text = _("{file} cannot be read: {why}. Correct it ({app.keys} opens it), or Handloom cannot start again.")
        return keyed(text, file=CONFIG, why=sanitize_line(str(error), 200))
    return ""


def _add_section(file: Path) -> None:
    """Append the section with an example if it is missing. Raises OSError and UnicodeDecodeError."""
    text = file.read_text("utf-8") if file.exists() else ""
    if not any(line.strip().replace(" ", "").startswith("[keys") for line in text.splitlines()):
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as end:
            end.write(EXAMPLE if text else EXAMPLE.lstrip())


# -- rows of the settings screen ---------------------------------------------------------------------------------------

SECTION = "keys"
ABOUT = _("Which keys run which commands; Enter opens the file in your editor.")
IN_FILE = _("Your keys are in config.toml. {name} opens it, and so does Enter here.")
NONE = "(none)"


class KeyRow(Setting):
    """A command with the user's own keys; it can only be changed in the file."""

    @property
    def section(self) -> str:
        """The section of all keys, because the ids of commands contain dots, too."""
        return SECTION

    @property
    def field(self) -> str:
        return self.name.removeprefix(f"{SECTION}.")

    @property
    def fixed_by(self) -> tuple[str, str]:
        return IN_FILE, key_of("app.keys")


def setting_rows() -> list[Setting]:
    """A row for each command whose keys were changed, or one that says that there are none."""
    defaults = {row.id: ", ".join(all_keys(row)) for row in ROWS}
    changed = [command for command in COMMANDS if command.id in KEYMAP.changed]
    if not changed:
        text = _("You have not changed any keys. Help shows the defaults.")
        return [_row(NONE, text, origin=Origin.DEFAULT)]
    return [_row(c.id, f"{c.title}. {c.help}", ", ".join(all_keys(c)), defaults[c.id]) for c in changed]


def _row(id: str, help: str, value: str = "", default: str = "", origin: Origin = Origin.FILE) -> Setting:
    return KeyRow(f"{SECTION}.{id}", help, Kind.TEXT, value, default, origin, Effect.NEXT_START)
