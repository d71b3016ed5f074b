"""Record: what the lists say of one open conversation, its title and its model, changed here and in the store at once.

The first message names it; where the settings name a cheap model, a better title is looked for in the background and
taken unless the user has named the conversation meanwhile. Used by AgentSession.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from core.actions.user_actions import Spawn
from core.errors import StoreError
from core.events import CONVERSATION_TITLE, Status
from core.pub_sub import Frames
from core.session.titles import SuggestTitle, first_line
from core.store.conversations import ConversationInfo
from core.store.event_store import EventStore
from core.store.writer import Lease

log = logging.getLogger(__name__)


class Record:
    """Of one conversation."""

    def __init__(
        self,
        *,
        info: ConversationInfo,
        store: EventStore,
        lease: Lease,
        frames: Frames,
        masked: Callable[[str], str],
        spawn: Spawn,
        suggest_title: SuggestTitle | None,
    ) -> None:
        self.info = info
        """As the store has it."""
        self._store = store
        self._lease = lease
        self._frames = frames
        self._masked = masked
        self._spawn = spawn
        self._suggest_title = suggest_title
        self.titling: asyncio.Task[None] | None = None
        """The search for a better title, once it was begun."""

    async def set_title(self, title: str) -> None:
        """What the lists call this conversation. Raises StoreError, and then it keeps its name."""
        before, title = self.info.title, self._masked(title)
        self.info = replace(self.info, title=title)
        try:
            await self._store.update_conversation(self._lease, title=title)
        except StoreError:
            self.info = replace(self.info, title=before)
            raise
        self._frames.publish(Status("info", CONVERSATION_TITLE, title))

    async def set_model(self, name: str) -> None:
        """Which model answers in it. Raises StoreError."""
        await self._store.update_conversation(self._lease, model=name)
        self.info = replace(self.info, model=name)

    async def name(self, message: str) -> None:
        """Name it by its first message, where it has no name, and look for a better one. Does not raise."""
        if self.info.title:
            return
        first = first_line(message)
        try:
            await self.set_title(first)
        except StoreError as error:
            log.warning("conversation %s has no title: %s", self.info.id, error)
            return
        if self._suggest_title is not None:
            self.titling = self._spawn(self._rename(first, message, self._suggest_title))

    async def _rename(self, first: str, message: str, suggest: SuggestTitle) -> None:
        suggestion = await suggest(message)
        try:
            if suggestion.spent.calls:
                await self._store.add_spending(suggestion.spent)
            if suggestion.title and self.info.title == first:
                await self.set_title(suggestion.title)
        except StoreError as error:
            log.warning("conversation %s keeps its first title: %s", self.info.id, error)

    def rest(self) -> None:
        """Look for no title any more."""
        if self.titling is not None:
            self.titling.cancel()
