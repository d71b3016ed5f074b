"""What is written to terminals that draw pictures, and what is believed of what they say."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import os
import random
import struct
import termios
import zlib
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tests.journeys.graphic_terminal import MARKS, decoded_sixels
from tui.browser.page_cells import View
from tui.terminal_io import strip_filter
from tui.terminal_io.graphics import terminal_picture
from tui.terminal_io.graphics.graphics_support import Terminal, cell_of
from tui.terminal_io.graphics.kitty import (
    ANSWER,
    ASK,
    INK,
    PLACEHOLDER,
    Ink,
    marks,
    placeholders,
    removal,
    transmission,
)
from tui.terminal_io.graphics.picture_cells import Pixels
from tui.terminal_io.graphics.scaled_picture import Wanted, scaled
from tui.terminal_io.graphics.sixel import sixels
from tui.terminal_io.graphics.terminal_picture import KittyPicture
from tui.terminal_io.sanitizer import sanitize

KITTY = ("\x1bP>|kitty(0.42.0)\x1b\\", ANSWER)
SIXEL = ("\x1b[6;20;10t", "\x1b[?62;4;22c")


def terminal(setting: str = "auto", *answers: str, **environ: str) -> Terminal:
    found = Terminal(setting, environ, lambda _: None)
    for answer in answers:
        found.hear(answer)
    return found


@pytest.mark.parametrize(
    ("setting", "answers", "environ", "way"),
    [
        ("auto", (), {}, "blocks"),
        ("auto", KITTY, {}, "kitty"),
        ("auto", KITTY[::-1], {}, "kitty"),
        ("auto", ("\x1bP>|ghostty 1.1.3\x1b\\", ANSWER), {}, "kitty"),
        ("auto", ("\x1bP>|kitty(0.26.5)\x1b\\", ANSWER), {"TERM": "xterm-kitty"}, "blocks"),
        ("auto", ("\x1bP>|kitty(0.28.0)\x1b\\", ANSWER), {}, "kitty"),
        ("auto", ("\x1bP>|kitty(1.2.3)\x1b\\", ANSWER), {}, "kitty"),
        ("auto", KITTY[1:], {"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}, "blocks"),
        ("auto", KITTY[1:], {}, "blocks"),
        ("auto", ("\x1bP>|WezTerm 20240203\x1b\\", ANSWER, *SIXEL), {}, "sixel"),
        ("kitty", ("\x1bP>|WezTerm 20240203\x1b\\", ANSWER, *SIXEL), {}, "kitty"),
        ("kitty", KITTY[:1], {}, "blocks"),
        ("auto", KITTY[:1] + SIXEL, {}, "sixel"),
        ("auto", SIXEL[1:], {}, "blocks"),
        ("auto", ("\x1b[6;2000;1t", SIXEL[1]), {}, "blocks"),
        ("auto", ("\x1b[6;0;0t", SIXEL[1]), {}, "blocks"),
        ("auto", (SIXEL[0], "\x1b[?1;2c"), {}, "blocks"),
        ("auto", (SIXEL[0], "\x1b[?64;14;40c"), {}, "blocks"),
        ("sixel", KITTY + SIXEL, {}, "sixel"),
        ("blocks", KITTY + SIXEL, {}, "blocks"),
    ],
)
def test_a_terminal_is_taken_at_its_word_and_at_no_other(
    setting: str, answers: tuple[str, ...], environ: dict[str, str], way: str
) -> None:
    assert terminal(setting, *answers, **environ).way == way


@pytest.mark.parametrize(
    ("pixels", "answers", "cell"),
    [
        ((1284, 820), (), (8, 17)),  # xterm, with the border that it counts among them
        ((1280, 816), SIXEL[:1], (10, 20)),
        ((0, 0), SIXEL[:1], (10, 20)),
        ((65535, 65535), (), (0, 0)),
        ((160, 48), (), (0, 0)),
    ],
)
def test_the_system_knows_how_large_cells_are_where_the_terminal_does_not_say(
    pixels: tuple[int, int], answers: tuple[str, ...], cell: tuple[int, int]
) -> None:
    ours, theirs = os.openpty()
    with open(ours, "rb"), open(theirs) as stream:
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 48, 160, *pixels))
        it = Terminal("auto", {}, lambda _: None, cell_of(stream))
        it.ask()
        for answer in (*answers, SIXEL[1]):
            it.hear(answer)
        assert it.cell == cell
        assert it.way == ("sixel" if all(cell) else "blocks")
        changes: list[tuple[int, int]] = []
        it.on_change = lambda: changes.append(it.cell)
        it.measure()
        assert not changes, "what the terminal said stands until the window is another"
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 48, 160, 160 * 12, 48 * 24))
        it.measure()
        assert changes == [(12, 24)], "letters have another size"
    assert cell_of(stream)() == (0, 0) == cell_of(None)()


@given(st.text(max_size=40))
def test_nonsense_is_no_answer(noise: str) -> None:
    heard = terminal("auto", noise, "\x1b_Gi=31;" + noise + "\x1b\\", "\x1bP>|" + noise + "\x1b\\")
    assert heard.way == "blocks"
    assert heard.cell == (0, 0)


@pytest.mark.parametrize("inside", ["TMUX", "STY"])
def test_nothing_is_asked_where_another_program_would_answer(inside: str) -> None:
    written: list[str] = []
    assert not Terminal("auto", {inside: "1", "TERM": "xterm-kitty"}, written.append).ask()
    assert not Terminal("blocks", {}, written.append).ask()
    assert written == []


def test_each_cell_says_its_place_by_the_marks_of_the_protocol() -> None:
    assert marks()[: len(MARKS)] == "".join(MARKS)
    assert len(set(marks())) == 297
    cells = placeholders(80, 30, 7)
    assert [len(row) for row in cells] == [80] * 30
    assert cells[3][5] == PLACEHOLDER + MARKS[3] + MARKS[5] + MARKS[7]
    line = Strip([Segment("".join(cells[3]))])
    assert line.cell_length == 80
    assert line.crop(40, 42).text == cells[3][40] + cells[3][41]


def test_a_picture_is_sent_in_parts_that_come_to_the_whole() -> None:
    noise = random.Random(1).randbytes(60 * 70 * 3)
    written = transmission(Pixels(60, 70, noise), 0x5ABCDEF, 20, 10)
    parts = written.removesuffix("\x1b\\").split("\x1b\\")
    heads, data = zip(*(part.removeprefix("\x1b_G").split(";") for part in parts), strict=True)
    assert heads[0] == "a=T,U=1,q=2,f=24,o=z,i=95145455,s=60,v=70,c=20,r=10,m=1"
    assert [head[-3:] for head in heads] == ["m=1"] * (len(parts) - 1) + ["m=0"]
    assert all(len(part) <= 4096 for part in data)
    assert zlib.decompress(base64.b64decode("".join(data))) == noise


@given(
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(1, 60),
    st.sampled_from([(1000, 1000), (16, 12)]),
    st.randoms(use_true_random=False),
)
def test_sixels_are_the_picture(
    width: int, height: int, colours: int, most: tuple[int, int], by: random.Random
) -> None:
    """In parts that a terminal takes; some colours are rounded by the protocol, or share one where there are many."""
    palette = [bytes(by.randrange(256) for _ in range(3)) for _ in range(min(colours, 40))]
    rgb = b"".join(by.choice(palette) for _ in range(width * height))
    seen = Image.new("RGBA", (width, height))
    for left, top, drawing in sixels(Pixels(width, height, rgb), most):
        tile = decoded_sixels(drawing.removeprefix("\x1bP").removesuffix("\x1b\\"))
        assert tile.width <= most[0]
        assert tile.height <= most[1]
        seen.paste(tile, (left, top))
    assert min(seen.getchannel("A").tobytes()) == 255, "nothing shows through"
    if len(set(palette)) == 1:
        assert all(abs(a - b) <= 3 for a, b in zip(seen.convert("RGB").tobytes(), rgb, strict=True))


def test_the_part_that_is_shown_has_the_size_of_its_cells() -> None:
    image = Image.new("RGB", (1280, 720), (200, 0, 0))
    image.paste((0, 0, 200), (640, 0, 1280, 720))
    pixels = Pixels(1280, 720, image.tobytes())
    right = Wanted(pixels, (0.5, 0.0, 1.0, 1.0), 40, 20, (10, 20))
    assert scaled(right, exact=True)[:2] == (400, 400)
    shown = scaled(right, exact=True).rgb
    assert min(shown[2::3]) >= 192
    assert max(shown[::3]) <= 8, "nothing of what is left of it"
    huge = scaled(Wanted(pixels, (0, 0, 1, 1), 290, 80, (60, 120)), exact=False)
    assert huge.width * huge.height <= 1280 * 800
    assert scaled(Wanted(Pixels(1, 1, b"abc"), (0, 0, 1, 1), 3, 2), exact=True)[:2] == (24, 32)


@pytest.mark.parametrize("cell", [(8, 17), (10, 20), (7, 20), (12, 16)])
@pytest.mark.parametrize("room", [(78, 20), (158, 40), (52, 19)])
def test_a_page_that_the_terminal_draws_is_not_stretched(cell: tuple[int, int], room: tuple[int, int]) -> None:
    whole = View.whole(1280, 720, *room, cell=cell)
    assert whole.columns * cell[0] / (whole.rows * cell[1]) == pytest.approx(1280 / 720, rel=0.06)
    near = View.near(1280, 720, *room, (640, 360), cell=cell)
    assert near.columns * cell[0] / (near.rows * cell[1]) == pytest.approx(near.part.width / near.part.height, rel=0.06)


# -- what stands in the cells -----------------------------------------------------------------------------------------


@pytest.fixture
def no_ink() -> object:
    before, INK.style = INK.style, None
    yield
    INK.style = before


def rendered(segment: Segment) -> str:
    strip_filter.install()
    return Strip([segment]).render(Console(force_terminal=True, color_system="truecolor"))


def test_a_tint_does_not_change_which_picture_a_cell_shows(no_ink: object) -> None:
    INK.take(0x123456, of_256=False)
    assert INK.number(9) == 0x9123456
    tinted = rendered(Segment(placeholders(2, 1, 9)[0][1], Style(color="#999999", bgcolor="#101010")))
    assert "38;2;18;52;86" in tinted
    assert PLACEHOLDER in tinted


def test_a_placeholder_of_others_stands_for_nothing(no_ink: object) -> None:
    assert PLACEHOLDER not in rendered(Segment(f"a{PLACEHOLDER}b"))
    assert PLACEHOLDER not in sanitize(f"echo {PLACEHOLDER}\u0305\u0305")
    assert cell_len(PLACEHOLDER) == 1


def test_where_there_are_256_colours_numbers_end_in_one_of_them(no_ink: object) -> None:
    ink = Ink()
    ink.take(200, of_256=True)
    assert ink.number(3) == 3 << 24 | 200
    assert ink.style is not None
    assert ink.style.color is not None
    assert ink.style.color.number == 200


# -- one pane's picture -----------------------------------------------------------------------------------------------


class Listening:
    """A terminal that takes what is sent when it is told to, and the tasks of whoever sends."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.terminal = Terminal("auto", {}, self.written.append)
        self.tasks: list[asyncio.Task[None]] = []
        self.picture = KittyPicture(self.terminal, lambda: None, self._spawn)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))

    @property
    def sent(self) -> int:
        return sum("a=T" in text for text in self.written)

    async def until(self, pictures: int) -> None:
        async with asyncio.timeout(20):
            while self.sent < pictures:
                await asyncio.sleep(0)


def wanted(shade: int, columns: int = 4) -> Wanted:
    return Wanted(Pixels(8, 8, bytes([shade]) * 192), (0, 0, 1, 1), columns, 2)


async def test_the_next_picture_waits_until_the_one_before_was_taken_and_only_the_last_is_sent() -> None:
    it = Listening()
    assert not it.picture.want(wanted(1))
    await it.until(1)
    for shade in range(2, 40):
        assert it.picture.want(wanted(shade)), "the one before stays until then"
        await asyncio.sleep(0.001)
    assert it.sent == 1
    last = wanted(39)
    it.picture.want(last)
    it.terminal.hear(ANSWER)
    await it.until(2)
    it.terminal.hear(ANSWER)
    await asyncio.wait(it.tasks)
    assert it.sent == 2
    assert len(it.terminal.kept) == 2
    it.picture.clear()
    assert not it.terminal.kept
    assert it.written.count(removal(INK.number(1))) == 1


async def test_a_terminal_that_never_says_that_it_took_one_gets_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.terminal_io.graphics.graphics_support.TAKEN_S", 0.01)
    it = Listening()
    for shade in range(5):
        it.picture.want(wanted(shade))
        await it.until(shade + 1)
        await asyncio.wait(it.tasks)
        assert len(it.terminal.kept) <= 2
    assert all(text.endswith(ASK) for text in it.written if "a=T" in text)


async def test_what_is_too_late_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Listening()
    it.picture.want(wanted(1))
    it.picture.clear()
    await asyncio.wait(it.tasks)
    assert it.written == []


async def test_no_more_is_sent_than_a_connection_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    it = Listening()
    it.picture.want(wanted(1))
    await it.until(1)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    it.terminal.hear(ANSWER)
    await asyncio.wait(it.tasks)
    assert waited == [pytest.approx(len(it.written[0].removesuffix(ASK)) / terminal_picture.BYTES_PER_S)]
