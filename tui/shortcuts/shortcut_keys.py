"""The names of keys, in the user's file and in Textual, and which of them a terminal can send.

A terminal without the kitty keyboard protocol sends bytes. Many keys have no bytes, and some have those of another key.
Pure; knows no commands.
"""

from __future__ import annotations

import string

from textual.keys import _character_to_key

from tui.i18n import _

MAX_CHARS = 40
"""Of a name; the longest real one is `ctrl+left_square_bracket` with two more modifiers."""
MODIFIERS = {
    "ctrl": "ctrl", "control": "ctrl", "alt": "alt", "option": "alt", "shift": "shift",
    "super": "super", "cmd": "super", "meta": "meta", "hyper": "hyper",
}  # fmt: skip
"""Names that people write, and Textual's."""
ALIASES = {
    "esc": "escape", "return": "enter", "pgup": "pageup", "page_up": "pageup", "pgdn": "pagedown", "pgdown": "pagedown",
    "page_down": "pagedown", "del": "delete", "ins": "insert", "↑": "up", "↓": "down", "←": "left", "→": "right",
}  # fmt: skip
MOVING = frozenset({"up", "down", "left", "right", "home", "end", "pageup", "pagedown"})
WRITING = frozenset({"enter", "tab", "backspace", "delete", "insert", "space", "escape"})
_CORRECTING = frozenset({"backspace", "delete", "left", "right", "home", "end", "escape"})
PUNCTUATION = {_character_to_key(character): character for character in string.punctuation}
"""Characters by Textual's names."""
NAMES = MOVING | WRITING | PUNCTUATION.keys() | {f"f{number}" for number in range(1, 25)}
NEVER = frozenset(
    {"ctrl+h", "ctrl+i", "ctrl+m", "ctrl+left_square_bracket", "alt+enter", "alt+full_stop", "shift+f3"}
    | {"alt+left_square_bracket", "ctrl+space", "ctrl+at", "alt+shift+o"}
    | {f"alt+{key}" for key in "0123456789"}
)
"""Keys that terminals send as something else: they would send the message, or do nothing."""
_TWINS = {"ctrl+h": "backspace", "ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape"}
_CONTROLS = frozenset(string.ascii_lowercase) | {
    "backslash", "right_square_bracket", "circumflex_accent", "underscore"
}  # fmt: skip
"""Keys with their own control character, except those in NEVER."""
_SHOWN = {
    "escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "enter": "Enter", "up": "↑", "down": "↓", "home": "Home",
    "end": "End", "tab": "Tab", "left": "←", "right": "→", "delete": "Del", "insert": "Ins",
    "backspace": "Backspace",
}  # fmt: skip


def named(text: str) -> str | None:
    """Textual's name for a key as people write it; None if there is no such key."""
    text = text.strip()
    if not 0 < len(text) <= MAX_CHARS or not text.isprintable():
        return None
    written, last = (text[:-2], "+") if text == "+" or text.endswith("++") else text.rpartition("+")[::2]
    found = [MODIFIERS.get(word.strip().lower(), "") for word in written.split("+")] if written else []
    name = _name(last.strip(), found)
    if name is None or "" in found or len(set(found)) != len(found):
        return None
    if len(name) == 1 and name.isupper() and found:
        found += ["shift"] * (not {"ctrl", "shift"} & set(found))
        name = name.lower()
    if found == ["shift"] and name in string.ascii_lowercase:
        return name.upper()
    return "+".join([*sorted(found), name])


def _name(text: str, modifiers: list[str]) -> str | None:
    if len(text) == 1 and text not in ALIASES:
        if text == " ":
            return "space"
        if text.isascii():
            return text if text.isalnum() else _character_to_key(text)
        return _character_to_key(text) if text.isprintable() and not modifiers else None
    name = ALIASES.get(text.lower(), text.lower())
    return name if name in NAMES else None


def shown(key: str) -> str:
    """A key as it is shown: `ctrl+pagedown` is `ctrl+PgDn`, `f6` is `F6`."""
    *modifiers, name = key.split("+")
    is_function = name[0] == "f" and name[1:].isdigit()
    name = _SHOWN.get(name) or PUNCTUATION.get(name) or (name.upper() if is_function else name)
    return "+".join([*modifiers, name])


def is_typed(key: str) -> bool:
    """Whether the key writes a character."""
    return key == "space" or ("+" not in key and key not in MOVING | WRITING and not key[1:].isdigit())


def is_for_writing(key: str, *, outside: bool) -> bool:
    """Whether the key is needed to type and correct a text.

    A command from outside of the text has precedence over it, so with `outside` the keys that move in the text and end
    it are needed, too.
    """
    return is_typed(key) or key in _CORRECTING or (outside and key in MOVING | WRITING | {"shift+tab"})


def refused(key: str) -> str:
    """Why no command can have the key; empty if one can."""
    if key in _TWINS:
        return _("terminals send {key} as {other}").format(key=shown(key), other=shown(_TWINS[key]))
    if key in NEVER:
        return _("terminals use {key} themselves, or send it as another key").format(key=shown(key))
    return ""


def needs_protocol(key: str) -> bool:
    """Whether only a terminal with the kitty keyboard protocol can send the key as itself."""
    *before, name = key.split("+")
    modifiers = set(before)
    if modifiers & {"super", "meta", "hyper"}:
        return True
    if name[0] == "f" and name[1:].isdigit():
        return int(name[1:]) > 12
    if name in MOVING or name in ("delete", "insert") or not modifiers:
        return False
    if name in WRITING:
        return key != "shift+tab"
    if "ctrl" in modifiers:
        return modifiers != {"ctrl"} or name not in _CONTROLS
    return not (modifiers <= {"alt", "shift"} and name in string.ascii_lowercase)
