"""Driver: gives the tasks of a batch to an engine, and decides what becomes of each result.

An attempt that failed because of the machine, the model or the sandbox is followed by another one, up to the number of
attempts. A failure of the task itself is final unless the user asks for another attempt. When the budget is spent,
what was interrupted by that waits for the next run of the batch. Other processes ask for changes through the ledger
(`core.batch.requests`); whoever notices a request calls `wake`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from core.batch.engine import Attempt, AttemptEnded, ConversationBegan, Engine, EngineEvent
from core.batch.ledger import CANCELLED, AttemptState, Ended, Ledger, TaskState
from core.batch.requests import DriverState, Request, RequestKind
from core.errors import ExitStatus
from core.llm.budget import Budget

REPEATED = frozenset({AttemptState.ERROR, AttemptState.STALLED})
"""How attempts end after which another one follows, up to the number of attempts."""
MOST_LOST = 5
"""Workers that a task may lose, before it is taken to be what ends them."""


class Driver:
    """Runs one batch until every task is done or failed, the budget is spent, or it is interrupted."""

    def __init__(
        self,
        ledger: Ledger,
        engine: Engine,
        folder: Path,
        *,
        budget: Budget,
        workers: int,
        attempts: int = 2,
        state: DriverState | None = None,
        on_change: Callable[[str, int, Ended | None], None] = lambda id, attempt, ended: None,
        on_workers: Callable[[int], None] = lambda workers: None,
    ) -> None:
        """`state` has what the ledger is to have about the command that runs this.

        `on_change` is told when an attempt begins (None) and ends, `on_workers` when their number changes.
        """
        self._ledger, self._engine, self._folder = ledger, engine, folder
        self._budget, self._attempts, self._on_change, self._on_workers = budget, attempts, on_change, on_workers
        self.workers = workers
        """How many attempts run at once; may be changed at any time."""
        self._running: dict[tuple[str, int], Attempt] = {}
        self._cancelled: dict[tuple[str, int], int] = {}
        """The requests to cancel attempts that still run. They stay in the ledger until those end."""
        self._is_interrupted = self._is_paused = False
        self._waits_none = False
        """Whether no task waits, so that there is no reason to ask the ledger for one."""
        self._woken = asyncio.Event()
        self._event: asyncio.Task[EngineEvent] | None = None
        self._state = state or DriverState()

    def wake(self) -> None:
        """Look for requests soon. Never blocks."""
        self._woken.set()

    async def run(self, interrupted: asyncio.Event) -> ExitStatus:
        """Raises StoreError if the ledger cannot be written; then everything is interrupted."""
        watch = asyncio.create_task(self._watch(interrupted))
        counts = await asyncio.to_thread(self._ledger.counts)
        before = counts[TaskState.DONE] + counts[TaskState.FAILED]
        began = time.time()
        self._state = replace(self._state, pid=os.getpid(), budget=self._budget.total, began=began, before=before)
        try:
            await self._note()
            self.wake()
            while True:
                if self._woken.is_set():
                    self._woken.clear()
                    await self._do_requests()
                await self._fill()
                if not self._running and not await self._holds() and not await self._do_requests():
                    status = await self._status()
                    await self._note(status)
                    return status
                await self._next()
        finally:
            waits = [task for task in (watch, self._event) if task is not None]
            for task in waits:
                task.cancel()
            for task in waits:
                with suppress(asyncio.CancelledError):
                    await task
            self._engine.cancel()

    async def _watch(self, interrupted: asyncio.Event) -> None:
        await interrupted.wait()
        self._interrupt()
        self.wake()

    def _interrupt(self) -> None:
        self._is_interrupted = True
        self._engine.cancel()

    async def _holds(self) -> bool:
        """Whether it is paused, and has something to do when it goes on."""
        if not self._is_paused or self._is_interrupted or self._budget.is_spent:
            return False
        return bool((await asyncio.to_thread(self._ledger.counts))[TaskState.WAITING])

    async def _next(self) -> None:
        """Wait for an event of the engine and handle it, or return because of `wake`."""
        if self._event is None:
            self._event = asyncio.create_task(self._engine.next_event())
        woken = asyncio.create_task(self._woken.wait())
        try:
            await asyncio.wait((self._event, woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        if self._event.done():
            event, self._event = self._event.result(), None
            await self._handle(event)

    async def _note(self, status: ExitStatus | None = None) -> None:
        """Say in the ledger how this driver is set, for those who watch."""
        state = replace(
            self._state,
            workers=self.workers,
            is_paused=self._is_paused,
            is_interrupted=self._is_interrupted,
            status=None if status is None else int(status),
        )
        if state != self._state:
            self._state = state
            await asyncio.to_thread(self._ledger.note_driver, state)

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _do_requests(self) -> bool:
        """Do what other processes have asked for. Returns whether there was something."""
        open = [one for one in await asyncio.to_thread(self._ledger.requests) if one.id not in self._cancelled.values()]
        done = [request.id for request in open if await self._do(request)]
        await self._note()
        if done:
            await asyncio.to_thread(self._ledger.answered, done)
        return bool(done)

    async def _do(self, request: Request) -> bool:
        """Do one. Returns False if it ends later, with an attempt. Unknown ones are dropped."""
        id = request.argument
        match request.kind:
            case RequestKind.PAUSE | RequestKind.RESUME:
                self._is_paused = request.kind == RequestKind.PAUSE
            case RequestKind.WORKERS if id.isascii() and id.isdecimal() and len(id) < 5:
                self.workers = max(1, min(int(id), max(self.workers, self._engine.capacity)))
                self._on_workers(self.workers)
            case RequestKind.INTERRUPT:
                self._interrupt()
            case RequestKind.RETRY:
                await asyncio.to_thread(self._ledger.retry_task, id)
                self._waits_none = False
            case RequestKind.CANCEL if (attempt := self._attempt_of(id)) is not None:
                self._cancelled[attempt.key] = request.id
                self._engine.cancel(attempt)
                return False
            case RequestKind.CANCEL:
                number = await asyncio.to_thread(self._ledger.cancel, id)
                if number is not None:
                    self._on_change(id, number, Ended(AttemptState.INTERRUPTED, reason=CANCELLED))
        return True

    def _attempt_of(self, id: str) -> Attempt | None:
        """The attempt of a task that runs."""
        return next((attempt for attempt in self._running.values() if attempt.task.id == id), None)

    # -- attempts ------------------------------------------------------------------------------------------------------

    async def _fill(self) -> None:
        """Begin attempts while there is room."""
        while not (self._is_interrupted or self._is_paused or self._waits_none or self._budget.is_spent):
            if len(self._running) >= min(self.workers, self._engine.capacity):
                return
            started = await asyncio.to_thread(self._ledger.start, self._engine.where)
            if started is None:
                self._waits_none = True
                return
            task, number = started
            attempt = Attempt(task, number, self._folder / task.id / f"attempt-{number}")
            self._running[attempt.key] = attempt
            self._on_change(task.id, number, None)
            self._engine.submit(attempt)
            if self._is_interrupted:  # while the ledger was written
                self._engine.cancel(attempt)

    async def _handle(self, event: ConversationBegan | AttemptEnded) -> None:
        task, number = event.attempt.task, event.attempt.number
        if isinstance(event, ConversationBegan):
            await asyncio.to_thread(self._ledger.note_began, task.id, number, event.conversation, event.worker)
            return
        self._running.pop(event.attempt.key, None)
        self._waits_none = False
        ended = event.ended
        cancelled = self._cancelled.pop(event.attempt.key, None)
        if cancelled is not None and ended.state is not AttemptState.FINISHED:
            ended = replace(ended, state=AttemptState.INTERRUPTED, reason=CANCELLED)
        elif self._budget.is_spent and ended.state in (AttemptState.ERROR, AttemptState.LIMIT):
            ended = replace(ended, state=AttemptState.INTERRUPTED, reason="The budget of the batch was spent.")
        then = await self._then(task.id, ended)
        is_newest = await asyncio.to_thread(self._ledger.end, task.id, number, ended, then)
        if cancelled is not None:
            await asyncio.to_thread(self._ledger.answered, [cancelled])
        if is_newest:
            self._on_change(task.id, number, ended)

    async def _then(self, id: str, ended: Ended) -> TaskState:
        """What becomes of a task after this result of its newest attempt."""
        if ended.state is AttemptState.FINISHED:
            return TaskState.DONE
        if ended.state is AttemptState.INTERRUPTED and ended.reason == CANCELLED:
            return TaskState.FAILED
        if ended.state is AttemptState.INTERRUPTED:
            return TaskState.WAITING
        if ended.state is AttemptState.LOST:
            lost = await asyncio.to_thread(self._ledger.losses_of, id)
            return TaskState.WAITING if lost < MOST_LOST - 1 else TaskState.FAILED
        counted = await asyncio.to_thread(self._ledger.attempts_of, id)  # with this one, which still runs
        return TaskState.WAITING if ended.state in REPEATED and counted < self._attempts else TaskState.FAILED

    async def _status(self) -> ExitStatus:
        counts = await asyncio.to_thread(self._ledger.counts)
        if self._is_interrupted:
            return ExitStatus.INTERRUPTED
        if counts[TaskState.WAITING]:
            return ExitStatus.LIMIT
        return ExitStatus.ERROR if counts[TaskState.FAILED] else ExitStatus.FINISHED
