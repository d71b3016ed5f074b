"""Commands that Handloom itself runs in the sandbox of a conversation, recorded like all others.

Invariant: each is in the log as an action of the environment, stored before it runs, and as one observation, whether it
ended, failed, ran out of time or was cancelled. Both are hidden from the model and the chat. Follows the hidden
commands of OpenHands V0 (`openhands/runtime/base.py`).
"""

from __future__ import annotations

import asyncio

from core.actions.output import INTERRUPTED, INTERRUPTED_EXIT, cut_short, observation_of
from core.errors import RuntimeUnavailableError
from core.events import (
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    Event,
    EventSource,
    Frame,
    Observation,
    TerminalOutput,
)
from core.events.output import OutputBuffer
from core.protocols import Runtime
from core.stream import EventStream, Frames

GRACE_S = 30.0
"""How much later than ours the time limit of the shell is: ours ends the command, the other leaves it running."""
TIMED_OUT_EXIT = 124
"""The exit code of the command `timeout`."""
MAX_QUOTED_CHARS = 500
"""The end of the output that an error message quotes."""
TRY_AGAIN = "Send a message to try again."


def agent_shell_command(command: str) -> CmdRunAction:
    """A command that changes the folder and the variables of the agent's shell."""
    return CmdRunAction(command=command, hidden=True, blocking=True)


def separate_shell_command(command: str, folder: str) -> CmdRunAction:
    """A command in a separate shell, which starts in `folder` and ends with it."""
    return CmdRunAction(command=command, cwd=folder, is_static=True, hidden=True, blocking=True)


class EnvironmentShell:
    """Runs and records the environment's commands of one conversation."""

    def __init__(self, runtime: Runtime, stream: EventStream, frames: Frames) -> None:
        self._runtime = runtime
        self._stream = stream
        self._frames = frames

    async def run(self, action: CmdRunAction, limit_s: float) -> Observation:
        """Run one command; live output goes to the frames. An error of the runtime is an observation too.

        The limit and cancelling interrupt the command; its observation has the output until then, and is stored before
        a cancelled caller continues. Raises StoreError if the command cannot be recorded.
        """
        action = action.model_copy(update={"timeout": limit_s + GRACE_S})
        output = OutputBuffer()
        appending = self._start_append(action)
        try:
            action_id = (await asyncio.shield(appending)).id
            observation = await self._execute(action, action_id, limit_s, output)
        except asyncio.CancelledError:
            action_id = (await appending).id
            await self._start_append(cut_short(action, output, INTERRUPTED, INTERRUPTED_EXIT), action_id)
            raise
        await self._record(observation, action_id)
        return observation

    async def _execute(self, action: CmdRunAction, action_id: int, limit_s: float, output: OutputBuffer) -> Observation:
        def publish(frame: Frame) -> None:
            if isinstance(frame, TerminalOutput):
                if frame.is_echo:
                    return  # the command is hidden; its output is not
                output.feed(frame.data)
            self._frames.publish(frame)

        try:
            async with asyncio.timeout(limit_s):
                return await observation_of(self._runtime.execute(action, action_id, publish), action_id)
        except TimeoutError:
            suffix = f"\n[The command timed out after {limit_s:g} seconds and was stopped.]"
            return cut_short(action, output, suffix, TIMED_OUT_EXIT)

    async def _record(self, observation: Observation, action_id: int) -> None:
        """Store it; a caller that is cancelled meanwhile continues only after that."""
        appending = self._start_append(observation, action_id)
        try:
            await asyncio.shield(appending)
        except asyncio.CancelledError:
            await appending
            raise

    def _start_append(self, event: Event, cause: int | None = None) -> asyncio.Task[Envelope]:
        """A task that stores an event; its caller awaits it in every case."""
        return asyncio.create_task(self._stream.append(event, EventSource.ENVIRONMENT, cause))


def check(observation: Observation, what: str, remedy: str = "") -> None:
    """Raise RuntimeUnavailableError if a command failed: what, how, what to do, and the end of its output."""
    if observation.success:
        return
    if not isinstance(observation, CmdOutputObservation):
        how = "could not be carried out"
    elif observation.exit_code == TIMED_OUT_EXIT:
        how = "took too long and was stopped"
    else:
        how = f"failed with exit code {observation.exit_code}"
    text = " ".join(filter(None, (f"{what} {how}.", remedy, TRY_AGAIN)))
    raise RuntimeUnavailableError(f"{text}\n{observation.content[-MAX_QUOTED_CHARS:]}".strip())
