"""The user's editor on the prompt's text: a private file, the program of $VISUAL or $EDITOR, the text that comes back.

Nothing is lost: whatever goes wrong raises before the prompt has been touched, and the file is gone in the end either
way. Blocks while the user edits, which is meant: the program has the terminal.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tui.i18n import _

MAX_BYTES = 4 * 1024 * 1024
_DEFAULT = "vi"


class EditorError(Exception):
    """The text could not be edited; the message says why and what to do."""


def editor_of(environ: Mapping[str, str]) -> list[str]:
    """The user's editor and its arguments. Raises EditorError."""
    name = environ.get("VISUAL") or environ.get("EDITOR") or _DEFAULT
    try:
        command = shlex.split(name)
    except ValueError as error:
        told = _("$EDITOR is not a valid command: {command}. Set it to your editor, such as vi.")
        raise EditorError(told.format(command=name)) from error
    if not command:
        raise EditorError(_("$EDITOR is empty. Set it to your editor, such as vi."))
    return command


def edited(text: str, environ: Mapping[str, str]) -> str:
    """The text as the user leaves it. Raises EditorError."""
    command = editor_of(environ)
    with tempfile.TemporaryDirectory(prefix="handloom-edit-") as folder:  # 0700
        file = Path(folder, "message.md")
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
            written.write(text)
        try:
            done = subprocess.run([*command, str(file)], check=False)
        except OSError as error:
            told = _(
                "Cannot start the editor {editor}: {why}. Set $VISUAL or $EDITOR to an "
                "installed editor. Your text was not changed."
            )
            raise EditorError(told.format(editor=command[0], why=error.strerror or error)) from error
        if done.returncode != 0:
            told = _("{editor} exited with status {status}. Your text was not changed.")
            raise EditorError(told.format(editor=command[0], status=done.returncode))
        try:
            if file.stat().st_size > MAX_BYTES:
                told = _("The edited text is larger than {n} MB. Your text was not changed.")
                raise EditorError(told.format(n=MAX_BYTES // 2**20))
            changed = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EditorError(_("Cannot read the edited text. Your text was not changed.")) from error
    changed = changed.replace("\r\n", "\n")
    return changed if text.endswith("\n") else changed.removesuffix("\n")  # editors add one at the end


@contextmanager
def without_ctrl_c() -> Iterator[None]:
    """Ignore ctrl+c, which is the editor's: it runs in the same group of processes, and hears it too."""
    before = signal.signal(signal.SIGINT, lambda *_unused: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
