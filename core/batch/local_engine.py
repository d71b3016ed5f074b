"""LocalEngine: attempts as conversations of this process, several at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from core.batch.attempt_runner import AttemptRunner, keep_exports
from core.batch.engine import Attempt, AttemptEnded, ConversationBegan, EngineEvent
from core.batch.ledger import AttemptState, Ended
from core.conversations.conversation_manager import ConversationManager
from core.errors import HandloomError
from core.session.agent_session import AgentSession


class LocalEngine:
    """Carries out attempts on this machine. `slots` is how many run at once."""

    def __init__(
        self,
        manager: ConversationManager,
        runner: AttemptRunner,
        slots: int,
        on_session: Callable[[AgentSession], None] = lambda session: None,
    ) -> None:
        """`on_session` is told of each conversation as it begins."""
        self._manager, self._runner, self._slots, self._on_session = manager, runner, slots, on_session
        self._events: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self._running: dict[tuple[str, int], tuple[asyncio.Event, asyncio.Task[None]]] = {}

    @property
    def capacity(self) -> int:
        return self._slots

    @property
    def where(self) -> str:
        return "local"

    def submit(self, attempt: Attempt) -> None:
        interrupted = asyncio.Event()
        name = f"{attempt.task.id}, attempt {attempt.number}"
        task = asyncio.create_task(self._carry_out(attempt, interrupted), name=name)
        self._running[attempt.key] = interrupted, task
        task.add_done_callback(lambda done: self._running.pop(attempt.key))

    async def next_event(self) -> EngineEvent:
        return await self._events.get()

    def cancel(self, attempt: Attempt | None = None) -> None:
        for key, (interrupted, _) in self._running.items():
            if attempt is None or attempt.key == key:
                interrupted.set()

    async def aclose(self) -> None:
        self.cancel()
        await asyncio.gather(*(task for _, task in self._running.values()), return_exceptions=True)

    def _began(self, attempt: Attempt, session: AgentSession) -> None:
        self._on_session(session)
        self._events.put_nowait(ConversationBegan(attempt, session.id, self.where))

    async def _carry_out(self, attempt: Attempt, interrupted: asyncio.Event) -> None:
        """Carry out one attempt; whatever happens, it ends with one event."""
        ended = Ended(AttemptState.ERROR, reason="The attempt ended unexpectedly. See the log.")
        try:
            ended = await self._runner.run(attempt, interrupted, partial(self._began, attempt))
            if ended.conversation:
                await keep_exports(self._manager, attempt, ended.conversation)
        except HandloomError as error:
            ended = Ended(AttemptState.ERROR, reason=str(error))
        except asyncio.CancelledError:
            ended = Ended(AttemptState.INTERRUPTED)
            raise
        finally:
            self._events.put_nowait(AttemptEnded(attempt, ended))
