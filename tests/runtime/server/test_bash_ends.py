"""How a BashSession ends what runs, outlives its own shell, and ends itself."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from core.events import CmdRunAction, Frame, TerminalOutput
from runtime.server import prompt
from runtime.server.bash_session import BashSession
from runtime.server.shell import INTERRUPT_STEPS, Environment, ShellError
from tests.runtime.conftest import NO_CHANGE_TIMEOUT_S, Shell, has_ended, settled
from tests.stopped_clock import stopped_clock


class TestEndOfTheShell:
    @pytest.mark.parametrize(
        ("command", "exit_code"),
        [("exit 3", 3), ("kill -9 $$", 137), ("set -e; false", 1), ("exec sh -c 'exit 9'", 9), ("C-d", 0)],
    )
    async def test_fresh_shell_starts_in_the_same_folder(self, shell: Shell, command: str, exit_code: int) -> None:
        await shell.run("cd /usr")
        observation = await shell.run(command)
        assert observation.metadata.exit_code == exit_code
        assert observation.metadata.suffix == (
            prompt.completed(exit_code, command) + f"\n[The shell ended with it. {prompt.fresh_shell('/usr')}]"
        )
        assert (await shell.run("echo $PWD")).content == "/usr"

    async def test_failed_restart_is_reported_and_retried_by_the_next_command(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        path = shell.session.environment["PATH"]
        await shell.run("true")
        shell.session.environment.change({"PATH": str(tmp_path)})
        observation = await shell.run("echo last words; exit 3")
        assert (observation.content, observation.exit_code) == ("last words", 3)
        assert "No new shell could be started yet: bash was not found" in observation.metadata.suffix
        with pytest.raises(ShellError):
            await shell.run("echo hi")
        shell.session.environment.change({"PATH": path})
        observation = await shell.run("echo hi")
        assert observation.content == "hi"
        assert observation.metadata.prefix.startswith("[The shell had ended. A fresh shell was started in ")

    async def test_output_before_exit_is_kept(self, shell: Shell) -> None:
        assert (await shell.run("seq 1 1000; exit 3")).content.endswith("\n1000")

    async def test_shell_killed_between_commands_is_replaced(self, shell: Shell) -> None:
        old = shell.session.pid
        os.kill(old, 9)
        assert has_ended(old)
        await settled(shell.session)
        observation = await shell.run("echo hi")
        assert observation.content == "hi"
        assert observation.metadata.prefix.startswith("[The shell had ended. A fresh shell was started in ")

    async def test_shell_restarts_in_the_workspace_if_its_folder_is_removed(self, shell: Shell, tmp_path: Path) -> None:
        await shell.run("mkdir gone && cd gone && rmdir ../gone")
        await shell.run("exit")
        assert (await shell.run("pwd")).content == str(tmp_path)

    async def test_shell_works_after_its_temporary_files_are_removed(self, shell: Shell) -> None:
        await shell.run(f"rm -rf {shell.session._shell._folder}")
        assert (await shell.run("echo hi")).content == "hi"

    async def test_missing_bash_is_reported_with_advice(self, tmp_path: Path) -> None:
        with pytest.raises(ShellError, match="bash was not found; install it"):
            await BashSession(str(tmp_path), environment=Environment({"PATH": str(tmp_path)})).start()

    async def test_closing_ends_the_session_and_its_jobs(self, shell: Shell) -> None:
        pid = (await shell.run("nohup sleep 100 >/dev/null 2>&1 &")).metadata.pid
        await shell.session.aclose()
        assert has_ended(pid)


class TestInterrupt:
    @pytest.mark.parametrize("ignored", ["INT", "INT TERM"])
    async def test_interrupt_ends_all_commands_and_keeps_the_shell(
        self, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignored: str
    ) -> None:
        patient = (*INTERRUPT_STEPS[:-1], (signal.SIGKILL, 30))
        monkeypatch.setattr("runtime.server.shell.INTERRUPT_STEPS", patient)  # also on a busy machine
        pid = shell.session.pid
        stubborn = f"bash -c \"trap '' {ignored}; echo begun; while :; do sleep 0.1; done\""
        running = asyncio.create_task(shell.run(f"{stubborn}; echo > next", blocking=True))
        await shell.watcher.sees(b"begun\r\n")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await shell.run("ls next")).exit_code == 2
        assert shell.session.pid == pid

    @pytest.mark.parametrize(
        "command",
        [
            "sleep 100",
            "while true; do :; done",
            "sleep 100\nsleep 100",
            "bash -c \"trap '' INT; sleep 100; sleep 100\"",
            "bash -c \"trap '' INT TERM; echo x; sleep 100; sleep 100\"",
            "trap '' INT TERM; while true; do :; done",
            "cat",
            "stty raw -isig; sleep 100",
        ],
    )
    async def test_cancelling_interrupts_and_the_shell_stays_usable(self, shell: Shell, command: str) -> None:
        running = asyncio.create_task(shell.run(command + "; true", blocking=True))
        await shell.watcher.sees(b"$ ")
        running.cancel()
        with stopped_clock(after_s=3):
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (await shell.run("echo usable")).content == "usable"

    async def test_repeated_cancelling_does_not_break_the_interrupt(self, shell: Shell) -> None:
        running = asyncio.create_task(shell.run("bash -c \"trap '' INT; echo begun; sleep 100; sleep 100\""))
        await shell.watcher.sees(b"begun\r\n")
        for _ in range(5):
            running.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await shell.run("echo usable")).content == "usable"

    async def test_lost_reader_interrupts_the_command(self, shell: Shell) -> None:
        async def gone(frame: Frame) -> None:
            if isinstance(frame, TerminalOutput) and b"one\r\n" in frame.data:
                raise ConnectionResetError("gone")

        with pytest.raises(ConnectionResetError):
            await shell.session.execute(CmdRunAction(command="echo; echo one; sleep 100"), 1, gone)
        assert (await shell.run("echo usable")).content == "usable"

    async def test_cancelling_a_waiting_command_interrupts_nothing(self, shell: Shell, tmp_path: Path) -> None:
        first = asyncio.create_task(shell.run("mkfifo go; read x <go; echo first"))
        await shell.watcher.sees(b"read x")
        second = asyncio.create_task(shell.run("echo second"))
        await asyncio.sleep(0)
        second.cancel()
        observation = await first
        assert observation.metadata.suffix == prompt.no_new_output(NO_CHANGE_TIMEOUT_S)
        running = asyncio.create_task(shell.run(""))
        await asyncio.to_thread((tmp_path / "go").write_text, "\n")
        assert (await running).content == "first"
