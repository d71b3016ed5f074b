"""Whether a conversation is awake: one that rests releases its slot, its sandbox and its model, and gets them back.

Sleep is the release and the return; Suspension decides when that may happen, and keeps what the user does, an undo and
a suspension apart. Stream, state and lease stay, so a screen that shows the conversation notices nothing. What runs in
the sandbox in the background, such as a server, ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from core.errors import UsageError
from core.events import Envelope, Event, EventSource, Status
from core.pub_sub import Frames
from core.session.active_model import ActiveModel
from core.session.import_consent import Consent
from core.session.setup import Preparation
from core.session.slots import Places
from core.store.conversations import ConversationInfo
from core.stream import EventStream

log = logging.getLogger(__name__)

LetGo = Callable[[], Awaitable[None]]


SLEEP_S = 1.0
"""How long subscribers may take with their events before a session that rests is suspended."""


class Sleep:
    """Of one conversation. `come_back` has the model again; the sandbox starts when it is needed."""

    def __init__(
        self, id: str, places: Places, frames: Frames, let_go: Sequence[LetGo], come_back: Callable[[], Awaitable[None]]
    ) -> None:
        self._id = id
        self._places = places
        self._frames = frames
        self._let_go = let_go
        self._come_back = come_back
        self._notice: Status | None = None

    @property
    def is_on(self) -> bool:
        """Whether it sleeps."""
        return self._notice is not None

    async def fall(self, notice: Status) -> None:
        """Fall asleep and tell `notice` to whoever watches. Does not raise what sandbox and model do wrong."""
        self._notice = notice
        self._places.give(self._id)
        self._frames.publish(notice)
        for let_go in self._let_go:
            try:
                await let_go()
            except Exception:  # the boundary to a sandbox and a model that nobody needs any more
                log.exception("conversation %s fell asleep and could not let go", self._id)

    async def wake(self) -> None:
        """Be awake; does nothing where it is. Raises UsageError where no place is free, and what `come_back` raises."""
        if self._notice is None:
            return
        await self._places.take(self._id)
        try:
            await self._come_back()
        except BaseException:
            self._places.give(self._id)
            raise
        notice, self._notice = self._notice, None
        self._frames.publish(replace(notice, message=""))


class Suspension:
    """Whether one conversation is awake, rests or is suspended. `is_idle` tells whether agent and user do nothing."""

    def __init__(
        self,
        *,
        info: ConversationInfo,
        places: Places,
        stream: EventStream,
        frames: Frames,
        consent: Consent,
        setup: Preparation,
        model: ActiveModel,
        closed: asyncio.Event,
        is_idle: Callable[[], bool],
    ) -> None:
        self._info = info
        self._stream = stream
        self._consent = consent
        self._setup = setup
        self._model = model
        self._closed = closed
        self._is_idle = is_idle
        self._turn = asyncio.Lock()
        """Held while the user says something, during an undo, and while it is suspended or resumed."""
        self._sleep = Sleep(info.id, places, frames, (setup.rest, model.aclose), self._come_back)

    @property
    def is_on(self) -> bool:
        """Whether sandbox and model are released. The conversation is shown as before; a message resumes it."""
        return self._sleep.is_on

    @property
    def rests(self) -> bool:
        """Whether nothing is under way, so that sandbox and model can be released without loss."""
        return self._is_idle() and not self._setup.is_warming_up

    async def suspend(self, notice: Status, last: Callable[[], Awaitable[None]]) -> bool:
        """Release sandbox, model and slot after `last`, and publish `notice`. False if the conversation works."""
        async with self._turn:
            if not await self._is_quiet():
                return False
            await last()
            await self._sleep.fall(notice)
            return True

    async def _is_quiet(self) -> bool:
        """Whether it rests and no subscriber still has an event after which it might work."""
        if not self.rests:
            return False
        try:
            async with asyncio.timeout(SLEEP_S):
                await self._stream.settle()
        except TimeoutError:
            return False
        return self.rests and not self._closed.is_set()

    @asynccontextmanager
    async def awake(self) -> AsyncIterator[None]:
        """Awake, and kept awake while something is said.

        Raises UsageError if it is closed or every slot is taken by one that works, ConsentError if the user has to
        agree first, ConfigurationError if its model is gone.
        """
        async with self._turn:
            self._refuse_if_closed()
            self._consent.require()
            await self._sleep.wake()
            yield

    async def add(self, event: Event, cause: int | None = None) -> Envelope:
        """Store something that the user wants, after which there may be work. Raises StoreError, and as `awake`."""
        async with self.awake():
            return await self._stream.append(event, EventSource.USER, cause)

    @asynccontextmanager
    async def at_rest(self) -> AsyncIterator[None]:
        """Nothing is under way, and nothing is said meanwhile. Raises UsageError."""
        if self._is_idle():
            await self._setup.warmed_up()  # it may still bring files
        async with self._turn:
            self._refuse_if_closed()
            if self._info.parent:
                raise UsageError("A delegate's work is undone in the conversation that began it.")
            if self.rests:
                await self._stream.settle()  # a checkpoint that is being taken may need seconds
            if not self.rests:
                raise UsageError("The agent is at work, or its sandbox is. Esc stops it; then undo.")
            yield

    def _refuse_if_closed(self) -> None:
        if self._closed.is_set():
            raise UsageError(f"Conversation {self._info.id} is closed here. Open it again.")

    async def _come_back(self) -> None:
        await self._model.reopen()
        if self._closed.is_set():
            await self._model.aclose()
            self._refuse_if_closed()
