"""Undo at rest only, so that nothing runs while it is looked at or carried out.

What an undo does is `core.undo.undo`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from core.controller.state import State
from core.events import AgentState, ChangeAgentStateAction, EventSource, UndoObservation
from core.protocols import Checkpoints
from core.review.review import Review
from core.stream import EventStream
from core.undo.undo import Turn, UndoPreview, Undos


class UndoService:
    """The undo of one conversation. `at_rest` raises UsageError if the agent works, and keeps it from starting
    meanwhile."""

    def __init__(
        self,
        checkpoints: Checkpoints | None,
        stream: EventStream,
        state: Callable[[], State],
        at_rest: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        self._undos = Undos(checkpoints, stream, state)
        self._review = Review(checkpoints, stream, self._undos)
        self._stream = stream
        self._state = state
        self._at_rest = at_rest

    async def finish_interrupted(self) -> None:
        """Finish an undo that the last process began. Raises StoreError."""
        await self._undos.finish_interrupted()

    @asynccontextmanager
    async def _ready(self) -> AsyncIterator[None]:
        """At rest, with no unfinished undo."""
        async with self._at_rest():
            await self.finish_interrupted()
            yield

    @asynccontextmanager
    async def review(self) -> AsyncIterator[Review]:
        """The changes of the conversation, to be reviewed; nothing starts meanwhile.

        Raises UsageError if the agent works, StoreError.
        """
        async with self._ready():
            yield self._review

    async def turns(self) -> list[Turn]:
        """The turns that can be undone, newest first. Raises StoreError."""
        return await self._undos.turns()

    async def preview(self, turn: int | None = None) -> UndoPreview:
        """What undoing this turn and all after it would do; the last one by default. Changes nothing.

        Raises UsageError if there is none or the agent works, StoreError.
        """
        async with self._ready():
            return await self._undos.preview(turn)

    async def preview_redo(self) -> UndoPreview:
        """What a redo would do. Raises as `preview`."""
        async with self._ready():
            return await self._undos.preview_redo()

    async def undo(
        self,
        turn: int | UndoPreview | None = None,
        *,
        chat: bool = True,
        files: bool = True,
        overwrite: bool = False,
    ) -> UndoObservation:
        """Undo a turn and all after it, the last one by default; a preview says exactly which files change.

        Actions that wait for approval are stopped. Files that others have changed as well are left alone unless
        `overwrite`. Returns the result. Raises UsageError, StoreError; then nothing has changed, or the next start
        finishes it.
        """
        async with self._ready():
            if self._state().queue:
                stop = ChangeAgentStateAction(agent_state=AgentState.STOPPED, thought="Undone by the user.")
                await self._stream.append(stop, EventSource.USER)
                await self._stream.settle()
            preview = turn if isinstance(turn, UndoPreview) else await self._undos.preview(turn)
            return await self._undos.carry_out(preview, chat=chat, files=files, overwrite=overwrite)

    async def redo(self, preview: UndoPreview | None = None, *, overwrite: bool = False) -> UndoObservation:
        """Redo the last undo. Raises as `undo`, and UsageError after another message."""
        async with self._ready():
            preview = preview or await self._undos.preview_redo()
            return await self._undos.carry_out(preview, chat=preview.chat, files=True, overwrite=overwrite)
