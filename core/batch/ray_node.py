"""What a node of a cluster does for a batch: one attempt, with its own settings and keys.

The events of the attempt are stored on the node, as those of any conversation, and sent to the driver as they come.
When the driver has them all, the node deletes its copy. Nothing is sent if driver and node have the same home.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from core.batch.attempt_runner import PATCH, AttemptRunner
from core.batch.batch_options import BatchOptions
from core.batch.engine import Attempt
from core.batch.ledger import AttemptState, Ended
from core.batch.ray_hub import AttemptKey, Permit
from core.batch.tasks import BatchTask
from core.conversations.conversation_manager import ConversationManager
from core.environment import home_folder
from core.errors import HandloomError, ModelError, ModelErrorKind
from core.events import Envelope
from core.llm.budget import Budget, BudgetSpentError
from core.llm.permits import Permits
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from core.store.replication import Cursor
from core.stream import EventStreamSubscriber

FOLDER = "batches"
"""In the home of a node: the repositories of each batch, and the folders of the attempts that run."""
DRIVER = "driver"
"""A file in the folder of a batch in the driver's home."""
KEPT_S = 7 * 24 * 3600.0
"""The repositories of a batch that nothing has used for this long are removed."""
HEARTBEAT_S = 5.0
"""How often a node says that it lives."""
MakeManager = Callable[[Path, Settings], ConversationManager]


class Began(NamedTuple):
    """The first message of an attempt."""

    conversation: str
    worker: str
    """The machine, for people."""
    node: str
    """Ray's id of the node."""


class Last(NamedTuple):
    """The last message of an attempt: everything was sent."""


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What an attempt gives back."""

    ended: Ended
    patch: bytes | None = None


class Node:
    """Carries out one attempt on this machine. `hub` is the handle of the batch's Hub."""

    def __init__(self, batch: BatchOptions, hub: Any, make_manager: MakeManager, node: str) -> None:
        self._batch, self._hub, self._make_manager, self._node = batch, hub, make_manager, node

    async def carry_out(self, task: BatchTask, number: int) -> NodeResult:
        """Returns the result whatever happens, except for a bug."""
        key, interrupted = (task.id, number), asyncio.Event()
        async with _doing(_await_cancel(self._hub, key, interrupted)), _doing(_send_heartbeats(self._hub, key)):
            try:
                return await self._attempt(task, number, interrupted)
            except HandloomError as error:
                return NodeResult(Ended(AttemptState.ERROR, reason=str(error)))

    async def _attempt(self, task: BatchTask, number: int, interrupted: asyncio.Event) -> NodeResult:
        key, batch, hub, home = (task.id, number), self._batch, self._hub, home_folder(os.environ)
        settings = await asyncio.to_thread(batch.settings, home)
        shared = home / FOLDER / batch.id
        is_same_home = await asyncio.to_thread(_prepare, shared)
        attempt = Attempt(task, number, shared / f"{task.id}-{number}")
        async with self._make_manager(home, settings) as manager:
            llms = manager.factory.llms
            llms.budget = HubBudget(hub, key, has_limit=batch.has_budget)
            llms.permits = lambda model: HubPermits(hub, key, model)
            runner = AttemptRunner(manager, shared, approve=batch.approve)
            sender = _Sender(manager, hub, key, is_same_home=is_same_home)
            try:
                ended = await runner.run(attempt, interrupted, lambda session: sender.begin(session, self._node))
            except HandloomError as error:
                ended = Ended(AttemptState.ERROR, sender.conversation, reason=str(error))
            finally:
                patch = await asyncio.to_thread(_patch, attempt.folder)
                await asyncio.to_thread(shutil.rmtree, attempt.folder, ignore_errors=True)
                await sender.end()
        return NodeResult(ended, patch)


def _prepare(shared: Path) -> bool:
    """Make the folder of a batch, and remove those of old ones. Returns whether the driver's mark is in it."""
    shared.mkdir(parents=True, exist_ok=True)
    os.utime(shared)
    for other in shared.parent.iterdir():
        with suppress(OSError):
            if other.stat().st_mtime < time.time() - KEPT_S:
                shutil.rmtree(other, ignore_errors=True)
    return (shared / DRIVER).exists()


def _patch(folder: Path) -> bytes | None:
    try:
        return (folder / PATCH).read_bytes()
    except OSError:
        return None


class _Sender:
    """Sends the events of an attempt's conversations to the hub, in order."""

    def __init__(self, manager: ConversationManager, hub: Any, key: AttemptKey, *, is_same_home: bool) -> None:
        self._manager, self._hub, self._key, self._is_same_home = manager, hub, key, is_same_home
        self.conversation = ""
        """Empty before it has begun."""
        self._cursors: dict[str, Cursor] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False

    def begin(self, session: AgentSession, node: str) -> None:
        """Send everything from now on."""
        self.conversation = session.id
        session.stream.subscribe(EventStreamSubscriber.MAIN, self._heard, "batch node")
        self._changed.set()
        self._task = asyncio.create_task(self._run(node), name="send events to the driver")

    async def end(self) -> None:
        """Send the rest, wait until the driver has it, and delete the copy on this machine."""
        if self._task is None:
            return
        self._is_ending = True
        self._changed.set()
        await self._task
        await self._hub.put.remote(self._key, Last())
        await self._hub.until_stored.remote(self._key)
        if not self._is_same_home:
            await self._manager.store.delete_conversation(self.conversation)

    async def _heard(self, envelope: Envelope) -> None:
        self._changed.set()

    async def _run(self, node: str) -> None:
        await self._hub.put.remote(self._key, Began(self.conversation, f"{socket.gethostname()}/{node[:6]}", node))
        while not self._is_same_home:
            await self._changed.wait()
            is_last = self._is_ending
            self._changed.clear()
            await self._send()
            if is_last:
                return

    async def _send(self) -> None:
        store = self._manager.store
        for id in (self.conversation, *(info.id for info in await store.descendants(self.conversation))):
            while not (changes := await store.changes_after(id, self._cursors.get(id, Cursor()))).is_empty:
                await self._hub.put.remote(self._key, changes)
                self._cursors[id] = changes.cursor


class HubBudget(Budget):
    """The budget of the batch, as an attempt on a node has it."""

    def __init__(self, hub: Any, key: AttemptKey, *, has_limit: bool) -> None:
        super().__init__(float("inf") if has_limit else None)
        self._hub, self._key = hub, key

    async def reserve(self, most: float) -> None:
        """As `Budget.reserve`."""
        if self.total is None:
            return
        undo = lambda: self._hub.settle.remote(self._key, most, 0.0)  # noqa: E731
        if (refused := await _unless_cancelled(self._hub.reserve.remote(self._key, most), undo)) is not None:
            raise BudgetSpentError(*refused)

    async def settle(self, most: float, cost: float | None) -> None:
        """As `Budget.settle`."""
        await self._hub.settle.remote(self._key, most, cost)


class HubPermits(Permits):
    """The permits of a model, as an attempt on a node has them."""

    def __init__(self, hub: Any, key: AttemptKey, model: str) -> None:
        super().__init__(1)
        self._hub, self._key, self._model = hub, key, model
        self._was_limited: bool | None = None
        self._entered: list[Permit] = []

    async def __aenter__(self) -> HubPermits:
        undo = lambda: self._hub.leave.remote(self._key, self._model, 0, None)  # noqa: E731
        permit = await _unless_cancelled(self._hub.enter.remote(self._key, self._model), undo)
        if permit is None:
            raise ModelError(ModelErrorKind.BAD_REQUEST, "This attempt was given up.")
        self.rounds, self.limit = permit
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        was_limited, self._was_limited = self._was_limited, None
        self.limit = await self._hub.leave.remote(self._key, self._model, self.rounds, was_limited)

    def limited(self, began_in: int) -> None:
        """As `Permits.limited`, when the permit is returned."""
        self.rounds, self._was_limited = began_in, True

    def answered(self) -> None:
        """As `Permits.answered`, when the permit is returned."""
        self._was_limited = False


async def _unless_cancelled(call: Any, undo: Callable[[], object]) -> Any:
    """Wait for a call of the hub. If this is cancelled, undo what the call takes as soon as it has taken it."""
    waiting = asyncio.ensure_future(_result(call))
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        waiting.add_done_callback(lambda done: undo())
        raise


async def _result(call: Any) -> Any:
    return await call


async def _await_cancel(hub: Any, key: AttemptKey, interrupted: asyncio.Event) -> None:
    await hub.until_cancelled.remote(key)
    interrupted.set()


async def _send_heartbeats(hub: Any, key: AttemptKey) -> None:
    while True:
        await hub.heartbeat.remote(key)
        await asyncio.sleep(HEARTBEAT_S)


@asynccontextmanager
async def _doing(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something beside what is inside."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
