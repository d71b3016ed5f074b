"""Which processes there are below another, and how they are ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.events import CmdRunAction
from runtime.local.local_runtime import LocalRuntime
from runtime.server import processes
from tests.runtime.conftest import Watcher, has_ended


@contextmanager
def bash(script: str, **options: bool) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, text=True, **options) as child:  # type: ignore[call-overload]
        try:
            yield child
        finally:
            processes.kill_descendants(child.pid)
            child.kill()


def numbers(child: subprocess.Popen[str]) -> list[int]:
    assert child.stdout is not None
    return [int(number) for number in child.stdout.readline().split()]


SESSIONS = "sleep 601 & setsid bash -c 'sleep 602 & echo $PPID $$ $!; wait' & echo $!>/dev/null; wait"


class TestProcessTree:
    def test_descendants_sessions_and_groups_are_found(self) -> None:
        with bash(SESSIONS, start_new_session=True) as child:
            _, leader, inner = numbers(child)
            below = processes.descendants(child.pid)
            assert {leader, inner} <= below
            assert len(below) == 3
            assert child.pid not in below
            (outer,) = below - {leader, inner}
            assert processes.session_members(leader) == processes.group_members(leader) == {leader, inner}
            assert processes.session_members(child.pid) == processes.group_members(child.pid) == {child.pid, outer}

    def test_ended_processes_are_not_counted(self) -> None:
        with bash("sleep 0 & wait $!; echo; exec sleep 600") as child:
            numbers(child)
            assert processes.descendants(child.pid) == set()
        with subprocess.Popen(["sleep", "0"], start_new_session=True) as ended:
            os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
            assert ended.pid not in processes.descendants(os.getpid())
            assert processes.session_members(ended.pid) == processes.group_members(ended.pid) == set()

    def test_own_processes_are_not_commands(self) -> None:
        with bash("sleep 601 & echo $!; wait") as child:
            (job,) = numbers(child)
            assert processes.commands_below(child.pid) == {job}

            def own() -> set[int]:
                return {job}

            processes.own_processes.add(own)
            try:
                assert processes.commands_below(child.pid) == set()
            finally:
                processes.own_processes.discard(own)

    async def test_awaited_process_is_not_a_command(self) -> None:
        with subprocess.Popen(["sleep", "600"]) as child:
            waiting = asyncio.create_task(processes.wait_for_exit(child))
            while child.pid not in processes.awaited():
                await asyncio.sleep(0)
            assert child.pid not in processes.commands_below(os.getpid())
            child.terminate()
            assert await waiting == -signal.SIGTERM
            assert child.pid not in processes.awaited()

    def test_process_table_is_read_from_ps_without_proc(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        listing = "  1 0 1 Ss\n 10 1 10 S+\n 11 10 10 R\n 12 11 12 S\n 13 11 12 Z\n 14 1 14 S\n"
        sessions = {1: 31, 10: 31, 11: 31, 12: 12, 13: 12}

        def getsid(pid: int) -> int:
            if pid not in sessions:  # it has ended meanwhile
                raise ProcessLookupError
            return sessions[pid]

        (tmp_path / "listing").write_text(listing)
        (tmp_path / "ps").write_text(f"#!/bin/sh\ncat {tmp_path}/listing\n")
        (tmp_path / "ps").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        monkeypatch.setattr(sys, "platform", "darwin")
        monkeypatch.setattr(os, "getsid", getsid)
        assert processes.descendants(1) == {10, 11, 12}
        assert processes.descendants(11) == {12}
        assert processes.group_members(10) == {10, 11}
        assert processes.session_members(12) == {12}
        assert processes.session_members(31) == {1, 10, 11}


class TestEnding:
    def test_kill_descendants_keeps_the_root(self) -> None:
        with bash(SESSIONS) as child:
            _, *pids = numbers(child)
            processes.kill_descendants(child.pid)
            assert all(has_ended(pid) for pid in pids)
        processes.kill_all([999_999_999])  # an unused process

    def test_end_commands_returns_whether_there_were_any(self) -> None:
        with bash("sleep 601 & echo $!; exec sleep 600") as child:
            (job,) = numbers(child)
            assert processes.end_commands(child.pid)
            assert has_ended(job)
            assert not processes.end_commands(child.pid)
            assert child.poll() is None

    async def test_end_tree_terminates_then_kills(self, tmp_path: Path) -> None:
        polite = f"trap 'echo asked >{tmp_path}/asked; exit 0' TERM; echo; while :; do sleep 0.01; done"
        with bash(polite) as child:
            numbers(child)
            reaping = asyncio.create_task(asyncio.to_thread(child.wait))
            await processes.end_tree(child.pid, 60)
            assert await reaping == 0
        assert (tmp_path / "asked").read_text() == "asked\n"
        with bash("trap '' TERM; for n in {1..60}; do sleep 600 & done; echo $(jobs -p); wait") as child:
            stubborn = numbers(child)
            reaping = asyncio.create_task(asyncio.to_thread(child.wait))
            await processes.end_tree(child.pid, 0.05)
            assert [pid for pid in stubborn if not has_ended(pid, 0)] == [], "it returns when all are gone"
            assert await reaping == -signal.SIGKILL

    async def test_gone_returns_for_an_ended_process(self) -> None:
        before = set(os.listdir("/proc/self/fd"))
        await processes.wait_until_gone(999_999_999)
        with subprocess.Popen(["sleep", "0"]) as child:
            await processes.wait_until_gone(child.pid)
        assert set(os.listdir("/proc/self/fd")) == before

    async def test_orphans_are_reaped_but_not_awaited_processes(self) -> None:
        children = [subprocess.Popen(["sleep", "0"]) for _ in range(2)]
        for child in children:
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        processes._awaited.add(children[0].pid)
        try:
            processes.reap_orphans()
        finally:
            processes._awaited.discard(children[0].pid)
        assert os.waitid(os.P_PID, children[0].pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        with pytest.raises(ChildProcessError):
            os.waitid(os.P_PID, children[1].pid, os.WEXITED | os.WNOWAIT)
        for child in children:
            child.wait()


def test_killed_shell_starts_no_further_command(tmp_path: Path) -> None:
    script = "sleep 100 & echo $!; wait; echo > next"
    with subprocess.Popen(["bash", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        command = int(shell.stdout.readline())
        much_later = [command] * 50_000 + [shell.pid]
        processes.kill_all(much_later)
    assert not (tmp_path / "next").exists()


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
        """Repeat until it is listed: a started program may not have its name yet."""
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
