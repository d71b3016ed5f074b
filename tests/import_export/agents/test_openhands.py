"""Conversations of OpenHands: a shortened one that SDK 1.58.2 wrote with a scripted model, and one of version 0."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents.openhands import discover, read
from core.import_export.agents.openhands_records import read_sdk
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Transcript, Usage
from tests.import_export.agents.fuzzed import check_events, survives
from tests.import_export.agents.shown import shown

ID = "a389c687f528432bb9b92eb25a21fc93"
CHILD = "a771bdc376d543cc9105d0b26c851894"
TIME = "2026-11-28T22:38:47.298618"
Event = dict[str, Any]


def text(value: str) -> list[dict[str, Any]]:
    return [{"cache_prompt": False, "type": "text", "text": value}]


def said(source: str, value: str, **fields: Any) -> Event:
    role = "user" if source == "user" else "assistant"
    message = {"role": role, "content": text(value), "thinking_blocks": []}
    return {"source": source, "llm_message": message, "kind": "MessageEvent", **fields}


def did(call: str, tool: str, kind: str, answer: str, *, thought: str = "", **arguments: Any) -> Event:
    return {
        "source": "agent",
        "thought": text(thought) if thought else [],
        "action": {**arguments, "kind": kind},
        "tool_name": tool,
        "tool_call_id": call,
        "tool_call": {"id": call, "name": tool, "arguments": json.dumps(arguments), "origin": "completion"},
        "llm_response_id": answer,
        "security_risk": "UNKNOWN",
        "kind": "ActionEvent",
    }


def saw(call: str, tool: str, kind: str, value: str, *, is_error: bool = False, **fields: Any) -> Event:
    observation = {"content": text(value), "is_error": is_error, **fields, "kind": kind}
    return {
        "source": "environment",
        "tool_name": tool,
        "tool_call_id": call,
        "observation": observation,
        "kind": "ObservationEvent",
    }


PATCH = "*** Begin Patch\n*** Update File: b.py\n@@\n-x = 3\n+x = 4\n*** End Patch"
CHANGES = {"changes": {"b.py": {"type": "update", "old_content": "x = 3\n", "new_content": "x = 4\n"}}}
EVENTS: list[Event] = [
    {"source": "agent", "system_prompt": {"type": "text", "text": "You are an agent"}, "kind": "SystemPromptEvent"},
    said("user", "Please set up the project.\nThen stop."),
    {"source": "environment", "key": "execution_status", "value": "running", "kind": "ConversationStateUpdateEvent"},
    {
        **did("call_1", "terminal", "TerminalAction", "chat-1", thought="I look first.", command="ls", is_input=False),
        "reasoning_content": "A small folder.",
    },
    did("call_2", "file_editor", "FileEditorAction", "chat-1", command="create", path="/w/b.py", file_text="x = 1\n"),
    saw(
        "call_2", "file_editor", "FileEditorObservation", "Created.",
        command="create", path="/w/b.py", prev_exist=False, new_content="x = 1\n",
    ),
    saw("call_1", "terminal", "TerminalObservation", "a.txt", command="ls", exit_code=3, metadata={"exit_code": 3}),
    did("call_3", "file_editor", "FileEditorAction", "chat-2", command="str_replace", path="/w/b.py", old_str="no"),
    saw("call_3", "file_editor", "FileEditorObservation", "No replacement.", command="str_replace", is_error=True),
    did("call_4", "grep", "GrepAction", "chat-3", thought="Search.", pattern="x", path="/w"),
    did("call_5", "apply_patch", "ApplyPatchAction", "chat-3", patch=PATCH),
    saw("call_4", "grep", "GrepObservation", "Found 1 file", matches=["/w/b.py"]),
    saw("call_5", "apply_patch", "ApplyPatchObservation", "Done!", commit=CHANGES),
    {**did("call_6", "nosuch", "X", "chat-4", a=1), "action": None},
    {"source": "agent", "tool_name": "nosuch", "tool_call_id": "call_6", "error": "None", "kind": "AgentErrorEvent"},
    did("call_7", "task", "TaskAction", "chat-5", description="count", prompt="Count", subagent_type="default"),
    saw("call_7", "task", "TaskObservation", "Two.", task_id="task_1", status="completed"),
    {"source": "environment", "forgotten_event_ids": ["e1", "e4"], "summary": "Set up.", "summary_offset": 1,
     "kind": "Condensation"},
    {"source": "environment", "hook": 1, "kind": "HookExecutionEvent"},
    said("user", "First way."),
    said("agent", "Done the first way.", llm_response_id="chat-6"),
    {**said("user", "Second way."), "parent_id": "e18"},
    said("agent", "Done the second way.", llm_response_id="chat-7"),
]  # fmt: skip


def with_ids(events: list[Event]) -> list[Event]:
    """Each event with an id, a time, and the node before it as its parent."""
    found, parent = [], None
    for number, event in enumerate(events):
        id = f"e{number}"
        found.append({"id": id, "timestamp": TIME, "parent_id": parent, **event})
        parent = parent if event["kind"] == "ConversationStateUpdateEvent" else id
    return found


STATE: dict[str, Any] = {
    "id": ID,
    "agent": {"llm": {"model": "openai/gpt-4o", "api_key": "**********"}},
    "workspace": {"working_dir": "/w", "kind": "LocalWorkspace"},
    "leaf_event_id": "e22",
    "stats": {
        "usage_to_metrics": {
            "agent": {
                "accumulated_cost": 0.5,
                "accumulated_token_usage": {"prompt_tokens": 300, "completion_tokens": 40},
                "costs": [{"cost": 0.1}, {"cost": 0.2}],
                "token_usages": [
                    {"model": "gpt-4o", "prompt_tokens": 100, "completion_tokens": 20, "response_id": "chat-1"},
                    {"model": "gpt-4o", "prompt_tokens": 200, "completion_tokens": 20, "response_id": "chat-7",
                     "cache_read_tokens": 7},
                ],
            }
        }
    },
}  # fmt: skip


def write(folder: Path, events: list[Event], state: Any = None, first: int = 0) -> None:
    (folder / "events").mkdir(parents=True)
    for number, event in enumerate(events, first):
        (folder / "events" / f"event-{number:05d}-{number:08x}.json").write_text(json.dumps(event))
    (folder / "events" / ".eventlog.lock").write_text("")
    if state is not None:
        (folder / "base_state.json").write_text(json.dumps(state))


@pytest.fixture
def places(tmp_path: Path) -> Places:
    root = tmp_path / ".openhands" / "conversations"
    write(root / ID, with_ids(EVENTS), STATE)
    write(root / ID / "subagents" / CHILD, with_ids([EVENTS[0], said("user", "Count"), said("agent", "Two.")]), {})
    return Places(tmp_path)


def by_id(places: Places) -> dict[str, AgentSession]:
    return {session.id: session for session in discover(places)}


def test_a_list_shows_conversations_and_their_sub_agents(places: Places) -> None:
    found = by_id(places)
    session = found[ID]
    assert set(found) == {ID, CHILD}
    assert (session.title, session.folder, session.model) == ("Please set up the project.", "/w", "openai/gpt-4o")
    assert (session.tokens, session.cost, session.parent_id) == (340, 0.5, "")
    assert session.started_at == datetime.fromisoformat(TIME).astimezone()
    assert session.size == sum(path.stat().st_size for path in session.path.glob("events/*.json"))
    assert (found[CHILD].parent_id, found[CHILD].title) == (ID, "Count")


def test_the_environment_can_move_the_folder(places: Places, tmp_path: Path) -> None:
    root = str(tmp_path / ".openhands")
    assert len(by_id(Places(tmp_path / "x", {"OPENHANDS_CONVERSATIONS_DIR": f"{root}/conversations"}))) == 2
    assert len(by_id(Places(tmp_path / "x", {"OPENHANDS_PERSISTENCE_DIR": root}))) == 2
    assert len(by_id(Places(tmp_path / "x", {"OH_PERSISTENCE_DIR": root}))) == 2
    assert not by_id(Places(tmp_path / "x"))


def test_the_live_branch_has_every_event_in_order(places: Places) -> None:
    transcript = read(by_id(places)[ID])
    assert shown(transcript)[1:] == [
        ("user", "Please set up the project.\nThen stop."),
        ("state", "running"),
        ("thinks", "A small folder."),
        ("runs", "ls"),
        ("edits", "/w/b.py", "create"),
        ("edited", 5, "--- /w/b.py\n+++ /w/b.py\n@@ -0,0 +1 @@\n+x = 1"),
        ("ran", 4, "a.txt", 3),
        ("edits", "/w/b.py", "str_replace"),
        ("error result", 8, "No replacement."),
        ("agent", "Search."),
        ("calls", "grep", {"pattern": "x", "path": "/w"}),
        ("edits", "b.py", ""),
        ("mcp result", 11, "Found 1 file"),
        ("edited", 12, "--- b.py\n+++ b.py\n@@ -1 +1 @@\n-x = 3\n+x = 4"),
        ("calls", "nosuch", {"a": 1}),
        ("mcp result", 15, "None"),
        ("delegates", "default", {"task": "Count", "session": CHILD}),
        ("delegate result", 17, "Two."),
        ("compacts", "Set up."),
        ("openhands.HookExecutionEvent",),
        ("user", "Second way."),
        ("agent", "Done the second way."),
    ]
    assert transcript.forms[4]["args"]["thought"] == "I look first."
    assert transcript.forms[4]["tool_call_metadata"]["total_calls_in_response"] == 2
    assert transcript.forms[19]["args"]["forgotten_event_ids"] == [1, 5]
    assert transcript.forms[4]["imported"]["record"]["place"] == "event-00003-00000003.json"
    assert replace(transcript.usage, cost=None) == Usage("gpt-4o", 300, 40, 7)
    assert transcript.usage.cost == pytest.approx(0.3)
    assert not transcript.warnings


def test_another_leaf_is_a_branch(places: Places) -> None:
    (branch,) = read(by_id(places)[ID]).branches
    assert branch.title == "First way."
    assert shown(branch.transcript)[-2:] == [("user", "First way."), ("agent", "Done the first way.")]
    assert len(branch.transcript.forms) == 23


def test_without_a_state_the_last_event_is_the_leaf(places: Places) -> None:
    session = by_id(places)[ID]
    (session.path / "base_state.json").write_text("[]")
    transcript = read(session)
    assert shown(transcript)[-1] == ("agent", "Done the second way.")
    assert transcript.usage == Usage()


def test_events_without_parents_and_numbers_of_six_digits_keep_their_order(tmp_path: Path) -> None:
    root = tmp_path / ".openhands" / "conversations"
    events = [{**event, "parent_id": None} for event in with_ids(EVENTS)]
    write(root / ID, events, first=99_990)
    (session,) = discover(Places(tmp_path))
    transcript = read(session)
    prompts = [entry[1] for entry in shown(transcript) if entry[0] == "user"]
    assert prompts == ["Please set up the project.\nThen stop.", "First way.", "Second way."]
    assert not transcript.branches


def test_a_session_of_version_0_has_its_own_events(tmp_path: Path) -> None:
    folder = tmp_path / ".openhands" / "sessions" / "old"
    (folder / "events").mkdir(parents=True)
    events: list[Any] = [
        {"id": 0, "timestamp": TIME, "source": "user", "action": "message", "args": {"content": "Fix it"}},
        {"id": 1, "timestamp": TIME, "source": "agent", "action": "run", "args": {"command": "ls"}},
        None,
        {"id": 3, "timestamp": TIME, "source": "agent", "observation": "run", "content": "a", "cause": 1,
         "extras": {"command": "ls", "metadata": {"exit_code": 0}}},
        {"id": 4, "timestamp": TIME, "source": "agent", "action": "condensation",
         "args": {"forgotten_events_start_id": 0, "forgotten_events_end_id": 3, "summary": "s", "summary_offset": 0}},
    ]  # fmt: skip
    for number, event in enumerate(events):
        (folder / "events" / f"{number}.json").write_text(json.dumps(event))
    about = {"title": "A fix", "llm_model": "gpt-4o", "accumulated_cost": 0.25, "total_tokens": 12}
    (folder / "metadata.json").write_text(json.dumps(about))
    (session,) = discover(Places(tmp_path))
    assert (session.title, session.model, session.cost, session.tokens) == ("A fix", "gpt-4o", 0.25, 12)
    transcript = read(session)
    assert shown(transcript) == [("user", "Fix it"), ("runs", "ls"), ("ran", 1, "a", 0), ("compacts", "s")]
    assert transcript.forms[3]["args"]["forgotten_events_end_id"] == 2
    assert transcript.warnings == ["Events that could not be read, and were left out: 1."]
    check_events(transcript)


def test_links_are_not_followed(places: Places, tmp_path: Path) -> None:
    root = tmp_path / ".openhands" / "conversations"
    (root / "linked").symlink_to(root / ID)
    assert set(by_id(places)) == {ID, CHILD}


def test_damaged_conversations_raise_nothing_else(places: Places) -> None:
    survives(discover, read, places, trials=12)


def test_damaged_sessions_of_version_0_raise_nothing_else(tmp_path: Path) -> None:
    test_a_session_of_version_0_has_its_own_events(tmp_path)
    survives(discover, read, Places(tmp_path), trials=40)


def test_many_branches_are_bounded(tmp_path: Path) -> None:
    root = tmp_path / ".openhands" / "conversations"
    prompts = [{"parent_id": "e0", **said("user", f"Way {number}")} for number in range(300)]
    write(root / ID, with_ids([EVENTS[0], *prompts]))
    (session,) = discover(Places(tmp_path))
    started = time.process_time()
    transcript = read(session)
    assert time.process_time() - started < 2
    assert len(transcript.branches) == 20
    assert transcript.branches[0].title == "Way 298"
    assert transcript.warnings == ["There are 299 other branches; the first 20 are shown."]


def test_a_long_branch_without_a_prompt_takes_linear_time() -> None:
    events = with_ids([said("agent", "On and on.") for _ in range(10_000)])
    events.append({**said("user", "Again."), "id": "last", "parent_id": "__root__"})
    transcript = Transcript("openhands")
    started = time.process_time()
    read_sdk(transcript, [(str(number), event) for number, event in enumerate(events)], {"leaf_event_id": "last"}, {})
    assert [(len(branch.transcript.forms), branch.title) for branch in transcript.branches] == [
        (10_000, "Until event 9999")
    ]
    assert time.process_time() - started < 2


def test_what_a_sub_agent_cost_is_counted_once(places: Places) -> None:
    state = json.loads(json.dumps(STATE))
    of_child = {"accumulated_cost": 0.125, "accumulated_token_usage": {"prompt_tokens": 7, "completion_tokens": 1}}
    state["stats"]["usage_to_metrics"]["task:task_1"] = of_child
    root = places.home / ".openhands" / "conversations" / ID
    (root / "base_state.json").write_text(json.dumps(state))
    own = {"stats": {"usage_to_metrics": {"agent": of_child}}}
    (root / "subagents" / CHILD / "base_state.json").write_text(json.dumps(own))
    found = by_id(places)
    assert [(found[id].tokens, found[id].cost) for id in (ID, CHILD)] == [(340, 0.5), (8, 0.125)]
