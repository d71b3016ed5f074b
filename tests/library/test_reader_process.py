"""The process that reads sessions of other agents."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from asyncio import timeout
from concurrent.futures import BrokenExecutor
from contextlib import aclosing
from pathlib import Path

import pytest

from core.errors import StoreBusyError
from core.library.library import TOGETHER, Library
from core.library.prepared_session import copy_id
from core.library.reader_process import ReaderProcess, ReaderProcessError
from core.library.records import library_home, records_of
from core.library.update import Workers
from core.store.reader import EventReader
from tests.library.agents import CLAUDE_ID, write_all

CLAUDE = copy_id("claude-code", CLAUDE_ID)
PROMPT = '{"type": "user", "uuid": "u", "message": {"content": "Why?"}, "timestamp": "2026-01-01T00:00:00Z"}\n'
ROOT = Path(__file__).parents[2]
KILLED = """
import asyncio, os, signal
from core.library.update import Workers

async def main():
    print(await Workers(1).call(pow, 2, 10), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our home, on a machine whose user has worked with three agents."""
    user = tmp_path / "user"
    write_all(user, tmp_path / "work")
    monkeypatch.setenv("HOME", str(user))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "MSWEA_GLOBAL_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def _reading(home: Path) -> ReaderProcess:
    return ReaderProcess(home, ["claude-code", "codex", "mini-swe-agent"], keeps=True)


async def test_all_sessions_are_found_and_read(home: Path) -> None:
    steps = [progress async for progress in _reading(home).update()]
    assert (steps[-1].found, steps[-1].pending) == (3, 0)
    assert [record.was_read for record in records_of(home).values()] == [True] * 3


async def test_one_session_is_read(home: Path) -> None:
    async with Library(home) as library:
        await library.find()
    assert await _reading(home).read(CLAUDE) == ""
    assert [record.id for record in records_of(home).values() if record.was_read] == [CLAUDE]
    async with EventReader(library_home(home)) as reader:
        assert (await reader.conversation(CLAUDE)).event_count == 7


async def test_session_that_cannot_be_read_says_why(home: Path) -> None:
    async with Library(home) as library:
        await library.find()
        path = records_of(home)[CLAUDE].session.path
        path.write_bytes(b"\n" * 200_000)  # long enough to be taken for a session
    assert "no events" in await _reading(home).read(CLAUDE)


async def test_unknown_session_is_an_error(home: Path) -> None:
    with pytest.raises(ReaderProcessError, match="There is no session"):
        await _reading(home).read("0" * 32)


async def test_only_one_process_reads_all(home: Path) -> None:
    async with Library(home) as library, library._alone():
        with pytest.raises(StoreBusyError, match="Another Handloom"):
            await anext(aiter(_reading(home).update()))


async def test_reading_ends_at_once_when_it_is_cancelled(home: Path) -> None:
    path = Path(os.environ["HOME"], ".claude/projects/many")
    path.mkdir()
    for number in range(2 * TOGETHER):
        path.joinpath(f"{number}.jsonl").write_text(PROMPT)
    async with timeout(30), aclosing(_reading(home).update()) as steps:
        async for progress in steps:
            if progress.pending < progress.found:
                break


LIMITED = """
import io, resource, sys
from core.library import update

sys.stdin = io.StringIO(update.UpdateRequest(sys.argv[1], [], True, sys.argv[2]).to_json().decode())
status = update.main()
assert status == 0, status
assert resource.getrlimit(resource.RLIMIT_AS)[0] == update.MAX_MEMORY
"""


@pytest.mark.parametrize("session", ["", "claude-code-x"])
def test_memory_of_the_process_is_limited(home: Path, session: str) -> None:
    subprocess.run([sys.executable, "-c", LIMITED, home, session], cwd=ROOT, check=True, timeout=60)


async def test_process_ends_with_the_one_that_reads_its_output() -> None:
    program = "from core.library import update; update._keep_output(); update._write({}); __import__('signal').pause()"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=ROOT, stdout=pipe)
    assert process.stdout is not None
    async with timeout(30):
        assert await process.stdout.readline() == b"{}\n"
        process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
        assert await process.wait() == 1


class TestWorkers:
    async def test_processes_end_when_the_one_that_started_them_is_killed(self) -> None:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, cwd=ROOT, stdout=pipe)
        async with timeout(30):
            output, _errors = await process.communicate()  # which ends when the last process that has the pipe ends
        assert (output, process.returncode) == (b"1024\n", -signal.SIGKILL)

    async def test_ended_process_takes_only_its_own_session_with_it(self) -> None:
        async with Workers(2) as workers:
            calls = [workers.call(pow, 2, number) for number in range(8)]
            ended, *powers = await asyncio.gather(workers.call(os._exit, 1), *calls, return_exceptions=True)
            assert isinstance(ended, BrokenExecutor)
            assert powers == [2**number for number in range(8)]
            assert await workers.call(pow, 2, 10) == 1024

    async def test_library_says_that_the_process_was_ended(self, home: Path) -> None:
        async def apart(*args: object) -> object:
            raise BrokenExecutor

        async with Library(home, apart=apart) as library:  # type: ignore[arg-type]
            await library.find()
            await library.read_pending()
        assert {record.wrong for record in records_of(home).values()} == {
            "the process that read it was ended by the system"
        }
