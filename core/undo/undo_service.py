"""Undo as the user asks for it: at rest only, so that nothing is under way while it is looked at or carried out.

What an undo does is `core.undo.undo`. Used by the workspace through AgentSession.
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
    """Of one conversation. `at_rest` raises UsageError where the agent works, or keeps it from beginning meanwhile."""

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

    async def heal(self) -> None:
        """Finish what a dead owner has begun. Raises StoreError."""
        await self._undos.heal()

    @asynccontextmanager
    async def review(self) -> AsyncIterator[Review]:
        """What the conversation has changed, to be looked through; nothing is begun meanwhile.

        Raises UsageError where the agent works, StoreError.
        """
        async with self._at_rest():
            await self.heal()
            yield self._review

    async def turns(self) -> list[Turn]:
        """What can be undone: the user's messages that stand, the newest first. Raises StoreError."""
        return await self._undos.turns()

    async def preview(self, turn: int | None = None) -> UndoPreview:
        """What undoing this turn and all after it would do; the last one by default. Changes nothing.

        Raises UsageError where there is none or the agent works, StoreError.
        """
        async with self._at_rest():
            await self.heal()
            return await self._undos.preview(turn)

    async def preview_redo(self) -> UndoPreview:
        """What taking the last undo back would do. Raises as `preview`."""
        async with self._at_rest():
            await self.heal()
            return await self._undos.preview_redo()

    async def undo(
        self,
        turn: int | UndoPreview | None = None,
        *,
        chat: bool = True,
        files: bool = True,
        overwrite: bool = False,
    ) -> UndoObservation:
        """Take back a turn and all after it, the last one by default; a preview says exactly which files change.

        What waits for the user's yes is stopped. Files that others have changed, too, are left alone unless
        `overwrite`. Says what became of it. Raises UsageError, StoreError; then nothing has changed, or the next start
        finishes it.
        """
        async with self._at_rest():
            await self.heal()
            if self._state().queue:
                stop = ChangeAgentStateAction(agent_state=AgentState.STOPPED, thought="Undone by the user.")
                await self._stream.append(stop, EventSource.USER)
                await self._stream.settle()
            preview = turn if isinstance(turn, UndoPreview) else await self._undos.preview(turn)
            return await self._undos.carry_out(preview, chat=chat, files=files, overwrite=overwrite)

    async def redo(self, preview: UndoPreview | None = None, *, overwrite: bool = False) -> UndoObservation:
        """Take the last undo back, in all that it was. Raises as `undo`, and UsageError after another message."""
        async with self._at_rest():
            await self.heal()
            preview = preview or await self._undos.preview_redo()
            return await self._undos.carry_out(preview, chat=preview.chat, files=True, overwrite=overwrite)
