"""A small program that edits one file, to be killed at each of its system calls.

    python -m tests.campaign.editing FOLDER EDITS [--in-place]

Makes so many edits of FOLDER/f but the last, says `ready PID`, waits for a line, makes the last one and says `done`.
Edit n makes version n of version n - 1. `--in-place` writes the last one over the old file: the control.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from runtime.server.edit_history import DiskHistory
from runtime.server.editor import Editor
from runtime.server.safe_paths import Roots

_PR_SET_PTRACER, _ANY = 0x59616D61, -1


def version(number: int) -> str:
    """The content of the file after so many edits; long enough for more than one page."""
    return f"version {number}\n" + "the same in all\n" * 1000


def editor(folder: Path) -> Editor:
    """As the server has it."""
    return Editor(Roots([folder]), 0o022, DiskHistory(folder / "undo"))


def main(folder: Path, edits: int, in_place: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)
    files = editor(folder)
    for number in range(1, edits + 1):
        if number == edits:
            os.write(1, b"ready %d\n" % os.getpid())
            sys.stdin.readline()
        if number == edits and in_place:
            (folder / "f").write_text(version(number))
            break
        files.str_replace(str(folder / "f"), f"version {number - 1}", f"version {number}")
    os.write(1, b"done\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), "--in-place" in sys.argv)
