"""One bash on a terminal: how it begins and ends, and where its files are."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from runtime.server import prompt
from runtime.server import shell as shell_module
from runtime.server.outputs import OutputLog, Outputs, TerminalViewers
from runtime.server.shell import Environment, SecretHandover, Shell, ShellError
from tests.runtime.conftest import WITHIN_S

Make = Callable[..., Shell]


@pytest.fixture
async def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Makes shells whose own files are in the folder `memory`."""
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(shell_module, "SHARED_MEMORY", str(tmp_path / "memory"))
    made: list[Shell] = []
    outputs = Outputs(folders=[str(tmp_path)])

    def make(folder: Path = tmp_path, **env: str) -> Shell:
        log = OutputLog(outputs, TerminalViewers())
        made.append(Shell(str(folder), environment=Environment({**os.environ, **env}), umask=0o022, log=log))
        return made[-1]

    yield make
    for shell in made:
        await shell.aclose()
    await outputs.aclose()


async def test_bash_that_is_too_old_says_what_to_do(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "MIN_BASH", (99, 0))
    with pytest.raises(ShellError, match=r"bash 99\.0 or newer is needed, and this is \d.*brew install bash"):
        await make().start()


async def test_shell_exists_from_start_to_close(make: Make, tmp_path: Path) -> None:
    shell = make()
    assert (shell.pid, shell.has_ended, shell.cwd) == (-1, True, str(tmp_path))
    await shell.start()
    assert (shell.has_ended, shell.is_over, shell.has_begun) == (False, False, True)
    assert os.getsid(shell.pid) == shell.pid
    (own,) = (tmp_path / "memory").iterdir()
    await shell.aclose()
    await shell.aclose()
    assert (shell.pid, shell.has_ended, own.exists()) == (-1, True, False)
    with pytest.raises(ShellError, match="the session is closed"):
        await shell.start()


async def test_command_has_begun_once_the_shell_has_read_it(make: Make) -> None:
    shell = make()
    await shell.start()
    await shell.begin("exit_with() { return 5; }; exit_with", 1)
    assert await shell.ends_within(WITHIN_S)
    assert shell.has_begun
    ended, with_its_shell = shell.take_result()
    assert (ended.exit_code, with_its_shell) == (5, False)
    await shell.begin("C-c", 2)
    assert shell.has_begun
    assert await shell.ends_within(WITHIN_S)
    assert shell.take_result()[0].exit_code == 130
    await shell.begin("exit 3", 3)
    assert await shell.ends_within(WITHIN_S)
    while not shell.has_ended:
        await shell.change()
    ended, with_its_shell = shell.take_result()
    assert (ended.exit_code, with_its_shell) == (3, True)
    assert "A fresh shell was started" in await shell.restart()
    assert (shell.has_ended, shell.is_over) == (False, False)


async def test_ends_within_returns_whether_the_command_ended(make: Make) -> None:
    shell = make()
    await shell.start()
    await shell.begin("read x", 1)
    assert not await shell.ends_within(0.01)
    shell.mark_discarded()
    assert await shell.ends_within(0)
    assert shell.take_result()[0].exit_code == 130


async def test_bash_without_a_prompt_raises_with_its_output(make: Make, tmp_path: Path) -> None:
    (tmp_path / "bash").write_text("#!/bin/sh\necho broken\n")
    (tmp_path / "bash").chmod(0o755)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(ShellError, match="the shell showed no prompt: broken"):
        await make(PATH=f"{tmp_path}:{os.environ['PATH']}").start()
    assert len(os.listdir("/proc/self/fd")) <= len(before) + 1  # the lock on its outputs


async def test_missing_folder_is_reported(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ShellError, match=r"cannot be started in .*none: No such file or directory"):
        await make(tmp_path / "none").start()


async def test_removed_files_are_recreated(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = make()
    first = Path(shell.write_file("name", "text\ud800"))
    assert first.read_bytes() == b"text?"
    assert Path(shell.write_file("other", "")).parent == first.parent
    first.unlink()
    (first.parent / "other").unlink()
    first.parent.rmdir()
    monkeypatch.setattr(shell_module, "SHARED_MEMORY", str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert Path(shell.write_file("name", "text")).parent.parent == tmp_path


def test_values_are_passed_in_order_with_zero_bytes() -> None:
    before = set(os.listdir("/proc/self/fd"))
    lent = SecretHandover({"one": "1", "two": "zwei\udcff", "empty": ""})
    assert lent.names == ("one", "two", "empty")
    folder = Path(lent.path).parent
    assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(os.stat(lent.path).st_mode)) == (0o700, 0o600)
    reader = os.open(lent.path, os.O_RDONLY)
    assert os.read(reader, 100) == b"1\0zwei\xff\0\0"
    os.close(reader)
    lent.close()
    lent.close()
    assert not folder.exists()
    assert set(os.listdir("/proc/self/fd")) == before


def test_too_large_values_leave_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_module, "SHARED_MEMORY", str(tmp_path))
    before = set(os.listdir("/proc/self/fd"))
    SecretHandover({"fits": "x" * 60_000}).close()
    with pytest.raises(UnicodeEncodeError):
        SecretHandover({"x": "\ud800"})
    assert list(tmp_path.iterdir()) == []
    assert set(os.listdir("/proc/self/fd")) == before


def test_pipe_that_cannot_be_made_is_reported_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: str, mode: int) -> None:
        raise PermissionError(1, "no pipes here")

    monkeypatch.setattr(shell_module, "SHARED_MEMORY", str(tmp_path))
    monkeypatch.setattr(os, "mkfifo", fails)
    with pytest.raises(PermissionError):
        SecretHandover({"one": "1"})
    assert list(tmp_path.iterdir()) == []


def test_pipe_is_in_the_temporary_folder_without_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_module, "SHARED_MEMORY", str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lent = SecretHandover({"a": "1"})
    assert Path(lent.path).parent.parent == tmp_path
    lent.close()
