"""The stored form is that of OpenHands V0, both ways, and nothing that it carries is lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.events import (
    Action,
    ActionConfirmationStatus,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    Envelope,
    EventFormatError,
    EventSource,
    FileEditAction,
    LLMMetrics,
    MessageAction,
    Observation,
    Refusal,
    TokenUsage,
    ToolCallMetadata,
    UnknownAction,
    UnknownObservation,
    drop_for_trajectory,
    envelope_from_dict,
    envelope_to_dict,
    event_from_dict,
    event_to_dict,
    to_json,
    without_ours,
)
from core.events.base import Event

NOW = datetime(2026, 3, 4, 5, 6, 7, 8, tzinfo=UTC)

ARGS: dict[str, dict[str, Any]] = {
    "message": {"content": "hi"},
    "system": {"content": "be good"},
    "run": {"command": "ls"},
    "run_ipython": {"code": "1+1"},
    "read": {"path": "/a"},
    "write": {"path": "/a", "content": "b"},
    "edit": {"path": "/a", "command": "view"},
    "browse": {"url": "http://localhost"},
    "browse_interactive": {"browser_actions": "noop()"},
    "call_tool_mcp": {"name": "t", "arguments": {"a": [1, {"b": None}]}},
    "delegate": {"agent": "A", "inputs": {"task": "t"}},
    "think": {"thought": "hm"},
    "finish": {"final_thought": "ok", "outputs": {"x": 1}},
    "recall": {"recall_type": "knowledge", "query": "q"},
    "change_agent_state": {"agent_state": "paused"},
    "condensation": {"forgotten_event_ids": [1, 2], "summary": "s", "summary_offset": 1},
    "task_tracking": {"command": "plan", "task_list": [{"id": "1", "title": "t", "status": "todo"}]},
    "loop_recovery": {"option": 2},
    "undo": {"first": 3, "files": True, "checkpoint": "c" * 40, "before": "b" * 40, "spared": ["a\udcff"]},
    "review": {"checkpoint": "c" * 40, "path": "a\udcff", "hunks": [0, 2]},
    "consent": {"origin": "somewhere.json"},
    "permission": {"verdict": "allow", "pattern": "bash(git push *)"},
    "mode": {"mode": "auto-edit"},
}
EXTRAS: dict[str, dict[str, Any]] = {
    "run": {"command": "ls", "metadata": {"exit_code": 0, "pid": 7, "working_dir": "/w"}},
    "run_ipython": {"code": "1+1", "image_urls": ["data:image/png;base64,AA"]},
    "browse": {"url": "http://localhost", "trigger_by_action": "browse"},
    "read": {"path": "/a"},
    "write": {"path": "/a"},
    "edit": {"path": "/a", "prev_exist": True, "old_content": "a", "new_content": "b", "diff": "-a\n+b"},
    "agent_state_changed": {"agent_state": "running", "reason": "r"},
    "recall": {
        "recall_type": "workspace_context",
        "microagent_knowledge": [{"name": "n", "trigger": "t", "content": "c"}],
    },
    "download": {"file_path": "/workspace/f"},
    "checkpoint": {"checkpoint": "c" * 40, "after": 2, "files": 3, "changed": 1, "skipped": ["a: no regular file"]},
    "secret_masked": {"masked": {"a GitHub token": 2}},
    "undo": {"before": "b" * 40, "after": "c" * 40, "changed": 2, "kept": ["a"]},
}


def every_event() -> list[Event]:
    actions: list[Event] = [cls.model_validate(ARGS.get(kind, {})) for kind, cls in Action.kinds.items()]
    observations = [
        cls.model_validate({**EXTRAS.get(kind, {}), "content": "text"}) for kind, cls in Observation.kinds.items()
    ]
    return actions + list(observations)


@pytest.mark.parametrize("event", every_event(), ids=lambda e: f"{type(e).__name__}")
def test_every_kind_round_trips(event: Event) -> None:
    envelope = Envelope(conversation_id="c", id=3, timestamp=NOW, source=EventSource.AGENT, cause=1, event=event)
    stored = json.loads(to_json(envelope_to_dict(envelope)))
    assert envelope_from_dict(stored) == envelope
    assert envelope_to_dict(envelope_from_dict(stored)) == stored


@pytest.mark.parametrize("event", every_event(), ids=lambda e: f"{type(e).__name__}")
def test_derived_fields_are_not_stored_and_are_derived_again(event: Event) -> None:
    envelope = Envelope(conversation_id="c", id=3, timestamp=NOW, source=EventSource.AGENT, event=event)
    stored = envelope_to_dict(envelope, derived=False)
    assert stored.keys().isdisjoint({"message", "success", "conversation_id"})
    assert envelope_to_dict(envelope_from_dict(stored, "c")) == envelope_to_dict(envelope)


@pytest.mark.parametrize(
    "data",
    [
        {"action": "run", "args": {"command": "ls"}, "timeout": float("nan")},
        {"action": "call_tool_mcp", "args": {"name": "t", "arguments": {"a": [float("inf")]}}},
        {"action": "message", "args": {"content": "x"}, "llm_metrics": {"accumulated_cost": float("nan")}},
        {"action": "message", "args": {"content": "x"}, "llm_metrics": {"anything": float("nan")}},
        {"action": "teleport", "args": {"to": float("inf")}},
        {"action": "message", "args": {"content": "x", "unknown": float("nan")}},
        {"observation": "error", "content": "", "extras": {"unknown": [float("-inf")]}},
    ],
)
def test_values_that_are_not_json_are_refused(data: dict[str, Any]) -> None:
    with pytest.raises(EventFormatError, match=r"finite|valid"):
        envelope_from_dict({"id": 0, "timestamp": "2026-01-01", "source": "agent", **data}, "c")


@pytest.mark.parametrize(
    "data",
    [
        {"action": "null", "args": {}, "extras": {"a": 1}, "content": "text", "success": True},
        {"observation": "null", "content": "", "extras": {}, "args": [1], "timeout": 3},
    ],
)
def test_fields_of_the_other_branch_are_kept(data: dict[str, Any]) -> None:
    envelope = envelope_from_dict({"id": 0, "timestamp": "2026-01-01", "source": "agent", **data}, "c")
    form = envelope_to_dict(envelope)
    assert {key: form.get(key) for key in data} == data


def test_legacy_metadata_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(EventFormatError, match="metadata"):
        event_from_dict({"observation": "run", "content": "", "extras": {"metadata": -1, "exit_code": 0}})


def test_legacy_code_that_is_not_a_text_is_ignored() -> None:
    event, _ = event_from_dict({"action": "edit", "args": {"path": "/a", "translated_ipython_code": [1]}})
    assert event == FileEditAction(path="/a")


def test_error_messages_are_bounded() -> None:
    with pytest.raises(EventFormatError) as refused:
        envelope_from_dict({"id": 0, "timestamp": "x" * 100_000, "action": "null"}, "c")
    assert len(str(refused.value)) < 400


def test_stored_form_is_that_of_v0() -> None:
    action = CmdRunAction(command="echo hi", thought="let me see", timeout=5)
    assert event_to_dict(action) == {
        "message": "Running command: echo hi",
        "action": "run",
        "args": {
            "command": "echo hi",
            "is_input": False,
            "thought": "let me see",
            "blocking": False,
            "is_static": False,
            "cwd": None,
            "hidden": False,
            "confirmation_state": "confirmed",
            "security_risk": -1,
        },
        "timeout": 5,
    }
    form = event_to_dict(CmdOutputObservation(command="echo hi", content="hi"))
    assert (form["observation"], form["content"], form["success"]) == ("run", "hi", False)
    assert set(form["extras"]) == {"command", "hidden", "metadata"}


def test_id_of_the_model_answer_survives_a_round_trip() -> None:
    metadata = ToolCallMetadata(function_name="f", tool_call_id="1", model_response={"id": "answer-7"})
    metrics = LLMMetrics(accumulated_token_usage=TokenUsage(response_id="answer-7"))
    action = CmdRunAction(command="ls", tool_call_metadata=metadata, llm_metrics=metrics)
    again, _ = event_from_dict(json.loads(to_json(event_to_dict(action, derived=False))))
    assert again == action
    assert again.tool_call_metadata is not None
    assert again.llm_metrics is not None
    assert again.tool_call_metadata.model_response["id"] == "answer-7"
    assert again.llm_metrics.accumulated_token_usage.response_id == "answer-7"


def test_fields_that_v0_does_not_have_are_stored_only_if_they_are_set() -> None:
    asks = FileEditAction(path="/a", confirmation_state=ActionConfirmationStatus.AWAITING_CONFIRMATION)
    assert event_to_dict(asks)["args"]["confirmation_state"] == "awaiting_confirmation"
    assert "confirmation_state" not in event_to_dict(FileEditAction(path="/a"))["args"]


def test_refusals_of_the_sandbox_round_trip_and_are_left_out_for_v0() -> None:
    refusals = [Refusal(text="The sandbox refused a.example.", host="a.example"), Refusal(text="No file.")]
    event = CmdOutputObservation(command="x", content="failed", refusals=refusals)
    form = event_to_dict(event)
    assert form["refusals"] == [{"text": refusals[0].text, "host": "a.example"}, {"text": "No file.", "host": ""}]
    assert event_from_dict(json.loads(json.dumps(form))) == (event, {})
    assert without_ours(form, event) == event_to_dict(event.model_copy(update={"refusals": []}))
    assert "refusals" not in event_to_dict(CmdOutputObservation(command="x", content=""))
    assert event_from_dict({"action": "run", "args": {"command": "ls"}, "refusals": []})[1] == {"refusals": []}


def test_unknown_kind_is_written_back_unchanged() -> None:
    stored = {
        "id": 4, "timestamp": NOW.isoformat(), "source": "agent", "action": "teleport", "conversation_id": "c",
        "args": {"to": ["moon", 1]}, "message": "going", "new_top": {"x": 1},
    }  # fmt: skip
    envelope = envelope_from_dict(stored)
    assert isinstance(envelope.event, UnknownAction)
    assert envelope_to_dict(envelope) == stored
    seen = {
        "id": 5,
        "timestamp": NOW.isoformat(),
        "source": "environment",
        "observation": "smell",
        "extras": {"of": "x"},
    }
    assert isinstance(envelope_from_dict(seen, "c").event, UnknownObservation)
    assert envelope_to_dict(envelope_from_dict(seen, "c")) == {**seen, "conversation_id": "c"}


def test_unknown_fields_of_a_known_kind_are_carried() -> None:
    stored = {
        "id": 1, "timestamp": NOW.isoformat(), "source": "user", "action": "message", "conversation_id": "c",
        "args": {"content": "hi", "mood": "good"}, "message": "other words", "flag": True,
    }  # fmt: skip
    envelope = envelope_from_dict(stored)
    assert envelope.event == MessageAction(content="hi")
    again = envelope_to_dict(envelope)
    assert (again["args"]["mood"], again["flag"], again["message"]) == ("good", True, "other words")


@pytest.mark.parametrize(
    ("legacy", "expected"),
    [
        (
            {"action": "run", "args": {"command": "ls", "is_confirmed": "rejected", "keep_prompt": True}},
            CmdRunAction(command="ls", confirmation_state=ActionConfirmationStatus.REJECTED),
        ),
        (
            {"action": "message", "args": {"content": "x", "images_urls": ["data:,"]}},
            MessageAction(content="x", image_urls=["data:,"]),
        ),
        (
            {
                "action": "edit",
                "args": {
                    "path": "/a",
                    "translated_ipython_code": "print(file_editor(**"
                    "{'command': 'create', 'path': '/a', 'file_text': 'b'}))",
                },
            },
            FileEditAction(path="/a", command="create", file_text="b"),
        ),
    ],
)
def test_legacy_fields_are_accepted(legacy: dict[str, Any], expected: Event) -> None:
    assert event_from_dict(legacy) == (expected, {})


def test_legacy_command_result_is_accepted() -> None:
    old = {
        "observation": "run",
        "content": "out",
        "extras": {"command": "ls", "exit_code": 3, "command_id": 9, "formatted_output_and_error": "dropped"},
    }
    event, carried = event_from_dict(old)
    assert isinstance(event, CmdOutputObservation)
    assert (event.exit_code, event.metadata.pid, carried) == (3, 9, {})


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"action": "run", "observation": "run"},
        {"action": "run", "args": []},
        {"action": "run", "args": {}},
        {"action": "run", "args": {"command": 3}},
        {"action": "change_agent_state", "args": {"agent_state": "flying"}},
        {"observation": "run", "extras": {"command": "x", "metadata": 4}},
        {"action": "condensation", "args": {"forgotten_event_ids": [1], "forgotten_events_start_id": 1}},
    ],
)
def test_invalid_events_are_refused_with_a_reason(bad: dict[str, Any]) -> None:
    with pytest.raises(EventFormatError):
        event_from_dict(bad)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(
        st.sampled_from(["id", "timestamp", "source", "cause", "action", "observation", "args", "extras", "content"]),
        json_values,
    )
)
def test_no_json_object_breaks_the_decoder(data: dict[str, Any]) -> None:
    try:
        envelope = envelope_from_dict(data, "c")
    except EventFormatError:
        return
    assert envelope_from_dict(json.loads(json.dumps(envelope_to_dict(envelope)))) == envelope


def test_events_are_frozen_and_refuse_undeclared_fields() -> None:
    action = CmdRunAction(command="ls")
    with pytest.raises(ValidationError):
        setattr(action, "command", "rm")  # noqa: B010
    with pytest.raises(ValidationError):
        CmdRunAction(command="ls", commnad="rm")  # type: ignore[call-arg]


def test_kind_cannot_be_registered_twice() -> None:
    with pytest.raises(TypeError, match="is taken by CmdRunAction"):
        type("Another", (Action,), {"kind": "run", "__module__": __name__})
    assert Action.kinds["run"] is CmdRunAction


def test_condensation_lists_ids_or_a_range() -> None:
    assert CondensationAction(forgotten_events_start_id=2, forgotten_events_end_id=4).forgotten == range(2, 5)
    with pytest.raises(ValidationError, match="Invalid configuration of the optional fields"):
        CondensationAction()


def test_trajectory_leaves_out_page_trees_and_pictures() -> None:
    page = {"observation": "browse", "extras": {"url": "u", "dom_object": {}, "screenshot": "A"}}
    assert drop_for_trajectory(page)["extras"] == {"url": "u"}
    assert drop_for_trajectory(page, screenshots=True)["extras"] == {"url": "u", "screenshot": "A"}
