"""Difficult input for a terminal while the user controls it: floods, garbage, pastes, resizes, and dying shells."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.doubles import bash
from tests.journeys.terminal import Terminal
from tests.journeys.test_take_over import YOURS, told, wait_until_written, workspace
from tests.program import Handloom

pytestmark = pytest.mark.tmux

PROMPT = "workspace #" if os.getuid() == 0 else "workspace $"
PASTED_LINES = 2000
"""Of 50 characters: 100 kB."""


@contextmanager
def taken(handloom: Handloom, *turns: dict[str, object]) -> Iterator[Terminal]:
    """The workspace with the terminal under the user's control."""
    with workspace(handloom, *turns) as terminal:
        terminal.press("F12")
        terminal.wait_for(YOURS, "returns control", PROMPT)
        yield terminal


def run(terminal: Terminal, line: str) -> None:
    terminal.type(line)
    terminal.press("Enter")


def agent_goes_on(terminal: Terminal, says: str) -> None:
    """Give the terminal back, say something, and wait until the agent's own command has run."""
    terminal.press("F12")
    terminal.wait_for(YOURS, gone=True)
    run(terminal, "go")
    terminal.wait_for("finished", says)
    terminal.press("C-q")


def paste(terminal: Terminal, place: Path, text: str) -> None:
    """Paste as a terminal does: between brackets where the program asks for them."""
    path = place / "pasted"
    path.write_text(text)
    terminal._tmux("load-buffer", str(path))
    terminal._tmux("paste-buffer", "-p")


def pasted_text() -> str:
    return "".join(f"{number:06d} {'pasted words ' * 4}"[:49] + "\n" for number in range(PASTED_LINES))


def test_flood_of_output_is_stopped_by_a_key(handloom: Handloom) -> None:
    with taken(handloom, {"tool_calls": [bash("echo agent-$((40+2))")]}) as terminal:
        run(terminal, "yes overflowing")
        terminal.wait_for("\n overflowing\n overflowing")
        terminal.press("C-c")
        terminal.wait_for("^C", PROMPT)
        run(terminal, "echo alive-$((40+2))")
        terminal.wait_for("alive-42")
        agent_goes_on(terminal, "agent-42")


def test_garbage_is_handled_and_reset_cleans_up(handloom: Handloom) -> None:
    with taken(handloom, {"tool_calls": [bash("echo agent-$((40+2))")]}) as terminal:
        run(terminal, "head -c 2000000 /dev/urandom; echo; touch over")
        wait_until_written(handloom, "over", "")
        for _try in range(9):  # replies to the garbage come into the input line as long as the terminal reads it
            terminal.press("C-c")
            run(terminal, "reset; clear; echo alive-$((40+2))")
            with suppress(AssertionError):
                terminal.wait_for("alive-42", YOURS, within_s=10)
                break
        terminal.wait_for("alive-42", YOURS)
        agent_goes_on(terminal, "agent-42")


@pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed")
def test_large_paste_reaches_cat_and_vim_completely(handloom: Handloom) -> None:
    text = pasted_text()
    with taken(handloom) as terminal:
        # bash brackets what is pasted until the command runs, and cat would keep the brackets
        run(terminal, "echo rea''dy; cat > pasted.txt")
        terminal.wait_for("ready\n")
        paste(terminal, handloom.workspace.parent, text)
        terminal.wait_for(f"{PASTED_LINES - 1:06d} pasted")
        terminal.press("C-d")
        terminal.wait_for(PROMPT)
        wait_until_written(handloom, "pasted.txt", text)
        run(terminal, "vim -u NONE -N -c 'set paste' vimmed.txt")
        terminal.wait_for("[New]")
        terminal.press("i")
        terminal.wait_for("-- INSERT (paste) --")
        paste(terminal, handloom.workspace.parent, text)
        terminal.wait_for(f"{PASTED_LINES - 1:06d} pasted")
        terminal.press("Escape", ":wq", "Enter")
        wait_until_written(handloom, "vimmed.txt", text)
        terminal.press("F12")
        terminal.wait_for(YOURS, gone=True)
        terminal.press("C-q")


@pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed")
def test_last_of_many_resizes_reaches_vim(handloom: Handloom) -> None:
    (handloom.workspace / "lines.txt").write_text("".join(f"line {n}\n" for n in range(1, 501)))
    with taken(handloom) as terminal:
        run(terminal, "vim -u NONE -N -c 'set laststatus=2 statusline=%{&columns}x%{&lines}.' lines.txt")
        terminal.wait_for("line 1\n", "98x")
        chance = random.Random(7)
        for _ in range(25):
            terminal.resize(chance.randint(20, 200), chance.randint(6, 60))
        terminal.resize(90, 26)
        terminal.wait_for("line 1\n", "88x")
        terminal.press("Escape", "G", "o", "last", "Escape", ":wq", "Enter")
        wait_until_written(handloom, "lines.txt", "line 500\nlast\n")
        terminal.wait_for(PROMPT)
        run(terminal, "stty size")
        terminal.wait_for(" 88\n")
        terminal.press("F12")
        terminal.wait_for(YOURS, gone=True)
        terminal.press("C-q")


@pytest.mark.parametrize("end", ["exit 3", "kill -9 $$", "exec false"])
def test_dead_shell_is_reported_and_the_agent_continues(handloom: Handloom, end: str) -> None:
    with taken(handloom, {"tool_calls": [bash("echo agent-$((40+2))")]}) as terminal:
        run(terminal, end)
        terminal.wait_for("[The shell ended. A fresh shell was started")
        run(terminal, "echo alive-$((40+2))")
        terminal.wait_for("alive-42", YOURS)
        agent_goes_on(terminal, "agent-42")
    log = told(handloom)
    assert "The shell ended." in log


def test_hostile_escape_sequences_have_no_effect(handloom: Handloom) -> None:
    hostile = (
        r"\033]0;HACKED\007\033]2;HACKED\033\\\033]52;c;SEFDS0VE\007\033]52;c;?\007\033P$q\"p\033\\\033[21t\033]11;?\007"
        r"\033]9;HACKED\007\033]777;notify;HACKED;x\007\033[?1049h\033[?1000h\033[?1003h\033[?2004l\033[3J\033[?1049l"
        r"\033]5522;type=read:id=HACKED;Lg==\033\\\033[?2048h\033[8;5;20t\033[2t"
    )
    (handloom.workspace / "hostile").write_bytes(hostile.encode().decode("unicode_escape").encode("latin-1"))
    with taken(handloom) as terminal:
        terminal._tmux("set-option", "-g", "set-clipboard", "on")
        terminal._tmux("set-option", "-g", "allow-rename", "on")
        run(terminal, "clear; cat hostile; echo sho''wn")
        terminal.wait_for("shown", YOURS)
        run(terminal, "echo typed-$((40+2))")
        screen = terminal.wait_for("typed-42")
        assert "HACKED" not in screen
        assert "HACKED" not in terminal._tmux("display-message", "-p", "#{pane_title} #{window_name}")
        assert "HACKED" not in terminal._tmux("list-buffers")
        terminal.press("F12")
        terminal.wait_for(YOURS, gone=True)
        terminal.press("C-q")
    assert "HACKED" not in told(handloom).replace("]0;HACKED", "")


def kill_the_program(terminal: Terminal) -> None:
    """Kill what runs in the shell of the terminal, and wait until the shell has it back."""
    shell = terminal._tmux("display-message", "-p", "#{pane_pid}").strip()
    (program,) = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=True).stdout.split()
    os.kill(int(program), signal.SIGKILL)
    terminal.wait_for("Killed")


def test_program_killed_while_the_user_had_the_terminal_is_reported(handloom: Handloom) -> None:
    with taken(handloom, {"tool_calls": [bash("echo agent-$((40+2))")]}) as terminal:
        run(terminal, "echo typed-$((40+2))")
        terminal.wait_for("typed-42")
        kill_the_program(terminal)
        terminal.type("stty sane; clear; echo sa''ne")
        terminal.press("C-j")  # the killed one left the terminal as it was
        terminal.wait_for("sane\n")
        terminal.handloom("--model", f"scripted:{handloom.workspace.parent / 'script.yaml'}", "--resume")
        terminal.wait_for("Handloom ended while this was running")
        assert YOURS not in terminal.screen
        run(terminal, "go")
        terminal.wait_for("finished", "agent-42")
        terminal.press("C-q")
