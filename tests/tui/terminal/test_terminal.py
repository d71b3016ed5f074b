"""The terminal pane: live output, output of before, and the theme's colours."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.events import Event, Key, Paste

from core.events import (
    AgentState,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    MessageAction,
    Status,
    TerminalOutput,
)
from tests.tui.doubles import StreamDouble
from tests.tui.workspace.running_app import running
from tui.terminal.model import WAITING_FOR_INPUT, TerminalModel
from tui.terminal.view import TerminalView, key_bytes, paste_bytes
from tui.terminal_io.emulator import load_ghostty


def observation(command: str, content: str) -> CmdOutputObservation:
    return CmdOutputObservation(command=command, content=content, metadata=CmdOutputMetadata(exit_code=0))


def text(model: TerminalModel) -> list[str]:
    while model.work():
        pass
    emulator = model.emulator
    return ["".join(run.text for run in emulator.line(y)) for y in range(emulator.height)]


def test_live_command_is_shown_once() -> None:
    stream, model = StreamDouble("c"), TerminalModel()
    action = stream.store(CmdRunAction(command="ls"))
    model.apply(action)
    model.apply_frame(TerminalOutput(action.id, b"$ ls\r\na b\r\n"))
    model.apply(stream.store(observation("ls", "a b"), cause=action.id))
    assert text(model) == ["$ ls", "a b", ""]


def test_stored_command_is_shown_with_output() -> None:
    stream, model = StreamDouble("c"), TerminalModel()
    model.apply(stream.store(MessageAction(content="hello")))
    model.apply(stream.store(observation("ls", "a\nb\n")))
    assert text(model) == ["$ ls", "a", "b", ""]


def test_other_frames_and_older_pages_change_nothing() -> None:
    stream, model = StreamDouble("c"), TerminalModel()
    model.apply_frame(Status("info", "STATUS$READY", "ready"))
    model.apply(stream.store(observation("ls", "a")))
    model.prepend([stream.store(observation("old", "old"))])
    assert text(model) == ["$ ls", "a", ""]


def test_hidden_terminal_only_queues_bytes() -> None:
    model = TerminalModel()
    model.apply_frame(TerminalOutput(1, b"x" * 100_000))
    assert model.emulator.pending
    assert model.emulator.height == 1


class TerminalApp(App[None]):
    """A terminal and nothing else."""

    def __init__(self, model: TerminalModel | None) -> None:
        super().__init__()
        self.model = model

    def compose(self) -> ComposeResult:
        yield TerminalView()

    def on_mount(self) -> None:
        view = self.query_one(TerminalView)
        view.attach(self.model)
        view.focus()

    @property
    def lines(self) -> list[str]:
        view = self.query_one(TerminalView)
        return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def printed(data: bytes) -> TerminalModel:
    model = TerminalModel()
    model.apply_frame(TerminalOutput(1, data))
    return model


async def test_empty_terminal_shows_placeholder() -> None:
    app = TerminalApp(TerminalModel())
    async with app.run_test(size=(60, 5)) as pilot:
        await pilot.pause()
        assert app.lines[0].strip() == TerminalView.EMPTY


async def test_colours_follow_theme() -> None:
    app = TerminalApp(printed(b"\x1b[31mred\x1b[0m \x1b[38;2;1;2;3mown"))
    async with app.run_test(size=(60, 5)) as pilot:
        app.theme = "textual-light"
        await pilot.pause()
        app.query_one(TerminalView).sync()
        styles = {segment.text: segment.style for segment in app.query_one(TerminalView).render_line(0)}
        red, own = styles["red"], styles["own"]
        assert red is not None
        assert red.color is not None
        assert red.color.name == app.theme_variables["text-error"].lower()
        assert own is not None
        assert own.color is not None
        assert own.color.name == "#010203"


async def test_scrolling_back_stops_following() -> None:
    model = printed(b"".join(b"line %d\r\n" % n for n in range(100)))
    app = TerminalApp(model)
    async with app.run_test(size=(40, 10)) as pilot:
        view = app.query_one(TerminalView)
        while view.sync():
            pass
        await pilot.pause()
        assert "line 99" in app.lines
        await pilot.press("k", "k", "k")
        top = app.lines[0]
        model.apply_frame(TerminalOutput(1, b"news\r\n"))
        view.sync()
        await pilot.pause()
        assert app.lines[0] == top
        await pilot.press("end")
        assert "news" in app.lines
        await pilot.press("home")
        assert app.lines[0] == "line 0"


async def test_long_lines_wrap_to_pane_width() -> None:
    app = TerminalApp(printed(b"0123456789" * 5))
    async with app.run_test(size=(31, 5)) as pilot:  # one column is the scrollbar's
        await pilot.pause()
        assert app.lines[:2] == ["0123456789" * 3, "0123456789" * 2]
        await pilot.resize_terminal(51, 5)
        await pilot.pause()
        assert app.lines[0] == "0123456789" * 5


@pytest.mark.parametrize("width", [1, 5, 20])
async def test_any_width_works(width: int) -> None:
    app = TerminalApp(printed(b"some words that are longer\r\n" * 20))
    async with app.run_test(size=(width, 3)) as pilot:
        await pilot.pause()
        assert len(app.lines) == 3


async def test_output_is_shown_live_and_after_reopening() -> None:
    async with running(size=(160, 48)) as it:
        await it.session.run("echo hi", "hi there\n")
        await it.settle()
        before = it.app.tabs.current.terminal  # type: ignore[union-attr]
        assert "$ echo hi" in it.screen_text()
        it.manager.sessions = {"c0": it.session}
        await it.press("ctrl+x", "w", "ctrl+x", "l", "enter")
        after = it.app.tabs.current.terminal  # type: ignore[union-attr]
        assert after is not before
        assert text(after) == ["$ echo hi", "hi there", ""]


def test_switched_emulator_keeps_output() -> None:
    ghostty = load_ghostty()
    if ghostty is None:
        pytest.skip("pyghostty is not installed")
    model = printed(b"one\r\n\x1b[6n")
    text(model)
    model.switch_emulator(ghostty)
    model.apply_frame(TerminalOutput(1, b"two\r\n"))
    assert text(model) == ["one", "two", ""]
    assert model.emulator.take_replies() == b""


class TakenApp(TerminalApp):
    """A terminal controlled by the user, and the keys that they typed."""

    def __init__(self, model: TerminalModel) -> None:
        super().__init__(model)
        self.typed = b""

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(TerminalView).show_taken(True)

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key) and self.query_one(TerminalView).key(event):
            return
        await super().on_event(event)

    def on_terminal_view_typed(self, message: TerminalView.Typed) -> None:
        self.typed += message.data


async def test_keys_and_pastes_follow_program_modes() -> None:
    app = TakenApp(printed(b"\x1b[?1h\x1b[?2004h$ "))
    async with app.run_test(size=(40, 5)) as pilot:
        app.query_one(TerminalView).sync()
        await pilot.press("l", "s", "up", "escape", "ctrl+x", "enter")
        app.query_one(TerminalView).post_message(Paste("a\nb"))
        await pilot.pause()
        assert app.typed == b"ls\x1bOA\x1b\x18\r\x1b[200~a\rb\x1b[201~"


async def test_cursor_is_drawn() -> None:
    app = TakenApp(printed(b"abc\x1b[2D"))
    async with app.run_test(size=(40, 5)) as pilot:
        await pilot.pause()
        app.query_one(TerminalView).sync()
        reversed_ = [s.text for s in app.query_one(TerminalView).render_line(0) if s.style and s.style.reverse]
        assert reversed_ == ["b"]


async def test_f12_takes_and_returns_terminal() -> None:
    async with running(size=(100, 30)) as it:
        await it.press("f12")
        assert it.session.wishes[-1] == ("take_terminal",)
        it.app.frames.draw()
        assert "you have control, the agent is waiting" in it.screen_text()
        await it.press("ctrl+p", "f1", "escape", "x")
        assert it.shows_the_workspace
        assert it.session.user_control.terminal.typed == b"\x10\x1bOP\x1bx"
        await it.pilot.resize_terminal(90, 28)
        await it.settle()
        assert it.session.user_control.terminal.sizes[-1] == it.app.workspace.terminal.screen_size
        await it.press("f12")
        assert not it.session.user_control.terminal.is_on
        assert it.prompt_has_focus
        assert "yours" not in it.screen_text()


async def test_waiting_command_shows_hint_and_tab_mark() -> None:
    async with running(size=(100, 30)) as it:
        await it.session.become(agent_state=AgentState.RUNNING)
        it.session.frames.publish(Status("info", WAITING_FOR_INPUT, "The command is waiting for input."))
        await it.settle()
        shown = it.screen_text()
        assert "1 ◆" in shown
        assert "The command is waiting for input.   F12 takes control" in shown
        it.session.frames.publish(Status("info", WAITING_FOR_INPUT, ""))
        await it.settle()
        assert "is waiting for input" not in it.screen_text()


async def test_output_never_reaches_terminal_as_escape() -> None:
    hostile = b"\x1b]52;c;aGk=\x07\x1b]0;title\x07\x1bP$q\x1b\\\x1b[?1006h\x1b[5n\x9b6n\x1b_Gx\x1b\\ok\x00\x07"
    app = TakenApp(printed(hostile))
    async with app.run_test(size=(40, 5)) as pilot:
        await pilot.pause()
        app.query_one(TerminalView).sync()
        shown = "".join(s.text for y in range(5) for s in app.query_one(TerminalView).render_line(y))
        assert "ok" in shown
        assert all(char.isprintable() for char in shown)


@pytest.mark.parametrize(
    ("key", "character", "sent"),
    [
        ("a", "a", b"a"),
        ("A", "A", b"A"),
        ("full_stop", ".", b"."),
        ("é", "é", "é".encode()),
        ("enter", "\r", b"\r"),
        ("space", " ", b" "),
        ("escape", "\x1b", b"\x1b"),
        ("backspace", "\x7f", b"\x7f"),
        ("tab", "\t", b"\t"),
        ("shift+tab", None, b"\x1b[Z"),
        ("ctrl+c", "\x03", b"\x03"),
        ("ctrl+x", "\x18", b"\x18"),
        ("ctrl+at", "\x00", b"\x00"),
        ("ctrl+backslash", "\x1c", b"\x1c"),
        ("alt+b", "b", b"\x1bb"),
        ("alt+shift+o", "O", b"\x1bO"),
        ("alt+shift+o", None, b"\x1bO"),
        ("alt+colon", ":", b"\x1b:"),
        ("up", None, b"\x1b[A"),
        ("ctrl+left", None, b"\x1b[1;5D"),
        ("shift+pagedown", None, b"\x1b[6;2~"),
        ("f1", None, b"\x1bOP"),
        ("f5", None, b"\x1b[15~"),
        ("f10", None, b"\x1b[21~"),
        ("delete", None, b"\x1b[3~"),
        ("nothing_known", None, b""),
    ],
)
def test_keys_are_encoded_as_xterm_does(key: str, character: str | None, sent: bytes) -> None:
    assert key_bytes(key, character) == sent


def test_application_mode_changes_cursor_keys() -> None:
    assert key_bytes("up", None, application=True) == b"\x1bOA"
    assert key_bytes("ctrl+up", None, application=True) == b"\x1b[1;5A"


def test_paste_cannot_leave_brackets() -> None:
    hostile = "one\r\ntwo\n\x1b[201~rm -rf\x03\x9b\ttab"
    assert paste_bytes(hostile, bracketed=True) == b"\x1b[200~one\rtwo\r[201~rm -rf\ttab\x1b[201~"
    assert paste_bytes("a\nb", bracketed=False) == b"a\rb"
