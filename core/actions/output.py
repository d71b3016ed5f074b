"""The observation of an action that returned none: it failed, or it was interrupted.

Every action gets exactly one observation. Used for the agent's actions by `core.actions.middleware`, and for the user's
and the environment's by the modules that run them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from core.controller.exit_reasons import RUNTIME_UNAVAILABLE
from core.errors import RuntimeUnavailableError
from core.events import (
    Action,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    Frame,
    Observation,
    TerminalOutput,
)
from core.events.output import OutputBuffer
from core.stream import Frames

log = logging.getLogger(__name__)

RUNTIME_FAILED = "RUNTIME$FAILED"
INTERRUPTED = "\n[The command was interrupted by the user.]"
INTERRUPTED_EXIT = 130
"""What a shell reports for a command ended by SIGINT: 128 plus the signal's number."""


class LiveOutput:
    """Publishes the frames of one action, and keeps its output for the case that it is interrupted."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self.output = OutputBuffer()

    def publish(self, frame: Frame) -> None:
        """Publish a frame; terminal output that is not an echo of the input is also kept, up to a limit."""
        if isinstance(frame, TerminalOutput) and not frame.is_echo:
            self.output.feed(frame.data)
        self._frames.publish(frame)


async def observation_of(work: Awaitable[Observation], action_id: int, *, with_details: bool = True) -> Observation:
    """Return what `work` returns, or an ErrorObservation when it raises. CancelledError passes through.

    Without `with_details` the message of an unexpected error is left out: it may repeat text that the action hides.
    """
    try:
        return await work
    except RuntimeUnavailableError as error:
        return ErrorObservation(content=str(error), error_id=RUNTIME_UNAVAILABLE)
    except Exception as error:  # the boundary to the runtime: an action always gets its observation
        log.exception("the runtime failed on action %s", action_id)
        text = f"{type(error).__name__}: {error}" if with_details else type(error).__name__
        return ErrorObservation(content=text, error_id=RUNTIME_FAILED)


def interrupted(action: Action, output: OutputBuffer) -> Observation:
    """The observation of an action that the user interrupted, with the output until then."""
    if isinstance(action, CmdRunAction):
        return cut_short(action, output, INTERRUPTED, INTERRUPTED_EXIT)
    return ErrorObservation(content="The user interrupted this action.", error_id="AGENT_ERROR$INTERRUPTED")


def cut_short(action: CmdRunAction, output: OutputBuffer, suffix: str, exit_code: int = -1) -> CmdOutputObservation:
    """The observation of a command that was ended, with the output until then and `suffix`, which says why."""
    metadata = CmdOutputMetadata(exit_code=exit_code, suffix=suffix)
    return CmdOutputObservation(command=action.command, content=output.take(), hidden=action.hidden, metadata=metadata)
