"""The patches of Textual: terminal replies, escape bursts, closed terminals and the render cache."""

from __future__ import annotations

import gc
import io
import threading
import weakref
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread
from textual.events import Key
from textual.widget import Widget

from tests.tui.workspace.running_app import running, until
from tui.terminal_io.textual_patches import (
    MAX_HELD,
    REPLY_LISTENER,
    ReplyFilter,
    install,
    patch_closed_terminals,
    patch_escapes,
    typed_bytes,
)

FOREIGN = (
    "\x1b[<32;NaN;NaNM",
    "\x1b[<0;NaN;3m",
    "\x1b[<;;M",
    "\x1b[<99999999999;1;1M",
    "\x1b[?1;2c",
    "\x1b[>0;276;0c",
    "\x1b[0n",
    "\x1b[?997;1n",
    "\x1b]52;c;U0VDUkVU\x07",
    "\x1b]11;rgb:0000/0000/0000\x1b\\",
    "\x1bP>|xterm(390)\x1b\\",
    "\x1bP1+r544e=787465726d\x1b\\",
    "\x1b_Gi=1;OK\x1b\\",
    "\x1b[6;20;10t",
    "\x1b[?62;4;22c",
)
OURS = (
    "a",
    "漢",
    "\x1b",
    "\x1b[A",
    "\x1b[1;5C",
    "\x1bp",
    "\x1bP",
    "\x1b]",
    "\x1b[<0;10;20M",
    "\x1b[<35;1;-3m",
    "\x1b[I",
    "\x1b[?2026;2$y",
    "\x1b[24;80R",
    "\x1b[97;5u",
    "\x1b[200~pasted ]52;c;eA==\x07 [<x;M\x1b[201~",
    "\r",
)


@pytest.mark.parametrize("report", FOREIGN)
def test_replies_are_dropped(report: str) -> None:
    assert ReplyFilter().feed(f"a{report}b") == "ab"


@pytest.mark.parametrize("typed", OURS)
def test_typed_input_passes(typed: str) -> None:
    assert ReplyFilter().feed(typed) == typed


@given(st.lists(st.sampled_from(FOREIGN[:4] + FOREIGN[8:12] + tuple("abc") + OURS[12:15]), max_size=8), st.data())
def test_filter_is_same_for_any_split(parts: list[str], data: st.DataObject) -> None:
    whole = "".join(parts)
    cut = data.draw(st.integers(0, len(whole)))
    if whole[max(0, cut - 1) : cut] == "\x1b" or whole[max(0, cut - 2) : cut] in ("\x1b[", "\x1b]", "\x1bP"):
        return  # that much may be a key, so it is not held back
    if "\x1b[200~" in whole and any(whole[:cut].endswith("\x1b[200~"[:n]) for n in range(3, 6)):
        return
    pieces = ReplyFilter()
    assert pieces.feed(whole[:cut]) + pieces.feed(whole[cut:]) == ReplyFilter().feed(whole)


@pytest.mark.parametrize("cut", [8, 14, 15, 16, 21, 26])
def test_pasted_escapes_are_removed(cut: int) -> None:
    pasted, reply_filter = "\x1b[200~an \x1b:esc\x1b[201~\r", ReplyFilter()
    assert reply_filter.feed(pasted) == "\x1b[200~an :esc\x1b[201~\r"
    pieces = ReplyFilter()
    assert pieces.feed(pasted[:cut]) + pieces.feed(pasted[cut:]) == "\x1b[200~an :esc\x1b[201~\r"


def test_endless_reply_is_dropped() -> None:
    reply_filter = ReplyFilter()
    assert reply_filter.feed("\x1b]52;" + "x" * MAX_HELD) == ""
    assert reply_filter.feed("typed") == "typed"


ANSWERS = FOREIGN[9:]


@pytest.mark.parametrize("answer", ANSWERS)
def test_split_reply_types_nothing(answer: str) -> None:
    """Also behind its first character, which alone is the Escape key; behind its second, it is Esc and a key."""
    install()
    heard: list[str] = []
    REPLY_LISTENER.on_reply = heard.append
    try:
        for cut in range(1, len(answer)):
            parser = XTermParser()
            pieces = "a", answer[:cut], answer[cut:] + "b", "\x1b[A"
            events = [event for piece in pieces for event in parser.feed(piece)]
            keys = [event for event in events if isinstance(event, Key)]
            assert [key.key for key in keys if not typed_bytes(key)] == ["a", "b", "up"], cut
            assert [typed_bytes(key) for key in keys if typed_bytes(key)] in (
                [],
                [answer[:2].encode()] * (cut == 2),
            ), cut
        assert heard == [answer] * (len(answer) - 1)
    finally:
        REPLY_LISTENER.on_reply = None


@pytest.mark.parametrize("key", ["\x1b", "\x1b[", "\x1b_", "\x1bP", "\x1b]"])
def test_keys_after_escape_pass(key: str) -> None:
    filtered = ReplyFilter()
    assert filtered.feed(key) == key
    assert filtered.feed("Go on") == "Go on"
    assert not filtered.retracts


@pytest.fixture
def parser() -> XTermParser:
    patch_escapes()
    return XTermParser()


def pressed(messages: Iterable[object]) -> list[tuple[str, bytes]]:
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
    assert [key for piece in pieces for key in pressed(parser.feed(piece))] == keys


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_writing_to_closed_terminal_does_not_block() -> None:
    patch_closed_terminals()
    writer = WriterThread(Gone())
    writer.start()

    def write() -> None:
        for _number in range(3 * MAX_QUEUED_WRITES):
            writer.write("x")
        writer.stop()

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    writing.join(10)
    assert not writing.is_alive()
    assert not writer.is_alive()


async def test_closed_dialog_frees_its_strips() -> None:
    async with running() as it:
        for key in ("f1", "ctrl+p"):
            await it.press(key)
            drawn = [weakref.ref(widget._styles_cache) for widget in it.app.screen.query(Widget)]
            assert len(drawn) > 2
            await it.press("escape")
            assert it.shows_the_workspace
            await until(it.pilot, lambda: gc.collect() >= 0 and all(cache() is None for cache in drawn))  # noqa: B023
