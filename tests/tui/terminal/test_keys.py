"""Keys and pastes as programs on the emulator get them."""

from __future__ import annotations

import pytest

from tui.terminal.view import key_bytes, paste_bytes


@pytest.mark.parametrize(
    ("key", "character", "sent"),
    [
        ("a", "a", b"a"),
        ("A", "A", b"A"),
        ("full_stop", ".", b"."),
        ("é", "é", "é".encode()),
        ("enter", "\r", b"\r"),
        ("space", " ", b" "),
        ("escape", "\x1b", b"\x1b"),
        ("backspace", "\x7f", b"\x7f"),
        ("tab", "\t", b"\t"),
        ("shift+tab", None, b"\x1b[Z"),
        ("ctrl+c", "\x03", b"\x03"),
        ("ctrl+x", "\x18", b"\x18"),
        ("ctrl+at", "\x00", b"\x00"),
        ("ctrl+backslash", "\x1c", b"\x1c"),
        ("alt+b", "b", b"\x1bb"),
        ("alt+shift+o", "O", b"\x1bO"),
        ("alt+shift+o", None, b"\x1bO"),
        ("alt+colon", ":", b"\x1b:"),
        ("up", None, b"\x1b[A"),
        ("ctrl+left", None, b"\x1b[1;5D"),
        ("shift+pagedown", None, b"\x1b[6;2~"),
        ("f1", None, b"\x1bOP"),
        ("f5", None, b"\x1b[15~"),
        ("f10", None, b"\x1b[21~"),
        ("delete", None, b"\x1b[3~"),
        ("nothing_known", None, b""),
    ],
)
def test_keys_are_encoded_as_xterm_does(key: str, character: str | None, sent: bytes) -> None:
    assert key_bytes(key, character) == sent


def test_application_mode_changes_cursor_keys() -> None:
    assert key_bytes("up", None, application=True) == b"\x1bOA"
    assert key_bytes("ctrl+up", None, application=True) == b"\x1b[1;5A"


def test_paste_cannot_leave_brackets() -> None:
    hostile = "one\r\ntwo\n\x1b[201~rm -rf\x03\x9b\ttab"
    assert paste_bytes(hostile, bracketed=True) == b"\x1b[200~one\rtwo\r[201~rm -rf\ttab\x1b[201~"
    assert paste_bytes("a\nb", bracketed=False) == b"a\rb"
