"""Undo of turns in the chat, in the files or in both, and redo.

The log is never shortened. An UndoAction says what is wanted, then files are restored, then the UndoObservation
confirms it; if the process dies in between, the next owner looks at the files and finishes it or reports that nothing
has changed. Invariants: only changes of the agent's turns are reverted; files that others changed as well are shown
first and left alone unless the user decides otherwise; nothing is lost, because the files get a checkpoint before.
`core.undo.reverted` says which events the model then sees, `core.controller.state` what the controller does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from core.checkpoints.model import FileChange
from core.checkpoints.turns import ENDS
from core.controller.state import State
from core.errors import CheckpointError, UsageError
from core.events import (
    AgentState,
    AgentStateChangedObservation,
    CheckpointObservation,
    Envelope,
    EventSource,
    MessageAction,
    UndoAction,
    UndoObservation,
)
from core.protocols import Checkpoints
from core.store.reader import EventFilter
from core.stream import EventStream
from core.undo.reverted import undone_spans

NO_CHECKPOINTS = (
    "The files cannot be restored: checkpoints are switched off, or the work is on another machine. "
    "The chat alone can be undone."
)
NOT_KEPT = "The files cannot be restored: they were not kept at that turn. The chat alone can be undone."
INTERRUPTED = "It was interrupted before anything had changed. Undo again."
CHANGED_MEANWHILE = "Files have changed since the list was shown. Review it again."
MAX_NAMED_FILES = 100
"""Files that are named to the model."""
_USER_MESSAGES = EventFilter(kinds=frozenset({"action:message"}), sources=frozenset({EventSource.USER}))
_CHECKPOINTS = EventFilter(kinds=frozenset({"observation:checkpoint"}))
_UNDOS = EventFilter(kinds=frozenset({"action:undo", "observation:undo"}))
_TURN_EVENTS = EventFilter(
    kinds=frozenset({"action:message", "observation:agent_state_changed", "observation:checkpoint", "observation:undo"})
)


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the user that is not undone, with its results. `text` is foreign."""

    id: int
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class UndoPreview:
    """What an undo or a redo would do. Its texts are foreign."""

    first: int
    """The message with which the turn began."""
    text: str
    events: int
    """The number of messages that the model would no longer see, or see again."""
    changes: tuple[FileChange, ...] = ()
    """The changes of files; none if the turns changed none."""
    disputed: tuple[str, ...] = ()
    """Those of them that others than the agent have changed as well."""
    others: tuple[str, ...] = ()
    """Files that only others have changed, and that are left alone."""
    why_no_files: str = ""
    """Why files cannot be restored; empty if they can."""
    before: str = ""
    """The checkpoint of the files as they are."""
    checkpoint: str = ""
    """The checkpoint of the files as they would be."""
    redoes: int | None = None
    """The undo that a redo reverts."""
    chat: bool = True
    """Whether that undo included the chat."""


class Undos:
    """The undos of one conversation. Call them while the agent rests and no message is sent."""

    def __init__(self, checkpoints: Checkpoints | None, stream: EventStream, state: Callable[[], State]) -> None:
        self._checkpoints = checkpoints
        self._stream = stream
        self._state = state
        self._changed_paths: dict[tuple[str, str], set[str]] = {}
        """The changed files between two checkpoints, for those that were compared before."""

    async def turns(self, limit: int = 200) -> list[Turn]:
        """The turns that are not undone, newest first. Raises StoreError."""
        spans = undone_spans(await self._stream.read(where=_UNDOS))
        found: list[Turn] = []
        before: int | None = None
        while len(found) < limit and (page := await self._stream.page(before=before, limit=100, where=_USER_MESSAGES)):
            for envelope in reversed(page):
                event = envelope.event
                is_undone = any(envelope.id in span for span in spans)
                if isinstance(event, MessageAction) and not event.queued and not is_undone:
                    found.append(Turn(envelope.id, event.content, envelope.timestamp))
            before = page[0].id
        return found[:limit]

    # -- what it would do ------------------------------------------------------------------------------------------

    async def preview(self, first: int | None = None) -> UndoPreview:
        """What undoing this turn and all after it would do; the last turn by default. Raises UsageError, StoreError."""
        turns = await self.turns(limit=1 if first is None else 10_000)
        turn = next((turn for turn in turns if first in (None, turn.id)), None)
        if turn is None:
            raise UsageError("There is no such turn to undo." if turns else "There is nothing to undo yet.")
        events = self._stream.latest_id + 1 - turn.id
        preview = UndoPreview(turn.id, turn.text, events)
        if self._checkpoints is None:
            return replace(preview, why_no_files=NO_CHECKPOINTS)
        try:
            return await self._with_files(preview, self._checkpoints)
        except CheckpointError as error:
            return replace(preview, why_no_files=f"The files cannot be restored. {error}")

    async def preview_redo(self) -> UndoPreview:
        """What a redo would do. Raises UsageError if there was no undo since the last message of the user."""
        if not self._state().undone:
            raise UsageError("There is nothing to redo: no undo was made since the last message.")
        undone = self._state().undone[-1]
        (message,) = await self._stream.read(after=undone.first - 1, before=undone.first + 1)
        text = message.event.content if isinstance(message.event, MessageAction) else ""
        preview = UndoPreview(undone.first, text, undone.id - undone.first, redoes=undone.id, chat=undone.chat)
        done = await self._observation_of(undone.id)
        if not done.before or not done.after:
            return preview
        if self._checkpoints is None:
            return replace(preview, why_no_files=NO_CHECKPOINTS)
        try:
            now = (await self._checkpoints.take("before a redo")).id
            ours = _paths(await self._checkpoints.changes(done.after, done.before))
            outside = _paths(await self._checkpoints.changes(done.after, now))
            changes = await self._checkpoints.changes(now, done.before)
        except CheckpointError as error:
            return replace(preview, why_no_files=f"The files cannot be restored. {error}")
        preview = replace(preview, before=now, checkpoint=done.before)
        return _with_changes(preview, changes, ours=ours, outside=outside)

    async def _with_files(self, preview: UndoPreview, checkpoints: Checkpoints) -> UndoPreview:
        events = await self._stream.read(after=preview.first - 1, where=_TURN_EVENTS)
        steps = list(_steps(events))
        if not steps or steps[0].after > preview.first:
            earlier = await self._stream.page(before=preview.first, limit=1, where=_CHECKPOINTS)
            steps[:0] = _steps(earlier)
        if not steps or steps[0].after > preview.first:
            return replace(preview, why_no_files=NOT_KEPT)
        now, target = (await checkpoints.take("before an undo")).id, steps[0].checkpoint
        changes = await checkpoints.changes(now, target)
        by_turns, outside = set[str](), _paths(await checkpoints.changes(steps[-1].checkpoint, now))
        for one, other in pairwise(steps):
            paths = _paths(await checkpoints.changes(one.checkpoint, other.checkpoint))
            (by_turns if other.is_ours else outside).update(paths)
        preview = replace(preview, before=now, checkpoint=target)
        return _with_changes(preview, changes, ours=by_turns, outside=outside)

    async def changed_by_turns(self) -> set[str]:
        """The files that the agent's turns have changed at any time, also if that was undone.

        Raises CheckpointError, StoreError.
        """
        assert self._checkpoints is not None
        found = set[str]()
        steps = list(_steps(await self._stream.read(where=_TURN_EVENTS)))
        for one, other in pairwise(steps):
            pair = (one.checkpoint, other.checkpoint)
            if other.is_ours and pair not in self._changed_paths:
                self._changed_paths[pair] = _paths(await self._checkpoints.changes(*pair))
            found |= self._changed_paths.get(pair, set()) if other.is_ours else set()
        return found

    async def _observation_of(self, action_id: int) -> UndoObservation:
        for envelope in await self._stream.read(after=action_id, where=_UNDOS):
            if envelope.cause == action_id and isinstance(envelope.event, UndoObservation):
                return envelope.event
        return UndoObservation(done=False)

    # -- doing it --------------------------------------------------------------------------------------------------

    async def carry_out(self, preview: UndoPreview, *, chat: bool, files: bool, overwrite: bool) -> UndoObservation:
        """Carry out what was shown; `overwrite` includes the files that others changed. Returns the result.

        Raises UsageError if the agent does not rest, StoreError. After an error or a cancellation call
        `finish_interrupted`.
        """
        files = files and bool(preview.changes)
        if not chat and not files:
            raise UsageError(preview.why_no_files or "No file would change, so there is nothing to undo.")
        spared = {*preview.others, *(() if overwrite else preview.disputed)}
        action = UndoAction(
            first=preview.first,
            chat=chat,
            files=files,
            checkpoint=preview.checkpoint if files else "",
            before=preview.before if files else "",
            spared=sorted(spared) if files else [],
            redoes=preview.redoes,
        )
        asked = await self._stream.append(action, EventSource.USER)
        await self._stream.settle()
        undoing = self._state().undoing
        if undoing is not None and undoing.id == asked.id:
            observation = await self._restore_files(action, is_fresh=True)
        else:
            observation = UndoObservation(done=False, why="The agent was at work. Stop it; then undo.")
        await self._stream.append(observation, EventSource.ENVIRONMENT, asked.id)
        await self._stream.settle()
        return observation

    async def finish_interrupted(self) -> None:
        """Finish an undo that has no observation. Raises StoreError."""
        undoing = self._state().undoing
        if undoing is None:
            return
        (asked,) = await self._stream.read(after=undoing.id - 1, before=undoing.id + 1)
        assert isinstance(asked.event, UndoAction)
        observation = await self._restore_files(asked.event, is_fresh=False)
        await self._stream.append(observation, EventSource.ENVIRONMENT, asked.id)
        await self._stream.settle()

    async def _restore_files(self, action: UndoAction, *, is_fresh: bool) -> UndoObservation:
        """Restore the files of an undo; one that is not `is_fresh` may be restored already, or in part."""
        if not action.files:
            return UndoObservation()
        if self._checkpoints is None:
            return UndoObservation(done=False, why=NO_CHECKPOINTS)
        try:
            return await self._restore(self._checkpoints, action, is_fresh)
        except CheckpointError as error:
            return UndoObservation(done=False, why=str(error))

    async def _restore(self, checkpoints: Checkpoints, action: UndoAction, is_fresh: bool) -> UndoObservation:
        wanted = await checkpoints.changes(action.before, action.checkpoint)
        paths = _paths(wanted) - set(action.spared)
        now = await checkpoints.take("before an undo")
        since = _paths(await checkpoints.changes(action.before, now.id))
        if is_fresh and since:
            return UndoObservation(done=False, why=CHANGED_MEANWHILE)
        if not is_fresh and paths and not since & paths:
            return UndoObservation(done=False, why=INTERRUPTED)
        left = paths & _paths(await checkpoints.changes(now.id, action.checkpoint))
        kept: Sequence[str] = ()
        if left:
            kept = (await checkpoints.restore(action.checkpoint, sorted(left))).kept
        after = await checkpoints.take("after an undo")
        changed = [change for change in wanted if change.path in paths and change.path not in kept]
        return UndoObservation(
            content="" if action.chat else _model_notice(changed, action),
            before=action.before,
            after=after.id,
            changed=len(changed),
            kept=list(kept[:MAX_NAMED_FILES]),
        )


class _Step(NamedTuple):
    """The files at one moment, and whether the change since the moment before was made by turns and undos."""

    checkpoint: str
    after: int
    is_ours: bool


def _steps(events: Sequence[Envelope]) -> Iterator[_Step]:
    """The steps in the records among these events, in order."""
    not_ours = set(_turn_starts(events))
    for envelope in events:
        match envelope.event:
            case CheckpointObservation(checkpoint=checkpoint, after=after):
                yield _Step(checkpoint, after, after not in not_ours)
            case UndoObservation(before=before, after=after) if before:
                yield _Step(before, envelope.id, is_ours=False)
                yield _Step(after, envelope.id, is_ours=True)


def _turn_starts(events: Sequence[Envelope]) -> Iterator[int]:
    """The ids of events before which the agent had rested, so that earlier changes were made by others."""
    works = False
    for envelope in events:
        match envelope.event:
            case MessageAction(queued=False) if envelope.source is EventSource.USER and not works:
                works = True
                yield envelope.id
            case AgentStateChangedObservation(agent_state=AgentState.RUNNING) if not works:
                works = True
                yield envelope.id
            case AgentStateChangedObservation(agent_state=state) if state in ENDS:
                works = False
            case UndoObservation():
                yield envelope.id


def _paths(changes: Iterable[FileChange]) -> set[str]:
    return {change.path for change in changes}


def _with_changes(
    preview: UndoPreview, changes: Sequence[FileChange], *, ours: set[str], outside: set[str]
) -> UndoPreview:
    """The preview with the changes of files: those of the agent, of which others may have changed some."""
    return replace(
        preview,
        changes=tuple(change for change in changes if change.path in ours),
        disputed=tuple(sorted(change.path for change in changes if change.path in ours & outside)),
        others=tuple(sorted(change.path for change in changes if change.path not in ours)),
    )


def _model_notice(changed: Sequence[FileChange], action: UndoAction) -> str:
    """The text for a model that still sees what was undone."""
    if not changed:
        return ""
    begun = (
        "The user has undone your changes to these files:"
        if action.redoes is None
        else "The user has taken that undo back. These files have your changes again:"
    )
    names = ", ".join(_printable(change.path) for change in changed[:MAX_NAMED_FILES])
    more = f" and {len(changed) - MAX_NAMED_FILES} more" if len(changed) > MAX_NAMED_FILES else ""
    return f"[{begun} {names}{more}]"


def _printable(path: str) -> str:
    return path.encode("utf-8", "replace").decode()
