"""The page on the screen: its texts, its labels, the film strip, and the actions of the user's keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style
from textual.widgets import Input

from core.events import (
    BrowseInteractiveAction,
    BrowserOutputObservation,
    BrowseURLAction,
    EventSource,
    FileDownloadObservation,
)
from core.store.blobs import extract_pictures
from runtime.plugins.browser.page_layout import _line_in
from tests.store.test_blobs import png, url
from tests.tui.browser.test_browser import show, shown
from tests.tui.workspace.running_app import Running, running, until
from tui.browser.page_cells import View, paint
from tui.browser.page_elements import LETTERS, MAX_TEXTS, NO_LAYOUT, PageLayout, labels
from tui.terminal_io.graphics.picture_cells import Pixels

pytestmark = pytest.mark.every_frame

PAGE: dict[str, Any] = {
    "width": 1280,
    "height": 720,
    "texts": [
        [100, 100, 200, 20, "Sign in to go on", 0, 0xFFFFFF],
        [100, 200, 60, 20, "Name", 0, 0xFFFFFF],
        [700, 400, 90, 20, "Send it", 0xFFFFFF, 0xCC0000],
        [700, 600, 60, 20, "again", 0x0000EE, 0xFFFFFF],
    ],
    "marks": [
        ["7", 200, 200, 300, 30, "text", "Name"],
        ["8", 200, 260, 300, 30, "secret", "Password"],
        ["9", 690, 390, 120, 40, "button", "Send it"],
        ["a12", 700, 600, 60, 20, "link", "again"],
    ],
}
WHITE = Pixels(2, 2, b"\xff" * 12)


def page(**fields: Any) -> BrowserOutputObservation:
    picture = url(png(128, 72, "white"))
    fields = {
        "url": "http://a/",
        "trigger_by_action": "browse_interactive",
        "screenshot": picture,
        "look": PAGE,
    } | fields
    return BrowserOutputObservation(**fields)


async def open_page(it: Running, **fields: Any) -> None:
    """A page is there, and the browser pane fills the screen."""
    await show(it, BrowseURLAction(url="http://a/"), page(**fields))
    await it.press("f5", "f5")


async def take_control(it: Running, **fields: Any) -> None:
    await open_page(it, **fields)
    await it.press("f12")
    await it.settle()


def browser_calls(it: Running) -> list[str]:
    """The user's actions on the page."""
    return [wish[1] for wish in it.session.wishes if wish[0] == "browse"]


def drawn(
    look: dict[str, Any] | PageLayout, columns: int = 80, rows: int = 30, tags: dict[str, str] | None = None
) -> list[str]:
    seen = look if isinstance(look, PageLayout) else PageLayout.parse(look)
    view = View.whole(1280, 720, columns, rows)
    lines, _cut = paint(WHITE, seen, view, tags or {}, Style(reverse=True))
    assert len(lines) == view.rows
    assert all(sum(segment.cell_length for segment in line) == view.columns for line in lines)
    return ["".join(segment.text for segment in line) for line in lines]


# -- words -----------------------------------------------------------------------------------------------------------


def test_texts_are_readable_at_80_columns() -> None:
    lines = drawn(PAGE)
    (line,) = [line for line in lines if "Sign in to go on" in line]
    assert 5 <= line.index("Sign") <= 7
    assert any("Send it" in line for line in lines)


def test_adjacent_texts_join_and_others_are_cut() -> None:
    look = {**PAGE, "marks": [], "texts": [
        [100, 100, 60, 20, "See our ", 0, -1], [160, 100, 60, 20, "list of things", 0, -1],
        [300, 100, 60, 20, "other words", 0, -1],
    ]}  # fmt: skip
    (line,) = [line for line in drawn(look) if "other" in line]
    assert "See our" in line
    assert "…" in line
    assert "other words" in line


TABLE: list[Any] = [
    [100 + 260 * column, 300 + 9 * row, 240, 8, f"{name} {row}", 0, -1]
    for row in range(6)
    for column, name in enumerate(("left", "middle", "right"))
]
"""A table with lower rows than a cell."""


def marked(texts: list[Any], columns: int, rows: int) -> tuple[list[str], int]:
    layout = PageLayout.parse({**PAGE, "marks": [], "texts": texts})
    lines, cut = paint(WHITE, layout, View.whole(1280, 720, columns, rows), {}, Style())
    return ["".join(segment.text for segment in line) for line in lines], cut


@pytest.mark.parametrize(("columns", "rows"), [(100, 40), (80, 24), (40, 12), (20, 6)])
def test_texts_of_a_table_that_do_not_fit_are_marked_and_counted(columns: int, rows: int) -> None:
    lines, cut = marked(TABLE, columns, rows)
    cut_texts = [text for text in TABLE if not any(text[4] in line for line in lines)]
    assert cut == len(cut_texts) > 0
    view = View.whole(1280, 720, columns, rows)
    for text in cut_texts:
        assert "…" in lines[view.cell(0, text[1] + text[3] / 2)[1]], lines


def test_page_whose_texts_all_fit_has_no_mark() -> None:
    lines, cut = marked([[100, 100, 200, 20, "one", 0, -1], [100, 200, 200, 20, "two", 0, -1]], 80, 30)
    assert cut == 0
    assert not any("…" in line for line in lines)


async def test_enter_enlarges_the_page_while_the_agent_has_control() -> None:
    async with running((80, 24)) as it:
        await open_page(it)
        await it.press("enter")
        view = it.app.workspace.browser._view
        assert view is not None
        assert view.part.width < 1280
        assert browser_calls(it) == []


async def test_title_says_how_many_texts_are_cut() -> None:
    async with running((80, 24)) as it:
        await open_page(it, look={**PAGE, "texts": TABLE})
        await until(it.pilot, lambda: "cut, z enlarges" in it.screen_text())
        await it.press("z")
        await until(it.pilot, lambda: "cut, z enlarges" not in it.screen_text())


def test_tags_are_beside_their_elements() -> None:
    lines = drawn(PAGE, tags={"9": "S", "a12": "D"})
    assert any("SSendit" in line.replace(" ", "") for line in lines)


@given(
    st.lists(
        st.tuples(
            st.integers(-50, 1400), st.integers(-50, 800), st.integers(0, 1400), st.integers(0, 200),
            st.text(max_size=30), st.integers(-1, 2**24), st.integers(-1, 2**24),
        ).map(list), max_size=12,
    ),
    st.integers(1, 120),
    st.integers(1, 50),
)  # fmt: skip
def test_any_page_layout_keeps_line_width(texts: list[Any], columns: int, rows: int) -> None:
    for line in drawn({**PAGE, "texts": texts}, columns, rows, {"7": "AS"}):
        assert not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in line)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.sampled_from(list(PAGE)), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(list(PAGE)), json_values))
def test_invalid_layout_parts_are_ignored(told: dict[str, Any]) -> None:
    look, whole = PageLayout.parse({**PAGE, **told}), PageLayout.parse(PAGE)
    assert (len(whole.texts), len(whole.elements)) == (len(PAGE["texts"]), len(PAGE["marks"]))
    if look != PageLayout():
        assert look.width > 0 < look.height
        assert "texts" in told or look.texts == whole.texts
        assert "marks" in told or look.elements == whole.elements
    else:
        assert told.keys() & {"width", "height"}


def test_hostile_layout_is_sanitised_and_bounded() -> None:
    evil = "\x1b]52;c;QQ==\x07\u202epassword\x9b31m"
    rows = [[0, 0, 10, 10, evil, 0, 0], [0, 0, 10, 10, "x" * 1_000_000, 0, 0]] * MAX_TEXTS
    look = PageLayout.parse(
        {**PAGE, "texts": rows, "marks": [["7", 0, 0, 9, 9, "text", evil], [evil, 0, 0, 9, 9, "x", ""]]}
    )
    assert len(look.texts) == MAX_TEXTS
    assert all("\x1b" not in each.text and "\u202e" not in each.text and len(each.text) < 300 for each in look.texts)
    (mark,) = look.elements
    assert "\x1b" not in mark.label
    assert PageLayout.parse({"texts": rows}) is NO_LAYOUT


@pytest.mark.parametrize("count", [0, 1, 26, 27, 200])
def test_labels_are_prefix_free(count: int) -> None:
    found = labels(count)
    assert len(set(found)) == count
    assert not any(one != other and other.startswith(one) for one in found for other in found)
    assert all(set(label) <= set(LETTERS) for label in found)


def test_plain_text_is_in_reading_order() -> None:
    assert PageLayout.parse(PAGE).plain_text() == "Sign in to go on\nName\nSend it\nagain"


# -- keys ------------------------------------------------------------------------------------------------------------


async def test_keys_do_nothing_before_taking_control() -> None:
    async with running((80, 24)) as it:
        await open_page(it)
        assert "Sign in to go on" in it.screen_text()
        await it.press("f", "r", "down", "i")
        assert it.session.wishes == []
        assert "F12 gives you control" in it.screen_text()


async def test_labels_click_and_fill_without_revealing_password() -> None:
    async with running((100, 30)) as it:
        await take_control(it)
        assert "you control the browser" in it.screen_text()
        letters = {mark.bid: keys for keys, mark in zip(labels(4), PageLayout.parse(PAGE).elements, strict=True)}
        await it.press("f", letters["9"])
        assert browser_calls(it) == ["click('9')"]
        await it.press("f", letters["7"], *"Ada", "enter")
        assert browser_calls(it)[-1] == "fill('7', 'Ada')"
        await it.press("f", letters["8"], *"pass")
        assert it.app.screen.query_one(Input).password
        assert "pass" not in it.screen_text().replace("Password", "")
        await it.press("enter")
        assert browser_calls(it)[-1] == "fill('8', '<hidden>')"
        assert it.session.user_control.browser.hidden == ["pass"]
        await it.press("f", "escape", *"z")
        assert len(browser_calls(it)) == 3, "letters that were left are letters no more"


async def test_browser_keys_act_on_page_and_f12_returns_control() -> None:
    async with running((100, 30)) as it:
        await take_control(it, focused_element_bid="7")
        await it.press("left_square_bracket", "right_square_bracket", "r", "enter", "i", "x", "enter")
        assert browser_calls(it) == [
            "go_back()",
            "go_forward()",
            "reload()",
            "keyboard_press('Enter')",
            "fill('7', 'x')",
        ]
        await it.press("down")
        assert browser_calls(it)[-1] == "scroll(0, 120)"
        await it.press("o")
        it.app.screen.query_one(Input).value = "localhost:8000/x"
        await it.press("enter")
        assert browser_calls(it)[-1] == "goto('http://localhost:8000/x')"
        await it.press("f12")
        assert not it.session.user_control.browser.is_on
        assert "you control the browser" not in it.screen_text()


async def test_click_on_picture_clicks_page() -> None:
    async with running((160, 48)) as it:
        await take_control(it)
        view = it.app.workspace.browser
        await it.settle()
        assert view._view is not None
        column, row = view._view.cell(750, 410)
        left, top = view.content_region.offset
        await it.pilot.click(offset=(left + view._margin + column, top + 1 + row))
        await it.settle()
        assert browser_calls(it) == ["click('9')"]
        column, row = view._view.cell(1000, 100)
        await it.pilot.click(offset=(left + view._margin + column, top + 1 + row))
        await it.settle()
        assert browser_calls(it)[-1].startswith("mouse_click(")


async def test_labels_follow_page_changes() -> None:
    async with running((100, 30)) as it:
        await take_control(it)
        await it.press("f")
        assert it.app.workspace.browser.letters
        other = {**PAGE, "marks": [["33", 200, 200, 300, 30, "link", "other"]]}
        bare, _ = extract_pictures(page(look=other))
        await it.session.stream.append(bare, EventSource.USER)
        await it.settle()
        await it.press("a")
        assert browser_calls(it) == ["click('33')"]


async def test_missing_element_is_explained() -> None:
    async with running((100, 30)) as it:
        await take_control(it)
        error = 'ValueError: Could not find element with bid "9"'
        bare, _ = extract_pictures(page(last_browser_action_error=error, error=True))
        await it.session.stream.append(bare, EventSource.USER)
        await it.settle()
        assert "The page has changed" in it.screen_text()


async def test_notes_of_a_step_are_shown() -> None:
    async with running((100, 30)) as it:
        await take_control(it)
        note = "[A dialog of the page was dismissed: alert 'boo']"
        bare, _ = extract_pictures(page(content=f"[Current URL: http://a/]\n[Focused element bid: ]\n\n{note}\n"))
        step = await it.session.stream.append(_by_user("click('9')"), EventSource.USER)
        await it.session.stream.append(bare, EventSource.USER, step.id)
        await it.settle()
        assert "dialog of the page was dismissed" in it.screen_text()
        step = await it.session.stream.append(_by_user("click('9')"), EventSource.USER)
        saved = FileDownloadObservation(content="The file is saved at /w/a.bin", file_path="/w/a.bin")
        await it.session.stream.append(saved, EventSource.USER, step.id)
        await it.settle()
        assert "saved at /w/a.bin" in it.screen_text()


def _by_user(calls: str) -> BrowseInteractiveAction:
    return BrowseInteractiveAction(browser_actions=calls, by_user=True)


async def test_step_line_shows_steps_around_current() -> None:
    async with running((160, 48)) as it:
        for number in range(30):
            calls = f"click('{number}')"
            await show(it, BrowseInteractiveAction(browser_actions=calls), page(last_browser_action=calls))
        await it.press("f5", "f5")
        assert "30 click 29" in it.screen_text()
        assert "viewing an earlier page" not in it.screen_text()
        await it.press("left", "left")
        assert "28 click 27" in it.screen_text()
        assert "viewing an earlier page  28/30" in it.screen_text()
        await it.press("right")
        assert "viewing an earlier page  29/30" in it.screen_text()
        await it.press("home")
        assert "1 click 0" in it.screen_text()
        assert "›" in it.screen_text()
        assert "viewing an earlier page  1/30" in it.screen_text()
        it.session.pages.put_nowait(shown("Clock", png(8, 4)))
        await until(it.pilot, it.session.pages.empty)
        await it.settle()
        assert "viewing an earlier page  1/30" in it.screen_text(), "what happens now does not take the past away"
        await it.press("end")
        assert "viewing an earlier page" not in it.screen_text()


async def test_each_step_shows_its_own_picture() -> None:
    async with running((160, 48)) as it:
        for colour in ("red", "green", "blue"):
            await show(it, BrowseURLAction(url="http://a/"), page(screenshot=url(png(128, 72, colour)), look={}))
        await it.press("f5", "f5")
        for keys, colour in ((), "0000ff"), (("left",), "008000"), (("left",), "ff0000"), (("right",), "008000"):
            await it.press(*keys)
            assert grounds(it, colour) > 300, (keys, colour)


def grounds(it: Running, colour: str) -> int:
    """How many cells have this ground."""
    strips = it.app.screen._compositor.render_strips()
    wanted = tuple(bytes.fromhex(colour))
    return sum(
        segment.cell_length
        for strip in strips
        for segment in strip
        if segment.style and segment.style.bgcolor and tuple(segment.style.bgcolor.triplet or ()) == wanted
    )


def test_multiline_field_text_is_at_its_first_line() -> None:
    """A field of text is high, and its words are not in its middle."""
    assert _line_in((10, 100, 300, 90), at_top=True)[1] < 110
    assert _line_in((10, 100, 300, 40))[1] == 111


async def test_arrows_move_enlarged_part_before_scrolling() -> None:
    async with running((80, 24)) as it:
        await take_control(it)
        await it.press("z")
        view = it.app.workspace.browser
        before = view._view
        assert before is not None
        assert before.part.width < 1280
        await it.press("down")
        assert view._view is not None
        assert view._view.part.top > before.part.top
        assert browser_calls(it) == []
        await it.press(*["down"] * 8)
        await it.settle()
        assert browser_calls(it)
        await it.press("z")
        assert "Sign in to go on" in it.screen_text()


async def test_live_page_shows_texts_of_its_frame() -> None:
    async with running((100, 30)) as it:
        await open_page(it)
        frame = shown("Clock", png(128, 72))
        look = {**PAGE, "texts": [[100, 100, 200, 20, "it moved", 0, 0xFFFFFF]], "marks": []}
        it.session.pages.put_nowait(type(frame)(1, "http://a/", "Clock", frame.data, 1280, 720, look))
        await until(it.pilot, lambda: "it moved" in it.screen_text())
        await it.press("y")
        assert it.app.clipboard == "it moved"


def test_wide_characters_take_two_cells() -> None:
    look = {**PAGE, "marks": [], "texts": [[100, 100, 400, 20, "網頁 ä\u0308 wide", 0, -1]]}
    (line,) = [line for line in drawn(look) if "網頁" in line]
    assert cell_len(line) == 80
