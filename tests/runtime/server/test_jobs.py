"""What commands left running is listed by a real server, and can be ended, however it was started."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from core.events import CmdRunAction
from runtime.local.local_runtime import LocalRuntime
from runtime.server import processes
from tests.runtime.conftest import Watcher, has_ended

LEFT_RUNNING = {
    "a job": "sleep 1000 &",
    "disown": "sleep 1000 & disown",
    "nohup": "nohup sleep 1000 >/dev/null 2>&1 &",
    "setsid": "setsid sleep 1000 &",
    "a second fork": "(setsid sh -c 'sleep 1000 & wait' &) ",
    "one that takes no signal": "bash -c \"trap '' INT TERM HUP; sleep 1000; true\" &",
}


class Jobs:
    """A server with a shell, and its routes for jobs."""

    def __init__(self, runtime: LocalRuntime) -> None:
        assert runtime._client is not None
        self._runtime = runtime
        self._client = runtime._client

    async def run(self, command: str, **fields: Any) -> str:
        return (await self._runtime.execute(CmdRunAction(command=command, **fields), 1, Watcher())).content

    async def listed(self) -> list[dict[str, Any]]:
        async with self._client._session.get("http://localhost/jobs") as response:
            assert response.status == 200
            listed: list[dict[str, Any]] = await response.json()
            return listed

    async def sees(self, command: str) -> dict[str, Any]:
        """Ask until it is listed: what was started may still be on its way to its name."""
        while not (found := [job for job in await self.listed() if job["command"] == command]):
            pass
        return found[0]

    async def end(self, pid: int) -> tuple[int, dict[str, Any]]:
        async with self._client._session.delete(f"http://localhost/jobs/{pid}") as response:
            return response.status, await response.json()


@pytest.fixture
async def server(local: LocalRuntime) -> Jobs:
    return Jobs(local)


@pytest.mark.parametrize("command", LEFT_RUNNING.values(), ids=LEFT_RUNNING)
async def test_processes_left_running_are_listed_and_ended(server: Jobs, command: str) -> None:
    await server.run(command)
    job = await server.sees("sleep 1000")
    assert job["state"] in ("sleeping", "running", "waiting for a disk")
    assert abs(job["started_at"] - time.time()) < 30
    assert job["foreground"] is False
    for each in await server.listed():
        await server.end(each["pid"])
    assert has_ended(job["pid"], 0)
    assert await server.listed() == []


async def test_running_command_is_listed_with_its_cpu_time(server: Jobs) -> None:
    watcher = Watcher()
    command = CmdRunAction(command="bash -c 'echo begun; while :; do :; done'", blocking=True)
    running = asyncio.create_task(server._runtime.execute(command, 1, watcher))
    await watcher.sees(b"begun\r\n")
    (job,) = await server.listed()
    while job["cpu_s"] < 0.1:
        (job,) = await server.listed()
    assert (job["state"], job["foreground"]) == ("running", True)
    assert job["command"] == "bash -c echo begun; while :; do :; done"
    await server.end(job["pid"])
    assert (await running).exit_code == 143  # type: ignore[attr-defined]


async def test_stopped_job_is_listed_and_ended(server: Jobs) -> None:
    await server.run("sleep 1000", timeout=0.3)
    await server.run("C-z", is_input=True)
    (job,) = await server.listed()
    assert job["state"] == "stopped"
    assert (await server.end(job["pid"]))[0] == 200
    assert await server.listed() == []


async def test_everything_below_a_job_ends_with_it(server: Jobs) -> None:
    await server.run("bash -c 'sleep 1000 & sleep 1001 & wait' &")
    listed = await server.listed()
    while len(listed) < 3:
        listed = await server.listed()
    parent = next(job for job in listed if job["command"].startswith("bash"))
    await server.end(parent["pid"])
    assert await server.listed() == []


async def test_only_jobs_can_be_ended(server: Jobs, local: LocalRuntime) -> None:
    shell = int(await server.run("echo $$"))
    for pid in (shell, local.server_pid, os.getpid(), 1, 999_999_999):
        assert pid is not None
        status, said = await server.end(pid)
        assert (status, said["detail"]) == (404, f"There is no job {pid}. Ask for the list of jobs again.")
    assert int(await server.run("echo $$")) == shell


def test_jobs_are_read_from_ps_without_proc() -> None:
    (me,) = processes._jobs_from_ps([os.getpid()])
    (seen,) = processes._jobs_from_proc([os.getpid()])
    assert (me.pid, me.command, me.foreground) == (seen.pid, seen.command, seen.foreground)
    assert abs(me.started_at - seen.started_at) < 3
    assert abs(me.cpu_s - seen.cpu_s) < 2


def test_ended_process_is_not_a_job() -> None:
    assert list(processes._jobs_from_proc([999_999_999])) == []
    assert list(processes._jobs_from_ps([])) == []
    assert Path("/proc").is_dir()


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:00", 0), ("01:02", 62), ("1:00:00", 3600), ("2-03:04:05", 183_845), ("00:07.25", 7.25)]
)
def test_times_of_ps_are_parsed(text: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = f"  7 7 7 S+ {text} {text} a (b)  c\n  8 7 9 T 00:00 00:00 {'x' * 5000}\n  9 9 -1 X 00:00 00:00 d\n"
    (tmp_path / "listing").write_text(listing)
    (tmp_path / "ps").write_text(f"#!/bin/sh\ncat {tmp_path}/listing\n")
    (tmp_path / "ps").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    first, second, third = processes._jobs_from_ps([7, 8, 9])
    assert abs(first.started_at - (time.time() - seconds)) < 30
    told = (first.pid, first.command, first.cpu_s, first.state, first.foreground)
    assert told == (7, "a (b)  c", seconds, "sleeping", True)
    assert (second.command, second.state, second.foreground) == ("x" * 4000, "stopped", False)
    assert (third.state, third.foreground) == ("ending", False)


def test_zombie_is_listed_by_name() -> None:
    with subprocess.Popen(["sleep", "0"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        (job,) = processes._jobs_from_proc([child.pid])
    assert (job.command, job.state, job.cpu_s < 1) == ("[sleep]", "ending", True)


def test_oldest_job_comes_first() -> None:
    children = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    try:
        ours = [job.pid for job in processes.jobs() if job.pid in {child.pid for child in children}]
    finally:
        for child in children:
            with child:
                child.kill()
    assert ours == [child.pid for child in children]
