"""The file of the user's own keys: opened in their editor, then checked as the next start will check it.

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

from core.home import CONFIG
from tui.commands import ROWS
from tui.i18n import _
from tui.prompt.external_editor import EditorError, editor_of, without_ctrl_c
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


async def edit_file(app: HandloomApp, home: Path) -> None:
    """Hand the terminal to the user's editor with the file, then say what the next start will say of it."""
    try:
        with app.batch_update(), app.suspend(), without_ctrl_c():
            wrong = await asyncio.to_thread(_edited, home / CONFIG)
    except SuspendNotSupported:
        text = _("This terminal cannot be handed to an editor. Edit {file} elsewhere; handloom keys checks it.")
        app.report(text.format(file=sanitize_line(str(home / CONFIG), 200)))
        return
    if wrong:
        app.report(wrong)
        return
    if app.manager is not None:
        await app.manager.read_settings()  # raises with what is wrong with the rest of the file
    found = await asyncio.to_thread(checked, home)
    if found.problems:
        app.report("\n".join(shortened(found.problems)))
    else:
        app.flash(_("The keys are in order. They count from the next start of Handloom."))


def checked(home: Path) -> keymap.Keymap:
    """The table as the next start would have it. Blocks for as long as it takes to read a file."""
    return keymap.applied([row.translated() for row in ROWS], keymap.read(home, os.environ))


def _edited(file: Path) -> str:
    """Let the user edit the file. Returns what is wrong with it afterwards. Blocks while the editor runs."""
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
        text = _("{file} cannot be read: {why}. {app.keys} opens it again; Handloom needs it whole to start.")
        return keyed(text, file=CONFIG, why=sanitize_line(str(error), 200))
    return ""


def _begin(file: Path) -> None:
    """Have a section to write in, with an example. Raises OSError and UnicodeDecodeError."""
    text = file.read_text("utf-8") if file.exists() else ""
    if not any(line.strip().replace(" ", "").startswith("[keys") for line in text.splitlines()):
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as end:
            end.write(EXAMPLE if text else EXAMPLE.lstrip())
