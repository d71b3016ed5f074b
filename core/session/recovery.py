"""Carries out the user's choice when the agent cannot go on: a limit, a loop, an error of the model or the sandbox.

What can stop the agent, and the choices that each cause offers, are in `core.controller.exit_reasons`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.controller.exit_reasons import Way
from core.events import CondensationRequestAction, EventSource, LoopRecoveryAction, MessageAction
from core.store.reader import EventFilter

if TYPE_CHECKING:
    from core.sandbox.setup import Setup
    from core.session.agent_session import AgentSession

TELL = (
    "You are repeating yourself: {} Do not repeat it. Say what you tried and why it did not work, then go another way."
)


class Recovery:
    """The choices in one conversation. A new one is a row in `core.controller.exit_reasons` and a case here."""

    def __init__(self, session: AgentSession, setup: Setup) -> None:
        self._session = session
        self._setup = setup

    async def take(self, way: Way, model: str = "") -> None:
        """Carry out one of the choices that `state.halt` offers; any other does nothing. `model` is for SWITCH_MODEL.

        Raises ConfigurationError if the model cannot be used; then nothing has changed.
        """
        session = self._session
        halt = session.state.halt
        if halt is None or way not in halt.ways:
            return
        match way:
            case Way.SWITCH_MODEL:
                await session.active_model.switch(model)
            case Way.CONDENSE:
                await session.add(CondensationRequestAction())
            case Way.RESTART_SANDBOX:
                await self._setup.restart()
            case Way.SKIP:
                self._setup.skip()
            case Way.STOP:
                await session.interrupt()
                return
            case Way.CUT_LOOP:
                await session.add(LoopRecoveryAction(option=1))
                return
            case Way.RESEND | Way.TELL:
                text = await self._last_request() if way is Way.RESEND else TELL.format(session.state.reason)
                await session.add(LoopRecoveryAction(option=2))
                await session.send(text)
                return
        await session.resume()

    async def _last_request(self) -> str:
        """The last message of the user."""
        before: int | None = None
        said = EventFilter(kinds=frozenset({"action:message"}), sources=frozenset({EventSource.USER}))
        while page := await self._session.stream.page(before=before, limit=10, where=said):
            for envelope in reversed(page):
                if isinstance(envelope.event, MessageAction) and not envelope.event.queued:
                    return envelope.event.content
            before = page[0].id
        return ""
