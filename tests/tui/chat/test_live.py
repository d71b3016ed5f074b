"""What streams in, and how it becomes what stays."""

from __future__ import annotations

from core.events import (
    AgentState,
    AgentStateChangedObservation,
    CmdRunAction,
    MessageAction,
    Status,
    TokenDelta,
)
from tests.tui.chat.events import AGENT, ENVIRONMENT, USER, conversation, envelope, folded
from tui.chat.blocks import Kind
from tui.chat.model import ChatModel


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
