"""The emulator: any bytes become cells."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from core.terminal.control_filter import ControlFilter
from tui.terminal_io.emulator import SCROLLBACK_LINES, Emulator, load_ghostty
from tui.terminal_io.pyte_emulator import PyteEmulator

KINDS: list[type[Emulator]] = [PyteEmulator]
if find_spec("pyghostty") is not None:
    from tui.terminal_io.ghostty_emulator import GhosttyEmulator

    KINDS.append(GhosttyEmulator)

both = pytest.mark.parametrize("kind", KINDS)


def emulate(data: bytes, columns: int = 40, lines: int = 6, kind: type[Emulator] = PyteEmulator) -> Emulator:
    emulator = kind(columns, lines)
    emulator.write(data)
    work_off(emulator)
    return emulator


def work_off(emulator: Emulator) -> None:
    while emulator.pending:
        emulator.work()


def text(emulator: Emulator) -> list[str]:
    return ["".join(run.text for run in emulator.line(y)) for y in range(emulator.height)]


def test_libghostty_works_if_a_wheel_exists() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    (wanted,) = [Requirement(line) for line in project["dependencies"] if line.startswith("pyghostty")]
    assert wanted.marker is not None
    if not wanted.marker.evaluate():
        pytest.skip("libghostty has no wheel for this machine")
    assert load_ghostty() is not None, "make setup installs it; until then only pyte's emulator is tested"


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
@both
def test_output_is_emulated(kind: type[Emulator], data: bytes, lines: list[str]) -> None:
    assert text(emulate(data, kind=kind)) == lines


def test_bytes_may_be_cut_anywhere() -> None:
    data = b"a\x1bP+q\x1b\\b\x1b[1;31mc\x1b[0m\xe4\xb8\xadd\x1b]8;;http://x\x1b\\e\x1b[?1049hf\x1b[?1049lg"
    whole = ControlFilter().feed(data)
    bitwise = ControlFilter()
    assert "".join(bitwise.feed(bytes([byte])) for byte in data) == whole


def test_unfinished_string_ends_at_terminator() -> None:
    controls = ControlFilter()
    assert controls.feed(b"a\x1b]52;c;" + b"x" * 20_000) == "a"
    assert controls.feed(b"y" * 20_000) == ""
    assert controls.feed(b"\x07b") == "b"


@both
def test_alternate_screen_keeps_main_screen(kind: type[Emulator]) -> None:
    emulator = emulate(b"before\r\n\x1b[?1049h\x1b[Hfull screen", kind=kind)
    assert text(emulator)[0] == "full screen"
    emulator.write(b"\r\n" * 50 + b"\x1b[?1049lafter")
    work_off(emulator)
    assert text(emulator) == ["before", "after"]


@both
def test_styles_are_kept_as_runs(kind: type[Emulator]) -> None:
    runs = emulate(b"\x1b[1;31mred\x1b[0m plain \x1b[48;5;21mblue", kind=kind).line(0)
    assert [(run.text, run.style.fg, run.style.bg, run.style.bold) for run in runs] == [
        ("red", "red", "default", True),
        (" plain ", "default", "default", False),
        ("blue", "default", "0000ff", False),
    ]


def test_scrollback_is_bounded() -> None:
    emulator = PyteEmulator(40, 6)
    emulator.write(b"".join(b"line %d\r\n" % n for n in range(SCROLLBACK_LINES + 500)))
    work_off(emulator)
    shown = text(emulator)
    assert len(emulator.screen.scrollback) == SCROLLBACK_LINES
    assert shown[-2] == f"line {SCROLLBACK_LINES + 499}"


@both
def test_scroll_region_adds_no_scrollback(kind: type[Emulator]) -> None:
    emulator = emulate(b"top\x1b[2;4r\x1b[4;1H" + b"x\r\n" * 20, kind=kind)
    assert emulator.height <= 6
    assert text(emulator)[0] == "top"


@both
def test_resize_wraps_output_again(kind: type[Emulator]) -> None:
    emulator = emulate(b"0123456789abcdef\r\nend", columns=40, kind=kind)
    emulator.resize(10, 6)
    work_off(emulator)
    assert text(emulator) == ["0123456789", "abcdef", "end"]


def test_work_stays_within_budget() -> None:
    now = iter(n * 0.004 for n in range(10_000))
    emulator = PyteEmulator(80, 24, clock=lambda: next(now))
    emulator.write(b"x" * 100_000)
    emulator.work(0.010)
    assert emulator.pending
    assert 1024 <= 100_000 - emulator._backlog_size <= 4 * 1024


def test_flood_is_skipped_to_newest() -> None:
    emulator = PyteEmulator(80, 24)
    for n in range(200):
        emulator.write(b"".join(b"%s %d.%d\r\n" % (b"x" * 60, n, m) for m in range(100)))
    assert emulator._backlog_size <= emulator.MAX_BACKLOG_BYTES + 10_000
    work_off(emulator)
    shown = text(emulator)
    assert shown[-2].endswith(" 199.99")
    assert any("came too fast to show" in line for line in shown)


@both
def test_combining_marks_are_limited(kind: type[Emulator]) -> None:
    emulator = emulate("e\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301".encode() * 3, kind=kind)
    assert max(len(run.text) for run in emulator.line(0)) <= 3 * 8


@both
@pytest.mark.parametrize("seed", range(40))
def test_random_bytes_are_survived(kind: type[Emulator], seed: int) -> None:
    chance = random.Random(seed)
    finals = "@ABCDEFGHJKLMPXacdefghlmnr`su#()%78"
    for _ in range(10):
        emulator = kind(30, 6)
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


@both
def test_queries_are_answered_once(kind: type[Emulator]) -> None:
    emulator = emulate(b"abc\x1b[6n\x1b[5n\x1b[c", kind=kind)
    replies = emulator.take_replies()
    assert replies.startswith(b"\x1b[1;4R\x1b[0n\x1b[?")
    assert emulator.take_replies() == b""
    emulator.resize(20, 5)
    work_off(emulator)
    assert emulator.take_replies() == b""


@both
@pytest.mark.parametrize(
    "asks",
    [
        b"\x05",
        b"\x1b]2;rm -rf ~\r\x07\x1b[21t\x1b[20t\x1b[18t",
        b"\x1b]52;c;cm0=\x07\x1b]52;c;?\x07\x1b]5522;type=read:id=rm;Lg==\x1b\\",
        b"\x1b]4;1;?\x07\x1b]10;?\x07\x1b]11;?\x1b\\\x1b]21;foreground=?\x07",
        b"\x1bP$qm\x1b\\\x1bP$qrm\r\x1b\\\x1bP+q544e;726d\x1b\\",
        b"\x1b[?u\x1b[>1u\x1b[?u\x1b[?2048$p\x1b[?2048h\x1b[?996n",
        b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[1;1;1;1;5;5*y\x1b[2$w",
    ],
)
def test_unsafe_queries_are_not_answered(kind: type[Emulator], asks: bytes) -> None:
    assert emulate(asks, kind=kind).take_replies() == b""


@both
def test_replies_are_bounded(kind: type[Emulator]) -> None:
    assert len(emulate(b"\x1b[6n" * 20_000, kind=kind).take_replies()) <= 4096


@both
def test_cursor_and_modes_are_reported(kind: type[Emulator]) -> None:
    emulator = emulate(b"one\r\ntwo", kind=kind)
    assert (emulator.cursor, emulator.application_keys, emulator.brackets_pastes) == ((1, 3), False, False)
    emulator.write(b"\x1b[?1h\x1b[?2004h\x1b[?25l")
    work_off(emulator)
    assert (emulator.cursor, emulator.application_keys, emulator.brackets_pastes) == (None, True, True)


@both
def test_resize_keeps_alternate_screen(kind: type[Emulator]) -> None:
    emulator = emulate(b"main\x1b[?1049h\x1b[Hfull", kind=kind)
    emulator.resize(30, 5)
    work_off(emulator)
    assert emulator.alternate
    assert text(emulator)[0] == "full"


@both
def test_kitty_image_files_are_not_read(kind: type[Emulator]) -> None:
    emulator = emulate(b"\x1b_Ga=T,t=f,f=100;L2V0Yy9wYXNzd2Q=\x1b\\shown", kind=kind)
    assert (text(emulator), emulator.take_replies()) == (["shown"], b"")
