"""How many conversations are awake at once, and how one that rests is suspended and resumed.

A conversation is awake if it has a sandbox and a model, or may start them at any moment; it holds a slot. When every
slot is taken, the one that has rested longest is suspended: it releases its slot, its sandbox and its model, and gets
them back with the next message. Stream, state and lease stay, so a screen that shows it notices nothing. What runs in
the sandbox in the background, such as a server, ends. Invariant: a conversation that works is never suspended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from core.errors import UsageError
from core.events import Envelope, Event, EventSource, Status
from core.sandbox.setup import Setup
from core.session.active_model import ActiveModel
from core.store.conversations import ConversationInfo
from core.stream import EventStream, Frames
from core.trust.import_consent import ImportConsent

log = logging.getLogger(__name__)

TOO_MANY = Status(
    "error",
    "AGENT_ERROR$TOO_MANY_CONVERSATIONS",
    "Too many conversations at once. If you are still using this one, try reactivating it by prompting the agent to "
    "continue",
)
"""What a conversation that is suspended shows; V0's words."""


class Suspendable(Protocol):
    """What the slots need of a conversation: see AgentSession."""

    @property
    def rests(self) -> bool: ...
    @property
    def rests_since(self) -> float: ...
    async def suspend(self, notice: Status) -> bool: ...


class Slots:
    """At most `limit` conversations are awake. `sessions` has those that are started, by id."""

    def __init__(self, limit: int, sessions: Mapping[str, Suspendable]) -> None:
        self._limit = limit
        self._sessions = sessions
        self._taken: set[str] = set()
        self._lock = asyncio.Lock()

    async def take(self, conversation_id: str) -> None:
        """Take a slot, if necessary that of another conversation. Raises UsageError if all of them work."""
        async with self._lock:
            while len(self._taken) >= self._limit:
                await self._free_one()
            self._taken.add(conversation_id)

    def release(self, conversation_id: str) -> None:
        """Release the slot of a conversation, if it has one."""
        self._taken.discard(conversation_id)

    async def _free_one(self) -> None:
        """Suspend the conversation that has rested longest."""
        awake = [session for id, session in self._sessions.items() if id in self._taken and session.rests]
        for session in sorted(awake, key=lambda session: session.rests_since):
            if await session.suspend(TOO_MANY):
                return
        if len(self._taken) >= self._limit:  # unless one was closed meanwhile
            raise UsageError(
                f"All {self._limit} conversations that can be active at once are working. Wait for one, interrupt or "
                "close one, or raise the setting conversations.max_concurrent."
            )


SETTLE_S = 1.0
"""How long subscribers may take with their events before a session that rests is suspended."""


@dataclass(eq=False, kw_only=True)
class Suspension:
    """The suspension of one conversation."""

    info: ConversationInfo
    slots: Slots
    stream: EventStream
    frames: Frames
    consent: ImportConsent
    setup: Setup
    model: ActiveModel
    closed: asyncio.Event
    is_idle: Callable[[], bool]
    """Whether agent and user do nothing."""
    _notice: Status | None = field(default=None, init=False)
    """The notice of the suspension while it is suspended."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    """Held while something of the user is stored, during an undo, and while it is suspended or resumed."""

    @property
    def is_on(self) -> bool:
        """Whether sandbox and model are released. The conversation is shown as before; a message resumes it."""
        return self._notice is not None

    @property
    def rests(self) -> bool:
        """Whether nothing is under way, so that sandbox and model can be released without loss."""
        return self.is_idle() and not self.setup.is_warming_up

    async def suspend(self, notice: Status, last: Callable[[], Awaitable[None]]) -> bool:
        """Release sandbox, model and slot after `last`, and publish `notice`. False if the conversation works."""
        async with self._lock:
            if not await self._is_quiet():
                return False
            await last()
            self._notice = notice
            self.slots.release(self.info.id)
            self.frames.publish(notice)
            for release in (self.setup.rest, self.model.aclose):
                try:
                    await release()
                except Exception:  # the boundary to a sandbox and a model that nothing needs any more
                    log.exception("conversation %s was suspended and could not release everything", self.info.id)
            return True

    async def _is_quiet(self) -> bool:
        """Whether it rests and no subscriber still has an event after which it might work."""
        if not self.rests:
            return False
        try:
            async with asyncio.timeout(SETTLE_S):
                await self.stream.settle()
        except TimeoutError:
            return False
        return self.rests and not self.closed.is_set()

    @asynccontextmanager
    async def awake(self) -> AsyncIterator[None]:
        """Resume the conversation if it is suspended, and keep it awake meanwhile.

        Raises UsageError if it is closed or every slot is taken by one that works, ConsentError if the user has to
        agree first, ConfigurationError if its model no longer exists.
        """
        async with self._lock:
            self._refuse_if_closed()
            self.consent.require()
            await self._resume()
            yield

    async def add(self, event: Event, cause: int | None = None) -> Envelope:
        """Store an event of the user that may give the agent work. Raises StoreError, and as `awake`."""
        async with self.awake():
            return await self.stream.append(event, EventSource.USER, cause)

    @asynccontextmanager
    async def at_rest(self) -> AsyncIterator[None]:
        """Keep the conversation at rest meanwhile. Raises UsageError if the agent or its sandbox is at work."""
        if self.is_idle():
            await self.setup.warmed_up()  # it may still bring files
        async with self._lock:
            self._refuse_if_closed()
            if self.info.parent:
                raise UsageError("A delegate's work is undone in the conversation that began it.")
            if self.rests:
                await self.stream.settle()  # a checkpoint that is being taken may need seconds
            if not self.rests:
                raise UsageError("The agent or its sandbox is still working. Press Esc to stop it, then undo.")
            yield

    def _refuse_if_closed(self) -> None:
        if self.closed.is_set():
            raise UsageError(f"Conversation {self.info.id} is closed here. Open it again.")

    async def _resume(self) -> None:
        """Take a slot and make the model again, if they were released. The sandbox starts when it is needed."""
        if self._notice is None:
            return
        await self.slots.take(self.info.id)
        try:
            await self.model.reopen()
            if self.closed.is_set():
                await self.model.aclose()
                self._refuse_if_closed()
        except BaseException:
            self.slots.release(self.info.id)
            raise
        notice, self._notice = self._notice, None
        self.frames.publish(replace(notice, message=""))
