"""The action server in a real container: its own protection, and the faults that it survives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from core.events import CmdOutputObservation, CmdRunAction
from runtime.client import ActionExecutionClient
from runtime.shortage_messages import PROCESSES_RAN_OUT, memory_ran_out
from tests.containers import Served, served
from tests.runtime.conftest import Watcher
from tests.runtime.server.test_hardening import CALLS, TRIED

pytestmark = pytest.mark.docker
MB = 1024 * 1024
LIMITS = {"pids_limit": 64, "mem_limit": "256m", "memswap_limit": "256m", "nano_cpus": 10**9}
WORKS = "echo works $(seq 3 | sort | tail -1)"
STUBBORN = """
import os
while True:
    try:
        os.fork() or os.setsid()
    except OSError:
        pass
"""
STUBBORN_BOMBS = {"in the background": f"python3 -c '{STUBBORN}' &", "waited for": f"python3 -c '{STUBBORN}'"}
OTHER_BOMBS = {
    "a function": "b() { b | b & }; b",
    "a loop in the shell": "while :; do sleep 100 & done 2> /dev/null",
}


class Contained:
    """Requests to the server."""

    def __init__(self, client: ActionExecutionClient) -> None:
        self.client = client

    async def run(self, command: str) -> CmdOutputObservation:
        observation = await self.client.execute(CmdRunAction(command=command, timeout=20), 1, Watcher())
        assert isinstance(observation, CmdOutputObservation), observation
        return observation

    async def messages(self, command: str) -> str:
        """The result for the model, also if the command could not start."""
        observation = await self.client.execute(CmdRunAction(command=command, timeout=20), 1, Watcher())
        return observation.to_agent_text() if isinstance(observation, CmdOutputObservation) else observation.content

    async def gives_up(self, command: str) -> str:
        """The result of a command for the model; empty if it is interrupted because it takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                return await self.messages(command)
        return ""


@pytest.fixture
def sandbox() -> Iterator[Served]:
    with served("--filter-calls", "--idle-exit", "20", limits=LIMITS) as sandbox:
        yield sandbox


@pytest.fixture
async def contained(sandbox: Served) -> AsyncIterator[Contained]:
    async with sandbox.client() as client:
        yield Contained(client)


async def test_seccomp_filter_is_added_to_the_engines(contained: Contained) -> None:
    await contained.run(f"cat > t.py <<'END'\n{TRIED}END")
    told = await contained.run(f"python3 t.py '{json.dumps(CALLS)}'; grep -E 'Seccomp:|NoNew' /proc/self/status")
    assert json.loads(told.content.splitlines()[0]) == dict.fromkeys(CALLS, 1)
    assert told.content.split()[-4:] == ["NoNewPrivs:", "1", "Seccomp:", "2"]


async def test_out_of_memory_kill_is_reported_and_counted(contained: Contained) -> None:
    before = await contained.client.usage()
    hungry = await contained.run("python3 -c 'bytearray(400_000_000)'")
    assert f"[{memory_ran_out(256 * MB)}]" in hungry.metadata.suffix
    assert "ran out" not in (await contained.run("true")).metadata.suffix
    after = await contained.client.usage()
    assert (before.oom_kills, after.oom_kills) == (0, 1)


@pytest.mark.parametrize("kind", STUBBORN_BOMBS)
async def test_fork_bomb_that_exhausts_processes_is_ended_and_reported(contained: Contained, kind: str) -> None:
    told = await contained.gives_up(STUBBORN_BOMBS[kind])
    async with asyncio.timeout(60):
        while PROCESSES_RAN_OUT not in told:
            told = await contained.messages("ls / | sort | cat")
    assert "works 3" in (await contained.run(WORKS)).content
    assert await contained.client.jobs() == []


@pytest.mark.parametrize("kind", OTHER_BOMBS)
async def test_commands_work_after_a_fork_bomb(contained: Contained, kind: str) -> None:
    await contained.gives_up(OTHER_BOMBS[kind])
    async with asyncio.timeout(60):
        while "works 3" not in await contained.messages(WORKS):
            pass


async def test_running_command_is_ended_if_another_fills_the_disk(contained: Contained) -> None:
    await contained.run(f"(sleep 2; exec python3 -c '{STUBBORN}') &")
    assert PROCESSES_RAN_OUT in await contained.messages("sleep 18")
    assert "works 3" in (await contained.run(WORKS)).content


@pytest.fixture
def small() -> Iterator[Served]:
    with served("--filter-calls", limits={"pids_limit": 24}) as sandbox:
        yield sandbox


async def test_jobs_survive_a_low_process_limit(small: Served) -> None:
    async with small.client() as client:
        await Contained(client).run("sleep 61 & sleep 1.2")
        assert [job.command for job in await client.jobs()] == ["sleep 61"]


def test_container_of_a_killed_screen_ends_when_idle() -> None:
    with served("--idle-exit", "1") as sandbox:
        assert sandbox.container.wait(timeout=20)["StatusCode"] == 0
