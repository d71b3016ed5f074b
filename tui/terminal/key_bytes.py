"""Keys as a terminal of type xterm sends them, for a program on our emulator. Pure; knows Textual's names of keys only.

Source: ctlseqs of xterm. A modifier is told where xterm tells it; what no terminal can say is nothing.
"""

from __future__ import annotations

_LETTERS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
"""Keys that end in a letter; the cursor's, of which programs may want the other form."""
_FUNCTION = {"f1": "P", "f2": "Q", "f3": "R", "f4": "S"}
_NUMBERS = {
    "insert": 2, "delete": 3, "pageup": 5, "pagedown": 6, "f5": 15, "f6": 17, "f7": 18, "f8": 19, "f9": 20, "f10": 21,
    "f11": 23, "f12": 24,
}  # fmt: skip
_PLAIN = {"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "space": " ", "shift+tab": "\x1b[Z"}
_CONTROL = {
    "at": 0, "space": 0, "left_square_bracket": 27, "backslash": 28, "right_square_bracket": 29,
    "circumflex_accent": 30, "underscore": 31, "backspace": 8,
}  # fmt: skip
_MODIFIERS = {"shift": 1, "alt": 2, "ctrl": 4}
PASTE_BEGIN, PASTE_END = b"\x1b[200~", b"\x1b[201~"


def encoded(key: str, character: str | None, *, application: bool = False) -> bytes:
    """The bytes of a key; empty for one that has none. `application` says that the program asked for that form."""
    *names, base = key.split("+") if key != "+" else ["plus"]
    modifiers = sum(_MODIFIERS.get(name, 0) for name in names)
    escape = b"\x1b" if modifiers & 2 else b""
    if not modifiers & 4 and character and character.isprintable():
        return escape + character.encode()
    if (found := _PLAIN.get(key)) is not None:
        return found.encode()
    if base in _LETTERS or base in _FUNCTION:
        letter = _LETTERS.get(base) or _FUNCTION[base]
        if modifiers:
            return f"\x1b[1;{modifiers + 1}{letter}".encode()
        return f"\x1b{'O' if application or base in _FUNCTION else '['}{letter}".encode()
    if base in _NUMBERS:
        return f"\x1b[{_NUMBERS[base]}{f';{modifiers + 1}' if modifiers else ''}~".encode()
    base = base.upper() if modifiers & 1 and len(base) == 1 else base
    sent = _with_control(base) if modifiers & 4 else _PLAIN.get(base, base if len(base) == 1 else character or "")
    return (escape if sent else b"") + sent.encode()


def _with_control(base: str) -> str:
    if len(base) == 1 and base.isascii() and base.isalpha():
        return chr(ord(base.upper()) & 0x1F)
    return chr(_CONTROL[base]) if base in _CONTROL else _PLAIN.get(base, "")


def pasted(text: str, *, bracketed: bool) -> bytes:
    """What a paste sends: lines end as Enter ends them; between brackets where the program asked for them.

    Escape and its like are taken out, so that no paste can leave its brackets or press keys.
    """
    plain = text.replace("\r\n", "\r").replace("\n", "\r")
    data = "".join(char for char in plain if char in "\r\t" or char.isprintable()).encode("utf-8", "replace")
    return PASTE_BEGIN + data + PASTE_END if bracketed else data
