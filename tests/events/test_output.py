"""The text that the model reads of terminal output."""

from __future__ import annotations

import random

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
        (b"lines of\r\r\nDOS\r\r\n", "lines of\nDOS"),
        (b"abc\x08\x08X", "aXc"),
        (b"one\r\ntwo\r\n\x1b[2A\x1b[2Kuno\r\n\x1b[2Kdue\r\n", "uno\ndue"),
        (b"before\r\n\x1b[?1049h\x1b[H\x1b[2Jvim\x1b[?1049lafter\r\n", "before\nafter"),
        (b"before\r\n\x1b[?1049h\x1b[H\x1b[2Jvim", "before\nvim"),
        (b"x" * 300 + b"\r\nspin\rdone\r\n", "x" * 300 + "\ndone"),
        ("日本\rab".encode(), "ab本"),
        ("ok ⚠\ufe0f done\rO".encode(), "Ok ⚠ done"),
        (b"kept\r\n\x1b[H\x1b[2J\x1b[3Jnew\r\n", "kept\nnew"),
        (b"a\x1bEb\x1b[1;1H\x1b[1L!", "!\na\nb"),
        (b"a\r\nb\r\nc\x1b[1;1H\x1b[1M\x1b[3;1Hd", "b\nc\nd"),
        (b"a\x1b[sbc\x1b[uX", "aXc"),
        (b"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n\n\x1b[r\x1b[4;1H!", "1\n\n\n!"),
    ],
)
def test_output_is_read_as_shown_on_a_screen(data: bytes, text: str) -> None:
    assert plain_text(data) == text
    buffer = OutputBuffer()
    for byte in data:
        buffer.feed(bytes([byte]))
    assert buffer.take(whole=True) == text


@pytest.mark.parametrize("part", [b"\x1b]", b"\x1bP", b"\x1b[", b"\r", b"x\r", b"\x1b[K\r", b"\x08", b"\x1b[1;"])
def test_hostile_output_takes_linear_time(part: bytes) -> None:
    with costs_at_most(400):
        plain_text(part * 100_000)


@pytest.mark.parametrize(
    "part", [b"\n\x1b[A", b"x\x1b[2J", b"\x1b[30;120Hx\x1b[2J", b"\x1b[9999@", b"x\x1b[1;1H", b"\x1b[L"]
)
def test_hostile_movements_take_bounded_time(part: bytes) -> None:
    buffer = OutputBuffer()
    with costs_at_most(400):
        for _ in range(100):
            buffer.feed(part * 4000)
        buffer.take()


def test_any_bytes_become_text() -> None:
    chance = random.Random(1)
    parts = [b"\x1b[", b"\x1b]", b"\x1b", b"?", b"1049", b"192", b"96", b";", b"3", b"99999"]
    parts += [bytes([byte]) for byte in b"hlABCDEFGHJKLMPSTXr@sudm78DEMc`\r\n\x08\t\x0b\x0e \xe4\xb8\xad\xcc\x81"]
    for _ in range(300):
        data = b"".join(chance.choices(parts, k=200))
        buffer = OutputBuffer(rows=chance.choice((2, 30)), columns=chance.choice((2, 9, 120)), clock=float)
        buffer.feed(data)
        buffer.resize(chance.choice((2, 30)), chance.choice((2, 120)))
        buffer.last(3)
        buffer.feed(data)
        buffer.take()
        buffer.take()


def test_progress_of_many_lines_is_drawn_while_it_comes() -> None:
    frames = [b"\x1b[3A" + b"".join(b"\x1b[2Kpart %d: %d%%\r\n" % (part, n) for part in range(3)) for n in range(3000)]
    buffer = OutputBuffer(clock=float)
    buffer.feed(b"begin\r\n\r\n\r\n\r\n")
    for frame in frames:
        buffer.feed(frame)
    assert buffer.last(2) == "part 1: 2999%\npart 2: 2999%"
    assert buffer.take() == "begin\npart 0: 2999%\npart 1: 2999%\npart 2: 2999%"
    assert not buffer.was_cut


def test_flood_that_cannot_be_drawn_in_time_is_cut_and_ends_right() -> None:
    now = iter(n * 10.0 for n in range(1000))  # drawing seems to take 10 seconds each time
    buffer = OutputBuffer(clock=lambda: next(now))
    buffer.feed(b"first\r\n")
    for n in range(100):
        buffer.feed(b"%d lines are quite a lot\r%d%%\r\n" % (n, n) * 700)
    text = buffer.take()
    assert buffer.was_cut
    assert text.startswith("first\n0%lines are quite a lot")
    assert TRUNCATION_NOTICE in text
    assert text.endswith("99%lines are quite a lot")


def test_full_screen_is_read_whole_each_time_until_the_next_program() -> None:
    buffer = OutputBuffer()
    buffer.feed(b"$ top\r\n\x1b[?1049h\x1b[2J\x1b[Htop\r\n10%")
    assert buffer.take() == "$ top\ntop\n10%"
    buffer.feed(b"\x1b[2;1H20%")
    assert buffer.take() == "top\n20%"
    buffer.forget_screen()
    buffer.feed(b"killed\r\n")
    assert buffer.take() == "killed"


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
