"""UserShell: commands that the user runs in the agent's shell, between what the agent does.

Invariants: one at a time, and never beside the agent, which shares the shell's folder and variables; each stands in
the log as an action of the user, stored before it runs, and as the one observation that answers it, whatever ends it.
It waits for the sandbox as the agent's first action does, and has no time limit: the user stops it. The model reads
both with the next message, as in OpenHands V0. Used by AgentSession.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from core.controller.controller import INTERRUPTED, INTERRUPTED_EXIT
from core.controller.halts import RUNTIME_UNAVAILABLE
from core.errors import RuntimeUnavailableError, StoreError, UsageError
from core.events import (
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    Frame,
    Observation,
    Status,
    TerminalOutput,
)
from core.events.output import OutputBuffer
from core.live import Frames
from core.ports import Executor
from core.stream import EventStream

log = logging.getLogger(__name__)

NO_LIMIT_S = 7 * 24 * 3600.0
"""A server that the user started may run for days; what is forgotten ends with the conversation."""
UNSTORED_STATUS = "STATUS$COMMAND_UNSTORED"


class UserShell:
    """The user's commands of one conversation. `ready` makes the sandbox ready, `spawn` starts a task."""

    def __init__(
        self,
        runtime: Executor,
        stream: EventStream,
        frames: Frames,
        ready: Callable[[], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._runtime = runtime
        self._stream = stream
        self._frames = frames
        self._ready = ready
        self._spawn = spawn
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
        envelope = await self._stream.append(action, EventSource.USER)
        begun = asyncio.Event()
        self._task = self._spawn(self._carry_out(action, envelope.id, begun))
        await begun.wait()  # one that is cancelled before its first step could not answer for its action
        return envelope

    async def ended(self) -> None:
        """Return when none runs; its observation is stored by then."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def interrupt(self) -> None:
        """Stop the command that runs; it still gets its observation."""
        if self._task is not None:
            self._task.cancel()

    async def _carry_out(self, action: CmdRunAction, action_id: int, begun: asyncio.Event) -> None:
        seen = OutputBuffer()

        def publish(frame: Frame) -> None:
            if isinstance(frame, TerminalOutput) and not frame.is_echo:
                seen.feed(frame.data)
            self._frames.publish(frame)

        begun.set()
        observation: Observation
        try:
            await self._ready()
            observation = await self._runtime.execute(action, action_id, publish)
        except asyncio.CancelledError:
            metadata = CmdOutputMetadata(exit_code=INTERRUPTED_EXIT, suffix=INTERRUPTED)
            observation = CmdOutputObservation(command=action.command, content=seen.take(), metadata=metadata)
        except RuntimeUnavailableError as error:
            observation = ErrorObservation(content=str(error), error_id=RUNTIME_UNAVAILABLE)
        except Exception as error:  # the boundary to the runtime: an action always gets its observation
            log.exception("the runtime failed on action %s", action_id)
            observation = ErrorObservation(content=f"{type(error).__name__}: {error}", error_id="RUNTIME$FAILED")
        try:
            await self._stream.append(observation, EventSource.USER, action_id)
        except StoreError as error:  # the next start settles the action from the log
            self._frames.publish(Status("error", UNSTORED_STATUS, str(error)))
