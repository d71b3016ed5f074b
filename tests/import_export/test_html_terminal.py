"""The terminal of an exported page shows what a terminal would, in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page

from core.import_export import html
from core.terminal import COLUMNS, ROWS
from tests.pages import reading
from tests.terminal.test_recordings import NAMES, recorded, shown_by_tmux, tidy, wrapped

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

SCRIPT = (Path(html.__file__).parent / "page" / "screen.js").read_text("utf-8")
SHOWN = """pieces => {
    const screen = new Screen(document.body);
    for (const piece of pieces) screen.write(piece);
    screen.draw();
    return document.body.textContent;
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page() -> AsyncIterator[Page]:
    async with reading.browser() as browser:
        page = await browser.new_page()
        await page.set_content(f"<body></body><script>{SCRIPT}; window.Screen = Screen;</script>")
        yield page


async def shown(page: Page, *pieces: str) -> str:
    """What the terminal shows after these pieces of text."""
    text: str = await page.evaluate(SHOWN, pieces)
    return text


async def test_size_is_that_of_the_agents_terminal(page: Page) -> None:
    assert await page.evaluate("[Screen.ROWS, Screen.COLUMNS]") == [ROWS, COLUMNS]


@pytest.mark.parametrize("size", [7, 100_000])
@pytest.mark.parametrize("name", NAMES)
async def test_last_screen_is_that_of_tmux(page: Page, name: str, size: int) -> None:
    text = recorded(name).decode("utf-8")
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert tidy(wrapped(await shown(page, *pieces))) == shown_by_tmux(name)


async def test_vim_is_shown_until_it_is_left(page: Page) -> None:
    text = recorded("vim").decode("utf-8")
    lines = (await shown(page, text[: text.rindex("\x1b[?1049l")])).split("\n")
    assert " 47 line 47 of the notes" in lines
    assert lines[-1].rstrip() == '"notes.txt" 59L, 1221B written'
    assert len(lines) == ROWS - 1, "below them is the cursor"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\r\ntwo\r\nthree\x1b[2;2HX", "one\ntXo\nthree"),
        ("one\r\ntwo\r\nthree\x1b[2;1H\x1b[L", "one\n\ntwo\nthree"),
        ("one\r\ntwo\r\nthree\x1b[2;1H\x1b[M", "one\nthree"),
        ("one\r\ntwo\r\nthree\x1b[2;2H\x1b[J", "one\nt"),
        ("one\r\ntwo\r\nthree\x1b[2;2H\x1b[1J", "\n  o\nthree"),
        ("one\r\ntwo\x1b[2JX", "\n   X"),
        ("abcdef\x1b[3G\x1b[2P", "abef"),
        ("abcdef\x1b[3G\x1b[2@", "ab  cdef"),
        ("abcdef\x1b[3G\x1b[2X", "ab  ef"),
        ("abc\x1b[2D\x1b[K", "a"),
        ("abc\x1b[1K", ""),
        ("a\x1b[3b", "aaaa"),
        ("\x1b[1;3r1\r\n2\r\n3\r\n4\x1b[5;1Hend", "1\n2\n3\n4\n\nend"),
        ("\x1b[2;3r\x1b[2;1H\x1bMup", "\nup"),
        ("one\x1b7\x1b[5;5Hfar\x1b8two", "onetwo\n\n\n\n    far"),
        ("\x1b(0lqk\x1b(Bq", "┌─┐q"),
        ("日本\x1b[3Gx", "日x"),
        ("e\u0301" + "\u0301" * 9 + "!", "e" + "\u0301" * 4 + "!"),
        ("shell\x1b[?1049hprogram", "     program"),
        ("shell\x1b[?1049hprogram\x1b[?1049l$", "shell$"),
        ("x" * COLUMNS + "y", "x" * COLUMNS + "y"),
        ("x" * COLUMNS + "\ry", "y" + "x" * (COLUMNS - 1)),
        ("\x1b]0;title\x07\x1b[?25l\x1b[>4;2m\x1b[6nshown", "shown"),
        ("\x1b[999999999;999999999Hx\x1b[999999999A\x1b[Gy", "y" + "\n" * (ROWS - 1) + "x".rjust(COLUMNS)),
    ],
)  # fmt: skip
async def test_control_sequences_act_as_in_a_terminal(page: Page, text: str, expected: str) -> None:
    assert "\n".join(line.rstrip() for line in (await shown(page, text)).split("\n")) == expected, json.dumps(text)


async def test_only_the_newest_lines_that_scrolled_out_are_kept(page: Page) -> None:
    text = "".join(f"{number}\r\n" for number in range(1000))
    lines = (await shown(page, text)).split("\n")
    kept = await page.evaluate("Screen.KEEP")
    assert lines == [str(number) for number in range(1000 - kept - ROWS + 1, 1000)]
