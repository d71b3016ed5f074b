"""The emulator: bytes to cells, whatever the bytes are."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tui.vt import Emulator
from tui.vt.controls import Controls
from tui.vt.emulator import MAX_BACKLOG_BYTES, SCROLLBACK_LINES


def emulate(data: bytes, columns: int = 40, lines: int = 6) -> Emulator:
    emulator = Emulator(columns, lines)
    emulator.write(data)
    work_off(emulator)
    return emulator


def work_off(emulator: Emulator) -> None:
    while emulator.pending:
        emulator.work()


def text(emulator: Emulator) -> list[str]:
    return ["".join(run.text for run in emulator.line(y)) for y in range(emulator.height)]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\r\ntwo", ["one", "two"]),
        (b"10%\r100%", ["100%"]),
        (b"a\x1b[2Cb", ["a  b"]),
        (b"\x1bP+q544e\x1b\\shown", ["shown"]),
        (b"\x1b_Gf=100;AAAA\x1b\\shown", ["shown"]),
        (b"\x1b]52;c;aGk=\x07shown", ["shown"]),
        (b"\x1b]0;title\x1b\\shown", ["shown"]),
        (b"\x1b[4:3mcurly\x1b[0m", ["curly"]),
        (b"\x1b[>4;2m\x1b[?4mvim", ["vim"]),
        (b"\x1b[38:2::255:0:0mred", ["red"]),
        (b"=\x1b[9b", ["=" * 10]),
        (b"\x1b[9K\x1b[9Jkept", ["kept"]),
        (b"\x9b31mx", ["�31mx"]),
        (b"\xe4\xb8\xad\xe6\x96\x87 wide", ["中文 wide"]),
        (b"\xff\xfe", ["��"]),
    ],
)
def test_output_is_shown_as_a_terminal_shows_it(data: bytes, lines: list[str]) -> None:
    assert text(emulate(data)) == lines


def test_it_does_not_matter_how_the_bytes_are_cut() -> None:
    data = b"a\x1bP+q\x1b\\b\x1b[1;31mc\x1b[0m\xe4\xb8\xadd\x1b]8;;http://x\x1b\\e\x1b[?1049hf\x1b[?1049lg"
    whole = Controls().feed(data)
    bitwise = Controls()
    assert "".join(bitwise.feed(bytes([byte])) for byte in data) == whole


def test_an_unfinished_string_swallows_no_more_than_itself() -> None:
    controls = Controls()
    assert controls.feed(b"a\x1b]52;c;" + b"x" * 20_000) == "a"
    assert controls.feed(b"y" * 20_000) == ""
    assert controls.feed(b"\x07b") == "b"


def test_the_alternate_screen_leaves_the_main_one_as_it_was() -> None:
    emulator = emulate(b"before\r\n\x1b[?1049h\x1b[Hfull screen")
    assert text(emulator)[0] == "full screen"
    emulator.write(b"\r\n" * 50 + b"\x1b[?1049lafter")
    work_off(emulator)
    assert text(emulator) == ["before", "after"]


def test_colours_and_attributes_are_kept_as_runs() -> None:
    runs = emulate(b"\x1b[1;31mred\x1b[0m plain \x1b[48;5;21mblue").line(0)
    assert [(run.text, run.style.fg, run.style.bg, run.style.bold) for run in runs] == [
        ("red", "red", "default", True),
        (" plain ", "default", "default", False),
        ("blue", "default", "0000ff", False),
    ]


def test_lines_that_leave_the_top_go_into_a_bounded_scrollback() -> None:
    emulator = emulate(b"".join(b"line %d\r\n" % n for n in range(SCROLLBACK_LINES + 500)))
    shown = text(emulator)
    assert len(emulator.screen.scrollback) == SCROLLBACK_LINES
    assert shown[-2] == f"line {SCROLLBACK_LINES + 499}"


def test_a_scroll_region_writes_no_history() -> None:
    emulator = emulate(b"top\x1b[2;4r\x1b[4;1H" + b"x\r\n" * 20)
    assert len(emulator.screen.scrollback) == 0
    assert text(emulator)[0] == "top"


def test_a_new_width_lays_the_output_out_anew() -> None:
    emulator = emulate(b"0123456789abcdef\r\nend", columns=40)
    emulator.resize(10, 6)
    work_off(emulator)
    assert text(emulator) == ["0123456789", "abcdef", "end"]


def test_a_frame_costs_no_more_than_its_budget() -> None:
    now = iter(n * 0.004 for n in range(10_000))
    emulator = Emulator(80, 24, clock=lambda: next(now))
    emulator.write(b"x" * 100_000)
    emulator.work(0.010)
    assert emulator.pending
    assert 1024 <= 100_000 - emulator._backlog_size <= 4 * 1024


def test_what_comes_too_fast_is_skipped_to_the_newest_and_said() -> None:
    emulator = Emulator(80, 24)
    for n in range(200):
        emulator.write(b"".join(b"%s %d.%d\r\n" % (b"x" * 60, n, m) for m in range(100)))
    assert emulator._backlog_size <= MAX_BACKLOG_BYTES + 10_000
    work_off(emulator)
    shown = text(emulator)
    assert shown[-2].endswith(" 199.99")
    assert any("came too fast to show" in line for line in shown)


def test_a_flood_of_marks_stays_in_its_cell() -> None:
    emulator = emulate("e\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301".encode() * 3)
    assert max(len(run.text) for run in emulator.line(0)) <= 3 * 8


@pytest.mark.parametrize("seed", range(40))
def test_no_bytes_break_it(seed: int) -> None:
    chance = random.Random(seed)
    finals = "@ABCDEFGHJKLMPXacdefghlmnr`su#()%78"
    for _ in range(10):
        emulator = Emulator(30, 6)
        pieces: list[Callable[[], bytes]] = [
            lambda: b"\x1b[",
            lambda: b"\x1b",
            lambda: b"?",
            lambda: b";",
            lambda: str(chance.randrange(40)).encode(),
            lambda: chance.choice(finals).encode(),
            lambda: b"\r\n",
            lambda: b"\x1b[?1049h",
            lambda: b"\x1b[2;4r",
            lambda: b"\x1b]0;t\x07",
            lambda: bytes([chance.randrange(256)]),
            "中\u0301".encode,
        ]
        emulator.write(b"".join(bytes(chance.choice(pieces)()) for _ in range(300)))
        work_off(emulator)
        assert all("\x1b" not in line for line in text(emulator)), f"seed {seed}"
        emulator.resize(7, 3)
        work_off(emulator)
        text(emulator)
