"""Trajectories of SWE-agent, of version 1 and of the versions before it."""

from __future__ import annotations

import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents.source import Places
from core.import_export.agents.swe_agent import _words, discover, read
from core.import_export.agents.transcript import Transcript, Usage
from core.import_export.bounded_json import Fault
from tests.import_export.agents.fuzzed import survives
from tests.import_export.agents.shown import shown

PROMPT = "<uploaded_files>\n/r\n</uploaded_files>\n<pr_description>\nSum is wrong\nIt is 3.\n</pr_description>\nFix it."
CHANGED = 1_795_905_000


def step(action: str, observation: str, thought: str = "", **fields: Any) -> dict[str, Any]:
    state = {"working_dir": "/r", "open_file": "n/a"}
    query = [{"role": "system", "content": "You are"}, {"role": "user", "content": PROMPT}]
    made = {"action": action, "observation": observation, "response": thought, "thought": thought}
    return {**made, "execution_time": 2.5, "state": state, "query": query, "extra_info": {}, **fields}


def answer(content: str, name: str = "", arguments: Any = None, **fields: Any) -> dict[str, Any]:
    calls = [{"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}] if name else None
    return {"role": "assistant", "content": content, "message_type": "action", "tool_calls": calls, **fields}


STEPS = [
    step("ls -F\n", "a.py\n", "I look first."),
    step("str_replace_editor str_replace /r/a.py --old_str '1' --new_str '2 + 1'", "Edited."),
    step("", "Your command was empty.", "Hm."),
    step("submit", "diff --git a/a.py b/a.py"),
]
HISTORY = [
    {"role": "system", "content": "You are", "agent": "main", "message_type": "system_prompt"},
    {"role": "user", "content": "An example", "is_demo": True},
    {"role": "user", "content": [{"type": "text", "text": PROMPT}], "message_type": "observation"},
    answer("I look first.", "bash", '{"command": "ls -F"}', thinking_blocks=[{"thinking": "What is there?"}]),
    {"role": "tool", "content": "a.py", "message_type": "observation"},
    answer("", "str_replace_editor",
           '{"command": "str_replace", "path": "/r/a.py", "old_str": "1", "new_str": "2"}'),
    answer("Hm."),
    answer("", "submit", "{}"),
]  # fmt: skip
INFO = {
    "swe_agent_version": "1.1.0",
    "exit_status": "submitted",
    "submission": "diff --git a/a.py b/a.py",
    "model_stats": {"instance_cost": 0.5, "tokens_sent": 900, "tokens_received": 80, "api_calls": 4},
}
RUN: dict[str, Any] = {
    "trajectory": STEPS,
    "history": HISTORY,
    "info": INFO,
    "replay_config": json.dumps({"agent": {"model": {"name": "claude-sonnet-4"}}}),
    "environment": "swe_main",
}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "trajectories" / "me" / "run" / "repo__sum-1").mkdir(parents=True)
    return Places(tmp_path, {}, "linux", (tmp_path,))


def write(places: Places, run: Any) -> Path:
    file = places.home / "trajectories" / "me" / "run" / "repo__sum-1" / "repo__sum-1.traj"
    file.write_text(json.dumps(run, indent=2))
    os.utime(file, (CHANGED, CHANGED))
    return file


def read_one(places: Places) -> Transcript:
    (session,) = discover(places)
    return read(session)


def test_a_list_shows_the_issue(places: Places) -> None:
    file = write(places, RUN)
    (session,) = discover(places)
    assert session.id.startswith("repo__sum-1-")
    assert (session.title, session.folder, session.size) == ("Sum is wrong", "/r", file.stat().st_size)
    assert session.model == "claude-sonnet-4"
    named = Places(places.home / "none", {"SWE_AGENT_TRAJECTORY_DIR": str(places.home / "trajectories")})
    assert [each.id for each in discover(named)] == [session.id]


def test_steps_have_the_tool_calls_of_the_history(places: Places) -> None:
    write(places, RUN)
    transcript = read_one(places)
    diff = "--- /r/a.py\n+++ /r/a.py\n@@ -1 +1 @@\n-1\n+2"
    assert shown(transcript) == [
        ("swe-agent.system",),
        ("swe-agent.demonstration",),
        ("user", "Sum is wrong\nIt is 3."),
        ("swe-agent.user",),
        ("thinks", "What is there?"),
        ("agent", "I look first."),
        ("runs", "ls -F"),
        ("ran", 6, "a.py\n", -1),
        ("edits", "/r/a.py", "str_replace"),
        ("edited", 8, diff),
        ("agent", "Hm."),
        ("error result", None, "Your command was empty."),
        ("calls", "submit", {}),
        ("mcp result", 12, "diff --git a/a.py b/a.py"),
        ("agent", "diff --git a/a.py b/a.py"),
        ("swe-agent.info",),
    ]
    assert transcript.usage == Usage("", 900, 80, 0, 0, 0.5)
    assert transcript.model == "claude-sonnet-4"
    assert transcript.forms[6]["timestamp"] == "2026-11-28T22:29:50+00:00"
    assert transcript.forms[-1]["timestamp"] == "2026-11-28T22:30:00+00:00"
    assert transcript.forms[6]["imported"]["record"]["place"] == "step 0"


def test_without_tool_calls_the_shell_text_is_parsed(places: Places) -> None:
    steps = [
        STEPS[0],
        step("str_replace_editor str_replace /r/a.py --old_str '1' --new_str '2 + 1'", "Edited."),
        step("str_replace_editor create /r/b.py --file_text 'x'", "Created."),
        step("str_replace_editor view /r/b.py --view_range 1 2", "x"),
        step("str_replace_editor insert /r/b.py --insert_line 3 --new_str y", "Done."),
        step("str_replace_editor str_replace /r/a.py --old_str 'unclosed", "Edited."),
        step("str_replace_editor", "Usage"),
    ]
    write(places, {**RUN, "trajectory": steps, "history": HISTORY[:3]})
    found = shown(read_one(places))
    assert [entry for entry in found if entry[0] in ("runs", "edits", "reads")] == [
        ("runs", "ls -F"),
        ("edits", "/r/a.py", "str_replace"),
        ("edits", "/r/b.py", "create"),
        ("reads", "/r/b.py"),
        ("edits", "/r/b.py", "insert"),
        ("edits", "/r/a.py", ""),
        ("runs", "str_replace_editor"),
    ]


def test_old_files_have_the_state_as_text(places: Places) -> None:
    old = {"action": "ls\n", "observation": "a", "response": "Look", "thought": "Look",
           "state": '{"open_file": "n/a", "working_dir": "/repo"}'}  # fmt: skip
    write(
        places, {"trajectory": [old], "history": [{"role": "user", "content": "ISSUE:\nA bug\n\nINSTRUCTIONS:\nFix"}]}
    )
    (session,) = discover(places)
    assert (session.folder, session.title) == ("/repo", "A bug")
    assert shown(read(session))[0] == ("user", "A bug")


def test_other_attempts_are_branches_and_a_bad_end_is_an_error(places: Places) -> None:
    info = {**INFO, "exit_status": "exit_cost", "swe_agent_version": "7.0"}
    write(places, {**RUN, "info": info, "attempts": [{**RUN, "trajectory": STEPS[:1]}, RUN, 5]})
    transcript = read_one(places)
    assert shown(transcript)[-2] == ("error result", None, "The run ended with exit_cost.")
    assert [branch.title for branch in transcript.branches] == ["Attempt 1"]
    assert transcript.warnings == ["SWE-agent 7 wrote the file, and is newer than this reader."]


def test_a_file_without_steps_is_refused(places: Places) -> None:
    write(places, RUN)
    (session,) = discover(places)
    session.path.write_text('{"info": {}}')
    with pytest.raises(Fault, match="no steps"):
        read(session)
    assert list(discover(places)) == []


def test_damaged_runs_raise_nothing_else(places: Places) -> None:
    write(places, {**RUN, "attempts": [{**RUN, "trajectory": STEPS[:1]}]})
    survives(discover, read, places)


def test_the_time_grows_with_the_number_of_steps_only(places: Places) -> None:
    write(places, {**RUN, "trajectory": [STEPS[0]] * 10_000})
    (session,) = discover(places)
    started = time.process_time()
    assert len(read(session).forms) > 30_000
    assert time.process_time() - started < 3


def test_a_call_of_the_editor_that_is_cut_short_is_shown(places: Places) -> None:
    write(places, {**RUN, "trajectory": [step("str_replace_editor view", "A path is missing.")], "history": []})
    assert shown(read_one(places))[:2] == [
        ("runs", "str_replace_editor view"),
        ("ran", 0, "A path is missing.", -1),
    ]


def test_words_are_split_as_a_shell_does() -> None:
    texts = ("a 'b c' d", """a"b \\" \\x"'c'\\ d""", "'' \"\"", "  a\nb ", "")
    assert [_words(text) for text in texts] == [shlex.split(text) for text in texts]
    with pytest.raises(ValueError, match="a quote"):
        _words("a 'b")


def test_a_long_file_is_split_in_linear_time(places: Places) -> None:
    text = "x" * 1_000_000
    write(places, {"trajectory": [step(f"str_replace_editor create /r/a.py --file_text '{text}'", "Created.")]})
    started = time.process_time()
    transcript = read_one(places)
    assert transcript.forms[0]["args"]["file_text"] == text
    assert time.process_time() - started < 3


def test_a_replacement_without_a_new_text_deletes(places: Places) -> None:
    write(places, {"trajectory": [step("str_replace_editor str_replace /r/a.py --old_str '1'", "Edited.")]})
    assert shown(read_one(places))[:2] == [
        ("edits", "/r/a.py", "str_replace"),
        ("edited", 0, "--- /r/a.py\n+++ /r/a.py\n@@ -1 +0,0 @@\n-1"),
    ]
