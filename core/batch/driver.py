"""Driver: gives the tasks of a batch to an engine, and decides what becomes of each result.

An attempt that failed because of the machine, the model or the sandbox is followed by another one, up to the number of
attempts. A failure of the task itself is final unless the user asks for another attempt. When the budget is spent,
what was interrupted by that waits for the next run of the batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from core.batch.engine import Attempt, AttemptEnded, ConversationBegan, Engine
from core.batch.ledger import AttemptState, Ended, Ledger, TaskState
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
        on_change: Callable[[str, int, Ended | None], None] = lambda id, attempt, ended: None,
    ) -> None:
        """`on_change` is told when an attempt begins (None) and ends."""
        self._ledger, self._engine, self._folder = ledger, engine, folder
        self._budget, self._attempts, self._on_change = budget, attempts, on_change
        self.workers = workers
        """How many attempts run at once; may be changed at any time."""
        self._running: set[tuple[str, int]] = set()
        self._is_interrupted = False

    async def run(self, interrupted: asyncio.Event) -> ExitStatus:
        """Raises StoreError if the ledger cannot be written; then everything is interrupted."""
        watch = asyncio.create_task(self._watch(interrupted))
        try:
            while True:
                await self._fill()
                if not self._running:
                    return await asyncio.to_thread(self._status)
                await self._handle(await self._engine.next_event())
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch
            self._engine.cancel()

    async def _watch(self, interrupted: asyncio.Event) -> None:
        await interrupted.wait()
        self._is_interrupted = True
        self._engine.cancel()

    async def _fill(self) -> None:
        """Begin attempts while there is room."""
        while not self._is_interrupted and not self._budget.is_spent:
            if len(self._running) >= min(self.workers, self._engine.capacity):
                return
            started = await asyncio.to_thread(self._ledger.start, self._engine.where)
            if started is None:
                return
            task, number = started
            attempt = Attempt(task, number, self._folder / task.id / f"attempt-{number}")
            self._running.add(attempt.key)
            self._on_change(task.id, number, None)
            self._engine.submit(attempt)

    async def _handle(self, event: ConversationBegan | AttemptEnded) -> None:
        task, number = event.attempt.task, event.attempt.number
        if isinstance(event, ConversationBegan):
            await asyncio.to_thread(self._ledger.note_began, task.id, number, event.conversation, event.worker)
            return
        self._running.discard(event.attempt.key)
        ended = event.ended
        if self._budget.is_spent and ended.state in (AttemptState.ERROR, AttemptState.LIMIT):
            ended = Ended(
                *(AttemptState.INTERRUPTED, ended.conversation, ended.cost, ended.tokens_in, ended.tokens_out),
                reason="The budget of the batch was spent.",
            )
        then = await self._then(task.id, ended)
        is_newest = await asyncio.to_thread(self._ledger.end, task.id, number, ended, then)
        if is_newest:
            self._on_change(task.id, number, ended)

    async def _then(self, id: str, ended: Ended) -> TaskState:
        """What becomes of a task after this result of its newest attempt."""
        if ended.state is AttemptState.FINISHED:
            return TaskState.DONE
        if ended.state is AttemptState.INTERRUPTED:
            return TaskState.WAITING
        if ended.state is AttemptState.LOST:
            lost = await asyncio.to_thread(self._ledger.losses_of, id)
            return TaskState.WAITING if lost < MOST_LOST - 1 else TaskState.FAILED
        counted = await asyncio.to_thread(self._ledger.attempts_of, id)  # with this one, which still runs
        return TaskState.WAITING if ended.state in REPEATED and counted < self._attempts else TaskState.FAILED

    def _status(self) -> ExitStatus:
        counts = self._ledger.counts()
        if self._is_interrupted:
            return ExitStatus.INTERRUPTED
        if counts[TaskState.WAITING]:
            return ExitStatus.LIMIT
        return ExitStatus.ERROR if counts[TaskState.FAILED] else ExitStatus.FINISHED


def left_s(done: int, total: int, began: float, now: Callable[[], float] = time.monotonic) -> float | None:
    """About how many seconds the rest will take; None before the first task is done."""
    return (now() - began) / done * (total - done) if done else None
