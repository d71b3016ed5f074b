"""Takes a checkpoint of the workspace at the beginning and at the end of each turn, and records it in the log.

A turn begins with a message of the user, or when the agent goes on after a rest, and ends when it rests. At these
moments, and after an undo, a checkpoint is taken in the background, and recorded if the files differ from the last one.
Invariants: no action that may change files begins before the checkpoint at the beginning of its turn; the workspace at
an event is that of the last record whose `after` is not above the id of the event. If checkpoints cannot be taken, that
is reported once, and the conversation goes on without them.
"""

from __future__ import annotations

import asyncio
import logging

from core.errors import CheckpointError
from core.events import (
    Action,
    AgentState,
    AgentStateChangedObservation,
    BrowseInteractiveAction,
    BrowseURLAction,
    CheckpointObservation,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    MessageAction,
    Status,
    UndoObservation,
)
from core.protocols import Checkpoints
from core.store.reader import EventFilter
from core.stream import EventStream, Frames

log = logging.getLogger(__name__)

TAKING_CHECKPOINT = "STATUS$KEEPING_WORKSPACE"
NO_CHECKPOINTS = "STATUS$NO_CHECKPOINTS"
"""Error id of the event that says why there are none."""
MAX_SKIPPED = 20
"""Skipped files that are named in one record."""
ENDS = frozenset(
    {
        AgentState.AWAITING_USER_INPUT,
        AgentState.FINISHED,
        AgentState.REJECTED,
        AgentState.STOPPED,
        AgentState.PAUSED,
        AgentState.ERROR,
    }
)
"""States in which a turn ends."""
_BROWSER_ACTIONS = (BrowseURLAction, BrowseInteractiveAction)


class Turns:
    """The checkpoints of one conversation. Without `checkpoints` it does nothing."""

    def __init__(self, checkpoints: Checkpoints | None, stream: EventStream, frames: Frames) -> None:
        self._checkpoints = checkpoints
        self._stream = stream
        self._frames = frames
        self._recorded = ""
        self._in_turn = False
        self._seen_id = -1
        self._seen = asyncio.Condition()

    async def on_event(self, envelope: Envelope) -> None:
        """Callback for actions and state changes: take a checkpoint where a turn begins or ends."""
        try:
            if self._checkpoints is not None and self._is_turn_boundary(envelope):
                await self._take(self._checkpoints, envelope.id)
        finally:
            async with self._seen:
                self._seen_id = envelope.id
                self._seen.notify_all()

    def _is_turn_boundary(self, envelope: Envelope) -> bool:
        """Whether a turn begins or ends here. Work after a rest is a turn too."""
        match envelope.event:
            case MessageAction(queued=False) if envelope.source is EventSource.USER:
                self._in_turn = True
                return True
            case AgentStateChangedObservation(agent_state=AgentState.RUNNING) if not self._in_turn:
                self._in_turn = True
                return True
            case AgentStateChangedObservation(agent_state=state) if self._in_turn and state in ENDS:
                self._in_turn = False
                return True
            case UndoObservation():
                return True
        return False

    async def ready(self, envelope: Envelope) -> None:
        """Return when this action may change files. Cancelling ends the waiting, not the checkpoint."""
        if self._checkpoints is None or not _may_change_files(envelope.event):
            return
        if self._seen_id >= envelope.id:
            return
        self._frames.publish(Status("info", TAKING_CHECKPOINT, "Taking a checkpoint of the workspace …"))
        try:
            async with self._seen:
                await self._seen.wait_for(lambda: self._seen_id >= envelope.id)
        finally:
            self._frames.publish(Status("info", TAKING_CHECKPOINT, ""))

    async def _take(self, checkpoints: Checkpoints, after: int) -> None:
        """Take one and record it. Raises StoreError."""
        try:
            taken = await checkpoints.take(str(after))
        except CheckpointError as error:
            log.warning("conversation %s has no checkpoints: %s", self._stream.conversation_id, error)
            self._checkpoints = None
            await self._report(str(error))
            return
        if taken.id == self._recorded:
            return
        self._recorded = taken.id
        record = CheckpointObservation(
            checkpoint=taken.id,
            after=after,
            files=taken.files,
            changed=taken.changed,
            skipped=list(taken.skipped[:MAX_SKIPPED]),
        )
        await self._stream.append(record, EventSource.ENVIRONMENT)

    async def _report(self, reason: str) -> None:
        """Report it, once in the log of the conversation."""
        reports = EventFilter(kinds=frozenset({"observation:error"}), query=NO_CHECKPOINTS)
        if not await self._stream.read(where=reports, limit=1):
            text = f"From here on, the workspace cannot be restored to an earlier turn. {reason}"
            await self._stream.append(ErrorObservation(content=text, error_id=NO_CHECKPOINTS), EventSource.ENVIRONMENT)


def _may_change_files(event: Event) -> bool:
    return isinstance(event, Action) and not event.only_reads and not isinstance(event, _BROWSER_ACTIONS)
