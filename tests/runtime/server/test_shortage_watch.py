"""The reserve of disk space, and that ended commands are reported once; on a machine with enough resources."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.server import shortage_watch
from runtime.server.shortage_watch import ShortageWatch, _process_limits, _Reserve, memory_interval_s
from tests.program import ROOT


@pytest.mark.parametrize(
    ("least", "at_the_start", "then"),
    [
        (1000, 1000, [(1000, False), (999, True), (999, False), (874, False), (873, True)]),
        (1000, 5000, [(1000, False), (500, True), (438, False), (437, False), (436, True)]),
        (1000, 800, [(700, False), (699, True), (612, False), (611, False), (610, True)]),
        (1000, 800, [(1000, False), (999, True)]),
        (1000, 800, [(999, False), (700, False), (1001, False), (999, True)]),
        (0, 0, [(0, False), (5, False)]),
    ],
)
def test_used_up_reserve_leaves_an_eighth_of_the_rest(
    least: int, at_the_start: int, then: list[tuple[int, bool]]
) -> None:
    reserve = _Reserve(least)
    reserve.begin(at_the_start)
    assert [(free, reserve.is_used_up(free)) for free, _ in then] == then


async def test_nothing_is_reported_without_a_shortage(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    shortage = ShortageWatch(str(tmp_path), 1)
    for _ in range(2):
        with shortage.watched():
            pass
        assert shortage.take() == ""
    await shortage.aclose()
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("crowded_checks", "rooms_made"), [(11, 0), (12, 1), (23, 1), (24, 2)])
async def test_room_is_made_after_twelve_checks_in_a_row_without_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crowded_checks: int, rooms_made: int
) -> None:
    crowded = [False] * crowded_checks
    made: list[int] = []
    monkeypatch.setattr(shortage_watch, "POLL_S", 0)
    monkeypatch.setattr(shortage_watch, "_can_start", lambda wanted: crowded.pop() if crowded else True)
    shortage = ShortageWatch(str(tmp_path))
    monkeypatch.setattr(shortage, "_make_room", made.append)
    with shortage.watched():
        made.clear()
        async with asyncio.timeout(30):
            while crowded:
                await asyncio.sleep(0)
    await shortage.aclose()
    assert made == [1] * rooms_made


@pytest.mark.parametrize(("limit", "counted"), [(100, 100), (resource.RLIM_INFINITY, sys.maxsize)])
def test_no_limit_for_processes_counts_as_a_large_one(
    monkeypatch: pytest.MonkeyPatch, limit: int, counted: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert next(_process_limits()) == counted


@pytest.mark.parametrize(
    ("text", "seconds"), [("", 5), ("true", 5), ("2.5", 2.5), ("0.1", 0.5), ("0", 5), ("-1", 5), ("inf", 5), ("nan", 5)]
)
def test_interval_of_the_memory_record(text: str, seconds: float) -> None:
    assert memory_interval_s(text) == seconds


async def test_memory_is_recorded_while_an_action_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortage_watch, "POLL_S", 0.01)
    shortage = ShortageWatch(str(tmp_path), memory_interval_s=0.02)
    with shortage.watched():
        async with asyncio.timeout(30):
            while len(shortage.memory_history()) < 2:
                await asyncio.sleep(0.01)
            ballast = b"x" * (64 * 1024**2)
            before = len(shortage.memory_history())
            while len(shortage.memory_history()) < before + 2:
                await asyncio.sleep(0.01)
    (first_ago, first), *_, (last_ago, last) = shortage.memory_history()
    assert first_ago >= last_ago >= 0
    assert last - first > len(ballast) // 2
    await shortage.aclose()


SCRIPTED = """
import asyncio, os, subprocess, sys
from runtime.server import shortage_watch as module
MB = 1024 * 1024
free = {"bytes": 100 * MB, "files": 50_000}
class Disk:
    f_files, f_frsize = 1_000_000, 4096
    f_bavail = property(lambda self: free["bytes"] // 4096)
    f_favail = property(lambda self: free["files"])
os.statvfs = lambda where: Disk()
module.POLL_S = 0.01

async def main():
    shortage = module.ShortageWatch("/", 10 * MB)
    left = subprocess.Popen(["sleep", "600"])
    with shortage.watched():
        free[sys.argv[1]] = int(sys.argv[2])
        for _ in range(20):
            await asyncio.sleep(0.01)
        while sys.argv[3] and left.poll() is None:
            await asyncio.sleep(0.01)
    print(left.poll())
    print(shortage.take())
    print(shortage.take())
    if left.poll() is None:
        left.kill()
    left.wait()
    async with asyncio.timeout(30):  # where nothing runs any more, it is not looked on
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    await shortage.aclose()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("what", "left", "told"),
    [
        ("bytes", 9 * 2**20, "9 MB left"),
        ("files", 9_999, "only 9999 more"),
        ("bytes", 10 * 2**20, ""),
        ("files", 10_000, ""),
    ],
)
def test_commands_are_ended_when_the_disk_is_full_and_reported_once(what: str, left: int, told: str) -> None:
    command = [sys.executable, "-c", SCRIPTED, what, str(left), told]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
    ended, first, second = done.stdout.split("\n")[:3]
    assert (ended, second) == ("-9" if told else "None", "")
    assert (told in first) if told else first == ""


TOGETHER = """
import asyncio, os, subprocess, sys
from runtime.server import shortage_watch as module
module.POLL_S = 0.01
HELD = "import os, sys; held = b'x' * 2**26; [os.fork() for _ in range(2)]; print(flush=True); sys.stdin.read()"

async def main():
    shortage = module.ShortageWatch("/", memory_bytes=int(sys.argv[1]) * 2**20)
    left = [subprocess.Popen([sys.executable, "-c", HELD], stdin=-1, stdout=-1) for _ in range(int(sys.argv[2]))]
    for one in left:
        one.stdout.readline()
    with shortage.watched():
        for _ in range(30):
            await asyncio.sleep(0.01)
        while sys.argv[3] and any(one.poll() is None for one in left):
            await asyncio.sleep(0.01)
    print([one.poll() for one in left])
    print(shortage.take())
    for one in left:
        one.communicate()
    await shortage.aclose()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("most_mb", "parents", "told"),
    [
        (200, 1, ""),  # four processes share their 64 MB
        (200, 4, "limit for all processes is 200 MB"),
    ],
)
def test_commands_are_ended_when_their_memory_together_exceeds_the_limit(most_mb: int, parents: int, told: str) -> None:
    command = [sys.executable, "-c", TOGETHER, str(most_mb), str(parents), told]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
    ended, report = done.stdout.split("\n")[:2]
    assert ended == str([-9 if told else None] * parents)
    assert (told in report) if told else report == ""
