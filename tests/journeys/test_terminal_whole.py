"""The terminal is restored in every case, idle when the workspace is, and not confused by replies."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.journeys.terminal_of_ours import OurTerminal
from tests.program import Handloom

pytestmark = pytest.mark.alone

PLACEHOLDER = "Ask for something"


@contextmanager
def workspace(handloom: Handloom, *turns: dict[str, object], **environ: str) -> Iterator[OurTerminal]:
    """The workspace with a scripted model, ready to be typed into."""
    model = write_script(handloom.workspace.parent, [*turns, FINISH])
    terminal = OurTerminal(handloom, "--model", model, HANDLOOM__AGENT__CONFIRM="never", **environ)
    try:
        terminal.wait_for(PLACEHOLDER, "waiting for you")
        yield terminal
    finally:
        terminal.close()


def quiet(terminal: OurTerminal, for_s: float = 1.0) -> None:
    """Read on until nothing was written for so long."""
    while terminal.read(for_s):
        pass


def test_idle_workspace_writes_nothing(handloom: Handloom) -> None:
    with workspace(handloom, {"tool_calls": [bash("seq 1 200")]}) as terminal:
        quiet(terminal)
        assert terminal.read(3.0) == b""
        terminal.write("go\r")
        terminal.wait_for("finished", "All is done.")
        quiet(terminal, 4.0)  # flash messages disappear too
        assert terminal.read(3.0) == b""


def test_reduced_motion_updates_only_the_seconds(handloom: Handloom) -> None:
    environ = {"HANDLOOM__SCREEN__MOTION": "reduced"}
    lasting = bash("echo begun; sleep 600", timeout=600)  # it does not come back because it prints nothing
    with workspace(handloom, {"tool_calls": [lasting]}, **environ) as terminal:
        terminal.write("go\r")
        terminal.wait_for("begun", "running")
        seen = []
        for _ in range(8):  # work after the start takes a while, and animations never end
            before, until, writes = len(terminal.raw), time.monotonic() + 5, 0
            while time.monotonic() < until:
                writes += bool(terminal.read(0.3))
            seen.append((writes, len(terminal.raw) - before))
            if writes <= 6 and len(terminal.raw) - before < 6 * 1500:  # a line or two a second
                return
        raise AssertionError(f"the screen never comes to rest: {seen} (writes, bytes) in 5 s each")


@pytest.mark.parametrize("report", ["\x1b[<32;NaN;NaNM", "\x1b[<0;NaN;3m", "\x1b[<;;M", "\x1b[<99999999999;1;1M"])
def test_broken_mouse_report_never_reaches_the_prompt(handloom: Handloom, report: str) -> None:
    with workspace(handloom) as terminal:
        quiet(terminal)
        terminal.write(report * 3)
        terminal.write("typed")
        terminal.wait_for("typed")
        quiet(terminal)
        assert "NaN" not in terminal.screen
        assert "99999" not in terminal.screen
        assert "32;" not in terminal.screen
        line = next(line for line in terminal.screen.split("\n") if "typed" in line)
        assert line.strip(" ▊▎▌│|") == "typed"


def test_unrequested_replies_are_not_typed(handloom: Handloom) -> None:
    with workspace(handloom) as terminal:
        quiet(terminal)
        terminal.write("\x1b[?1;2c\x1b[24;80R\x1b]52;c;U0VDUkVU\x07\x1b]11;rgb:0000/0000/0000\x1b\\\x1bP>|xterm\x1b\\")
        terminal.write("typed")
        terminal.wait_for("typed")
        line = next(line for line in terminal.screen.split("\n") if "typed" in line)
        assert line.strip(" ▊▎▌│|") == "typed"


@pytest.mark.parametrize("how", ["ctrl+q", "SIGTERM", "SIGHUP", "SIGINT"])
def test_terminal_is_restored_however_the_program_ends(handloom: Handloom, how: str) -> None:
    with workspace(handloom) as terminal:
        assert not terminal.is_whole
        if how == "ctrl+q":
            terminal.write("\x11")
        else:
            os.kill(terminal.process.pid, getattr(signal, how))
        terminal.end()
        assert terminal.is_whole
        assert b"\x1b[23;2t" in terminal.raw, "the terminal has its title back"


def test_next_start_restores_the_terminal_after_a_kill(handloom: Handloom) -> None:
    with workspace(handloom) as terminal:
        terminal.process.kill()
        terminal.end()
        assert not terminal.is_whole
        terminal.start("--model", "demo")
        terminal.wait_for(PLACEHOLDER)
        while terminal.read(1.0):
            pass
        terminal.write("\x11")
        assert terminal.end() == 0
        assert terminal.is_whole


def test_stopped_program_restores_the_terminal_until_it_continues(handloom: Handloom) -> None:
    with workspace(handloom) as terminal:
        os.kill(terminal.process.pid, signal.SIGTSTP)
        while not terminal.is_whole:
            assert terminal.read(20)
        os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED | os.WNOWAIT)  # as a shell does, before it continues it
        os.kill(terminal.process.pid, signal.SIGCONT)
        while terminal.is_whole:
            assert terminal.read(20)
        terminal.write("typed")
        terminal.wait_for("typed")


def storm(terminal: OurTerminal, seed: int) -> None:
    """Change the size quickly, and end at 160x48."""
    chance = random.Random(seed)
    sizes = [(1, 1), (500, 200), (20, 5), (3, 40), (200, 2)]
    sizes += [(chance.randint(1, 200), chance.randint(1, 60)) for _ in range(40)]
    for size in sizes:
        terminal.resize(*size)
        terminal.read(0.02)
    terminal.resize(160, 48)


@pytest.mark.usefixtures("no_isolation")
def test_screen_is_intact_after_many_resizes(handloom: Handloom) -> None:
    turn: dict[str, object] = {"text": "# A title\n\ntext " * 50, "tool_calls": [bash("seq 1 100")]}
    with workspace(handloom, turn, FINISH, turn) as terminal:
        terminal.resize(160, 48)
        terminal.write("go\r")
        terminal.wait_for("finished", "All is done.", "NO SANDBOX")
        quiet(terminal, 4.0)  # flash messages disappear too
        before = terminal.screen
        storm(terminal, 4)
        quiet(terminal)
        assert terminal.screen == before
        terminal.write("again\r")
        storm(terminal, 5)
        terminal.wait_for("again", "finished", "All is done.", "NO SANDBOX")
        terminal.write("still here")
        terminal.wait_for("still here")
        assert terminal.process.poll() is None


def test_messages_stay_on_the_normal_screen_if_configured(handloom: Handloom) -> None:
    environ = {"HANDLOOM__SCREEN__PRINT_ON_EXIT": "true"}
    with workspace(handloom, {"text": "I look.", "tool_calls": [bash("echo seen-$((40+2))")]}, **environ) as terminal:
        terminal.write("look around\r")
        terminal.wait_for("finished", "All is done.")
        terminal.write("\x11")
        assert terminal.end() == 0
        after = terminal.raw.rpartition(b"\x1b[?1049l")[2].decode()
    for words in ("> look around", "I look.", "seen-42", "All is done.", "Resume with: handloom --resume "):
        assert words in after
