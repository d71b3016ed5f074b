"""The text of a question: for each kind of action its title and its whole content."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from core.events import (
    Action,
    AgentDelegateAction,
    BrowseURLAction,
    CmdRunAction,
    Envelope,
    EventSource,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
    TaskTrackingAction,
)
from tui.approval.question import ask_about

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READ = "Read this file or folder?"


@pytest.mark.parametrize(
    ("action", "title", "body"),
    [
        (CmdRunAction(command="rm -r build"), "Run this command?", "rm -r build"),
        (CmdRunAction(command="yes", is_input=True), "Send input to the running command?", "yes"),
        (IPythonRunCellAction(code="1 + 1"), "Run this Python code?", "1 + 1"),
        (FileReadAction(path="/w/a"), READ, "/w/a"),
        (FileReadAction(path="/w/a", start=2, end=5), READ, "/w/a from line 3 to 5"),
        (FileReadAction(path="/w/a", start=2), READ, "/w/a from line 3"),
        (FileReadAction(path="/w/a", end=5), READ, "/w/a from line 1 to 5"),
        (FileReadAction(path="/w/a", view_range=[3, 5]), READ, "/w/a from line 3 to 5"),
        (FileReadAction(path="/w/a", view_range=[3, -1]), READ, "/w/a from line 3"),
        (FileWriteAction(path="/w/a", content="x\n"), "Write this file?", "/w/a\n+x"),
        (FileEditAction(path="/w/a", command="create", file_text="x\n"), "Create this file?", "/w/a\n+x"),
        (
            FileEditAction(path="/w/a", command="str_replace", old_str="x", new_str="y"),
            "Edit this file?",
            "str_replace /w/a\n-x\n+y",
        ),
        (
            FileEditAction(path="/w/a", command="insert", insert_line=2, new_str="y"),
            "Edit this file?",
            "insert /w/a after line 2\n+y",
        ),
        (FileEditAction(path="/w/a", content="x", start=1, end=4), "Edit this file?", "/w/a from line 1 to 4\nx"),
        (AgentDelegateAction(agent="Planner", inputs={"task": "plan"}), "Delegate this task to Planner?", "plan"),
        (BrowseURLAction(url="http://x"), "Open this page?", "http://x"),
        (MCPAction(name="s__t", arguments={"a": 1}), "Call the tool s__t?", '{\n  "a": 1\n}'),
        (TaskTrackingAction(command="view"), "Run “task_tracking”?", '"command": "view"'),
    ],
)
def test_question_has_a_title_and_the_whole_action(action: Action, title: str, body: str) -> None:
    asked = ask_about(Envelope(conversation_id="c", id=1, timestamp=NOW, source=EventSource.AGENT, event=action))
    assert asked.title == title
    assert asked.body == body or (isinstance(action, TaskTrackingAction) and body in asked.body)


def test_control_characters_of_an_action_are_not_drawn() -> None:
    action = FileReadAction(path="/w/\x1b[2Ja\nb")
    asked = ask_about(Envelope(conversation_id="c", id=1, timestamp=NOW, source=EventSource.AGENT, event=action))
    assert "\x1b" not in asked.body


@pytest.mark.parametrize("lines", [1_500, 500])
def test_question_about_a_large_edit_is_made_quickly(lines: int) -> None:
    old, new = ("".join(f"{name} {at} = {at * 7}\n" for at in range(lines)) for name in ("value", "valu"))
    action = FileEditAction(path="/w/a", command="str_replace", old_str=old, new_str=new)
    began = time.process_time()
    asked = ask_about(Envelope(conversation_id="c", id=1, timestamp=NOW, source=EventSource.AGENT, event=action))
    assert time.process_time() - began < 2
    assert asked.body.count("\n-") == asked.body.count("\n+") == lines
