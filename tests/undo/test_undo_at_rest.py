"""Undo at rest, after an undo of the last owner is finished."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from core.errors import UsageError
from core.events import (
    AgentState,
    ChangeAgentStateAction,
    Envelope,
    EventSource,
    MessageAction,
    UndoAction,
    UndoObservation,
)
from core.session.agent_session import AgentSession
from core.undo.undo_service import UndoService
from tests.doubles import ScriptedRuntime, bash
from tests.session.test_session import conversation, of_type, send_and_settle

Wish = Callable[[UndoService], Awaitable[object]]
ANSWERS = [{"text": "one"}, {"text": "two"}, {"text": "three"}]


async def review(undoing: UndoService) -> None:
    async with undoing.review() as found:
        assert found is not None


WISHES: dict[str, Wish] = {
    "review": review,
    "preview": lambda undoing: undoing.preview(),
    "preview_redo": lambda undoing: undoing.preview_redo(),
    "undo": lambda undoing: undoing.undo(),
    "redo": lambda undoing: undoing.redo(),
}


async def said(session: AgentSession, *texts: str) -> Sequence[Envelope]:
    for text in texts:
        await send_and_settle(session, text)
    return await session.stream.read()


async def listed(session: AgentSession) -> list[str]:
    return [turn.text for turn in await session.undo.turns()]


@pytest.mark.parametrize("wish", WISHES)
async def test_unfinished_undo_is_finished_first(tmp_path: Path, wish: str) -> None:
    async with conversation(tmp_path, ANSWERS) as session:
        log = await said(session, "one", "two")
        first = [e.id for e in log if isinstance(e.event, MessageAction) and e.source is EventSource.USER][-1]
        begun = await session.stream.append(UndoAction(first=first, chat=True, files=False), EventSource.USER)
        await session.stream.settle()
        assert session.state.undoing is not None
        await WISHES[wish](session.undo)
        after = [e for e in await session.stream.read(after=begun.id) if isinstance(e.event, UndoObservation)]
        assert [(e.cause, e.event.done) for e in after][:1] == [(begun.id, True)]  # type: ignore[attr-defined]
        assert session.state.undoing is None
        assert await listed(session) == {"undo": [], "redo": ["two", "one"]}.get(wish, ["one"])


async def test_undo_and_preview_are_refused_while_the_agent_works(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(lambda action: None)
    async with conversation(tmp_path, [{"tool_calls": [bash("x")]}], make_runtime=lambda _: runtime) as session:
        await session.send("one")
        async with asyncio.timeout(20):
            await runtime.started.wait()
        for wish in WISHES.values():
            with pytest.raises(UsageError, match="still working"):
                await wish(session.undo)
        assert of_type(await session.stream.read(), UndoAction) == []


async def test_turns_are_undone_and_redone(tmp_path: Path) -> None:
    async with conversation(tmp_path, ANSWERS) as session:
        await said(session, "one", "two", "three")
        undoing, texts = session.undo, await listed(session)
        assert texts == ["three", "two", "one"]
        assert (await undoing.preview()).text == "three"
        two = (await undoing.turns())[1]
        preview = await undoing.preview(two.id)
        assert (preview.text, preview.first) == ("two", two.id)
        assert (await undoing.undo(preview)).done
        assert await listed(session) == ["one"]
        redo = await undoing.preview_redo()
        assert (redo.text, redo.chat) == ("two", True)
        assert (await undoing.redo(redo)).done
        assert await listed(session) == texts
        assert (await undoing.undo(two.id)).done
        assert (await undoing.redo()).done
        assert await listed(session) == texts
        actions = of_type(await session.stream.read(), ChangeAgentStateAction)
        assert [a for a in actions if a.agent_state is AgentState.STOPPED] == [], "nothing had to be stopped"
