"""The updates of one session for the editor, sent in order at the editor's speed. The agent never waits for it.

While the editor is slow, chunks of one message are merged, and only the newest output of a command waits, so the queue
grows with the conversation and not with the number of frames.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from acp.schema import AgentMessageChunk, AgentThoughtChunk, TextContentBlock, ToolCallProgress

from tui.acp.updates import Update

log = logging.getLogger(__name__)

PIECE_CHARS = 32_000
"""Of one merged piece of a message."""
_CHUNKS = (AgentMessageChunk, AgentThoughtChunk)


class Outbox:
    """Updates on their way. `send` writes one and returns when there is room for the next."""

    def __init__(self, send: Callable[[Update], Awaitable[None]]) -> None:
        self._send = send
        self._waiting: deque[Update] = deque()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._task = asyncio.create_task(self._run(), name="updates for an editor")

    def put(self, updates: Iterable[Update]) -> None:
        """Have these sent, in this order, behind what waits."""
        for update in updates:
            merged = _merged(self._waiting[-1], update) if self._waiting else None
            if merged is not None:
                self._waiting[-1] = merged
            elif not self._task.done():
                self._waiting.append(update)
                self._empty.clear()
                self._filled.set()

    async def flush(self) -> None:
        """Return when everything is sent, or nobody is there to read it."""
        await self._empty.wait()

    async def aclose(self) -> None:
        """Drop what is not sent."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self._waiting.clear()
        self._empty.set()

    async def _run(self) -> None:
        try:
            while True:
                await self._filled.wait()
                self._filled.clear()
                while self._waiting:
                    await self._send(self._waiting.popleft())
                self._empty.set()
        except OSError as error:  # the editor is gone; the end of its input ends the program
            log.info("updates could not be sent: %s", error)
        finally:
            self._waiting.clear()
            self._empty.set()


def _merged(last: Update, update: Update) -> Update | None:
    """Both as one update; None where they are not to be merged."""
    if isinstance(last, _CHUNKS) and isinstance(update, _CHUNKS):
        one, two = last.content, update.content
        if type(last) is not type(update) or last.message_id != update.message_id:
            return None
        if not (isinstance(one, TextContentBlock) and isinstance(two, TextContentBlock)):
            return None
        if len(one.text) + len(two.text) > PIECE_CHARS:
            return None
        return last.model_copy(update={"content": TextContentBlock(type="text", text=one.text + two.text)})
    if isinstance(last, ToolCallProgress) and isinstance(update, ToolCallProgress):
        is_same = last.tool_call_id == update.tool_call_id and last.status == "in_progress"
        return update if is_same and update.content is not None else None
    return None
