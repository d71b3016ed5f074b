"""The text that the model reads of terminal output."""

from __future__ import annotations

import pytest

from core.events.observations import TRUNCATION_NOTICE
from core.events.output import OutputBuffer, plain_text
from tests.yardstick import costs_at_most


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\r\n", "a\nb"),
        (b"\x1b[1;31mred\x1b[0m \x1b[38:5:1mx\x1b[m", "red x"),
        (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        (b"\x1bPdevice\x1b\\a\x1b_app\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd"),
        (b"\x1b(B\x1b=\x1b>\x1b7a\x1b8\x1bc", "a"),
        (b"\x1b]0;never ended", "0;never ended"),
        (b"\x1b[", ""),
        (b"10%\r50%\r100%\r\n", "100%"),
        (b"a long line\rshort\r\n", "shortg line"),
        (b"a long line\r\x1b[Kshort\r\n", "short"),
        (b"a long line\rshort\x1b[K\r\n", "short"),
        (b"x\x08xy\x08y _\x08u", "xy u"),
        (b"bell\x07 nul\x00 tab\t.", "bell nul tab\t."),
        (b"\xff\xc3\xa9\xe2\x82", "�é�"),
        (b"\r\n\r\na  \r\n\r\n", "\n\na"),
    ],
)
def test_output_is_read_as_shown_on_a_screen(data: bytes, text: str) -> None:
    assert plain_text(data) == text


@pytest.mark.parametrize("part", [b"\x1b]", b"\x1bP", b"\x1b[", b"\r", b"x\r", b"\x1b[K\r", b"\x08", b"\x1b[1;"])
def test_hostile_output_takes_linear_time(part: bytes) -> None:
    with costs_at_most(400):
        plain_text(part * 100_000)


def test_output_in_pieces_is_one_text() -> None:
    buffer = OutputBuffer()
    for byte in "häh\r\n".encode():
        buffer.feed(bytes([byte]))
    assert buffer.take() == "häh"
    assert buffer.take() == ""


def test_long_output_is_cut_in_the_middle() -> None:
    buffer = OutputBuffer()
    buffer.feed(b"a" * 20_000 + b"b" * 20_000)
    assert buffer.take() == "a" * 15_000 + TRUNCATION_NOTICE + "b" * 15_000


@pytest.mark.parametrize(("size", "is_cut"), [(0, False), (30_000, False), (30_001, True), (1_000_000, True)])
def test_buffer_knows_whether_output_was_truncated(size: int, is_cut: bool) -> None:
    buffer = OutputBuffer()
    buffer.feed(b"a" * size)
    buffer.take()
    assert buffer.was_cut is is_cut
    buffer.take()
    assert not buffer.was_cut


def test_hidden_output_is_not_cut() -> None:
    buffer = OutputBuffer()
    buffer.feed(b"a" * 40_000)
    assert buffer.take(whole=True) == "a" * 40_000


@pytest.mark.parametrize("piece", [1, 7, 100, 1000])
def test_memory_keeps_head_and_tail(piece: int) -> None:
    buffer = OutputBuffer(kept_bytes=10)
    data = b"HEADhead..." + b"x" * 500 + b"...tailTAIL"
    for at in range(0, len(data), piece):
        buffer.feed(data[at : at + piece])
    text = buffer.take()
    assert text.startswith("HEADhead..")
    assert TRUNCATION_NOTICE in text
    assert text.endswith("..tailTAIL")
    assert len(text) <= 30 + len(TRUNCATION_NOTICE)


def test_short_output_is_complete() -> None:
    buffer = OutputBuffer(kept_bytes=10)
    buffer.feed(b"0123456789")
    buffer.feed(b"abcdefghij")
    assert buffer.take() == "0123456789abcdefghij"
