"""The prompt's completion list, chips and history search, without the workspace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.events import Paste
from textual.geometry import Offset
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Static

from tests.store.test_blobs import png
from tui.prompt.attachments import Picture, RefusedError
from tui.prompt.completion import Kind, ListOverlay, Row
from tui.prompt.view import Prompt

SIZE = (60, 20)
FILES = ["a.py", "b.py", "sub/a file.py"]


class ListApp(App[None]):
    """A stand-in for a transcript, a prompt, and a list over them."""

    CSS = "Screen { layers: base above; } Static { height: 1fr; }"
    pilot: Pilot[None]

    def __init__(self, history: list[str] | None = None, rows: int = 0) -> None:
        super().__init__()
        self.overlay = ListOverlay()
        self.prompt = Prompt(history=history, overlay=self.overlay)
        self.transcript = Static("transcript\n" * 30)
        self.heard: list[Message] = []
        self.files = FILES + [f"n{n}.py" for n in range(rows)]
        self.asked: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self.prompt
        yield self.overlay

    def on_mount(self) -> None:
        self.prompt.cursor_blink = False
        self.prompt.focus()
        self.prompt.completer.sources = {Kind.FILE: self.find, Kind.EVENT: self.events, Kind.COMMAND: self.commands}

    async def find(self, query: str) -> Sequence[Row]:
        self.asked.append(query)
        return [Row(name, "note", name) for name in self.files if query in name]

    async def events(self, query: str) -> Sequence[Row]:
        return [Row(f"#{n} run", value=str(n)) for n in (12, 1) if str(n).startswith(query)]

    async def commands(self, query: str) -> Sequence[Row]:
        return [Row(f"/{name}", value=name) for name in ("help", "review ") if name.startswith(query)]

    async def on_list_overlay_clicked(self) -> None:
        await self.prompt.take_row("click")

    def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        self.heard.append(message)

    def on_prompt_failed(self, message: Prompt.Failed) -> None:
        self.heard.append(message)

    @property
    def sent(self) -> list[str]:
        return [message.text for message in self.heard if isinstance(message, Prompt.Submitted)]

    @property
    def told(self) -> list[str]:
        return [message.reason for message in self.heard if isinstance(message, Prompt.Failed)]


@pytest.fixture
async def app() -> AsyncIterator[ListApp]:
    app = ListApp()
    async with app.run_test(size=SIZE) as app.pilot:
        yield app


async def write(app: ListApp, text: str) -> None:
    """Type, and let the list follow."""
    await app.pilot.press(*text)
    await app.workers.wait_for_complete()
    await app.pilot.pause()


async def paste(app: ListApp, text: str) -> None:
    app.prompt.post_message(Paste(text))
    await app.pilot.pause()
    await app.workers.wait_for_complete()
    await app.pilot.pause()


# -- the list ----------------------------------------------------------------------------------------------------------


async def test_typing_filters_the_list_and_tab_inserts_a_file(app: ListApp) -> None:
    await write(app, "see @")
    assert [row.value for row in app.overlay.rows] == FILES
    await write(app, "b.")
    assert [row.value for row in app.overlay.rows] == ["b.py"]
    assert await app.prompt.take_row("tab")
    assert app.prompt.text == "see b.py "
    assert not app.overlay.display


async def test_enter_inserts_the_chosen_file_and_quotes_spaces(app: ListApp) -> None:
    await write(app, "@")
    await app.pilot.press("up", "enter")
    assert app.prompt.text == '"sub/a file.py" ', "up from the first row comes in at the last"
    assert app.sent == []
    await app.pilot.press("enter")
    assert app.sent == ['"sub/a file.py" ']


async def test_list_floats_above_the_prompt_without_moving_anything() -> None:
    app = ListApp(rows=30)
    async with app.run_test(size=SIZE) as app.pilot:
        before = app.transcript.region
        await write(app, "@")
        assert app.transcript.region == before
        assert app.overlay.region.bottom == app.prompt.region.y
        assert app.overlay.size.height == 10
        await app.pilot.press("ctrl+j")
        await write(app, "@")
        await app.pilot.pause()
        assert app.overlay.region.bottom == app.prompt.region.y, "it moves along as the prompt grows"


@pytest.mark.parametrize("size", [(80, 24), (20, 5), (10, 4)])
async def test_list_stays_inside_a_small_screen(size: tuple[int, int]) -> None:
    app = ListApp(rows=30)
    async with app.run_test(size=size) as app.pilot:
        await write(app, "@")
        assert app.overlay.display
        assert app.screen.region.contains_region(app.overlay.region)
        await app.pilot.press(*["down"] * 12)
        assert app.overlay.current == Row("n9.py", "note", "n9.py")
        lines = ["".join(s.text for s in app.overlay.render_line(y)) for y in range(app.overlay.size.height)]
        assert any("n9.py" in line for line in lines), "the cursor is in sight"


async def test_closed_list_stays_closed_until_the_next_word(app: ListApp) -> None:
    await write(app, "@a")
    assert app.prompt.close_list()
    assert not app.prompt.close_list()
    await write(app, ".")
    assert not app.overlay.display
    assert app.prompt.text == "@a."
    await write(app, " @")
    assert app.overlay.display


async def test_without_a_match_enter_sends(app: ListApp) -> None:
    await write(app, "hi @nobody")
    assert not app.overlay.display
    await app.pilot.press("enter")
    assert app.sent == ["hi @nobody"]


async def test_enter_sends_a_complete_event_number_and_completes_a_partial_one(app: ListApp) -> None:
    await write(app, "see #12")
    await app.pilot.press("enter")
    assert app.sent == ["see #12"]
    await write(app, "see #")
    await app.pilot.press("enter")
    assert app.prompt.text == "see #12 "


async def test_command_runs_at_once_unless_it_takes_arguments(app: ListApp) -> None:
    await write(app, "/he")
    await app.pilot.press("enter")
    assert app.sent == ["/help"]
    await write(app, "/rev")
    await app.pilot.press("enter")
    assert (app.sent, app.prompt.text) == (["/help"], "/review ")


async def test_click_inserts_a_row_and_the_prompt_keeps_the_focus(app: ListApp) -> None:
    await write(app, "@")
    await app.pilot.click(app.overlay, offset=(3, 1))
    await app.pilot.pause()
    assert app.prompt.text == "b.py "
    assert app.prompt.has_focus


async def test_losing_the_focus_closes_the_list(app: ListApp) -> None:
    await write(app, "@")
    app.set_focus(None)
    await app.pilot.pause()
    assert not app.overlay.display


async def test_file_names_are_sanitised() -> None:
    app = ListApp()
    app.files = ["a\x1b]0;x\x07[red]b.py"]
    async with app.run_test(size=SIZE) as app.pilot:
        await write(app, "@")
        text = "".join(segment.text for segment in app.overlay.render_line(0))
        assert "\x1b" not in text
        assert "[red]b.py" in text


# -- the search --------------------------------------------------------------------------------------------------------


async def test_history_search_filters_steps_and_takes_a_message() -> None:
    app = ListApp(history=["fix one", "other", "fix two"])
    async with app.run_test(size=SIZE) as app.pilot:
        await write(app, "draft")
        await app.pilot.press("ctrl+r", *"fix")
        assert [row.value for row in app.overlay.rows] == ["fix two", "fix one"]
        assert app.prompt.text == "draft"
        await app.pilot.press("ctrl+r", "enter")
        assert app.prompt.text == "fix one"
        assert not app.overlay.display
        assert app.sent == []


async def test_escape_leaves_the_history_search_without_a_change() -> None:
    app = ListApp(history=["fix one"])
    async with app.run_test(size=SIZE) as app.pilot:
        await write(app, "draft")
        await app.pilot.press("ctrl+r", *"zzz", "backspace", "up")
        await app.pilot.press("escape")
        assert app.prompt.text == "draft"
        assert not app.overlay.display
        await write(app, "s")
        assert app.prompt.text == "drafts"


async def test_hardware_cursor_follows_the_history_search() -> None:
    app = ListApp(history=["fix one"])
    async with app.run_test(size=SIZE) as app.pilot:
        await write(app, "x")
        home = app.cursor_position
        await app.pilot.press("ctrl+r", *"修")
        await app.pilot.pause()
        assert app.cursor_position == Offset(app.overlay.region.x + 1 + len("History: ") + 2, app.overlay.region.y)
        await app.pilot.press("escape")
        assert app.cursor_position == home


async def test_history_is_loaded_once_when_it_is_needed() -> None:
    app = ListApp(history=["now"])
    reads = []

    async def earlier() -> Sequence[str]:
        reads.append(1)
        return ["newer", "older"]

    app.prompt.load_history = earlier
    async with app.run_test(size=SIZE) as app.pilot:
        await write(app, "x")
        assert reads == []
        await app.pilot.press("up", "up", "up", "up")
        assert app.prompt.text == "older"
        await app.pilot.press("down", "down", "down")
        assert app.prompt.text == "x"
        assert reads == [1]


async def test_arrows_pressed_while_the_history_loads_count_afterwards() -> None:
    app, read = ListApp(), asyncio.Event()

    async def earlier() -> Sequence[str]:
        await read.wait()
        return ["newer", "older"]

    app.prompt.load_history = earlier
    async with app.run_test(size=SIZE) as app.pilot:
        await app.pilot.press("up", "up")
        assert app.prompt.text == ""
        read.set()
        await app.workers.wait_for_complete()
        assert app.prompt.text == "older"


async def test_recalled_message_opens_no_list() -> None:
    app = ListApp(history=["first", "see @a"])
    async with app.run_test(size=SIZE) as app.pilot:
        await app.pilot.press("up")
        await app.workers.wait_for_complete()
        assert app.prompt.text == "see @a"
        assert not app.overlay.display
        await app.pilot.press("up")
        assert app.prompt.text == "first"


async def test_unreadable_history_leaves_the_messages_of_this_session() -> None:
    async def earlier() -> Sequence[str]:
        raise OSError("the disk is gone")

    app = ListApp(history=["mine"])
    app.prompt.load_history = earlier
    async with app.run_test(size=SIZE) as app.pilot:
        await app.pilot.press("up")
        await app.pilot.pause()
        await app.pilot.press("up")
        assert app.prompt.text == "mine"


# -- chips -------------------------------------------------------------------------------------------------------------


async def test_long_paste_is_a_chip_that_is_deleted_as_one_and_can_be_expanded(app: ListApp) -> None:
    await write(app, "see")
    await paste(app, "line\n" * 240)
    assert app.prompt.text == "see[pasted 240 lines #1]"
    await app.pilot.press("backspace")
    assert app.prompt.text == "see"
    await app.pilot.press("ctrl+z")
    assert app.prompt.text == "see[pasted 240 lines #1]"
    await app.pilot.press("left")
    assert app.prompt.cursor_location == (0, 3), "the cursor goes past it"
    assert app.prompt.expand_chip()
    assert app.prompt.text == "see" + "line\n" * 240
    assert not app.prompt.expand_chip()


@pytest.mark.parametrize("key", ["ctrl+w", "delete", "ctrl+u"])
async def test_no_key_deletes_part_of_a_chip(app: ListApp, key: str) -> None:
    await paste(app, "line\n" * 20)
    if key == "delete":
        await app.pilot.press("home")
    await app.pilot.press(key)
    assert app.prompt.text == ""


async def test_click_cannot_move_the_cursor_into_a_chip(app: ListApp) -> None:
    await paste(app, "line\n" * 20)
    await app.pilot.click(app.prompt, offset=(10, 1))
    await app.pilot.press("x")
    assert app.prompt.text in ("x[pasted 20 lines #1]", "[pasted 20 lines #1]x")


async def test_short_paste_stays_text(app: ListApp) -> None:
    await paste(app, "one\ntwo")
    assert app.prompt.text == "one\ntwo"


async def test_pasted_path_of_a_picture_attaches_it(app: ListApp, tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(png(12, 7))
    app.prompt.folder = str(tmp_path)
    await paste(app, "shot.png")
    assert app.prompt.text == "[image 12x7 #1]"
    (picture,) = app.prompt.chips.pictures(app.prompt.text)
    assert picture.url.startswith("data:image/png;base64,")
    await paste(app, " none.png")
    assert app.prompt.text == "[image 12x7 #1] none.png", "a path to nothing is text"
    assert app.told == []


async def test_refused_picture_leaves_its_path(app: ListApp, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no picture")
    await paste(app, str(tmp_path / "bad.png"))
    assert app.prompt.text == str(tmp_path / "bad.png")
    assert app.told == ["bad.png was not attached: it is not a PNG, JPEG, WebP or GIF image."]


async def test_ctrl_v_pastes_a_picture_else_text_else_what_was_copied_here(app: ListApp) -> None:
    def none() -> Picture | str:
        raise RefusedError("Cannot read the clipboard. Install xclip.")

    app.prompt.read_clipboard = lambda: Picture("data:x", 3, 2)
    await app.pilot.press("ctrl+v")
    assert app.prompt.text == "[image 3x2 #1]"
    app.prompt.read_clipboard = lambda: "words"
    await app.pilot.press("ctrl+v")
    assert app.prompt.text == "[image 3x2 #1]words"
    app.prompt.read_clipboard = none
    await app.pilot.press("ctrl+v")
    assert app.told == ["Cannot read the clipboard. Install xclip."]
    app.copy_to_clipboard("copied in here")
    await app.pilot.press("ctrl+v")
    assert app.prompt.text == "[image 3x2 #1]wordscopied in here"


async def test_shell_command_changes_the_look_of_the_prompt(app: ListApp) -> None:
    await write(app, "!ls")
    assert app.prompt.has_class("-shell")
    assert "shell" in str(app.prompt.border_title)
    await app.pilot.press("home", "delete")
    assert not app.prompt.has_class("-shell")
    assert not app.prompt.border_title
