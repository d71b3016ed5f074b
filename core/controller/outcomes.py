"""Outcomes: what an action comes to where no observation came back, and what was seen of it until then.

An action always gets its observation, so whoever has the runtime carry one out makes it of these. Used by the
controller for the agent's actions and by the session for the user's.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from core.controller.exit_reasons import RUNTIME_UNAVAILABLE
from core.errors import RuntimeUnavailableError
from core.events import ErrorObservation, Frame, Observation, TerminalOutput
from core.events.output import OutputBuffer
from core.pub_sub import Frames

log = logging.getLogger(__name__)

RUNTIME_FAILED = "RUNTIME$FAILED"


async def answered(work: Awaitable[Observation], action_id: int, *, tells: bool = True) -> Observation:
    """What the work answers, or what it comes to when it raises; cancelling it goes through.

    Not `tells` leaves out the words of what nobody foresaw: they may repeat what the action hides.
    """
    try:
        return await work
    except RuntimeUnavailableError as error:
        return ErrorObservation(content=str(error), error_id=RUNTIME_UNAVAILABLE)
    except Exception as error:  # the boundary to the runtime: an action always gets its observation
        log.exception("the runtime failed on action %s", action_id)
        words = f"{type(error).__name__}: {error}" if tells else type(error).__name__
        return ErrorObservation(content=words, error_id=RUNTIME_FAILED)


class Seen:
    """What an action showed, kept while it is published: what an interrupted one is answered with."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self.output = OutputBuffer()

    def publish(self, frame: Frame) -> None:
        """Tell the frame to whoever watches; output that is no echo of what was typed is kept, bounded."""
        if isinstance(frame, TerminalOutput) and not frame.is_echo:
            self.output.feed(frame.data)
        self._frames.publish(frame)
