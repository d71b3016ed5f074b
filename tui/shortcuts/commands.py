"""The user's own keys: what is wrong with them is told at the start, and their file is opened and checked. A mixin.

The table of commands is made once, so what is changed counts from the next start; it is checked at once, as the next
start will do it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tomllib
from pathlib import Path

from textual.app import SuspendNotSupported

from core.home import CONFIG
from tui.commands import KEYMAP, ROWS, keyed
from tui.i18n import _
from tui.prompt.commands import _deaf_to_ctrl_c
from tui.prompt.external_editor import EditorError, editor_of
from tui.shortcuts import keymap
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.frame import Frame

TOLD = 3
"""Messages that are told at once; `handloom keys` has all of them."""
EXAMPLE = """
[keys]
# A command's id, and the keys that it has in the place of its own; an empty list takes them away.
# `handloom keys` lists commands and keys, `handloom keys --test` shows what a key sends.
# "conv.new" = ["ctrl+t", "leader n"]
"""


class Remapping(Frame):
    """The file of keys, as methods of the app."""

    def begin_keys(self) -> list[str]:
        """What is wrong with the user's keys, for the first message on the screen."""
        return shortened(KEYMAP.problems)

    def left_help(self, wish: str | None) -> None:
        """The help, or the settings, were left for the file of keys."""
        if wish == "keys":
            self.do_app_keys()

    def do_app_keys(self) -> None:
        if self.options.home is not None:
            self.attempt(self._edit_keys(self.options.home))

    async def _edit_keys(self, home: Path) -> None:
        """Hand the terminal to the user's editor with the file, then say what the next start will say of it."""
        try:
            with self.batch_update(), self.suspend(), _deaf_to_ctrl_c():
                wrong = await asyncio.to_thread(_edited, home / CONFIG)
        except SuspendNotSupported:
            told = _("This terminal cannot be handed to an editor. Edit {file} elsewhere; handloom keys checks it.")
            self.report(told.format(file=sanitize_line(str(home / CONFIG), 200)))
            return
        if wrong:
            self.report(wrong)
            return
        if self.manager is not None:
            await self.manager.read_settings()  # raises with what is wrong with the rest of the file
        found = await asyncio.to_thread(checked, home)
        if found.problems:
            self.report("\n".join(shortened(found.problems)))
        else:
            self.flash(_("The keys are in order. They count from the next start of Handloom."))


def checked(home: Path) -> keymap.Keymap:
    """The table as the next start would have it. Blocks for as long as it takes to read a file."""
    return keymap.applied([row.translated() for row in ROWS], keymap.read(home, os.environ))


def shortened(problems: tuple[str, ...]) -> list[str]:
    """The first of them, and how many more there are."""
    told = list(problems[:TOLD])
    if len(problems) > TOLD:
        told.append(_("And {count} more: handloom keys tells all of them.").format(count=len(problems) - TOLD))
    return told


def _edited(file: Path) -> str:
    """Let the user edit the file; what is wrong with it then, for people. Blocks while the editor has the terminal."""
    try:
        _begin(file)
        command = editor_of(os.environ)
        done = subprocess.run([*command, str(file)], check=False)
        if done.returncode:
            return _("{editor} ended with status {status}.").format(editor=command[0], status=done.returncode)
        tomllib.loads(file.read_text("utf-8"))
    except EditorError as error:
        return str(error)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        told = _("{file} cannot be read: {why}. {app.keys} opens it again; Handloom needs it whole to start.")
        return keyed(told, file=CONFIG, why=sanitize_line(str(error), 200))
    return ""


def _begin(file: Path) -> None:
    """Have a section to write in, with an example. Raises OSError and UnicodeDecodeError."""
    text = file.read_text("utf-8") if file.exists() else ""
    if not any(line.strip().replace(" ", "").startswith("[keys") for line in text.splitlines()):
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as end:
            end.write(EXAMPLE if text else EXAMPLE.lstrip())
