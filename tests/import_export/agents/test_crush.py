"""Sessions of crush. No crush could be installed here: the schema and the parts follow its published source."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents import crush
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Usage
from tests.import_export.agents.databases import told, write
from tests.import_export.agents.fuzzed import survives

Json = dict[str, Any]
SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT NOT NULL,
  message_count INTEGER NOT NULL DEFAULT 0, prompt_tokens INTEGER NOT NULL DEFAULT 0,
  completion_tokens INTEGER NOT NULL DEFAULT 0, cost REAL NOT NULL DEFAULT 0.0, updated_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL, summary_message_id TEXT, todos TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL,
  parts BLOB NOT NULL default '[]', model TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  finished_at INTEGER, provider TEXT, is_summary_message INTEGER DEFAULT 0 NOT NULL);
"""
START = 1795905036
NOTES = "/home/ada/trip/notes.txt"
OLD, NEW = "one\ntwo\n", "one\nthree\n"
DIFF = f"--- {NOTES}\n+++ {NOTES}\n@@ -1,2 +1,2 @@\n one\n-two\n+three"


def _call(id: str, name: str, **given: Any) -> Json:
    return {"type": "tool_call", "data": {"id": id, "name": name, "input": json.dumps(given), "finished": True}}


def _result(id: str, name: str, content: str, is_error: bool = False, **metadata: Any) -> Json:
    data = {"tool_call_id": id, "name": name, "content": content, "is_error": is_error}
    return {"type": "tool_result", "data": {**data, "metadata": json.dumps(metadata) if metadata else ""}}


def _text(text: str, **more: Any) -> Json:
    return {"type": "text", "data": {"text": text, **more}}


def _finish(reason: str, message: str = "", details: str = "") -> Json:
    return {"type": "finish", "data": {"reason": reason, "time": START + 99, "message": message, "details": details}}


TODOS = [{"content": "Pack", "status": "completed"}, {"content": "Go", "status": "in_progress"}]
MESSAGES: list[tuple[str, list[Json]]] = [
    (
        "user",
        [
            _text("Make notes, please"),
            {"type": "binary", "data": {"Path": "x.png", "MIMEType": "image/png", "Data": "iVBORw0KGgo="}},
            {"type": "shell_command", "data": {"command": "date", "output": "today\n", "exit_code": 2}},
            _text("Continue where you were.", hidden=True),
            _finish("stop"),
        ],
    ),
    (
        "assistant",
        [
            {"type": "reasoning", "data": {"thinking": "I look first.", "signature": "s"}},
            _text("I look at the folder."),
            _call("c1", "bash", command="ls; exit 3"),
            _call("c2", "edit", file_path=NOTES, old_string="two", new_string="three"),
            _call("c3", "todos", todos=TODOS),
            _call("c4", "agent", prompt="Look around"),
            _call("c5", "view", file_path="/gone"),
            _call("c6", "bash", command="rm notes.txt"),
            _call("c7", "bash", command="true"),
            _finish("tool_use"),
        ],
    ),
    (
        "tool",
        [
            _result("c2", "edit", "Content replaced", old_content=OLD, new_content=NEW, additions=1, removals=1),
            _result("c1", "bash", "a.txt\nExit code 3\n\n<cwd>/home/ada/trip</cwd>", start_time=1),
            _result("c3", "todos", "Updated"),
            _result("c4", "agent", "Nothing found."),
            _result("c5", "view", "File not found: /gone", is_error=True),
            _result("c6", "bash", "User denied permission", is_error=True),
            _result("c7", "bash", "no output"),
        ],
    ),
    ("assistant", [_finish("error", "Provider error", "No such model")]),
    ("assistant", [_text("Notes were made."), _finish("end_turn")]),
    ("user", [_text("Go on")]),
    ("assistant", [_text("Yes."), {"type": "novelty", "data": {"type": "x"}}, _finish("canceled")]),
]
EVENTS = [
    ("user: message", "Make notes, please"),
    ("user: run", "date"),
    ("= run", "today\n", "2"),
    ("= crush.text",),
    ("agent: think", "I look first."),
    ("agent: message", "I look at the folder."),
    ("agent: run", "ls; exit 3"),
    ("agent: edit", "str_replace", NOTES),
    ("agent: task_tracking", "plan", "Pack: done", "Go: in_progress"),
    ("agent: delegate", "agent", "m1$$c4"),
    ("agent: read", "/gone"),
    ("agent: run", "rm notes.txt"),
    ("agent: run", "true"),
    ("= edit", "Content replaced", DIFF),
    ("= run", "a.txt", "3"),
    ("= task_tracking", "Updated"),
    ("= delegate", "Nothing found."),
    ("= error", "File not found: /gone"),
    ("= user_rejected", "User denied permission"),
    ("= run", "0"),
    ("= error", "Provider error\nNo such model"),
    ("agent: condensation", "Notes were made."),
    ("user: message", "Go on"),
    ("agent: message", "Yes."),
    ("= crush.novelty", "x"),
    ("= agent_state_changed",),
]


def _rows(messages: list[tuple[str, list[Json]]] = MESSAGES) -> list[Json]:
    return [
        {"id": f"m{number}", "session_id": "main", "role": role, "parts": json.dumps(parts).encode()}
        | {"model": "test" if role == "assistant" else None, "created_at": START + number // 2, "updated_at": START}
        | {"is_summary_message": int(number == 4)}
        for number, (role, parts) in enumerate(messages)
    ]


def _session(**more: Any) -> Json:
    about = {"id": "main", "title": "Trip notes", "message_count": 7, "prompt_tokens": 900, "completion_tokens": 50}
    return {**about, "cost": 0.25, "created_at": START, "updated_at": START + 20, **more}


def _written(home: Path, *sessions: Json, messages: list[Json] | None = None) -> list[AgentSession]:
    project = home / "trip"
    write(project / ".crush/crush.db", SCHEMA, {"sessions": sessions, "messages": messages or _rows()})
    known = home / ".local/share/crush/projects.json"
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text(json.dumps({"projects": [{"path": str(project), "data_dir": str(project / ".crush")}]}))
    return list(crush.discover(Places(home)))


def test_a_list_has_what_the_database_says_of_a_session(tmp_path: Path) -> None:
    child = _session(id="m1$$c4", parent_session_id="main", title="New Session", cost=0.125,
                     updated_at=(START + 30) * 1000)  # fmt: skip
    prompt = {**_rows()[0], "id": "n0", "session_id": "m1$$c4"}
    title = _session(id="title-main", message_count=0)
    found = _written(tmp_path, _session(cost=0.375), child, title, messages=[*_rows(), prompt])
    root = tmp_path / "trip/.crush"
    assert found[0] == AgentSession(
        agent="crush",
        id="main",
        root=root,
        path=root / "crush.db",
        row="main",
        title="Trip notes",
        folder=str(tmp_path / "trip"),
        model="test",
        started_at=datetime(2026, 11, 28, 22, 30, 36, tzinfo=UTC),
        updated_at=datetime(2026, 11, 28, 22, 30, 56, tzinfo=UTC),
        size=7,
        changed_ns=(START + 20) * 1_000_000_000,
        tokens=950,
        cost=0.25,
    )
    assert [(each.id, each.parent_id, each.title) for each in found[1:]] == [("m1$$c4", "main", "Make notes, please")]
    assert (found[1].cost, crush.read(found[0]).usage.cost) == (0.125, 0.25)
    assert found[1].updated_at == datetime(2026, 11, 28, 22, 31, 6, tzinfo=UTC)


def test_a_session_is_told_event_by_event(tmp_path: Path) -> None:
    [session] = _written(tmp_path, _session())
    transcript = crush.read(session)
    assert told(transcript.forms) == EVENTS
    assert transcript.usage == Usage("test", 900, 50, cost=0.25)
    assert (transcript.branches, transcript.warnings) == ([], [])
    assert transcript.forms[0]["args"]["image_urls"] == ["data:image/png;base64,iVBORw0KGgo="]
    assert transcript.forms[0]["imported"] == {"record": {"agent": "crush", "place": "m0", "kind": "user"}}
    assert transcript.forms[13]["cause"] == 7


def test_older_databases_name_the_summary_in_the_session(tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name != "is_summary_message"} for row in _rows()]
    path = tmp_path / "trip/.crush/crush.db"
    schema = SCHEMA.replace(", is_summary_message INTEGER DEFAULT 0 NOT NULL", "")
    write(path, schema, {"sessions": [_session(summary_message_id="m4")], "messages": rows})
    [session] = crush.discover(Places(tmp_path, projects=(tmp_path / "trip",)))
    assert told(crush.read(session).forms) == EVENTS


def test_hostile_projects_are_left_out(tmp_path: Path) -> None:
    [session] = _written(tmp_path, _session())
    known = tmp_path / "global/projects.json"
    known.parent.mkdir()
    paths: list[Any] = ["relative", "\0", "\ud800", "/proc", 7, None, str(tmp_path / "trip"), str(tmp_path / "trip")]
    known.write_text(json.dumps({"projects": [*paths, *({"path": path} for path in paths)]}))
    found = crush.discover(Places(tmp_path, {"CRUSH_GLOBAL_DATA": str(known.parent)}))
    assert [each.path for each in found] == [session.path]


def test_a_session_that_is_gone_raises_an_os_error(tmp_path: Path) -> None:
    [session] = _written(tmp_path, _session())
    with closing(sqlite3.connect(session.path)) as connection, connection:
        connection.execute("DELETE FROM sessions")
    with pytest.raises(OSError, match="removed from its database"):
        crush.read(session)


def test_damaged_databases_are_survived(tmp_path: Path) -> None:
    _written(tmp_path, _session(), _session(id="other", title=""))
    survives(crush.discover, crush.read, Places(tmp_path), trials=12)


def test_a_long_session_is_read_in_linear_time(tmp_path: Path) -> None:
    [session] = _written(tmp_path, _session(), messages=_rows(MESSAGES[5:] * 1_000))
    started = time.process_time()
    assert len(crush.read(session).forms) == 4_000
    assert time.process_time() - started < 2
