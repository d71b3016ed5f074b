"""Which processes there are below another, and how they are ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.server import processes
from tests.runtime.conftest import has_ended


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


class TestWho:
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
        listing = "  1 0 1 1f Ss\n 10 1 10 1f S+\n 11 10 10 1f R\n 12 11 12 c S\n 13 11 12 c Z\n"
        (tmp_path / "listing").write_text(listing)
        (tmp_path / "ps").write_text(f"#!/bin/sh\ncat {tmp_path}/listing\n")
        (tmp_path / "ps").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        monkeypatch.setattr(sys, "platform", "darwin")
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
        processes.kill_all([999_999_999])  # nobody

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
        with bash("trap '' TERM; bash -c 'trap \"\" TERM; echo $$; while :; do sleep 0.01; done'; true") as child:
            (inner,) = numbers(child)
            reaping = asyncio.create_task(asyncio.to_thread(child.wait))
            await processes.end_tree(child.pid, 0.05)
            assert await reaping == -signal.SIGKILL
            assert has_ended(inner, 0)

    async def test_gone_returns_for_an_ended_process(self) -> None:
        before = set(os.listdir("/proc/self/fd"))
        await processes.gone(999_999_999)
        with subprocess.Popen(["sleep", "0"]) as child:
            await processes.gone(child.pid)
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
