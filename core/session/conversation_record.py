"""What the list of conversations shows of an open one: its title and its model, changed here and in the store at once.

The first line of the first message is the title. If the settings name a cheap model, it is asked for a better title in
the background, which is taken unless the user has named the conversation meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from core.errors import StoreError
from core.events import CONVERSATION_TITLE, Status
from core.llm.title_suggestion import SuggestTitle, first_line
from core.protocols import Spawn
from core.store.conversations import ConversationInfo
from core.store.event_store import EventStore
from core.store.writer import Lease
from core.stream import Frames

log = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class ConversationRecord:
    """The title and the model of one conversation."""

    info: ConversationInfo
    """The conversation as it is in the store."""
    store: EventStore
    lease: Lease
    frames: Frames
    redact: Callable[[str], str]
    spawn: Spawn
    suggest_title: SuggestTitle | None
    title_task: asyncio.Task[None] | None = field(default=None, init=False)
    """The task that waits for a better title."""

    async def set_title(self, title: str) -> None:
        """Change the title. Raises StoreError; then the conversation keeps its old one."""
        before, title = self.info.title, self.redact(title)
        self.info = replace(self.info, title=title)
        try:
            await self.store.update_conversation(self.lease, title=title)
        except StoreError:
            self.info = replace(self.info, title=before)
            raise
        self.frames.publish(Status("info", CONVERSATION_TITLE, title))

    async def set_model(self, name: str) -> None:
        """Store which model answers. Raises StoreError."""
        await self.store.update_conversation(self.lease, model=name)
        self.info = replace(self.info, model=name)

    async def name(self, message: str) -> None:
        """Title an untitled conversation by its first message, and request a better title. Logs errors of the store."""
        if self.info.title:
            return
        first = first_line(message)
        try:
            await self.set_title(first)
        except StoreError as error:
            log.warning("conversation %s has no title: %s", self.info.id, error)
            return
        if self.suggest_title is not None:
            self.title_task = self.spawn(self._rename(first, message, self.suggest_title))

    async def _rename(self, first: str, message: str, suggest: SuggestTitle) -> None:
        suggestion = await suggest(message)
        try:
            if suggestion.spent.calls:
                await self.store.add_spending(suggestion.spent)
            if suggestion.title and self.info.title == first:
                await self.set_title(suggestion.title)
        except StoreError as error:
            log.warning("conversation %s keeps its first title: %s", self.info.id, error)

    def cancel_title(self) -> None:
        """Stop waiting for a suggested title."""
        if self.title_task is not None:
            self.title_task.cancel()
