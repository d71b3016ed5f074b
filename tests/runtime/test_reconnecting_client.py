"""Actions over a breaking link run once, are received completely, and are interrupted if no client is left."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import RuntimeUnavailableError
from core.events import CmdOutputObservation, CmdRunAction, Status, TerminalOutput
from runtime.client import ActionExecutionClient
from runtime.reconnecting_client import LINK, ReconnectingClient
from runtime.server.answer_cache import Times
from tests.links import Fate, Link, linked, random_fate
from tests.runtime.action_server import KEY, Server
from tests.runtime.conftest import Watcher, serving
from tests.stopped_clock import stopped_clock

TRIALS = 30
LONGEST = 2_500
"""Bytes of one action's request and answer, about."""
SILENT_S = 0.6
"""Short to wait for; the server answers within milliseconds."""
TIMES = Times(keep_s=2.0, turn_s=1.0, beat_s=SILENT_S / 4)
BACK = Status("info", LINK, "The connection to the sandbox is back.")


@pytest.fixture
async def server(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    async with serving(tmp_path, getattr(request, "param", TIMES)) as server:
        yield server


@asynccontextmanager
async def client_over(
    port: int, fate: Callable[[], Fate | None] = lambda: None, patience_s: float = 20.0
) -> AsyncIterator[tuple[ReconnectingClient, Link]]:
    async with linked(port, fate) as link:
        client = ReconnectingClient(KEY, url=link.url, patience_s=patience_s, every_s=SILENT_S / 4, silent_s=SILENT_S)
        async with client:
            yield client, link


def run(command: str) -> CmdRunAction:
    return CmdRunAction(command=command, blocking=True, timeout=60)


def told(watcher: Watcher) -> list[str]:
    """Messages about the link."""
    return [frame.message for frame in watcher.frames if isinstance(frame, Status) and frame.id == LINK]


def printed(watcher: Watcher) -> bytes:
    """The output of programs without the echo of input."""
    return b"".join(frame.data for frame in watcher.frames if isinstance(frame, TerminalOutput) and not frame.is_echo)


async def said_by(server: Server, command: str) -> str:
    """The output of a command for a viewer with a separate link."""
    async with ActionExecutionClient(KEY, url=server.url) as client:
        return (await client.execute(run(command), 99, lambda frame: None)).content


@pytest.mark.parametrize("server", [replace(TIMES, keep_s=60.0)], indirect=True, ids=["kept long"])
async def test_action_runs_once_wherever_the_link_breaks(server: Server, tmp_path: Path, seed: int) -> None:
    rng, broken = random.Random(seed), 0  # several breaks in a row can take longer than the 2 s of the other tests
    for trial in range(TRIALS):
        watcher = Watcher()
        async with client_over(server.port, lambda: random_fate(rng, LONGEST)) as (client, link):
            command = f"echo {trial} >> effects; for i in $(seq 1 40); do echo line $i of {trial}; done"
            observation = await client.execute(run(command), trial, watcher)
            link.fate = lambda: None
            link.heal()
        case = f"HANDLOOM_SEED={seed}, trial {trial}"
        lines = [f"line {number} of {trial}" for number in range(1, 41)]
        assert isinstance(observation, CmdOutputObservation), case
        assert observation.content.split("\n") == lines, case
        assert printed(watcher).decode().split() == " ".join(lines).split(), case
        broken += link.broken
    assert (tmp_path / "effects").read_text().split() == [str(trial) for trial in range(TRIALS)]
    assert broken >= TRIALS / 4


async def test_broken_connection_is_reported_and_the_action_continues(
    server: Server, tmp_path: Path, watcher: Watcher
) -> None:
    async with client_over(server.port) as (client, link):
        running = asyncio.create_task(client.execute(run("mkfifo pipe; echo begun; cat pipe; echo done"), 1, watcher))
        await watcher.sees(b"begun")
        link.cut()
        await watcher.sees_frame(BACK)
        async with ActionExecutionClient(KEY, url=server.url) as other:
            write = CmdRunAction(command="true > pipe", is_static=True, cwd=str(tmp_path))
            await other.execute(write, 2, Watcher())
        observation = await running
    assert observation.content.endswith("done")
    assert told(watcher) == ["The connection to the sandbox is broken (it was cut); retrying.", BACK.message, ""]


async def test_repeated_cuts_lose_and_repeat_no_frame(server: Server, watcher: Watcher) -> None:
    async with client_over(server.port) as (client, link):
        command = run("for i in $(seq 1 100); do echo $i; sleep 0.01; done")
        running = asyncio.create_task(client.execute(command, 1, watcher))
        for number in (5, 30, 60, 90):
            await watcher.sees(b"\r\n%d\r\n" % number)
            link.cut()
        observation = await running
    numbers = [str(number) for number in range(1, 101)]
    assert observation.content.split() == numbers
    assert printed(watcher).decode().split() == numbers


async def test_silently_dropped_connection_is_noticed(server: Server, watcher: Watcher) -> None:
    async with client_over(server.port) as (client, link):
        running = asyncio.create_task(client.execute(run("echo begun; sleep 100"), 1, watcher))
        await watcher.sees(b"begun")
        link.stall()
        broken = Status(
            "error",
            LINK,
            f"The connection to the sandbox is broken (it has not answered for {SILENT_S:g} s); retrying.",
        )
        with stopped_clock(after_s=3 * SILENT_S):
            await watcher.sees_frame(broken)
        link.heal()
        await watcher.sees_frame(BACK)
        running.cancel()


async def test_silent_command_keeps_its_connection(server: Server, watcher: Watcher) -> None:
    async with client_over(server.port) as (client, _):
        observation = await client.execute(run(f"sleep {3 * SILENT_S}; echo done"), 1, watcher)
        assert observation.content == "done"
        assert told(watcher) == []


class TestCancelling:
    async def test_cancelling_returns_at_once_and_interrupts(self, server: Server, watcher: Watcher) -> None:
        async with client_over(server.port) as (client, _):
            running = asyncio.create_task(client.execute(run("echo begun; sleep 100"), 1, watcher))
            await watcher.sees(b"begun")
            running.cancel()
            with stopped_clock(after_s=0.1), pytest.raises(asyncio.CancelledError):
                await running
            assert (await client.execute(run("echo usable"), 2, watcher)).content == "usable"

    async def test_interrupt_is_sent_when_the_connection_returns(self, server: Server, watcher: Watcher) -> None:
        async with client_over(server.port) as (client, link):
            running = asyncio.create_task(client.execute(run("echo begun; sleep 100"), 1, watcher))
            await watcher.sees(b"begun")
            link.stall()
            running.cancel()
            with stopped_clock(after_s=0.1), pytest.raises(asyncio.CancelledError):
                await running
            link.heal()
            with stopped_clock(after_s=TIMES.keep_s / 2):  # by then the server would interrupt nothing
                assert await said_by(server, "echo usable") == "usable"

    async def test_closing_the_client_interrupts(self, server: Server, watcher: Watcher) -> None:
        async with client_over(server.port) as (client, _):
            running = asyncio.create_task(client.execute(run("echo begun; sleep 100"), 1, watcher))
            await watcher.sees(b"begun")
        with pytest.raises(RuntimeUnavailableError):
            await running
        assert await said_by(server, "echo usable") == "usable"


class TestPatience:
    async def test_lost_connection_is_reported_and_the_action_interrupted(
        self, server: Server, watcher: Watcher
    ) -> None:
        async with client_over(server.port, patience_s=0.5) as (client, link):
            running = asyncio.create_task(client.execute(run("echo begun; sleep 100"), 1, watcher))
            await watcher.sees(b"begun")
            link.stall()
            with pytest.raises(RuntimeUnavailableError, match=r"cannot be reached \(.*\)\. Check the network"):
                await running
            async with asyncio.timeout(TIMES.keep_s + 3):
                assert await said_by(server, "echo usable") == "usable"

    async def test_deleted_answer_is_not_requested_again(self, server: Server, watcher: Watcher) -> None:
        async with client_over(server.port) as (client, link):
            running = asyncio.create_task(client.execute(run("echo begun; sleep 100"), 1, watcher))
            await watcher.sees(b"begun")
            link.stall()
            assert await said_by(server, "echo usable") == "usable"  # once the server has given up
            link.heal()
            with pytest.raises(RuntimeUnavailableError, match="no longer has this action's result"):
                await running


async def test_restarted_server_is_noticed_and_runs_nothing(tmp_path: Path, watcher: Watcher) -> None:
    async with serving(tmp_path, TIMES) as first, client_over(first.port) as (client, link):
        running = asyncio.create_task(client.execute(run("echo begun; sleep 100; echo x > done"), 1, watcher))
        await watcher.sees(b"begun")
        async with serving(tmp_path, TIMES) as second:
            link.to_port = second.port
            link.cut()
            with pytest.raises(RuntimeUnavailableError, match=r"has ended \(another server answers in its place\)"):
                await running
    assert not (tmp_path / "done").exists()


async def test_skipped_output_of_an_outage_is_reported(server: Server, tmp_path: Path, watcher: Watcher) -> None:
    async with client_over(server.port) as (client, link):
        command = "echo begun; cat pipe; seq 1 500000; touch printed; cat pipe; echo the end"
        await client.execute(run("mkfifo pipe"), 1, Watcher())
        running = asyncio.create_task(client.execute(run(command), 2, watcher))
        await watcher.sees(b"begun")
        link.stall()
        async with ActionExecutionClient(KEY, url=server.url) as other:
            write = CmdRunAction(
                command="true > pipe; until [ -e printed ]; do sleep 0.1; done", is_static=True, cwd=str(tmp_path)
            )
            await other.execute(write, 3, Watcher())
            link.heal()
            await other.execute(CmdRunAction(command="true > pipe", is_static=True, cwd=str(tmp_path)), 4, Watcher())
        observation = await running
    assert observation.content.endswith("the end")
    (skipped,) = [text for text in told(watcher) if "skipped" in text]
    assert skipped.endswith("chunks of live output were skipped.")
    assert len(printed(watcher)) < 3_000_000, "of 3.9 MB; the sockets between hold some"
