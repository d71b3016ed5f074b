"""Basic keys of the prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.events import Key, Paste
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Static

from tui.prompt.view import Prompt

SIZE = (60, 20)


class PromptApp(App[None]):
    """A stand-in for a transcript above a prompt; records the prompt's messages and the keys that reach the app."""

    CSS = "Static { height: 1fr; }"
    pilot: Pilot[None]
    BINDINGS = [Binding(key, f"reached('{key}')") for key in ("ctrl+c", "ctrl+x", "ctrl+d", "f6", "f7", "ctrl+f")]

    def __init__(self, history: list[str] | None = None) -> None:
        super().__init__()
        self.prompt = Prompt(history=history, placeholder="Ask for something")
        self.heard: list[Message] = []
        self.reached: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static()
        yield self.prompt

    def on_mount(self) -> None:
        self.prompt.focus()

    def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        self.heard.append(message)

    def on_prompt_scroll_wanted(self, message: Prompt.ScrollWanted) -> None:
        self.heard.append(message)

    def on_prompt_help_wanted(self, message: Prompt.HelpWanted) -> None:
        self.heard.append(message)

    def action_reached(self, key: str) -> None:
        self.reached.append(key)

    @property
    def sent(self) -> list[str]:
        return [message.text for message in self.heard if isinstance(message, Prompt.Submitted)]


@pytest.fixture
async def app() -> AsyncIterator[PromptApp]:
    app = PromptApp()
    async with app.run_test(size=SIZE) as app.pilot:
        yield app


async def write(app: PromptApp, text: str) -> None:
    await app.pilot.press(*("space" if character == " " else character for character in text))


async def test_enter_sends_and_clears_the_prompt(app: PromptApp) -> None:
    await write(app, "fix it")
    await app.pilot.press("enter")
    assert app.sent == ["fix it"]
    assert app.prompt.text == ""


async def test_blank_text_is_not_sent(app: PromptApp) -> None:
    await app.pilot.press("enter", "space", "enter")
    assert app.sent == []


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "ctrl+enter", "shift+\r"])
async def test_newline_key_does_not_send(app: PromptApp, key: str) -> None:
    await app.pilot.press("a")
    app.prompt.post_message(Key(key, None))
    await app.pilot.pause()
    await app.pilot.press("b")
    assert app.prompt.text == "a\nb"
    assert app.sent == []


async def test_enter_after_a_backslash_inserts_a_new_line(app: PromptApp) -> None:
    await app.pilot.press("a", "\\", "enter", "b")
    assert app.prompt.text == "a\nb"
    assert app.sent == []


async def test_paste_keeps_lines_and_never_sends(app: PromptApp) -> None:
    app.prompt.post_message(Paste("one\r\n\ttwo\rthree\n\x1b[201~\x9b"))
    await app.pilot.pause()
    assert app.prompt.text == "one\n\ttwo\nthree\n[201~"
    assert app.sent == []


async def test_prompt_grows_to_half_the_screen_then_scrolls(app: PromptApp) -> None:
    empty = app.prompt.outer_size.height
    app.prompt.put("one\ntwo\nthree\nfour")
    await app.pilot.pause()
    assert app.prompt.outer_size.height == empty + 3
    app.prompt.put("\n".join("line" for _ in range(50)))
    await app.pilot.pause()
    assert app.prompt.outer_size.height == SIZE[1] // 2
    app.prompt.put("")
    await app.pilot.pause()
    assert app.prompt.outer_size.height == empty


async def test_arrows_at_the_edges_recall_sent_messages() -> None:
    app = PromptApp(history=["first", "second\nline"])
    async with app.run_test(size=SIZE) as app.pilot:
        await write(app, "draft")
        await app.pilot.press("up")
        assert app.prompt.text == "second\nline"
        await app.pilot.press("up", "up")
        assert app.prompt.text == "first"
        await app.pilot.press("up")
        assert app.prompt.text == "first", "there is nothing before the first"
        await app.pilot.press("down", "down")
        assert app.prompt.text == "draft"
        await app.pilot.press("down")
        assert app.prompt.text == "draft"


async def test_arrows_move_within_the_text_before_they_recall() -> None:
    app = PromptApp(history=["old"])
    async with app.run_test(size=SIZE) as app.pilot:
        app.prompt.put("one\ntwo")
        await app.pilot.press("up")
        assert app.prompt.text == "one\ntwo"
        assert app.prompt.cursor_location[0] == 0
        await app.pilot.press("up")
        assert app.prompt.text == "old"


async def test_sent_message_is_added_to_the_history_once() -> None:
    history: list[str] = []
    app = PromptApp(history)
    async with app.run_test(size=SIZE) as app.pilot:
        for _ in range(2):
            await write(app, "again")
            await app.pilot.press("enter")
        assert history == ["again"]
        await app.pilot.press("up")
        assert app.prompt.text == "again"


async def test_draft_can_be_taken_and_put_back() -> None:
    app = PromptApp(history=["old"])
    async with app.run_test(size=SIZE) as app.pilot:
        await write(app, "half a")
        await app.pilot.press("up")
        assert app.prompt.take() == "half a", "what was recalled is not what was written"
        assert app.prompt.text == ""
        app.prompt.put("half a")
        await write(app, " word")
        assert app.prompt.text == "half a word"


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("pageup", "page_up"),
        ("pagedown", "page_down"),
        ("shift+up", "line_up"),
        ("shift+down", "line_down"),
        ("ctrl+home", "home"),
        ("ctrl+end", "end"),
    ],
)
async def test_transcript_is_scrolled_while_the_prompt_keeps_the_focus(app: PromptApp, key: str, where: str) -> None:
    await write(app, "text")
    await app.pilot.press(key)
    assert [message.where for message in app.heard if isinstance(message, Prompt.ScrollWanted)] == [where]
    assert app.prompt.has_focus
    assert app.prompt.text == "text"


@pytest.mark.parametrize("key", ["ctrl+c", "f6", "f7", "ctrl+x", "ctrl+d", "ctrl+f"])
async def test_app_keys_work_from_an_empty_prompt(app: PromptApp, key: str) -> None:
    await app.pilot.press(key)
    assert app.reached == [key]


async def test_cut_and_delete_keys_work_if_there_is_text(app: PromptApp) -> None:
    await write(app, "abc")
    await app.pilot.press("home", "ctrl+d")
    assert app.prompt.text == "bc"
    await app.pilot.press("shift+right", "ctrl+x")
    assert (app.prompt.text, app.clipboard) == ("c", "b")
    assert app.reached == []


@pytest.mark.parametrize("text", ["", "one", "one\n"])
async def test_lines_are_deleted_to_the_end_and_beyond(app: PromptApp, text: str) -> None:
    app.prompt.insert_here(text)
    await app.pilot.press("ctrl+k", "ctrl+k", "up", "home", "ctrl+k", "ctrl+k", "ctrl+k")
    assert app.prompt.text == ""
    assert app.is_running


async def test_question_mark_opens_help_only_in_an_empty_prompt(app: PromptApp) -> None:
    await app.pilot.press("question_mark")
    assert [type(message) for message in app.heard] == [Prompt.HelpWanted]
    assert app.prompt.text == ""
    await write(app, "why")
    await app.pilot.press("question_mark")
    assert app.prompt.text == "why?"


async def test_typing_is_undone(app: PromptApp) -> None:
    await write(app, "abc")
    await app.pilot.press("ctrl+z")
    assert app.prompt.text == ""
