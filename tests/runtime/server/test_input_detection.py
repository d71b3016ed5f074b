"""A command that waits for terminal input is detected, however it waits; a working one is not."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from core.events import CmdOutputObservation, CmdRunAction, Status
from runtime.server import input_detection, prompt
from runtime.server.bash_session import LOOK_AGAIN_S, WAITING_FOR_INPUT, BashSession
from runtime.server.terminal import Terminal
from tests.runtime.conftest import NO_CHANGE_TIMEOUT_S, Shell
from tests.runtime.isolation.confined import isolated, own, run

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a program waits for"),
]

ANNOUNCED = Status("info", WAITING_FOR_INPUT, "The command is waiting for input.")
WITHDRAWN = Status("info", WAITING_FOR_INPUT, "")
PYTHON = f"{sys.executable} -I -c"
_CALLS = 'import ctypes, select, struct; libc = ctypes.CDLL(None); second = struct.pack("=qq", 1, 0)\n'
PPOLL = _CALLS + 'entry = struct.pack("=ihh", 0, 1, 0)\nwhile True: libc.ppoll(entry, 1, {}, None)'
EPOLL_PWAIT2 = (
    _CALLS + "e = select.epoll(); e.register(0, 1); room = ctypes.create_string_buffer(12)\n"
    "while True: libc.syscall(441, e.fileno(), room, 1, {}, None, 8)"
)
"""System calls that Python never makes on its own, with their time limits."""
READERS = {
    "cat": "cat",
    "a pipe's first": "cat | sort",
    "the shell's own read": "read x",
    "a read with a limit of time": "read -t 90 x",
    "another shell": "bash -c 'read x; true'",
    "a shell that is typed to": "bash --norc",
    "python": f"{PYTHON} 'input()'",
    "a thread": f"{PYTHON} 'import threading; t = threading.Thread(target=input); t.start(); t.join()'",
    "a password": f"{PYTHON} 'import getpass; getpass.getpass()'",
    "a password of the shell": "read -rsp Password: x",
    "select": f"{PYTHON} 'import select; select.select([0], [], [])'",
    "poll": f"{PYTHON} 'import select; p = select.poll(); p.register(0, select.POLLIN); p.poll()'",
    "epoll": f"{PYTHON} 'import select; p = select.epoll(); p.register(0, select.EPOLLIN); p.poll()'",
    "ppoll": f"{PYTHON} '{PPOLL.format(None)}'",
    "epoll_pwait2": f"{PYTHON} '{EPOLL_PWAIT2.format(None)}'",
    "an event loop": f"{PYTHON} 'import asyncio as a; l = a.new_event_loop(); l.add_reader(0, int); l.run_forever()'",
}
WORKERS = {
    "sleep": "sleep 100",
    "a loop": "while true; do :; done",
    "a reader of a file": "tail -f /dev/null",
    "a reader of a pipe": "sleep 100 | cat",
    "a reader in the background": "cat & sleep 100",
    "a wait for a child": "sleep 100 & wait",
    "a server that takes keys": f"{PYTHON} 'import select, socket; "
    "select.select([0, socket.create_server((str(), 0))], [], [])'",
    "a sleep by read": "while true; do read -t 1; done",
    "ticks of select": f"{PYTHON} 'import select\nwhile True: select.select([0], [], [], 1)'",
    "ticks of poll": f"{PYTHON} 'import select; p = select.poll(); p.register(0, 1)\nwhile True: p.poll(1000)'",
    "ticks of epoll": f"{PYTHON} 'import select; p = select.epoll(); p.register(0, 1)\nwhile True: p.poll(1)'",
    "ticks of ppoll": f"{PYTHON} '{PPOLL.format('second')}'",
    "ticks of epoll_pwait2": f"{PYTHON} '{EPOLL_PWAIT2.format('second')}'",
    "a writer": f"{PYTHON} 'import select; select.select([], [], [1], 100)'",
}


@pytest.mark.parametrize("command", READERS.values(), ids=READERS)
async def test_program_that_reads_the_terminal_is_announced(tmp_path: Path, command: str) -> None:
    session = BashSession(str(tmp_path), no_change_timeout_s=50)
    await session.start()
    shell = Shell(session)
    observation = await shell.run(f"PS1= ; {command}", timeout=60)
    assert observation.metadata.exit_code == -1
    assert observation.metadata.suffix == prompt.WAITS
    assert shell.watcher.frames[-1] == ANNOUNCED
    await session.aclose()


@pytest.mark.parametrize("program", ["less", "vi", "more", "top"])
async def test_full_screen_programs_wait_for_keys(shell: Shell, program: str) -> None:
    if (await shell.run(f"command -v {program}")).exit_code:
        pytest.skip(f"{program} is not installed")
    observation = await shell.run(f"seq 100 > f; {program} {'' if program == 'top' else 'f'}")
    while not observation.metadata.suffix.endswith(prompt.WAITS):
        observation = await shell.run("")
    assert ANNOUNCED in shell.watcher.frames


@pytest.mark.parametrize("command", WORKERS.values(), ids=WORKERS)
async def test_program_that_works_or_waits_for_something_else_is_not_announced(shell: Shell, command: str) -> None:
    observation = await shell.run(command)
    assert observation.metadata.suffix == prompt.no_new_output(NO_CHANGE_TIMEOUT_S)
    assert ANNOUNCED not in shell.watcher.frames


async def test_short_wait_for_input_is_not_announced(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    reads_until = 0.0

    def waits(terminal: Terminal | None) -> bool:
        nonlocal reads_until
        now = asyncio.get_running_loop().time()
        reads_until = reads_until or now + LOOK_AGAIN_S / 2  # from the first look on
        return now < reads_until

    monkeypatch.setattr(input_detection, "waits_for_terminal", waits)
    observation = await shell.run("sleep 100")
    assert reads_until
    assert observation.metadata.suffix == prompt.no_new_output(NO_CHANGE_TIMEOUT_S)
    assert ANNOUNCED not in shell.watcher.frames


async def test_blocking_action_is_announced_and_keeps_waiting(shell: Shell) -> None:
    running = asyncio.create_task(shell.run("read x; echo got:$x", blocking=True))
    await shell.watcher.sees_frame(ANNOUNCED)
    assert not running.done()
    shell.session.type(b"Ada\n")
    assert (await running).content == "Ada\ngot:Ada"
    assert WITHDRAWN in shell.watcher.frames


async def test_users_keys_clear_the_status(shell: Shell, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    running = asyncio.create_task(shell.run("read x; echo got:$x; read y <go", blocking=True))
    await shell.watcher.sees_frame(ANNOUNCED)
    shell.session.type(b"Ada\n")
    await shell.watcher.sees_frame(WITHDRAWN)
    assert not running.done()
    await asyncio.to_thread((tmp_path / "go").write_text, "\n")
    assert (await running).content == "Ada\ngot:Ada"


async def test_input_clears_the_status(shell: Shell) -> None:
    await shell.run("read x; echo $x; sleep 100")
    observation = await shell.run("Ada", is_input=True)
    assert observation.content == "Ada"
    assert observation.metadata.suffix == prompt.no_new_output(NO_CHANGE_TIMEOUT_S)
    assert [frame for frame in shell.watcher.frames if isinstance(frame, Status)] == [ANNOUNCED, WITHDRAWN]


async def test_each_new_question_is_announced(shell: Shell) -> None:
    observation = await shell.run("read -p one? x; read -p two? y")
    assert (observation.content, observation.metadata.suffix[-60:]) == ("one?", prompt.WAITS[-60:])
    observation = await shell.run("1", is_input=True)
    assert (observation.content, observation.metadata.suffix[-60:]) == ("two?", prompt.WAITS[-60:])
    assert (await shell.run("2", is_input=True)).exit_code == 0


async def test_waiting_again_is_not_announced_twice(shell: Shell) -> None:
    await shell.run("read x")
    observation = await shell.run("")
    assert observation.metadata.suffix == prompt.no_new_output(NO_CHANGE_TIMEOUT_S)


@pytest.mark.parametrize(
    "said", ["", "running", "-1 0x0 0x0", "0", "0 zz", "7 0xffffffffffffffff 0x4", "270 0x40 0x1", "232 0xffff", "é"]
)
def test_invalid_task_data_is_ignored(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "syscall").write_text(said)
    monkeypatch.setattr(input_detection, "_tasks", lambda pid: [tmp_path])
    calls = {0: "read", 7: "poll", 270: "select", 232: "epoll"}
    assert not input_detection._waits(os.getpid(), "/dev/pts/0", calls)


@pytest.mark.bubblewrap
async def test_detection_works_in_a_sandbox_and_without_privileges(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    own(tmp_path / "workspace")
    async with isolated(tmp_path / "workspace") as runtime:
        observation = await runtime.execute(CmdRunAction(command="seq 1 100000; read x"), 1, lambda frame: None)
        assert isinstance(observation, CmdOutputObservation)
        assert prompt.WAITS in observation.metadata.suffix
        await runtime.execute(CmdRunAction(command="\n", is_input=True), 2, lambda frame: None)
        kept = observation.metadata.suffix.split()[-1].rstrip("]")
        assert (await run(runtime, f"tail -n 1 {kept}")).content == "100000"
    assert not Path(kept).exists()


async def test_program_that_reads_later_is_detected_later(shell: Shell) -> None:
    observation = await shell.run("sleep 0.25; read x", timeout=60)
    assert observation.metadata.suffix.endswith(prompt.WAITS)


async def test_shell_that_has_not_read_the_command_does_not_wait_for_input(shell: Shell) -> None:
    await shell.run("true")
    os.kill(shell.session.pid, signal.SIGSTOP)  # as on a stalled machine
    try:
        observation = await shell.run("echo begun")
    finally:
        os.kill(shell.session.pid, signal.SIGCONT)
    assert observation.metadata.suffix == prompt.no_new_output(NO_CHANGE_TIMEOUT_S)
    assert (await shell.run("")).content == "begun"
