"""What the writer makes of events: the row of an event, what lists show of a conversation, what work has cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from core.events import (
    AgentState,
    AgentStateChangedObservation,
    CmdRunAction,
    Envelope,
    Event,
    EventSource,
    LLMMetrics,
    MessageAction,
    UnknownAction,
    UnknownObservation,
)
from core.store.writer import Draft, Facts, Spent, kind_of, row_of_event

AT = datetime(2026, 11, 22, 13, 0, tzinfo=UTC)


def test_what_work_has_cost_is_summed_up() -> None:
    assert Spent(1, 0.5, 2, 300, 4.5) + Spent(10, 0.25, 20, 7, 1.25) == Spent(11, 0.75, 22, 307, 5.75)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (CmdRunAction(command="ls"), "action:run"),
        (AgentStateChangedObservation(agent_state=AgentState.FINISHED), "observation:agent_state_changed"),
        (UnknownAction(raw={"action": "dance"}), "action:dance"),
        (UnknownObservation(raw={"observation": "weather"}), "observation:weather"),
    ],
)
def test_an_event_has_a_kind(event: Event, kind: str) -> None:
    assert kind_of(event) == kind


BEFORE = Facts(state="running", has_cost=True, cost=1.5, first_line="begun")


@pytest.mark.parametrize(
    ("before", "event", "source", "changes"),
    [
        (Facts(), MessageAction(content="\n  \n one \ntwo"), EventSource.USER, {"first_line": "one"}),
        (Facts(), MessageAction(content="one"), EventSource.AGENT, {}),
        (Facts(), MessageAction(content=" \n"), EventSource.USER, {}),
        (Facts(), MessageAction(content="x" * 300), EventSource.USER, {"first_line": "x" * 200}),
        (Facts(), MessageAction(content="a\ud800b"), EventSource.USER, {"first_line": "a?b"}),
        (Facts(), CmdRunAction(command="ls"), EventSource.USER, {}),
        (BEFORE, MessageAction(content="one"), EventSource.USER, {}),
        (BEFORE, AgentStateChangedObservation(agent_state=AgentState.FINISHED), EventSource.AGENT,
         {"state": "finished"}),
        (BEFORE, CmdRunAction(command="ls", llm_metrics=LLMMetrics(accumulated_cost=2.5)), EventSource.AGENT,
         {"cost": 2.5}),
        (Facts(), CmdRunAction(command="ls", llm_metrics=LLMMetrics(accumulated_cost=None)), EventSource.AGENT,
         {"has_cost": True}),
    ],
)  # fmt: skip
def test_lists_show_what_events_tell(before: Facts, event: Event, source: EventSource, changes: dict[str, Any]) -> None:
    assert before.after(event, source) == replace(before, **changes)


def test_the_row_of_an_event_has_its_parts_in_columns() -> None:
    draft = Draft(MessageAction(content="hello"), EventSource.USER, cause=3)
    envelope = draft.at("c", 4, AT)
    assert envelope == Envelope(
        conversation_id="c", id=4, timestamp=AT, source=EventSource.USER, cause=3, event=draft.event
    )
    *columns, body = row_of_event(7, 2, envelope)
    assert columns == [7, 4, AT.isoformat(), "user", 3, "action:message", 2]
    assert '"hello"' in body
    assert row_of_event(7, 2, envelope, b"packed") == (*columns, b"packed")


def test_what_is_told_of_a_conversation_is_written_with_its_key() -> None:
    assert BEFORE.row(9) == (9, "running", True, 1.5, "begun")
