"""Any response of a model becomes valid events."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.agent.function_calls import EMPTY_ANSWER, MAX_CALLS, MAX_NAME_CHARS, events_of
from core.agent.tools import CODEACT_TOOLS
from core.events import (
    Action,
    AgentFinishAction,
    AgentThinkAction,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    LLMMetrics,
    MessageAction,
    TokenUsage,
    ToolCallMetadata,
    envelope_from_dict,
    envelope_to_dict,
    to_json,
)
from core.events.actions import said_and_thought
from core.memory.conversation_memory import build_messages
from core.protocols import LLMResponse, ToolCall

TOOLS = {tool.name: tool for tool in CODEACT_TOOLS}
METRICS = LLMMetrics(accumulated_cost=0.5)
USAGE = TokenUsage(model="a/b", prompt_tokens=10, completion_tokens=5)


def events(text: str = "", *calls: ToolCall, used: set[str] | None = None, answer_id: str = "r1") -> list[Event]:
    response = LLMResponse(answer_id, text, calls, USAGE, 0.5, "tool_calls" if calls else "stop")
    return events_of(response, TOOLS, set() if used is None else used, step=9, metrics=METRICS)


def bash(command: str, call_id: str = "a") -> ToolCall:
    return ToolCall(call_id, "execute_bash", json.dumps({"command": command}))


def content(event: Event) -> str:
    assert isinstance(event, ErrorObservation)
    return event.content


def test_text_without_calls_is_a_message_that_waits() -> None:
    assert events("Hello.") == [MessageAction(content="Hello.", wait_for_response=True, llm_metrics=METRICS)]


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_empty_answer_asks_the_model_again(text: str) -> None:
    assert events(text) == [ErrorObservation(content=EMPTY_ANSWER, llm_metrics=METRICS)]


def test_first_event_has_the_whole_answer_and_others_its_id() -> None:
    first, second = events("Look.", bash("ls"), bash("pwd", "b"))
    whole: dict[str, Any] = {
        "id": "r1",
        "model": "a/b",
        "object": "chat.completion",
        "choices": [
            {
                "finish_reason": "tool_calls",
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Look.",
                    "tool_calls": [
                        {
                            "id": "a",
                            "type": "function",
                            "function": {"name": "execute_bash", "arguments": '{"command": "ls"}'},
                        },
                        {
                            "id": "b",
                            "type": "function",
                            "function": {"name": "execute_bash", "arguments": '{"command": "pwd"}'},
                        },
                    ],
                },
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    assert first == CmdRunAction(
        command="ls",
        thought="Look.",
        llm_metrics=METRICS,
        tool_call_metadata=ToolCallMetadata(
            function_name="execute_bash", tool_call_id="a", model_response=whole, total_calls_in_response=2
        ),
    )
    assert second == CmdRunAction(
        command="pwd",
        llm_metrics=METRICS,
        tool_call_metadata=ToolCallMetadata(
            function_name="execute_bash",
            tool_call_id="b",
            model_response={"id": "r1"},
            total_calls_in_response=2,
        ),
    )


def test_text_precedes_the_thought_of_a_call() -> None:
    (think,) = events("Hm.", ToolCall("a", "think", '{"thought": "It is late."}'))
    assert isinstance(think, AgentThinkAction)
    assert think.thought == "Hm.\nIt is late."


def test_said_and_thought_are_told_apart() -> None:
    (think,) = events("Hm.\nSo.", ToolCall("a", "think", '{"thought": "It is late."}'))
    assert isinstance(think, AgentThinkAction)
    assert said_and_thought(think) == ("Hm.\nSo.", "It is late.")
    (quiet,) = events("", ToolCall("a", "think", '{"thought": "It is late."}'))
    assert isinstance(quiet, AgentThinkAction)
    assert said_and_thought(quiet) == ("", "It is late.")
    assert said_and_thought(AgentThinkAction(thought="Of another program")) == ("", "Of another program")


@pytest.mark.parametrize("wrong", [ToolCall("a", "nothing", "{}"), ToolCall("a", "execute_bash", '{"command')])
def test_text_is_kept_with_the_first_call_also_if_it_is_wrong(wrong: ToolCall) -> None:
    error, right = events("Look.", wrong, bash("ls", "b"))
    assert isinstance(error, ErrorObservation)
    assert isinstance(right, CmdRunAction)
    assert (error.thought, right.thought) == ("Look.", "")


def test_finish_message_is_shown_to_the_user() -> None:
    (finish,) = events("So.", ToolCall("a", "finish", '{"message": "All done."}'))
    assert isinstance(finish, AgentFinishAction)
    assert (finish.final_thought, finish.thought) == ("All done.", "So.")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            ToolCall("a", "browse", '{"url": "x"}'),
            'Tool browse is not registered. (arguments: {"url": "x"}). '
            "Please check the tool name and retry with an existing tool.",
        ),
        (ToolCall("a", "execute_bash", '{"command'), 'Failed to parse tool call arguments: {"command'),
        (ToolCall("a", "execute_bash", '{"command": "ls"} trailing'), None),
        (ToolCall("a", "execute_bash", '{"command": "ls"}{"command": "rm"}'), None),
        (ToolCall("a", "execute_bash", '{"command": "ls", "command": "rm"}'), None),
        (ToolCall("a", "execute_bash", '{"command": "ls", "timeout": NaN}'), None),
        (
            ToolCall("a", "execute bash", '{"command": "ls"}'),
            'Tool execute_bash is not registered. (arguments: {"command": "ls"}). '
            "Please check the tool name and retry with an existing tool.",
        ),
        (ToolCall("a", "execute_bash", "[1]"), "Failed to parse tool call arguments: [1]"),
        (ToolCall("a", "execute_bash", "[" * 100_000), None),
        (ToolCall("a", "execute_bash", ""), 'Missing required argument "command" in tool call execute_bash'),
    ],
)
def test_invalid_call_becomes_an_error_with_its_id(call: ToolCall, error: str | None) -> None:
    (event,) = events("", call)
    assert content(event) == error or (error is None and content(event).startswith("Failed to parse tool call arg"))
    assert event.tool_call_metadata is not None
    assert event.tool_call_metadata.tool_call_id == "a"
    assert len(content(event)) < 3_000


def test_tool_names_are_sanitized_and_shortened() -> None:
    (event,) = events("", ToolCall("a", "\x1b[31m" + "x" * 1_000_000, "{}"))
    assert event.tool_call_metadata is not None
    name = event.tool_call_metadata.function_name
    assert name == "__31m" + "x" * (MAX_NAME_CHARS - 5)
    assert "\x1b" not in content(event)


def test_empty_or_duplicate_ids_are_replaced() -> None:
    found = events("", bash("1", ""), bash("2", "b"), bash("3", "b"), bash("4", "old"), used={"old", "r1"})
    ids = [event.tool_call_metadata.tool_call_id for event in found if event.tool_call_metadata]
    assert ids == ["call_9_0", "b", "call_9_2", "call_9_3"]
    answer_ids = {event.tool_call_metadata.model_response["id"] for event in found if event.tool_call_metadata}
    assert answer_ids == {"answer_9"}


def test_calls_beyond_the_limit_are_refused() -> None:
    found = events("", *[bash("ls", str(n)) for n in range(100)])
    assert len(found) == MAX_CALLS + 1
    assert all(isinstance(event, CmdRunAction) for event in found[:-1])
    assert content(found[-1]).startswith("Your answer made 100 tool calls, and only the first 32 were taken.")


def test_unstorable_text_is_repaired() -> None:
    (event,) = events("a\ud800b", ToolCall("a", "execute_bash", '{"command": "echo \\ud800"}'))
    assert isinstance(event, CmdRunAction)
    assert (event.thought, event.command) == ("a\ufffdb", "echo \ufffd")


def envelopes(said: list[Event]) -> list[Envelope]:
    now = datetime(2025, 1, 1, tzinfo=UTC)
    return [
        Envelope(conversation_id="c", id=n, timestamp=now, source=EventSource.AGENT, event=event)
        for n, event in enumerate(said)
    ]


names = st.sampled_from([*TOOLS, "unknown"]) | st.text(max_size=80)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(["command", "path", "thought", "message", "timeout", "is_input", "view_range", "security_risk"])
arguments = st.text(max_size=30) | st.dictionaries(keys, values).map(json.dumps)
calls = st.builds(ToolCall, st.sampled_from(["", "a", "b"]) | st.text(max_size=5), names, arguments)


@given(text=st.text(), wanted=st.lists(calls, max_size=6), answer_id=st.text(max_size=5))
def test_random_responses_become_storable_events(text: str, wanted: list[ToolCall], answer_id: str) -> None:
    found = envelopes(events(text, *wanted, answer_id=answer_id))
    assert found
    assert all(isinstance(envelope.event, Action | ErrorObservation) for envelope in found)
    for envelope in found:
        stored = to_json(envelope_to_dict(envelope))
        stored.encode()
        assert envelope_from_dict(json.loads(stored)) == envelope
    for message in build_messages(found):
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


def strict(text: str) -> Any:
    """The one JSON value that a text is, with nothing said twice. Raises ValueError."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({name for name, _ in pairs}) == len(pairs)
        return dict(pairs)

    return json.loads(text or "{}", object_pairs_hook=once)


some_tasks = st.dictionaries(st.sampled_from(["id", "title", "status"]), values, max_size=3)
good = st.fixed_dictionaries(
    {},
    optional={
        "command": st.sampled_from(["ls", "view", "plan", "create"]),
        "path": st.just("/a"),
        "timeout": st.integers(1, 9) | st.just("5"),
        "is_input": st.sampled_from(["true", "false", True]),
        "view_range": st.lists(st.integers() | st.text(max_size=1), max_size=2),
        "task_list": st.lists(some_tasks, max_size=2),
    },
).map(json.dumps)
likely = good | good.map(lambda text: text + "x")


@given(st.builds(ToolCall, st.just("a"), st.sampled_from([*TOOLS]), arguments | likely))
def test_arguments_outside_the_schema_make_no_action(call: ToolCall) -> None:
    (event,) = events("", call)
    if not isinstance(event, Action):
        assert isinstance(event, ErrorObservation)
        return
    parsed = strict(call.arguments)
    schema = TOOLS[call.name].schema()["function"]["parameters"]
    given_names = {name for name, value in parsed.items() if value is not None}
    assert given_names <= set(schema["properties"])
    assert set(schema["required"]) - {"security_risk"} <= set(parsed)
    for name in given_names - {"security_risk"}:
        kind = schema["properties"][name]["type"]
        types = {"string": (str,), "array": (list,), "integer": (int,), "number": (int, float)}[kind]
        assert type(parsed[name]) in types, (name, parsed[name])
