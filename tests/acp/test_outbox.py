"""The outbox: order, merging while the editor is slow, and an editor that is gone."""

from __future__ import annotations

import asyncio

from acp.schema import AgentMessageChunk, TextContentBlock

from tui.acp.tool_calls import output_update
from tui.acp.updates import MAX_MERGED_CHARS, Outbox, Update, message, thought


class SlowEditor:
    """Reads one update whenever `reads` is released."""

    def __init__(self) -> None:
        self.reads = asyncio.Semaphore(0)
        self.got: list[Update] = []

    async def send(self, update: Update) -> None:
        self.got.append(update)
        await self.reads.acquire()


def text(update: Update) -> str:
    assert isinstance(update, AgentMessageChunk)
    assert isinstance(update.content, TextContentBlock)
    return update.content.text


async def test_queued_updates_are_merged_in_order() -> None:
    editor = SlowEditor()
    outbox = Outbox(editor.send)
    outbox.put([message("first", 1)])
    while not editor.got:
        await asyncio.sleep(0)
    for number in range(10_000):
        outbox.put([message(f"{number} ", 2)])
    outbox.put([thought("Hm.", 2), output_update(3, "one"), output_update(3, "two"), output_update(4, "three")])
    for _ in range(100):
        editor.reads.release()
    await outbox.flush()
    merged = [update for update in editor.got if isinstance(update, AgentMessageChunk)]
    assert "".join(map(text, merged)) == "first" + "".join(f"{number} " for number in range(10_000))
    assert max(len(text(update)) for update in merged) <= MAX_MERGED_CHARS
    assert len(merged) == 3
    assert [update.session_update for update in editor.got[3:]] == [
        "agent_thought_chunk",
        "tool_call_update",
        "tool_call_update",
    ]
    await outbox.aclose()


async def test_disconnected_editor_does_not_block_flush() -> None:
    async def send(update: Update) -> None:
        raise ConnectionResetError("gone")

    outbox = Outbox(send)
    outbox.put([message("one", 1), thought("two")])
    async with asyncio.timeout(30):
        await outbox.flush()
    outbox.put([message("three", 1)])
    async with asyncio.timeout(30):
        await outbox.flush()
    await outbox.aclose()
