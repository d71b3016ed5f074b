"""Sleep: a conversation that rests lets go of its place, its sandbox and its model, and has them again when woken.

Stream, state and lease stay, so whoever shows the conversation needs nothing. What runs in the sandbox by itself, such
as a server in the background, ends. Used by AgentSession.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from core.events import Status
from core.pub_sub import Frames
from core.session.slots import Places

log = logging.getLogger(__name__)

LetGo = Callable[[], Awaitable[None]]


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
