"""An imported conversation goes on only after the user agreed.

Its text was written by others and its folder belongs to another machine. The last ConsentAction in the log has the
answer; an import without one needs an answer.
"""

from __future__ import annotations

from core.errors import ConsentError
from core.events import ConsentAction, EventSource
from core.store.conversations import IMPORT, ConversationInfo
from core.store.reader import EventFilter
from core.stream import EventStream


class ImportConsent:
    """The consent for one conversation; `load` it first."""

    def __init__(self, stream: EventStream, info: ConversationInfo) -> None:
        self._stream = stream
        self._is_import = info.origin == IMPORT
        self.origin = info.origin_of or "elsewhere"
        """Where the conversation comes from, for the user. Foreign text."""
        self.is_needed = False
        """Whether the user still has to agree."""

    async def load(self) -> None:
        """Read the answer from the log. Raises StoreError."""
        self.is_needed = self._is_import
        for envelope in await self._stream.page(limit=1, where=EventFilter(kinds=frozenset({"action:consent"}))):
            if isinstance(envelope.event, ConsentAction):
                self.origin = envelope.event.origin or self.origin
                self.is_needed = not envelope.event.given

    async def give(self) -> None:
        """Store that the user agreed, if that was needed. Raises StoreError."""
        if self.is_needed:
            await self._stream.append(ConsentAction(origin=self.origin), EventSource.USER)
            self.is_needed = False

    def require(self) -> None:
        """Raise ConsentError if the user still has to agree."""
        if self.is_needed:
            raise ConsentError(
                f"This conversation was imported from {self.origin}. Send it a message in the workspace: there you "
                "are asked whether it may go on."
            )
