"""Output for terminals with graphics, and the handling of their replies."""

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
from tui.terminal_io.escapes import graphics
from tui.terminal_io.graphics import terminal_picture
from tui.terminal_io.graphics.graphics_terminal import GraphicsTerminal, cell_size
from tui.terminal_io.graphics.kitty import (
    PICTURE_IDS,
    PLACEHOLDER,
    QUERY,
    QUERY_REPLY,
    PictureIds,
    deletion,
    diacritics,
    placeholders,
    transmission,
)
from tui.terminal_io.graphics.picture_cells import Pixels
from tui.terminal_io.graphics.terminal_picture import KittyPicture, PictureRequest, scaled, sixels
from tui.terminal_io.sanitizer import sanitize

KITTY = ("\x1bP>|kitty(0.42.0)\x1b\\", QUERY_REPLY)
SIXEL = ("\x1b[6;20;10t", "\x1b[?62;4;22c")


def terminal(setting: str = "auto", *answers: str, **environ: str) -> GraphicsTerminal:
    found = GraphicsTerminal(setting, environ, lambda _: None)
    for answer in answers:
        found.handle_reply(answer)
    return found


@pytest.mark.parametrize(
    ("setting", "answers", "environ", "way"),
    [
        ("auto", (), {}, "blocks"),
        ("auto", KITTY, {}, "kitty"),
        ("auto", KITTY[::-1], {}, "kitty"),
        ("auto", ("\x1bP>|ghostty 1.1.3\x1b\\", QUERY_REPLY), {}, "kitty"),
        ("auto", ("\x1bP>|kitty(0.26.5)\x1b\\", QUERY_REPLY), {"TERM": "xterm-kitty"}, "blocks"),
        ("auto", ("\x1bP>|kitty(0.28.0)\x1b\\", QUERY_REPLY), {}, "kitty"),
        ("auto", ("\x1bP>|kitty(1.2.3)\x1b\\", QUERY_REPLY), {}, "kitty"),
        ("auto", KITTY[1:], {"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}, "blocks"),
        ("auto", KITTY[1:], {}, "blocks"),
        ("auto", ("\x1bP>|WezTerm 20240203\x1b\\", QUERY_REPLY, *SIXEL), {}, "sixel"),
        ("kitty", ("\x1bP>|WezTerm 20240203\x1b\\", QUERY_REPLY, *SIXEL), {}, "kitty"),
        ("kitty", KITTY[:1], {}, "blocks"),
        ("auto", KITTY[:1] + SIXEL, {}, "sixel"),
        ("auto", SIXEL[1:], {}, "blocks"),
        ("auto", ("\x1b[6;2000;1t", SIXEL[1]), {}, "blocks"),
        ("auto", ("\x1b[6;0;0t", SIXEL[1]), {}, "blocks"),
        ("auto", (SIXEL[0], "\x1b[?1;2c"), {}, "blocks"),
        ("auto", (SIXEL[0], "\x1b[?64;14;40c"), {}, "blocks"),
        ("sixel", KITTY + SIXEL, {}, "sixel"),
        ("auto", ("\x1bP>|iTerm2 3.5.2\x1b\\",), {}, "iterm2"),
        ("auto", ("\x1bP>|iTerm2 3.5.2\x1b\\", *SIXEL), {}, "iterm2"),
        ("sixel", ("\x1bP>|iTerm2 3.5.2\x1b\\", *SIXEL), {}, "sixel"),
        ("iterm2", ("\x1bP>|WezTerm 20240203\x1b\\", *SIXEL), {}, "iterm2"),
        ("iterm2", KITTY, {}, "blocks"),
        ("auto", (), {"TERM_PROGRAM": "iTerm.app", "LC_TERMINAL": "iTerm2"}, "blocks"),
        ("blocks", KITTY + SIXEL, {}, "blocks"),
    ],
)
def test_method_follows_terminal_replies(
    setting: str, answers: tuple[str, ...], environ: dict[str, str], way: str
) -> None:
    assert terminal(setting, *answers, **environ).method == way


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
def test_cell_size_falls_back_to_system(
    pixels: tuple[int, int], answers: tuple[str, ...], cell: tuple[int, int]
) -> None:
    ours, theirs = os.openpty()
    with open(ours, "rb"), open(theirs) as stream:
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 48, 160, *pixels))
        it = GraphicsTerminal("auto", {}, lambda _: None, lambda: cell_size(stream))
        it.query()
        for answer in (*answers, SIXEL[1]):
            it.handle_reply(answer)
        assert it.cell == cell
        assert it.method == ("sixel" if all(cell) else "blocks")
        changes: list[tuple[int, int]] = []
        it.on_change = lambda: changes.append(it.cell)
        it.measure()
        assert not changes, "what the terminal said stands until the window is another"
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 48, 160, 160 * 12, 48 * 24))
        it.measure()
        assert changes == [(12, 24)], "letters have another size"
    assert cell_size(stream) == (0, 0) == cell_size(None)


@given(st.text(max_size=40))
def test_invalid_replies_change_nothing(noise: str) -> None:
    found = terminal("auto", noise, "\x1b_Gi=31;" + noise + "\x1b\\", "\x1bP>|" + noise + "\x1b\\")
    assert found.method == "blocks"
    assert found.cell == (0, 0)


@pytest.mark.parametrize("inside", ["TMUX", "STY"])
def test_multiplexer_is_not_queried(inside: str) -> None:
    written: list[str] = []
    GraphicsTerminal("auto", {inside: "1", "TERM": "xterm-kitty"}, written.append).query()
    GraphicsTerminal("blocks", {}, written.append).query()
    assert written == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("VTE(7600)", True), ("VTE(6200)", False), ("WezTerm 20240203", True), ("foot(1.20.1)", True)),
        *(("XTerm(390)", False), ("", False), ("VTE(x)", False)),
    ],
)
def test_sextants_are_used_where_the_terminal_draws_them_itself(name: str, expected: bool) -> None:
    terminal = GraphicsTerminal("auto", {}, lambda _: None)
    changes: list[bool] = []
    terminal.on_change = lambda: changes.append(terminal.draws_sextants)
    terminal.handle_reply(f"\x1bP>|{name}\x1b\\")
    assert terminal.draws_sextants is expected
    assert changes == [True] * expected
    assert not GraphicsTerminal("blocks", {}, lambda _: None).draws_sextants


def test_inside_tmux_kitty_gets_its_commands_one_by_one() -> None:
    written: list[str] = []
    terminal = GraphicsTerminal("auto", {"TMUX": "1"}, written.append)
    changes: list[str] = []
    terminal.on_change = lambda: changes.append(terminal.method)
    for name in ("", "iTerm2 3.5.2", "kitty(0.42.0)", "kitty(0.42.0)", "xterm(390)"):
        terminal.name_outer_terminal(name)
    assert changes == ["kitty", "blocks"]
    terminal.name_outer_terminal("ghostty 1.2.0")
    asyncio.run(asyncio.wait_for(terminal.send(graphics("a=T,m=1", "AA") + graphics("m=0", "BB"), 7), 0.5))
    terminal.delete(7)
    asyncio.run(asyncio.wait_for(terminal.wait_until_read(), 0.5))
    command = "\x1bPtmux;\x1b\x1b_G{}\x1b\x1b\\\x1b\\"
    assert written == [command.format("a=T,m=1;AA") + command.format("m=0;BB"), command.format("a=d,d=I,i=7,q=2")]
    written.clear()
    asyncio.run(terminal.send(graphics("m=1", "A" * 4096) * 9, 8))
    assert [one.count("Ptmux;") for one in written] == [4, 4, 1]


def test_placeholders_encode_row_column_and_id() -> None:
    assert diacritics()[: len(MARKS)] == "".join(MARKS)
    assert len(set(diacritics())) == 297
    cells = placeholders(80, 30, 7)
    assert [len(row) for row in cells] == [80] * 30
    assert cells[3][5] == PLACEHOLDER + MARKS[3] + MARKS[5] + MARKS[7]
    line = Strip([Segment("".join(cells[3]))])
    assert line.cell_length == 80
    assert line.crop(40, 42).text == cells[3][40] + cells[3][41]


def test_picture_is_sent_in_chunks() -> None:
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
def test_sixels_decode_to_the_picture(
    width: int, height: int, colours: int, most: tuple[int, int], by: random.Random
) -> None:
    """Sent in chunks; the protocol rounds some colours, and many colours share entries."""
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


def test_scaled_part_fills_its_cells() -> None:
    image = Image.new("RGB", (1280, 720), (200, 0, 0))
    image.paste((0, 0, 200), (640, 0, 1280, 720))
    pixels = Pixels(1280, 720, image.tobytes())
    right = PictureRequest(pixels, (0.5, 0.0, 1.0, 1.0), 40, 20, (10, 20))
    assert scaled(right, exact=True)[:2] == (400, 400)
    shown = scaled(right, exact=True).rgb
    assert min(shown[2::3]) >= 192
    assert max(shown[::3]) <= 8, "nothing of what is left of it"
    huge = scaled(PictureRequest(pixels, (0, 0, 1, 1), 290, 80, (60, 120)), exact=False)
    assert huge.width * huge.height <= 1280 * 800
    assert scaled(PictureRequest(Pixels(1, 1, b"abc"), (0, 0, 1, 1), 3, 2), exact=True)[:2] == (24, 32)


@pytest.mark.parametrize("cell", [(8, 17), (10, 20), (7, 20), (12, 16)])
@pytest.mark.parametrize("room", [(78, 20), (158, 40), (52, 19)])
def test_terminal_drawn_page_is_not_stretched(cell: tuple[int, int], room: tuple[int, int]) -> None:
    whole = View.whole(1280, 720, *room, cell=cell)
    assert whole.columns * cell[0] / (whole.rows * cell[1]) == pytest.approx(1280 / 720, rel=0.06)
    near = View.near(1280, 720, *room, (640, 360), cell=cell)
    assert near.columns * cell[0] / (near.rows * cell[1]) == pytest.approx(near.part.width / near.part.height, rel=0.06)


# -- content of cells --------------------------------------------------------------------------------------------------


@pytest.fixture
def no_ink() -> object:
    before, PICTURE_IDS.style = PICTURE_IDS.style, None
    yield
    PICTURE_IDS.style = before


def rendered(segment: Segment) -> str:
    strip_filter.install()
    return Strip([segment]).render(Console(force_terminal=True, color_system="truecolor"))


def test_tint_does_not_change_placeholder_colour(no_ink: object) -> None:
    PICTURE_IDS.choose(0x123456, of_256=False)
    assert PICTURE_IDS.full_id(9) == 0x9123456
    tinted = rendered(Segment(placeholders(2, 1, 9)[0][1], Style(color="#999999", bgcolor="#101010")))
    assert "38;2;18;52;86" in tinted
    assert PLACEHOLDER in tinted


def test_foreign_placeholder_is_replaced(no_ink: object) -> None:
    assert PLACEHOLDER not in rendered(Segment(f"a{PLACEHOLDER}b"))
    assert PLACEHOLDER not in sanitize(f"echo {PLACEHOLDER}\u0305\u0305")
    assert cell_len(PLACEHOLDER) == 1


def test_picture_ids_use_256_colours(no_ink: object) -> None:
    ink = PictureIds()
    ink.choose(200, of_256=True)
    assert ink.full_id(3) == 3 << 24 | 200
    assert ink.style is not None
    assert ink.style.color is not None
    assert ink.style.color.number == 200


# -- one pane's picture -----------------------------------------------------------------------------------------------


class Listening:
    """A terminal that reads output on request, and the sender's tasks."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.terminal = GraphicsTerminal("auto", {}, self.written.append)
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


def wanted(shade: int, columns: int = 4) -> PictureRequest:
    return PictureRequest(Pixels(8, 8, bytes([shade]) * 192), (0, 0, 1, 1), columns, 2)


async def test_next_picture_waits_for_reply_and_skips_outdated_ones() -> None:
    it = Listening()
    assert not it.picture.request(wanted(1))
    await it.until(1)
    for shade in range(2, 40):
        assert it.picture.request(wanted(shade)), "the one before stays until then"
        await asyncio.sleep(0.001)
    assert it.sent == 1
    last = wanted(39)
    it.picture.request(last)
    it.terminal.handle_reply(QUERY_REPLY)
    await it.until(2)
    it.terminal.handle_reply(QUERY_REPLY)
    await asyncio.wait(it.tasks)
    assert it.sent == 2
    assert len(it.terminal.picture_ids) == 2
    it.picture.clear()
    assert not it.terminal.picture_ids
    assert it.written.count(deletion(PICTURE_IDS.full_id(1))) == 1


async def test_silent_terminal_gets_next_picture_after_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.terminal_io.graphics.graphics_terminal.READ_TIMEOUT_S", 0.01)
    it = Listening()
    for shade in range(5):
        it.picture.request(wanted(shade))
        await it.until(shade + 1)
        await asyncio.wait(it.tasks)
        assert len(it.terminal.picture_ids) <= 2
    assert all(text.endswith(QUERY) for text in it.written if "a=T" in text)


async def test_cleared_picture_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Listening()
    it.picture.request(wanted(1))
    it.picture.clear()
    await asyncio.wait(it.tasks)
    assert it.written == []


async def test_pictures_are_sent_at_limited_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    it = Listening()
    it.picture.request(wanted(1))
    await it.until(1)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    it.terminal.handle_reply(QUERY_REPLY)
    await asyncio.wait(it.tasks)
    assert waited == [pytest.approx(len(it.written[0].removesuffix(QUERY)) / terminal_picture.BYTES_PER_S)]
