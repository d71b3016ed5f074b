"""The clipboard: every way to copy, the one that was used, and the message about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import CmdRunAction
from core.settings.screen_settings import ScreenSettings
from tests.tui.workspace.running_app import Running, running, until
from tui.terminal_io import escapes
from tui.terminal_io.clipboard import MAC, TMUX, WAYLAND, X11, Tool, desktop_tools, how, set_by_tools


def everything_is_there(name: str) -> str:
    return f"/usr/bin/{name}"


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, "linux", [WAYLAND, *X11]),
        ({"DISPLAY": ":0"}, "linux", list(X11)),
        ({}, "linux", []),
        ({}, "darwin", [MAC]),
        ({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "1 2 3 4"}, "linux", []),
        ({"SSH_TTY": "/dev/pts/1"}, "darwin", []),
    ],
)
def test_desktop_tools_are_used_only_locally(environ: dict[str, str], platform: str, expected: list[Tool]) -> None:
    assert desktop_tools(environ, everything_is_there, platform) == expected


def test_missing_tools_are_skipped() -> None:
    assert desktop_tools({"DISPLAY": ":0"}, {"xsel": "/bin/xsel"}.get, "linux") == [X11[1]]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that write their input to files beside them."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def program(folder: Path, name: str, status: int = 0) -> None:
    path = folder / name
    path.write_text(f'#!/bin/sh\ncat > "{folder}/{name}.got"\nexit {status}\n')
    path.chmod(0o755)


def test_first_working_tool_and_tmux_are_used(programs: Path) -> None:
    program(programs, "xclip", status=1)
    program(programs, "xsel")
    program(programs, "tmux")
    worked = set_by_tools("schön\n", {"DISPLAY": ":0", "TMUX": "/tmp/x,1,0"})
    assert worked == ["xsel", "tmux"]
    assert (programs / "xsel.got").read_text() == "schön\n"
    assert (programs / "tmux.got").read_text() == "schön\n"


def test_failing_tools_are_not_reported() -> None:
    assert set_by_tools("x", {}, [Tool("none", ("/nowhere/none",)), Tool("false", ("false",))]) == []
    assert TMUX.command[-1] == "-"


@pytest.mark.parametrize(
    ("worked", "sent", "environ", "shown"),
    [
        (["wl-copy"], False, {}, "wl-copy"),
        (["xclip", "tmux"], False, {}, "xclip and tmux"),
        ([], True, {}, "OSC 52: if nothing arrived, allow it"),
        ([], True, {"TMUX": "x"}, "OSC 52 through tmux: needs set-clipboard on"),
    ],
)
def test_message_says_how_it_was_copied(worked: list[str], sent: bool, environ: dict[str, str], shown: str) -> None:
    assert shown in how(worked, sent, environ)


def record_emitted(it: Running, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The app's output to the terminal from now on."""
    sent: list[str] = []
    monkeypatch.setattr(it.app, "emit", sent.append)
    return sent


async def test_copy_falls_back_to_osc_52(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    async with running() as it:
        sent = record_emitted(it, monkeypatch)
        it.app.copy_to_clipboard("hello")
        await it.settle()
        assert sent == ["\x1b]52;c;aGVsbG8=\a"]
        assert it.app.clipboard == "hello"
        assert "Copied 5 characters (terminal, OSC 52" in it.screen_text()


async def test_empty_text_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as it:
        it.app.copy_to_clipboard("hello")
        await it.settle()
        sent = record_emitted(it, monkeypatch)
        it.app.copy_to_clipboard("")
        await it.settle()
        assert sent == []
        assert it.app.clipboard == "hello"


async def test_too_long_text_is_reported_as_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as it:
        sent = record_emitted(it, monkeypatch)
        it.app.copy_to_clipboard("x" * 60_000)
        await it.settle()
        assert sent == []
        assert "Not copied: 60,000 characters" in it.screen_text()


@pytest.mark.parametrize("wanted", [True, False])
async def test_selection_is_copied_if_configured(wanted: bool) -> None:
    async with running(screen=ScreenSettings(copy_on_select=wanted)) as it:
        await it.session.say("take this with you")
        await it.settle()
        row = next(y for y, line in enumerate(it.screen_text().split("\n")) if "take this" in line)
        column = it.screen_text().split("\n")[row].index("take")
        await it.pilot.mouse_down(offset=(column, row))
        await it.pilot.hover(offset=(column + 9, row))
        await it.pilot.mouse_up(offset=(column + 9, row))
        await it.settle()
        assert it.app.clipboard.startswith("take this") is wanted


async def test_copy_mode_shows_one_pane_without_mouse(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(size=(160, 48)) as it:
        await it.session.run("echo hi", "hi\n")
        await it.press("f4")
        sent = record_emitted(it, monkeypatch)
        await it.press("ctrl+x", "k")
        assert it.app.copy_mode.is_on
        assert sent == [escapes.MOUSE_OFF]
        assert [it.app.workspace.pane(name).display for name in ("chat", "events", "terminal")] == [False, False, True]
        assert not it.app.workspace.prompt.region
        assert it.screen_text().split("\n")[0].startswith("$ echo hi")
        assert "Esc ends it" in it.screen_text()
        await it.press("escape")
        assert not it.app.copy_mode.is_on
        assert sent == [escapes.MOUSE_OFF, escapes.MOUSE_ON]
        assert [it.app.workspace.pane(name).display for name in ("chat", "events", "terminal")] == [True, True, True]
        assert it.prompt_has_focus


async def test_copy_mode_removes_chat_margin() -> None:
    async with running(size=(160, 48)) as it:
        await it.session.say("at the edge")
        await it.settle()
        await it.press("ctrl+x", "k")
        assert any(line[:4].strip().startswith("at") for line in it.screen_text().split("\n"))


async def test_question_ends_copy_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as it:
        sent = record_emitted(it, monkeypatch)
        await it.press("ctrl+x", "k")
        await it.session.hold(CmdRunAction(command="make all"))
        await until(it.pilot, lambda: it.app.workspace.question is not None)
        await it.settle()
        assert not it.app.copy_mode.is_on
        assert escapes.MOUSE_ON in sent
        assert "make all" in it.screen_text()
