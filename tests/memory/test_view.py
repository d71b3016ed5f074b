"""The events that the model sees after a condensation, and those that the window condenser keeps."""

from __future__ import annotations

from datetime import UTC, datetime

from core.events import (
    AgentCondensationObservation,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    CondensationRequestAction,
    Envelope,
    Event,
    EventSource,
    MessageAction,
    NullObservation,
    RecallAction,
    RecallType,
    SystemMessageAction,
    ToolCallMetadata,
)
from core.memory.condensers.history_cut import CondensationTask, cut_older_half
from core.memory.conversation_memory import build_messages
from core.memory.view import View

AGENT, USER, ENVIRONMENT = EventSource.AGENT, EventSource.USER, EventSource.ENVIRONMENT
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Log(list[Envelope]):
    def add(self, event: Event, source: EventSource = AGENT, cause: int | None = None) -> int:
        number = len(self)
        self.append(Envelope(conversation_id="c", id=number, timestamp=NOW, source=source, cause=cause, event=event))
        return number


def talk(answers: int, calls: int = 1) -> Log:
    """A conversation with so many answers of so many calls each."""
    log = Log()
    log.add(SystemMessageAction(content="be good"))
    said = log.add(MessageAction(content="the task"), USER)
    recall = log.add(RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT), USER, said)
    log.add(NullObservation(), ENVIRONMENT, recall)
    for answer in range(answers):
        names = [f"{answer}-{call}" for call in range(calls)]
        tool_calls = [{"id": n, "type": "function", "function": {"name": "f", "arguments": "{}"}} for n in names]
        response = {"id": str(answer), "choices": [{"message": {"content": "", "tool_calls": tool_calls}}]}
        ids = []
        for name in names:
            metadata = ToolCallMetadata(
                function_name="f", tool_call_id=name, model_response=response, total_calls_in_response=calls
            )
            ids.append(log.add(CmdRunAction(command=name, tool_call_metadata=metadata), cause=said))
        for name, action in zip(names, ids, strict=True):
            log.add(CmdOutputObservation(command=name, content=f"out {name}"), cause=action)
    return log


def window(log: Log) -> CondensationAction:
    return cut_older_half(CondensationTask(View.of(log).events, CondensationRequestAction(why="overflow"))).action()


def test_uncondensed_history_is_fully_visible() -> None:
    log = talk(2)
    assert View.of(log).events == log


def test_forgotten_events_are_replaced_by_the_newest_summary() -> None:
    log = talk(4)
    log.add(CondensationAction(forgotten_event_ids=[4, 5], summary="old", summary_offset=1))
    log.add(CondensationAction(forgotten_events_start_id=6, forgotten_events_end_id=7, summary="new", summary_offset=2))
    events = View.of(log).events
    assert not {4, 5, 6, 7} & {e.id for e in events if not isinstance(e.event, AgentCondensationObservation)}
    assert [e.event.content for e in events if isinstance(e.event, AgentCondensationObservation)] == ["new"]
    assert isinstance(events[2].event, AgentCondensationObservation)
    assert "new" in str(build_messages(events))


def test_request_is_answered_by_the_next_condensation() -> None:
    log = talk(2)
    log.add(CondensationRequestAction(), USER)
    assert View.of(log).wants_condensation
    log.add(CondensationAction(forgotten_event_ids=[4, 5]))
    assert not View.of(log).wants_condensation


def test_window_keeps_the_start_and_the_newer_half() -> None:
    log = talk(10)
    log.add(window(log))
    seen = [e.id for e in View.of(log).events]
    assert seen[:4] == [0, 1, 2, 3]
    assert seen[4:] == list(range(14, 24))


def test_calls_keep_their_results_and_answers_stay_complete() -> None:
    for answers in range(1, 9):
        for calls in (1, 2, 3):
            log = talk(answers, calls)
            log.add(window(log))
            messages = build_messages(View.of(log).events)
            for message in messages:
                if message["role"] == "tool":
                    assert message["content"] == f"out {message['tool_call_id']}"
            asked = [call["id"] for m in messages for call in m.get("tool_calls", [])]
            assert asked == [m["tool_call_id"] for m in messages if m["role"] == "tool"]


def test_repeated_condensing_terminates() -> None:
    log = talk(6)
    sizes = []
    for _ in range(8):
        log.add(window(log))
        sizes.append(len(View.of(log).events))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= 6


def test_queued_message_is_invisible_until_it_is_sent() -> None:
    log = talk(1)
    queued = log.add(MessageAction(content="later", queued=True), USER)
    assert "later" not in str(build_messages(log))
    log.add(MessageAction(content="later"), USER, queued)
    assert str(build_messages(log)).count("later") == 1
