"""UsersAction: something the user does in the sandbox by himself, as the log has it.

Invariant: it stands in the log as an action of the user, stored before anything of it begins, and as exactly one
observation that answers it, whatever ends it. Only a death of the process leaves it unanswered; then the next start
settles it from the log. Used by what the user's hands do.

UserShell: commands that the user runs in the agent's shell, between what the agent does.

Invariants: one at a time, and never beside the agent, which shares the shell's folder and variables; each stands in
the log as an action of the user, stored before it runs, and as the one observation that answers it, whatever ends it.
It waits for the sandbox as the agent's first action does, and has no time limit: the user stops it. The model reads
both with the next message, as in OpenHands V0. Used by AgentSession.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from core.controller.controller import INTERRUPTED, INTERRUPTED_EXIT
from core.controller.outcomes import Seen, answered
from core.errors import StoreError, UsageError
from core.events import (
    Action,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    EventSource,
    Observation,
    Status,
)
from core.protocols import Executor
from core.pub_sub import Frames
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


NO_LIMIT_S = 7 * 24 * 3600.0
"""A server that the user started may run for days; what is forgotten ends with the conversation."""


class UserShell:
    """The user's commands of one conversation, carried out by `shell`."""

    def __init__(self, shell: Executor, place: Surroundings) -> None:
        self._shell = shell
        self._place = place
        self._task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a command is running."""
        return self._task is not None and not self._task.done()

    async def run(self, command: str) -> Envelope:
        """Store the command and let it run. Raises UsageError while another one runs, StoreError."""
        if self.is_busy:
            raise UsageError("Your last command still runs. Esc stops it; then run the next one.")
        action = CmdRunAction(command=command, blocking=True, timeout=NO_LIMIT_S)
        seen = Seen(self._place.frames)

        async def carry_out(action_id: int) -> Observation:
            await self._place.ready()
            return await self._shell.execute(action, action_id, seen.publish)

        def cut_short() -> Observation:
            metadata = CmdOutputMetadata(exit_code=INTERRUPTED_EXIT, suffix=INTERRUPTED)
            return CmdOutputObservation(command=command, content=seen.output.take(), metadata=metadata)

        envelope, self._task = await UsersAction(action, carry_out, cut_short).begin(self._place)
        return envelope

    async def ended(self) -> None:
        """Return when none runs; its observation is stored by then."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def interrupt(self) -> None:
        """Stop the command that runs; it still gets its observation."""
        if self._task is not None:
            self._task.cancel()
