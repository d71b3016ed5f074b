"""What other processes ask of the driver of a batch, with the real ledger and an engine that the test controls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.batch.driver import Driver
from core.batch.engine import Attempt, AttemptEnded, EngineEvent
from core.batch.ledger import CANCELLED, DATABASE, LOCK, VERSION, AttemptState, Ended, Ledger, TaskState
from core.batch.progress import Progress, ProgressReader, ask, is_alive
from core.batch.requests import DriverState, Request, RequestKind
from core.batch.tasks import BatchTask
from core.errors import ExitStatus, StoreError
from core.llm.budget import Budget
from core.store.database import sqlite3
from tui.file_watcher import RUNG, watch

TASKS = [BatchTask(f"t{number}", "x") for number in range(4)]
FINISHED = Ended(AttemptState.FINISHED, "c", 0.5, 10, 2)


class Engine:
    """An engine whose attempts end when the test says so, or when they are cancelled."""

    capacity, where = 8, "test"

    def __init__(self) -> None:
        self.running: dict[str, Attempt] = {}
        self._events: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self._submitted = asyncio.Event()
        self.late: asyncio.Event | None = None
        """Set instead of ending attempts that are cancelled."""

    def submit(self, attempt: Attempt) -> None:
        self.running[attempt.task.id] = attempt
        self._submitted.set()

    async def runs(self, count: int) -> None:
        """Wait until at least so many attempts run."""
        while len(self.running) < count:
            self._submitted.clear()
            await asyncio.wait_for(self._submitted.wait(), 30)

    async def next_event(self) -> EngineEvent:
        return await self._events.get()

    def end(self, id: str, ended: Ended = FINISHED) -> None:
        self._events.put_nowait(AttemptEnded(self.running.pop(id), ended))

    def cancel(self, attempt: Attempt | None = None) -> None:
        if self.late is not None:
            self.late.set()
            return
        for id in [*self.running] if attempt is None else [attempt.task.id]:
            self.end(id, Ended(AttemptState.INTERRUPTED, "c", 0.25))

    async def aclose(self) -> None:
        self.cancel()


def letters(progress: Progress) -> str:
    """The first letter of the state of each task."""
    return "".join(task.state[0] for task in progress.tasks)


class Batch:
    """A batch that runs in this process, and the view that another process has of it."""

    def __init__(self, folder: Path, ledger: Ledger, reader: ProgressReader, workers: int) -> None:
        self.folder, self.ledger, self.reader, self.engine = folder, ledger, reader, Engine()
        self.driver = Driver(ledger, self.engine, folder, budget=Budget(None), workers=workers)
        self.interrupted = asyncio.Event()
        self.ended: asyncio.Task[ExitStatus] = asyncio.create_task(self.driver.run(self.interrupted))

    async def ask(self, kind: RequestKind, argument: str = "") -> None:
        await asyncio.to_thread(ask, self.folder, kind, argument)

    async def progress(self) -> Progress:
        return await asyncio.to_thread(self.reader.read)

    async def until(self, true: Callable[[Progress], bool]) -> Progress:
        """Wait for something that the driver does, of which the lock file tells."""
        changed = asyncio.Event()
        watching = watch(self.folder / LOCK, changed.set, RUNG)
        assert watching is not None
        try:
            async with asyncio.timeout(30):
                while not true(found := await self.progress()):
                    await changed.wait()
                    changed.clear()
            return found
        finally:
            watching.close()


def opened(folder: Path) -> tuple[Ledger, ProgressReader]:
    ledger = Ledger(folder)
    ledger.begin(TASKS)
    return ledger, ProgressReader(folder)


@asynccontextmanager
async def batch(tmp_path: Path, workers: int = 2) -> AsyncIterator[Batch]:
    folder = tmp_path / "out"
    ledger, reader = await asyncio.to_thread(opened, folder)
    it = Batch(folder, ledger, reader, workers)
    watching = watch(folder / LOCK, it.driver.wake, RUNG)
    assert watching is not None
    try:
        await it.engine.runs(workers)
        yield it
    finally:
        watching.close()
        it.interrupted.set()
        await it.ended
        await asyncio.to_thread(reader.close)
        await asyncio.to_thread(ledger.close)


async def test_paused_batch_begins_nothing_and_does_not_end(tmp_path: Path) -> None:
    async with batch(tmp_path) as it:
        await it.ask(RequestKind.PAUSE)
        await it.until(lambda p: p.driver.is_paused)
        it.engine.end("t0")
        it.engine.end("t1")
        await it.until(lambda p: letters(p) == "ddww")
        assert not it.ended.done()
        await it.ask(RequestKind.RESUME)
        await it.until(lambda p: letters(p) == "ddrr")
        assert not (await it.progress()).driver.is_paused


async def test_paused_batch_ends_when_nothing_waits_and_when_it_is_interrupted(tmp_path: Path) -> None:
    async with batch(tmp_path, workers=4) as it:
        await it.ask(RequestKind.PAUSE)
        await it.until(lambda p: p.driver.is_paused)
        for task in TASKS:
            it.engine.end(task.id)
        assert await asyncio.wait_for(it.ended, 30) is ExitStatus.FINISHED
    async with batch(tmp_path / "other") as it:
        await it.ask(RequestKind.PAUSE)
        await it.ask(RequestKind.INTERRUPT)
        assert await asyncio.wait_for(it.ended, 30) is ExitStatus.INTERRUPTED
        progress = await it.progress()
        driver = progress.driver
        assert (driver.is_interrupted, driver.status, letters(progress)) == (True, 130, "wwww")


@pytest.mark.parametrize(
    ("wanted", "workers"), [("3", 3), ("1", 1), ("0", 1), ("99", 8), ("many", 2), ("", 2), ("-3", 2)]
)
async def test_number_of_workers_changes(tmp_path: Path, wanted: str, workers: int) -> None:
    async with batch(tmp_path) as it:
        await it.ask(RequestKind.WORKERS, wanted)
        await it.ask(RequestKind.PAUSE)
        await it.until(lambda p: p.driver.is_paused)
        assert it.driver.workers == (await it.progress()).driver.workers == workers
        await it.ask(RequestKind.RESUME)
        await it.engine.runs(min(workers, 4))


async def test_running_task_is_cancelled_and_retried(tmp_path: Path) -> None:
    async with batch(tmp_path) as it:
        await it.ask(RequestKind.CANCEL, "t0")
        await it.until(lambda p: letters(p) == "frrw")
        task = (await it.progress()).tasks[0]
        assert (task.attempt, task.outcome, task.reason, task.cost) == (1, "interrupted", CANCELLED, 0.25)
        await it.until(lambda p: not p.asked)
        await it.ask(RequestKind.RETRY, "t0")
        await it.until(lambda p: letters(p) == "wrrw")
        it.engine.end("t1")
        await it.until(lambda p: letters(p) == "rdrw")
        assert (await it.progress()).tasks[0].attempt == 2


async def test_waiting_task_is_cancelled_and_never_begins(tmp_path: Path) -> None:
    async with batch(tmp_path) as it:
        await it.ask(RequestKind.CANCEL, "t3")
        await it.until(lambda p: letters(p) == "rrwf")
        task = (await it.progress()).tasks[3]
        assert (task.attempt, task.outcome, task.reason, task.cost) == (1, "interrupted", CANCELLED, 0.0)
        assert task.seconds(1e9) == 0


async def test_attempt_that_finishes_before_it_is_cancelled_is_accepted(tmp_path: Path) -> None:
    async with batch(tmp_path) as it:
        it.engine.late = late = asyncio.Event()
        await it.ask(RequestKind.CANCEL, "t0")
        await asyncio.wait_for(late.wait(), 30)
        assert (await it.progress()).asked == {"t0": "cancel"}, "until the attempt has ended, the request stays"
        it.engine.end("t0")
        await it.until(lambda p: letters(p) == "drrw" and not p.asked)
        it.engine.late = None


class InterruptedLedger(Ledger):
    """A ledger in which an attempt begins while the batch is interrupted."""

    def start(self, worker: str) -> tuple[BatchTask, int] | None:
        started = super().start(worker)
        self.interrupt()
        return started

    interrupt: Callable[[], None]


async def test_attempt_that_begins_during_the_interruption_ends(tmp_path: Path) -> None:
    ledger = await asyncio.to_thread(InterruptedLedger, tmp_path / "out")
    await asyncio.to_thread(ledger.begin, TASKS)
    engine, interrupted, told = Engine(), asyncio.Event(), threading.Event()
    loop, cancel = asyncio.get_running_loop(), engine.cancel

    def note(attempt: Attempt | None = None) -> None:
        cancel(attempt)
        told.set()

    def interrupt() -> None:
        loop.call_soon_threadsafe(interrupted.set)
        assert told.wait(30)

    engine.cancel, ledger.interrupt = note, interrupt  # type: ignore[method-assign]
    driver = Driver(ledger, engine, tmp_path, budget=Budget(None), workers=2)
    assert await asyncio.wait_for(driver.run(interrupted), 30) is ExitStatus.INTERRUPTED
    await asyncio.to_thread(ledger.close)


async def test_requests_that_mean_nothing_are_dropped(tmp_path: Path) -> None:
    async with batch(tmp_path) as it:
        for kind, id in ((RequestKind.CANCEL, "other"), (RequestKind.RETRY, "t0"), (RequestKind.RETRY, "' OR 1")):
            await it.ask(kind, id)
        await it.until(lambda p: not p.asked)
        assert letters(await it.progress()) == "rrww"


async def test_idle_driver_stores_nothing(tmp_path: Path) -> None:
    async with batch(tmp_path, workers=4) as it:
        changes = it.ledger._database.total_changes
        await it.ask(RequestKind.RETRY, "t0")
        await it.until(lambda p: not p.asked)
        it.driver.wake()
        await it.ask(RequestKind.RETRY, "t0")
        await it.until(lambda p: not p.asked)
        assert it.ledger._database.total_changes == changes + 2, "only the requests were removed"


def test_requests_for_tasks_survive_the_driver_and_others_do_not(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.begin(TASKS)
        for kind in RequestKind:
            ask(tmp_path, kind, "t0")
    with Ledger(tmp_path) as ledger:
        ledger.begin(TASKS)
        assert ledger.requests() == [Request(4, "cancel", "t0"), Request(5, "retry", "t0")]
        ledger.answered([4])
        assert ledger.requests() == [Request(5, "retry", "t0")]


def test_ledger_of_version_1_is_upgraded(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.begin(TASKS)
        ledger.start("w")
        ledger.end("t0", 1, FINISHED, TaskState.DONE)
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute("DROP TABLE requests")
        database.execute("ALTER TABLE attempts DROP COLUMN rewards")
        database.execute("PRAGMA user_version = 1")
    database.close()
    with ProgressReader(tmp_path) as reader:
        assert [task.state for task in reader.read().tasks] == ["done", "waiting", "waiting", "waiting"]
    with pytest.raises(StoreError, match="no such table"):
        ask(tmp_path, RequestKind.RETRY, "t0")
    with Ledger(tmp_path) as ledger:
        assert ledger.requests() == []
        assert ledger.counts() == {TaskState.DONE: 1, TaskState.WAITING: 3}
        ask(tmp_path, RequestKind.RETRY, "t0")
        assert ledger._database.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_progress_has_what_the_ledger_has(tmp_path: Path) -> None:
    folder = tmp_path / "a?b#c"
    with Ledger(folder, clock=lambda: 100.0) as ledger, ProgressReader(folder) as reader:
        ledger.begin(TASKS[:2])
        ledger.start("w")
        ledger.note_began("t0", 1, "c0", "w")
        ledger.note_driver(DriverState(7, 3, budget=2.0, began=90.0))
        progress = reader.read()
        assert tuple(progress.tasks[0]) == ("t0", "running", 1, "running", "c0", None, 0, 0, "", 100.0, None, "w")
        assert tuple(progress.tasks[1]) == ("t1", "waiting", 0, "", "", None, 0, 0, "", None, None, "")
        assert progress.tasks[0].seconds(107.0) == 7.0
        assert (progress.is_alive, progress.driver) == (True, DriverState(7, 3, budget=2.0, began=90.0))
        assert progress.left_s(100.0) is None
        ledger.end("t0", 1, FINISHED, TaskState.DONE)
        progress = reader.read()
        assert (progress.spent, progress.tokens_in, progress.tokens_out) == (0.5, 10, 2)
        assert [progress.left_s(now) for now in (100.0, 104.0, 110.0, 111.0)] == [10.0, 6.0, 0.0, None]
        assert progress.counts == {"done": 1, "waiting": 1}
    assert not is_alive(folder)
    assert not folder.joinpath(f"{DATABASE}-wal").exists() or not folder.joinpath(f"{DATABASE}-wal").stat().st_size


@pytest.mark.parametrize("text", ["", "[]", "{", '{"workers": "many", "budget": true, "is_paused": 1, "x": 2}'])
def test_wrong_state_of_a_driver_is_left_out(text: str) -> None:
    assert DriverState.from_json(text) == DriverState()


def test_ledger_of_a_newer_version_is_not_read(tmp_path: Path) -> None:
    Ledger(tmp_path).close()
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="newer Handloom"):
        ProgressReader(tmp_path)
    with pytest.raises(StoreError, match="cannot be read"):
        ProgressReader(tmp_path / "nothing")
