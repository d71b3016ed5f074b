"""Actions of the user in the sandbox.

UserAction: invariant: it is in the log as an action of the user, stored before it begins, and as exactly one
observation, however it ends. Only the death of the process leaves it unanswered; then the next start answers it.

UserShell: commands that the user runs in the agent's shell. Invariants: one at a time, and never while the agent works,
because both share the folder and the variables of that shell. A command waits for the sandbox as the agent's first
action does, and has no time limit: the user stops it. The model reads both events with the next message, as in
OpenHands V0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from core.actions.output import LiveOutput, interrupted, observation_of
from core.errors import StoreError, UsageError
from core.events import (
    Action,
    CmdRunAction,
    Envelope,
    EventSource,
    Observation,
    Status,
)
from core.protocols import Executor, Spawn
from core.secrets.command_secrets import SecretInjection
from core.stream import EventStream, Frames

UNSTORED_STATUS = "STATUS$COMMAND_UNSTORED"


@dataclass(frozen=True, slots=True)
class UserActionContext:
    """The parts of a conversation that an action of its user needs."""

    stream: EventStream
    frames: Frames
    ready: Callable[[], Awaitable[None]]
    spawn: Spawn
    awake: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Resumes a suspended conversation, and keeps it awake meanwhile; see `Suspension.awake`."""
    agent_works: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class UserAction:
    """One action of the user. `carry_out` carries it out, `cut_short` makes its observation if it is cancelled."""

    action: Action
    carry_out: Callable[[int], Awaitable[Observation]]
    """Takes the action's id."""
    cut_short: Callable[[], Observation]
    with_details: bool = True
    """Whether the message of an unexpected error may be stored; it may repeat text that the action hides."""
    on_end: Callable[[], None] = lambda: None
    """Called at the end, after the observation is stored."""

    async def begin(self, context: UserActionContext) -> tuple[Envelope, asyncio.Task[None]]:
        """Store the action and run it in a task, which may be cancelled. Raises StoreError; then nothing runs."""
        envelope = await context.stream.append(self.action, EventSource.USER)
        started = asyncio.Event()
        task = context.spawn(self._run(context, envelope.id, started))
        await started.wait()  # a task that is cancelled before its first step could not store the observation
        return envelope, task

    async def _run(self, context: UserActionContext, action_id: int, started: asyncio.Event) -> None:
        started.set()
        observation = await self._observe(action_id)
        try:
            await context.stream.append(observation, EventSource.USER, action_id)
        except StoreError as error:  # the next start answers the action
            context.frames.publish(Status("error", UNSTORED_STATUS, str(error)))
        finally:
            self.on_end()

    async def _observe(self, action_id: int) -> Observation:
        try:
            return await observation_of(self.carry_out(action_id), action_id, with_details=self.with_details)
        except asyncio.CancelledError:
            return self.cut_short()


NO_LIMIT_S = 7 * 24 * 3600.0
"""A server that the user started may run for days; it ends with the conversation."""


class UserShell:
    """The user's commands in one conversation."""

    def __init__(self, runtime: Executor, secrets: SecretInjection, context: UserActionContext) -> None:
        self._runtime = runtime
        self._secrets = secrets
        self._context = context
        self._task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a command is running."""
        return self._task is not None and not self._task.done()

    async def run(self, command: str) -> Envelope:
        """Store the command and run it. Raises UsageError while another one runs, StoreError."""
        if self.is_busy:
            raise UsageError("Your last command is still running. Press Esc to stop it, then run the next one.")
        action = CmdRunAction(command=command, blocking=True, timeout=NO_LIMIT_S)
        live = LiveOutput(self._context.frames)

        async def carry_out(action_id: int) -> Observation:
            await self._context.ready()
            return await self._secrets.around(action, lambda: self._runtime.execute(action, action_id, live.publish))

        def cut_short() -> Observation:
            return interrupted(action, live.output)

        envelope, self._task = await UserAction(action, carry_out, cut_short).begin(self._context)
        return envelope

    async def ended(self) -> None:
        """Return when no command runs; its observation is stored by then."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def interrupt(self) -> None:
        """Stop the running command; it still gets its observation."""
        if self._task is not None:
            self._task.cancel()
