"""Notifications: only if the user is away, only for important changes, in each terminal's sequence, and sanitised."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

import tui
from core.events import AgentState
from core.settings.screen_settings import ScreenSettings
from tests.tui.terminal_io.hostile_app import HOSTILE
from tests.tui.workspace.running_app import Running, running
from tui.terminal_io import escapes
from tui.workspace.conversation_status import Attention, Mark, Wait


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ([(Mark.IDLE, 0)], False),
        ([(Mark.RUNNING, 0), (Mark.IDLE, 20)], False),
        ([(Mark.RUNNING, 0), (Mark.IDLE, 21)], True),
        ([(Mark.RUNNING, 0), (Mark.RUNNING, 15), (Mark.IDLE, 21)], True),
        ([(Mark.RUNNING, 0), (Wait.APPROVAL, 1)], True),
        ([(Mark.RUNNING, 0), (Wait.QUESTION, 1)], True),
        ([(Mark.RUNNING, 0), (Wait.MODEL, 1)], True),
        ([(Mark.RUNNING, 0), (Wait.MODEL, 1), (Wait.MODEL, 2)], False),
        ([(Wait.MODEL, 0)], False),
        ([(Wait.QUESTION, 0), (Wait.APPROVAL, 1)], True),
        ([(Mark.RUNNING, 0), (Mark.DONE, 5)], False),
        ([(Mark.RUNNING, 0), (Mark.DONE, 21)], True),
        ([(Mark.RUNNING, 0), (Mark.PAUSED, 30)], False),
        ([(Mark.DONE, 0), (Mark.SUSPENDED, 30)], False),
        ([(Mark.RUNNING, 0), (Mark.IDLE, 30), (Mark.RUNNING, 31), (Mark.IDLE, 32)], False),
    ],
)
def test_changes_worth_a_notification_are_recognised(states: list[tuple[Mark | Wait, float]], told: bool) -> None:
    attention = Attention()
    *before, (mark, now) = states
    for earlier, at in before:
        attention.is_news("c", earlier, at)
    assert attention.is_news("c", mark, now) is told


KITTY = {"KITTY_WINDOW_ID": "1", "TERM": "xterm-kitty"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (KITTY, "\x1b]99;;done\x1b\\"),
        ({"TERM": "foot"}, "\x1b]777;notify;Handloom;done\x1b\\"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, "\x1b]777;notify;Handloom;done\x1b\\"),
        ({"TERM_PROGRAM": "iTerm.app"}, "\x1b]9;Handloom: done\x1b\\"),
        ({"TERM_PROGRAM": "WezTerm"}, "\x1b]9;Handloom: done\x1b\\"),
        ({"TERM_PROGRAM": "Apple_Terminal"}, "\a"),
        ({"TERM": "xterm"}, "\a"),
        ({"TMUX": "x", "TERM": "tmux-256color"}, "\a"),
        ({"TMUX": "x", **KITTY}, "\x1bPtmux;\x1b\x1b]99;;done\x1b\x1b\\\x1b\\\a"),
    ],
)
def test_notification_uses_the_terminals_own_sequence(environ: dict[str, str], expected: str) -> None:
    assert escapes.notification("done", environ) == expected


@pytest.mark.parametrize("environ", [KITTY, {"TERM": "foot"}, {"TERM_PROGRAM": "ghostty"}])
def test_text_cannot_end_its_escape_sequence(environ: dict[str, str]) -> None:
    for sequence in (escapes.notification(HOSTILE, environ), escapes.title(HOSTILE)):
        inner = sequence.removeprefix("\x1b]").removesuffix("\x1b\\")
        assert len(sequence) - len(inner) == 4
        assert inner.isprintable()


def heard(it: Running, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The app's output to the terminal from now on."""
    sent: list[str] = []
    monkeypatch.setattr(it.app, "emit", sent.append)
    return sent


async def work(it: Running, seconds: float) -> None:
    await it.session.become(agent_state=AgentState.RUNNING)
    await it.settle()
    it.clock.now += seconds
    await it.session.become(agent_state=AgentState.FINISHED)
    await it.settle()


@pytest.mark.parametrize(
    ("notify", "away", "seconds", "expected"),
    [
        ("auto", True, 30, ["\x1b]9;Handloom: new conversation: finished\x1b\\"]),
        ("auto", True, 5, []),
        ("auto", False, 30, []),
        ("bell", True, 30, ["\a"]),
        ("off", True, 30, []),
    ],
)
async def test_user_who_is_away_is_notified_of_the_end_of_long_work(
    notify: str, away: bool, seconds: float, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TMUX", "KITTY_WINDOW_ID", "VTE_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM_PROGRAM", "WezTerm")
    async with running(screen=ScreenSettings(notify=notify)) as it:  # type: ignore[arg-type]
        sent = heard(it, monkeypatch)
        if away:
            it.app.post_message(events.AppBlur())
            await it.settle()
        await work(it, seconds)
        assert [sequence for sequence in sent if "]2;" not in sequence] == expected


async def test_window_title_shows_the_conversation_and_its_state(it: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = heard(it, monkeypatch)
    await it.session.send("mend it")
    await it.session.become(agent_state=AgentState.RUNNING)
    await it.settle()
    assert sent[-1] == "\x1b]2;▶ mend it\x1b\\"


WRITERS_AND_READERS = ("escapes.py", "textual_patches.py", "ghostty_emulator.py")
"""The first writes control sequences, the others only read them."""


def test_only_one_module_writes_control_sequences() -> None:
    found = [
        f"{path.name}: {sign}"
        for path in Path(next(iter(tui.__path__))).rglob("*.py")
        if path.name
        not in (
            "escapes.py",
            "textual_patches.py",
            "ghostty_emulator.py",
        )  # the first writes them, the others only read
        for sign in ("driver.write", "_driver.write", r"\x1b]", r"\x1bP", r"\x1b_", r"\033", r"\e[", r"\x1b[?")
        if sign in path.read_text(encoding="utf-8")
    ]
    assert found == []
