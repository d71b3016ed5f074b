"""UsersAction: something the user does in the sandbox by himself, as the log has it.

Invariant: it stands in the log as an action of the user, stored before anything of it begins, and as exactly one
observation that answers it, whatever ends it. Only a death of the process leaves it unanswered; then the next start
settles it from the log. Used by what the user's hands do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from core.controller.outcomes import answered
from core.errors import StoreError
from core.events import Action, Envelope, EventSource, Observation, Status
from core.live import Frames
from core.stream import EventStream

UNSTORED_STATUS = "STATUS$COMMAND_UNSTORED"
Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where one conversation's user acts: what stores it, tells it, makes the sandbox ready, and starts a task."""

    stream: EventStream
    frames: Frames
    ready: Callable[[], Awaitable[None]]
    spawn: Spawn


@dataclass(frozen=True, slots=True)
class UsersAction:
    """One action of the user's. `carry_out` does it, `cut_short` is what it comes to when it is cancelled."""

    action: Action
    carry_out: Callable[[int], Awaitable[Observation]]
    """Takes the action's id."""
    cut_short: Callable[[], Observation]
    tells_failure: bool = True
    """Whether the words of an unforeseen failure may be stored; they may repeat what the action hides."""
    last: Callable[[], None] = lambda: None
    """Called at the end, after the observation is stored."""

    async def begin(self, place: Surroundings) -> tuple[Envelope, asyncio.Task[None]]:
        """Store it and let it go on in a task, which may be cancelled. Raises StoreError; then nothing has begun."""
        envelope = await place.stream.append(self.action, EventSource.USER)
        begun = asyncio.Event()
        task = place.spawn(self._see_through(place, envelope.id, begun))
        await begun.wait()  # one that is cancelled before its first step could not answer for its action
        return envelope, task

    async def _see_through(self, place: Surroundings, action_id: int, begun: asyncio.Event) -> None:
        begun.set()
        observation = await self._observe(action_id)
        try:
            await place.stream.append(observation, EventSource.USER, action_id)
        except StoreError as error:  # the next start settles the action from the log
            place.frames.publish(Status("error", UNSTORED_STATUS, str(error)))
        finally:
            self.last()

    async def _observe(self, action_id: int) -> Observation:
        try:
            return await answered(self.carry_out(action_id), action_id, tells=self.tells_failure)
        except asyncio.CancelledError:
            return self.cut_short()
