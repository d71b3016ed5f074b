"""The command `/compact [what to keep]` without a screen, and its result.

As on the screen, it is not a message: it does not start the agent, and the model of the settings writes the summary.
Used by the headless command and by editors.
"""

from __future__ import annotations

from core.events import CondensationAction
from core.store.reader import EventFilter
from core.stream import EventStream

COMPACT = "compact"
_DONE = EventFilter(kinds=frozenset({"action:condensation"}))


def compact_argument(text: str) -> str | None:
    """What to keep above all, if the text is this command; None if it is a message."""
    first, *rest = text.strip().split(maxsplit=1) or [""]
    return None if first != f"/{COMPACT}" else rest[0] if rest else ""


async def last_condensation(stream: EventStream, since: int) -> CondensationAction | None:
    """The newest condensation after an event; None if there is none. Raises StoreError."""
    for envelope in reversed(await stream.read(after=since, where=_DONE)):
        if isinstance(envelope.event, CondensationAction):
            return envelope.event
    return None
