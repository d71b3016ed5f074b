"""The user's turn at the agent's terminal: real bash, real programs."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from core.events import CmdOutputObservation, CmdRunAction, Frame, Status, TerminalOutput
from runtime.server import user_terminal
from runtime.server.bash_session import WAITING_FOR_INPUT
from runtime.server.user_terminal import TAKEN
from tests.runtime.conftest import Shell, Watcher

WAITS = Status("info", WAITING_FOR_INPUT, "The command is waiting for input.")


class Turn:
    """A turn that is on."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self._running = asyncio.create_task(shell.run("# taken", 9, takes_over=True))

    async def begun(self) -> Turn:
        await self.shell.watcher.sees_frame(Status("info", TAKEN, ""))
        return self

    async def sees(self, text: bytes, after: int = 0) -> None:
        await self.shell.watcher.sees(text, after)

    def type(self, keys: bytes) -> None:
        self.shell.session.type(keys)

    async def end(self) -> CmdOutputObservation:
        self.shell.session.give_back()
        async with asyncio.timeout(10):
            return await self._running


def prompt(folder: Path) -> bytes:
    """The end of the prompt in a turn; the terminal shows commands of the agent behind a shorter one."""
    return f"{folder.name} {'#' if os.getuid() == 0 else '$'} ".encode()


async def take(shell: Shell) -> Turn:
    return await Turn(shell).begun()


async def line(turn: Turn, text: bytes, shows: bytes) -> None:
    """Type a line and wait for its output."""
    turn.type(text + b"\r")
    await turn.sees(shows)


PRESSES = 5
PRESS_S = 2.0


async def interrupt(turn: Turn, folder: Path) -> None:
    """Press ctrl+c, and again where no prompt follows.

    A shell that is about to read when the signal comes takes it with the next key only (once in about 900 times).
    """
    after = len(turn.shell.watcher.shown)
    for _ in range(PRESSES):
        turn.type(b"\x03")
        with suppress(TimeoutError):
            async with asyncio.timeout(PRESS_S):
                return await turn.sees(prompt(folder), after)
    pytest.fail(f"no prompt after {PRESSES} interrupts")


async def test_lines_of_the_user_run_in_the_agents_shell(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    await shell.run("X=agent")
    turn = await take(shell)
    await line(turn, b"cd sub; echo I am $X; X=user", b"I am agent\r\n")
    await line(turn, b"for i in 1 2; do", b"> ")
    await line(turn, b"echo n$i; done; false", b"n2\r\n")
    observation = await turn.end()
    assert observation.metadata.prefix == (
        "[The user ran:]\n$ cd sub; echo I am $X; X=user  [exit code 0]\n$ for i in 1 2; do; echo n$i; done; false  "
        "[exit code 1]\n[The terminal showed:]\n"
    )
    assert "I am agent\n" in observation.content
    assert "The user has given the terminal back" in observation.metadata.suffix
    assert observation.metadata.exit_code == 0, "the lines have their own"
    assert (await shell.run("echo $X $PWD")).content == f"user {tmp_path}/sub"


async def test_unsent_line_is_dropped(shell: Shell, tmp_path: Path) -> None:
    turn = await take(shell)
    await turn.sees(prompt(tmp_path))
    turn.type(b"touch never")
    await turn.sees(b"never")
    await turn.end()
    assert (await shell.run("ls; echo free")).content == "free"
    assert not (tmp_path / "never").exists()


async def test_turn_survives_interrupt_and_suspend_keys(shell: Shell, tmp_path: Path) -> None:
    turn = await take(shell)
    await line(turn, b"bash -c 'echo go; exec sleep 100'", b"go\r\n")
    for _ in range(3):  # an interrupted shell drops typed-ahead input, so wait for its prompt each time
        await interrupt(turn, tmp_path)
    await line(turn, b"bash -c 'echo go2; exec sleep 100'", b"go2\r\n")
    turn.type(b"\x1a")
    await turn.sees(b"Stopped")
    await line(turn, b"kill %1; echo st''ill", b"still\r\n")
    assert "go2; exec sleep 100" in (await turn.end()).metadata.prefix


async def test_agents_command_continues_during_the_turn(shell: Shell, tmp_path: Path) -> None:
    running = asyncio.create_task(shell.run("read -p name: x; echo hello $x", blocking=True))
    await shell.watcher.sees_frame(WAITS)
    turn = await take(shell)
    assert "The user has taken over" in (await running).metadata.suffix
    turn.type(b"Ada\r")
    await turn.sees(prompt(tmp_path))  # the prompt of the lines that follow on it
    observation = await turn.end()
    assert observation.content.startswith("Ada\nhello Ada") or observation.content.startswith("name:Ada\nhello Ada")
    assert "The command that ran before ended with exit code 0" in observation.metadata.prefix


async def test_turn_without_a_key_does_not_interrupt_the_agents_command(shell: Shell, tmp_path: Path) -> None:
    running = asyncio.create_task(
        shell.run("echo be''gun; while [ ! -e stop ]; do :; done; echo thr''ough", blocking=True)
    )
    await shell.watcher.sees(b"begun\r\n")
    turn = await take(shell)
    await running
    assert (await turn.end()).metadata.exit_code == -1, "it still runs"
    (tmp_path / "stop").touch()
    assert "through" in (await shell.run("", blocking=True)).content


async def test_agents_command_waits_for_the_end_of_the_turn(shell: Shell) -> None:
    turn = await take(shell)
    waiting = asyncio.create_task(shell.run("echo mine"))
    await line(turn, b"echo yo''urs", b"yours\r\n")
    assert not waiting.done()
    await turn.end()
    assert (await waiting).content == "mine"


async def test_password_appears_nowhere(shell: Shell) -> None:
    running = asyncio.create_task(shell.run("read -s -p password: x; echo; echo ${#x} characters", blocking=True))
    await shell.watcher.sees_frame(WAITS)
    turn = await take(shell)
    turn.type(b"hunter2\r")
    await turn.sees(b"7 characters")
    said = repr([await turn.end(), await running, shell.watcher.frames])
    assert "hunter2" not in said


async def test_password_of_a_program_without_echo_is_not_shown(shell: Shell) -> None:
    turn = await take(shell)
    program = "python3 -c 'import getpass; print(len(getpass.getpass()), \"characters\")'"
    await line(turn, program.encode(), b"Password: ")
    await line(turn, b"hunter2", b"7 characters")
    assert "hunter2" not in repr([await turn.end(), shell.watcher.frames])


async def test_shell_that_ends_in_a_turn_is_replaced(shell: Shell) -> None:
    turn = await take(shell)
    await line(turn, b"exit 3", b"fresh shell")
    await line(turn, b"echo al''ive", b"alive\r\n")
    observation = await turn.end()
    assert "The shell ended" in observation.metadata.prefix
    assert (await shell.run("echo agent")).content == "agent"


async def test_users_program_continues_after_the_turn(shell: Shell) -> None:
    turn = await take(shell)
    await line(turn, b"bash -c 'echo begun; exec sleep 100'", b"begun\r\n")
    assert "A program still runs" in (await turn.end()).metadata.suffix
    assert "NOT executed" in (await shell.run("echo mine")).metadata.suffix
    await shell.run("C-c", is_input=True)
    assert (await shell.run("echo mine")).content == "mine"


async def test_terminal_has_the_users_size_only_during_the_turn(shell: Shell) -> None:
    turn = await take(shell)
    shell.session.resize(48, 157)
    await line(turn, b"stty size", b"48 157\r\n")
    await turn.end()
    assert (await shell.run("stty size")).content == "30 120"


class SlowReader(Watcher):
    """Takes its first piece of a flood only when the terminal has been made to wait for it."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self._printed = shell.session._log
        self.was_slow = False

    async def emit(self, frame: Frame) -> None:
        self(frame)
        if not self.was_slow and isinstance(frame, TerminalOutput) and b"flooding" * 10 in frame.data:
            while not self._printed.is_backed_up:
                await asyncio.sleep(0)
            self.was_slow = True


async def test_output_continues_after_a_slow_reader(shell: Shell) -> None:
    shell.watcher = reader = SlowReader(shell)
    turn = await take(shell)
    turn.type(b"yes floodingflooding$(printf flooding%.0s {1..20}) | head -c 2000000; echo ov''er\r")
    await turn.sees(b"over\r\n")
    assert reader.was_slow
    await turn.end()


async def test_agents_output_does_not_stall_after_a_slow_reader(shell: Shell) -> None:
    shell.watcher = reader = SlowReader(shell)
    command = "yes floodingflooding$(printf flooding%.0s {1..20}) | head -c 2000000; echo ov''er"
    running = asyncio.create_task(shell.run(command, blocking=True))
    went_on: list[bool] = []
    wait = shell.session._shell.change

    async def watched(within_s: float | None = None) -> None:
        paused = shell.session._log.is_backed_up
        waiting = asyncio.create_task(wait(within_s))
        await asyncio.sleep(0)
        if paused:
            went_on.append(waiting.done())
        await waiting

    shell.session._shell.change = watched  # type: ignore[method-assign]
    await running
    assert reader.was_slow
    assert went_on
    assert all(went_on), "more was waited for while the terminal was paused"


async def test_second_turn_is_refused(shell: Shell) -> None:
    turn = await take(shell)
    assert "already" in (await shell.run("# taken", takes_over=True)).content
    await turn.end()


async def test_cancelling_ends_the_turn(shell: Shell) -> None:
    turn = await take(shell)
    turn._running.cancel()
    assert (await shell.run("echo free")).content == "free"


@pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed")
async def test_vim_works(shell: Shell, tmp_path: Path) -> None:
    turn = await take(shell)
    await line(turn, b"vim -u NONE -N note.txt", b"\x1b[?1049h")
    turn.type(b"ihello from vim\x1b:wq\r")
    async with asyncio.timeout(10):
        while not (tmp_path / "note.txt").exists():
            await asyncio.sleep(0.01)
    await turn.sees(b"\x1b[?1049l")
    await line(turn, b"echo af''ter", b"after\r\n")
    observation = await turn.end()
    assert (tmp_path / "note.txt").read_text() == "hello from vim\n"
    assert "vim -u NONE -N note.txt\n" in observation.content
    assert "\nafter\n" in f"{observation.content}\n", "the prompt may not be drawn yet"
    assert "hello" not in observation.content, "what vim showed is gone, as in a terminal"
    assert re.search(r"\$ vim .*\[exit code 0\]", observation.metadata.prefix)


@pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed")
async def test_editor_of_the_agent_leaves_nothing_when_the_user_leaves_it(shell: Shell, tmp_path: Path) -> None:
    running = asyncio.create_task(shell.run("vim -u NONE -N note.txt", blocking=True))
    await shell.watcher.sees_frame(WAITS)
    turn = await take(shell)
    await running
    shell.session.resize(48, 157)
    turn.type(b"ihello from vim\x1b:wq\r")
    await turn.sees(b"\x1b[?1049l")
    await turn.sees(prompt(tmp_path))
    observation = await turn.end()
    assert (tmp_path / "note.txt").read_text() == "hello from vim\n"
    assert "~" not in observation.content
    assert "hello" not in observation.content, "what vim showed is gone, as in a terminal"


def test_takeover_is_stored() -> None:
    action = CmdRunAction(command="# taken", takes_over=True)
    assert CmdRunAction.model_validate(action.model_dump()).takes_over


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("", []),
        ("> ls\n< 0\n> false\n< 1\n> vim\n", ["$ ls  [exit code 0]", "$ false  [exit code 1]", "$ vim"]),
        ("< 0\n", []),
        ("> a\n< no number\nother\n", ["$ a"]),
    ],
)
def test_typed_lines_are_reported_with_exit_codes(tmp_path: Path, written: str, told: list[str]) -> None:
    (tmp_path / "typed").write_text(written)
    lines = "\n".join(told)
    expected = f"[The user ran:]\n{lines}\n[The terminal showed:]\n" if told else ""
    assert user_terminal._typed_lines(str(tmp_path / "typed")) == expected
    assert user_terminal._typed_lines(str(tmp_path / "none")) == ""


def test_newest_typed_lines_are_reported(tmp_path: Path) -> None:
    (tmp_path / "typed").write_text("".join(f"> {number:05}\n" for number in range(10_000)))
    told = user_terminal._typed_lines(str(tmp_path / "typed")).splitlines()
    assert (told[1], told[-2], len(told)) == ("$ 07952", "$ 09999", 2050)
