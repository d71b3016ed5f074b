"""What streams in, and how it becomes what stays."""

from __future__ import annotations

import pytest

from core.events import (
    AgentState,
    AgentStateChangedObservation,
    CmdRunAction,
    MessageAction,
    Status,
    TerminalOutput,
    TokenDelta,
)
from tests.tui.chat.events import AGENT, ENVIRONMENT, USER, conversation, envelope, folded, ran
from tests.tui.chat.screen import rows, settled, showing
from tui.chat.blocks import Block, Kind
from tui.chat.model import ChatModel
from tui.chat.text_pieces import PieceKind


def test_streamed_answer_becomes_its_event() -> None:
    model = folded(conversation(MessageAction(content="hello")))
    for piece in ("# He", "ad\n\nwor", "ds"):
        model.apply_frame(TokenDelta(0, piece))
    (streamed,) = model.tail
    pieces = streamed.pieces()
    model.apply(envelope(1, MessageAction(content="# Head\n\nwords"), AGENT))
    assert model.blocks[-1] is streamed
    assert model.tail == []
    assert streamed.pieces() == pieces


def test_streamed_answer_with_call_precedes_it() -> None:
    model = ChatModel()
    model.apply_frame(TokenDelta(0, "I look."))
    model.apply(envelope(1, CmdRunAction(command="ls", thought="I look.")))
    assert [(block.kind, block.text) for block in model.blocks] == [(Kind.AGENT, "I look."), (Kind.TOOL, "")]


def printed(model: ChatModel, cause: int, data: bytes, *, is_echo: bool = False) -> None:
    model.apply_frame(TerminalOutput(cause, data, is_echo=is_echo))


def drawn(block: Block) -> list[str]:
    return [line for piece in block.pieces() for line in piece.text.split("\n") if piece.kind is not PieceKind.BLANK]


def test_running_command_shows_what_its_terminal_shows() -> None:
    model = folded(conversation(CmdRunAction(command="make")))
    (block,) = model.blocks
    printed(model, 0, b"$ make\r\n", is_echo=True)
    assert drawn(block) == ["$ make"]
    printed(model, 0, b"cc a.c\r\n\x1b[32m10%\x1b[m\r")
    printed(model, 0, b"\x1b[K100%\r\n\x1b]0;title\x07end")
    assert drawn(block) == ["$ make", "cc a.c", "100%", "end"]
    printed(model, 0, "\u202e".encode())
    assert block.plain() == "$ make\ncc a.c\n100%\nend⟦U+202E⟧"
    printed(model, 7, b"of another command")
    model.apply(envelope(1, ran("make", "stored"), AGENT, 0))
    assert drawn(block) == ["$ make", "stored"]


def test_running_command_shows_its_last_lines_and_unfolds_to_a_screen() -> None:
    model = folded(conversation(CmdRunAction(command="seq 100")))
    (block,) = model.blocks
    for n in range(100):
        printed(model, 0, b"%d\r\n" % n)
    assert drawn(block) == ["$ seq 100", "… 26 more lines", "96", "97", "98", "99"]
    model.toggle(block)
    assert drawn(block) == ["$ seq 100", *(str(n) for n in range(70, 100))]


@pytest.mark.parametrize("size", [(160, 48), (80, 24), (40, 12)])
async def test_output_of_running_command_is_on_the_screen(size: tuple[int, int]) -> None:
    model = folded(conversation(MessageAction(content="go"), CmdRunAction(command="make")))
    async with showing(model, size) as (app, pilot):
        printed(model, 1, b"compiling a.c\r\n")
        await settled(pilot, app.view)
        assert any(row.endswith("compiling a.c") for row in rows(app.view))
        printed(model, 1, b"\x1b[Alinking\x1b[K\r\n")
        await settled(pilot, app.view)
        shown = [row for row in rows(app.view) if row]
        assert shown[-1].endswith("linking")
        assert not any("compiling" in row for row in shown)


def test_reasoning_is_shown_while_it_streams() -> None:
    model = ChatModel()
    model.apply_frame(TokenDelta(0, "hmm", "reasoning"))
    model.apply_frame(TokenDelta(0, "yes"))
    assert [block.kind for block in model.tail] == [Kind.THOUGHT, Kind.AGENT]
    model.apply(envelope(1, MessageAction(content="yes"), AGENT))
    assert model.tail == []


def test_stored_reasoning_is_folded_before_answer() -> None:
    model = ChatModel()
    model.apply_frame(TokenDelta(0, "one\nand one", "reasoning"))
    model.apply_frame(TokenDelta(0, "two"))
    answer = envelope(1, MessageAction(content="two", reasoning="one\nand one"), AGENT)
    model.apply(answer)
    assert model.tail == []
    shown = [(block.kind, block.text, block.folded) for block in model.blocks]
    assert shown == [(Kind.THOUGHT, "one\nand one", True), (Kind.AGENT, "two", False)]
    again = folded([answer])
    assert [(block.kind, block.text, block.folded) for block in again.blocks] == shown


def test_retry_restarts_answer() -> None:
    model = ChatModel()
    model.apply_frame(TokenDelta(0, "half an ans"))
    model.apply_frame(Status("info", "STATUS$LLM_RETRY", "Retrying in 2 s"))
    model.apply_frame(TokenDelta(0, "whole"))
    assert model.tail[0].pieces()[0].text == "whole"


def test_interrupted_answer_is_kept() -> None:
    model = ChatModel()
    model.apply_frame(TokenDelta(0, "half an ans"))
    model.apply(envelope(1, AgentStateChangedObservation(agent_state=AgentState.STOPPED), ENVIRONMENT))
    assert [(block.text, block.title) for block in model.blocks] == [("half an ans", ""), ("", "Interrupted")]


def test_status_is_replaced_and_cleared_by_id() -> None:
    model = ChatModel()
    for message in ("Retrying in 2 s", "Retrying in 1 s"):
        model.apply_frame(Status("info", "STATUS$LLM_RETRY", message))
    assert [block.title for block in model.tail] == ["Retrying in 1 s"]
    model.apply_frame(Status("info", "STATUS$LLM_RETRY", ""))
    assert model.tail == []


def test_notice_ends_when_agent_answers() -> None:
    model = ChatModel()
    model.apply_frame(Status("info", "STATUS$STARTING_RUNTIME", "Starting"))
    model.apply(envelope(0, CmdRunAction(command="ls")))
    assert model.tail == []


def test_view_is_notified_of_every_change() -> None:
    model, changes = ChatModel(), []
    model.changed = lambda: changes.append(1)
    model.apply(envelope(1, MessageAction(content="x"), USER))
    model.apply_frame(TokenDelta(1, "y"))
    model.prepend([envelope(0, MessageAction(content="w"), USER)])
    assert len(changes) == 3
