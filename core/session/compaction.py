"""Compacting: the wish `/compact [what to keep]` where there is no screen, and what came of it in words.

As on the screen, the wish is no message: the agent is not woken up by it, and the model that sums up is the one of the
settings. Used by the headless command and by editors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.events import CondensationAction
from core.store.reader import EventFilter

if TYPE_CHECKING:
    from core.session.agent_session import AgentSession

COMPACT = "compact"
_DONE = EventFilter(kinds=frozenset({"action:condensation"}))


def compact_wish(text: str) -> str | None:
    """What is to be kept above all, where a text wishes for it; None where it is a message."""
    first, *rest = text.strip().split(maxsplit=1) or [""]
    return None if first != f"/{COMPACT}" else rest[0] if rest else ""


async def came_of(session: AgentSession, since: int) -> CondensationAction | None:
    """The newest condensation after an event; None where there is none. Raises StoreError."""
    for envelope in reversed(await session.stream.read(after=since, where=_DONE)):
        if isinstance(envelope.event, CondensationAction):
            return envelope.event
    return None
