"""One prompt while it runs, and what was answered in it."""

from __future__ import annotations

import asyncio

from core.events import Action, Envelope
from core.security.judgement import Verdict
from core.session.agent_session import AgentSession


class Turn:
    """One prompt while it runs."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.is_said = False
        """Whether the message is stored, so that there is something to interrupt."""
        self.has_permitted = False
        """Whether an answer was kept, so that others that wait may be allowed by it."""
        self.cancelled = asyncio.Event()
        self.over = asyncio.Event()


async def is_allowed(session: AgentSession, envelope: Envelope) -> bool:
    """Whether an action that waits is allowed by what was permitted since."""
    action = envelope.event
    return isinstance(action, Action) and (await session.guard.judge(action)).verdict is Verdict.ALLOW
