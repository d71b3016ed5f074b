"""Going to an event in the chat unfolds the block that shows it."""

from __future__ import annotations

from core.events import AgentState, AgentStateChangedObservation, CmdRunAction, Envelope, MessageAction
from tests.tui.chat.events import AGENT, ENVIRONMENT, USER, envelope, folded, ran
from tests.tui.chat.screen import rows, settled, showing
from tests.tui.chat.test_reverted_turns import undo
from tui.chat.blocks import Kind
from tui.chat.model import ChatModel

LONG = "\n".join(f"line {number}" for number in range(60))
LOG = [
    envelope(0, MessageAction(content="Do both."), USER),
    envelope(1, CmdRunAction(command="first"), AGENT, 0),
    envelope(2, CmdRunAction(command="second"), AGENT, 0),
    envelope(3, ran("first", LONG), AGENT, 1),
    envelope(4, ran("second", "short"), AGENT, 2),
    envelope(5, AgentStateChangedObservation(agent_state=AgentState.RUNNING), ENVIRONMENT),
]


def titles(model: ChatModel, *event_ids: int) -> list[str]:
    found = [model.reveal(event_id) for event_id in event_ids]
    return [block.title or block.text if block is not None else "" for block in found]


def test_reveal_unfolds_block_of_event() -> None:
    model = folded(LOG)
    first = model.blocks[1]
    assert first.folded
    assert titles(model, 3, 4, 1, 2, 0) == ["$ first", "$ second", "$ first", "$ second", "Do both."]
    assert not first.folded
    assert titles(model, 5, -1) == ["$ second", ""]


def test_reveal_works_for_any_page_split() -> None:
    for split in range(len(LOG)):
        model = folded(LOG[split:])
        model.prepend(LOG[:split])
        assert titles(model, 3, 4) == ["$ first", "$ second"]


def test_reveal_unfolds_undone_line() -> None:
    model = folded([*LOG, *undo(6, 0)])
    (line,) = model.blocks
    assert (line.kind, line.folded) == (Kind.UNDONE, True)
    assert model.reveal(3) is line
    assert not line.folded
    assert any("line 30" in piece.text for piece in line.pieces())


async def test_go_to_event_scrolls_to_result() -> None:
    model = ChatModel()
    async with showing(model, (80, 20)) as (app, pilot):
        for entry in [*LOG, *(later(number) for number in range(6, 60))]:
            model.apply(entry)
        await settled(pilot, app.view)
        app.view.go_to_event(3)
        await settled(pilot, app.view)
        cursor = app.view.cursor
        assert cursor is not None
        assert cursor.title == "$ first"
        assert any("line 3" in row for row in rows(app.view))


def later(number: int) -> Envelope:
    return envelope(number, MessageAction(content=f"And {number}?"), USER)
