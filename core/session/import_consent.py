"""Consent: a conversation that came from elsewhere goes on only after the user was asked.

Its text was written by others and its folder is of another machine. Whether somebody was asked, and said yes, is in the
log: the last ConsentAction. An import without one has to be asked about. Used by AgentSession.
"""

from __future__ import annotations

from core.errors import ConsentError
from core.events import ConsentAction, EventSource
from core.store.conversations import IMPORT, ConversationInfo
from core.store.reader import EventFilter
from core.stream import EventStream


class ImportConsent:
    """Of one conversation; `load` it first."""

    def __init__(self, stream: EventStream, info: ConversationInfo) -> None:
        self._stream = stream
        self._is_import = info.origin == IMPORT
        self.origin = info.origin_of or "elsewhere"
        """Where it comes from, for the user. Foreign."""
        self.is_needed = False
        """Whether the user has not said yet that it may go on."""

    async def load(self) -> None:
        """See what the log says. Raises StoreError."""
        self.is_needed = self._is_import
        for envelope in await self._stream.page(limit=1, where=EventFilter(kinds=frozenset({"action:consent"}))):
            if isinstance(envelope.event, ConsentAction):
                self.origin = envelope.event.origin or self.origin
                self.is_needed = not envelope.event.given

    async def give(self) -> None:
        """The user was asked, and said yes. Does nothing where nobody has to be asked. Raises StoreError."""
        if self.is_needed:
            await self._stream.append(ConsentAction(origin=self.origin), EventSource.USER)
            self.is_needed = False

    def require(self) -> None:
        """Raise ConsentError where the user is still to be asked."""
        if self.is_needed:
            raise ConsentError(
                f"This conversation was imported from {self.origin}. Send it a message in the workspace: there you "
                "are asked whether it may go on."
            )
