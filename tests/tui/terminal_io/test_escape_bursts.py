"""Esc and what follows on it in one burst: told at once, whole, and as Textual names it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from textual import events
from textual._xterm_parser import XTermParser

from tui.terminal_io.textual_patches import patch_escapes, typed_bytes


@pytest.fixture
def parser() -> XTermParser:
    patch_escapes()
    return XTermParser()


def told(messages: Iterable[object]) -> list[tuple[str, bytes]]:
    return [(event.key, typed_bytes(event)) for event in messages if isinstance(event, events.Key)]


@pytest.mark.parametrize(
    ("pieces", "keys"),
    [
        (["\x1b:wq\r"], [("colon", b"\x1b:"), ("w", b""), ("q", b""), ("enter", b"")]),
        (["\x1b", ":w"], [("colon", b"\x1b:"), ("w", b"")]),
        (["\x1b:" + 40 * "x"], [("colon", b"\x1b:"), *[("x", b"")] * 40]),
        (["\x1bOab\x1b:w"], [("ctrl+up", b""), ("b", b""), ("colon", b"\x1b:"), ("w", b"")]),
        (["\x1bOhi"], [("alt+shift+o", b"\x1bO"), ("h", b""), ("i", b"")]),
        (["\x1bfx"], [("ctrl+right", b"\x1bf"), ("x", b"")]),
        (["\x1b5j"], [("infinity", b"\x1b5"), ("j", b"")]),
        (["\x1bp"], [("alt+p", b"\x1bp")]),
        (["\x1b\x18"], [("ctrl+x", b"\x1b\x18")]),
        (["\x1bé"], [("alt+é", b"\x1b\xc3\xa9")]),
        (["\x1bOP\x1b[A\x1b[1;5C"], [("f1", b""), ("up", b""), ("ctrl+right", b"")]),
    ],
)
def test_escape_pairs_are_keys_with_both_bytes(
    parser: XTermParser, pieces: list[str], keys: list[tuple[str, bytes]]
) -> None:
    assert [key for piece in pieces for key in told(parser.feed(piece))] == keys
