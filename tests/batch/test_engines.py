"""What every engine of batches does alike: on this machine, and on a cluster of Ray."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from core.batch.attempt_runner import AttemptRunner
from core.batch.batch_options import BatchOptions
from core.batch.driver import Driver
from core.batch.engine import Attempt, AttemptEnded, ConversationBegan, Engine, EngineEvent
from core.batch.ledger import AttemptState, Ended, Ledger, TaskState
from core.batch.local_engine import LocalEngine
from core.batch.tasks import BatchTask
from core.errors import ExitStatus
from core.llm.budget import Budget
from core.settings.config import load
from tests.batch.cluster import Cluster, cluster, processes_of
from tests.batch.test_batch import bash_turn, ledger_states
from tests.doubles import FINISH, write_script
from tui.cli.run import command_manager

WORKERS = 4
Make = Callable[[], Awaitable[Engine]]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), nodes=2) as made:
        yield made


@asynccontextmanager
async def engine_of(kind: str, folder: Path, model: str, nodes: Callable[[], Cluster]) -> AsyncIterator[Engine]:
    options = {"model": model, "sandbox__isolation": "none", "conversations__close_delay_s": 0}
    settings = load(folder / "home", os.environ, **options)
    async with command_manager(folder / "home", settings) as manager:
        engine: Engine
        if kind == "local":
            engine = LocalEngine(manager, AttemptRunner(manager, folder / "out", approve=True), WORKERS)
        else:
            from core.batch.ray_engine import RayEngine
            from tui.batch.node import ENTRY

            os.environ |= nodes().environ
            batch = BatchOptions(given=options, approve=True)
            engine = await RayEngine.connect(
                "ray", batch=batch, entry=ENTRY, manager=manager, budget=Budget(None), workers=WORKERS
            )
        try:
            yield engine
        finally:
            await engine.aclose()
            await engine.aclose()


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.ray)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def of_nodes(request: pytest.FixtureRequest) -> Callable[[], Cluster]:
    return lambda: request.getfixturevalue("nodes")


async def events_until_ended(engine: Engine, count: int) -> list[ConversationBegan | AttemptEnded]:
    found: list[ConversationBegan | AttemptEnded] = []
    while sum(isinstance(event, AttemptEnded) for event in found) < count:
        found.append(await asyncio.wait_for(engine.next_event(), 60))
    return found


def attempt(folder: Path, id: str, number: int = 1, **fields: Any) -> Attempt:
    return Attempt(BatchTask(id, "x", **fields), number, folder / "out" / id / f"attempt-{number}")


async def test_each_attempt_begins_and_ends_once(tmp_path: Path, kind: str, of_nodes: Callable[[], Cluster]) -> None:
    model = write_script(tmp_path, [bash_turn("echo 1"), FINISH])
    async with engine_of(kind, tmp_path, model, of_nodes) as engine:
        assert engine.capacity == WORKERS
        for id in ("a", "b", "c"):
            engine.submit(attempt(tmp_path, id, check="exit 1" if id == "c" else ""))
        events = await events_until_ended(engine, 3)
    began = {event.attempt.task.id: event for event in events if isinstance(event, ConversationBegan)}
    ended = {event.attempt.task.id: event.ended for event in events if isinstance(event, AttemptEnded)}
    assert len(events) == 6
    assert {id: one.state.value for id, one in ended.items()} == {"a": "finished", "b": "finished", "c": "failed"}
    assert {id: one.conversation for id, one in ended.items()} == {id: one.conversation for id, one in began.items()}
    assert all(one.worker for one in began.values())
    assert (tmp_path / "out" / "a" / "attempt-1" / "trajectory.json").is_file()


async def test_trouble_of_the_machine_is_an_error(tmp_path: Path, kind: str, of_nodes: Callable[[], Cluster]) -> None:
    async with engine_of(kind, tmp_path, write_script(tmp_path, [FINISH]), of_nodes) as engine:
        engine.submit(attempt(tmp_path, "a", repo="/nowhere"))
        engine.submit(attempt(tmp_path, "b", agent="Nobody"))
        events = await events_until_ended(engine, 2)
    assert [event.ended.state for event in events if isinstance(event, AttemptEnded)] == [AttemptState.ERROR] * 2
    assert all(event.ended.reason for event in events if isinstance(event, AttemptEnded))


async def test_one_attempt_is_cancelled_then_all(tmp_path: Path, kind: str, of_nodes: Callable[[], Cluster]) -> None:
    model = write_script(tmp_path, [bash_turn("for i in $(seq 300); do echo $i; sleep 1; done"), FINISH])
    async with engine_of(kind, tmp_path, model, of_nodes) as engine:
        attempts = [attempt(tmp_path, id) for id in ("a", "b", "c")]
        for one in attempts:
            engine.submit(one)
        for _ in attempts:
            assert isinstance(await asyncio.wait_for(engine.next_event(), 60), ConversationBegan)
        engine.cancel(attempts[1])
        first = await asyncio.wait_for(engine.next_event(), 60)
        engine.cancel()
        rest = await events_until_ended(engine, 2)
    assert isinstance(first, AttemptEnded)
    assert first.attempt == attempts[1]
    assert {one.ended.state for one in (first, *rest) if isinstance(one, AttemptEnded)} == {AttemptState.INTERRUPTED}


@pytest.mark.alone
@pytest.mark.ray
async def test_late_result_of_a_worker_that_was_cut_off_is_refused(
    tmp_path: Path, of_nodes: Callable[[], Cluster]
) -> None:
    model = write_script(tmp_path, [bash_turn("sleep 3"), FINISH])
    began, is_over = asyncio.Event(), asyncio.Event()

    def changed(id: str, number: int, ended: Ended | None) -> None:
        if (id, number) == ("cut", 2) and ended is not None:
            is_over.set()

    def begin() -> Ledger:
        ledger = Ledger(tmp_path / "out")
        ledger.begin([BatchTask("cut", "x"), BatchTask("last", "x", check="sleep 45")])
        return ledger

    class Watched:
        """The engine, which says when the first attempt has begun."""

        def __getattr__(self, name: str) -> object:
            return getattr(engine, name)

        async def next_event(self) -> EngineEvent:
            event = await engine.next_event()
            if isinstance(event, ConversationBegan) and event.attempt.key == ("cut", 1):
                began.set()
            return event

    async with engine_of("ray", tmp_path, model, of_nodes) as engine:
        engine.heartbeat_timeout_s = 14.0  # type: ignore[attr-defined]
        ledger = await asyncio.to_thread(begin)
        driver = Driver(
            ledger, cast(Engine, Watched()), tmp_path / "out", budget=Budget(None), workers=4, on_change=changed
        )
        running = asyncio.create_task(driver.run(asyncio.Event()))
        await asyncio.wait_for(began.wait(), 60)
        (pid,) = await asyncio.to_thread(processes_of, "ray::cut 1")
        os.kill(pid, signal.SIGSTOP)  # as a machine that is cut off
        await asyncio.wait_for(is_over.wait(), 100)
        os.kill(pid, signal.SIGCONT)
        status = await asyncio.wait_for(running, 100)
        rows = await asyncio.to_thread(ledger.rows)
        ledger.close()
    assert status is ExitStatus.FINISHED
    assert (rows[0].state, rows[0].attempt) == (TaskState.DONE, 2)
    assert sorted(ledger_states(tmp_path / "out")) == ["finished", "finished", "late"]
