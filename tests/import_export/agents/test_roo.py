"""Tasks of Roo Code, written after its source: what differs from Cline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents.roo import discover, read
from core.import_export.agents.source import Places
from tests.import_export.agents.fuzzed import survives
from tests.import_export.agents.shown import shown

UNIFIED = "@@ -1 +1 @@\n-x = 1\n+x = 2\n"
APPLIED = "<<<<<<< SEARCH\n:start_line:1\n-------\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE"


def say(kind: str, text: str = "", **fields: Any) -> dict[str, Any]:
    return {"ts": 1795906614356, "type": "say", "say": kind, "text": text, **fields}


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"ts": 1795906614356, "type": "ask", "ask": "tool", "text": json.dumps({"tool": name, **fields})}


UI = [
    say("text", "Fix the bug."),
    say("api_req_started", json.dumps({"tokensIn": 10, "tokensOut": 2, "cost": 0.01})),
    tool("readFile", batchFiles=[{"path": "a.py", "content": "/w/a.py"}, {"path": "b.py"}]),
    tool("appliedDiff", path="a.py", diff=APPLIED),
    tool("editedExistingFile", path="a.py", diff=UNIFIED),
    tool("updateTodoList", todos=[{"id": "1", "content": "Fix", "status": "in_progress"}]),
    tool("newTask", mode="code", content="Write the tests"),
    say("subtask_result", "They pass."),
    tool("listFilesTopLevel", path=".", content="a.py"),
    say("condense_context", contextCondense={"cost": 0.1, "summary": "Fixed."}),
    say("codebase_search_result", "{}"),
    say("completion_result", "Done."),
]
ITEM = {"id": "t2", "task": "Fix the bug.", "tokensIn": 5, "tokensOut": 6, "totalCost": 0.25, "workspace": "/w",
        "parentTaskId": "t1"}  # fmt: skip


@pytest.fixture
def places(tmp_path: Path) -> Places:
    storage = tmp_path / ".config" / "VSCodium" / "User" / "globalStorage" / "rooveterinaryinc.roo-cline"
    folder = storage / "tasks" / "t2"
    folder.mkdir(parents=True)
    (folder / "ui_messages.json").write_text(json.dumps(UI))
    (folder / "history_item.json").write_text(json.dumps(ITEM))
    return Places(tmp_path)


def test_a_sub_task_names_its_parent(places: Places) -> None:
    (session,) = discover(places)
    assert (session.agent, session.id, session.parent_id) == ("roo", "t2", "t1")
    assert (session.title, session.folder, session.tokens, session.cost) == ("Fix the bug.", "/w", 11, 0.25)


def test_a_task_has_diffs_sub_tasks_and_summaries(places: Places) -> None:
    (session,) = discover(places)
    transcript = read(session)
    assert shown(transcript) == [
        ("user", "Fix the bug."),
        ("reads", "a.py"),
        ("read result", 1, ""),
        ("reads", "b.py"),
        ("read result", 3, ""),
        ("edits", "a.py", "str_replace"),
        ("edited", 5, "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2"),
        ("edits", "a.py", ""),
        ("edited", 7, UNIFIED),
        ("plans", [("Fix", "in_progress")]),
        ("delegates", "code", {"task": "Write the tests"}),
        ("delegate result", 10, "They pass."),
        ("calls", "listFilesTopLevel", {"path": "."}),
        ("mcp result", 12, "a.py"),
        ("compacts", "Fixed."),
        ("roo.codebase_search_result",),
        ("agent", "Done."),
    ]


def test_a_setting_of_the_editor_can_move_the_tasks(places: Places, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    (moved / "tasks" / "t9").mkdir(parents=True)
    (moved / "tasks" / "t9" / "ui_messages.json").write_text(json.dumps(UI[:1]))
    user = tmp_path / ".config" / "Code" / "User"
    user.mkdir(parents=True)
    text = f'{{\n  // a comment\n  "roo-cline.customStoragePath": {json.dumps(str(moved))},\n}}'
    (user / "settings.json").write_text(text)
    assert sorted(session.id for session in discover(places)) == ["t2", "t9"]


def test_damaged_tasks_raise_nothing_else(places: Places) -> None:
    survives(discover, read, places, trials=40)


def test_a_setting_that_is_no_path_moves_nothing(places: Places, tmp_path: Path) -> None:
    user = tmp_path / ".config" / "Code" / "User"
    user.mkdir(parents=True)
    (user / "settings.json").write_text('{"roo-cline.customStoragePath": "/moved\0"}')
    assert [session.id for session in discover(places)] == ["t2"]
