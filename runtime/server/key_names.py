"""Keys by their names, as the model presses them: `C-c` and its like, and those of tmux, through which V0 typed.
Pure.

A control character is a key wherever it is typed. `Up`, `Escape` and the others are keys for a program that
draws or edits its line; one that reads whole lines gets the word, since it could do nothing with the key and a
question may be answered with it.
"""

from __future__ import annotations

import re

_ARROWS = {"Up": "A", "Down": "B", "Right": "C", "Left": "D", "Home": "H", "End": "F"}
_OTHERS = {
    "Enter": b"\r",
    "Escape": b"\x1b",
    "Tab": b"\t",
    "BTab": b"\x1b[Z",
    "BSpace": b"\x7f",
    "DC": b"\x1b[3~",
    "IC": b"\x1b[2~",
    "PageUp": b"\x1b[5~",
    "PPage": b"\x1b[5~",
    "PageDown": b"\x1b[6~",
    "NPage": b"\x1b[6~",
    **{f"F{number}": f"\x1bO{final}".encode() for number, final in enumerate("PQRS", 1)},
    **{f"F{number}": f"\x1b[{code}~".encode() for number, code in enumerate((15, 17, 18, 19, 20, 21, 23, 24), 5)},
}
_CURSOR_MODE = re.compile(rb"\x1b\[\?1([hl])")


def control_key(command: str) -> bytes | None:
    """The control character of `C-c` and its like, None for anything else."""
    key = command.strip()
    is_key = len(key) == 3 and key.startswith("C-") and "@" <= key[2].upper() <= "_"
    return bytes([ord(key[2].upper()) & 0x1F]) if is_key else None


def named_key(command: str, *, application: bool) -> bytes | None:
    """What a terminal of type xterm sends for a key; None for what is no key's name.

    `application` says that the program has asked for the other form of the cursor's keys.
    """
    name = command.strip()
    if name in _ARROWS:
        return f"\x1b{'O' if application else '['}{_ARROWS[name]}".encode()
    return _OTHERS.get(name)


def cursor_mode(data: bytes, before: bool) -> bool:
    """Whether, after it printed this, the program wants the application's form of the cursor's keys."""
    if b"\x1b[?1" not in data:
        return before
    for mode in _CURSOR_MODE.finditer(data):
        before = mode[1] == b"h"
    return before
