"""Sessions of goose. No goose could be installed here: the schema and the contents follow its published source."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents import goose
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Usage
from tests.import_export.agents.databases import told, write
from tests.import_export.agents.fuzzed import survives

Json = dict[str, Any]
SCHEMA = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
  user_set_name BOOLEAN DEFAULT FALSE, session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL,
  created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  extension_data TEXT DEFAULT '{}', total_tokens INTEGER, input_tokens INTEGER, output_tokens INTEGER,
  accumulated_total_tokens INTEGER, accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER,
  accumulated_cost REAL, provider_name TEXT, model_config_json TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL,
  role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL,
  timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP, tokens INTEGER, metadata_json TEXT);
"""
ID = "20261128_1"
START = 1795905036
NOTES = "/home/ada/trip/notes.txt"
DIFF = f"--- {NOTES}\n+++ {NOTES}\n@@ -1 +1 @@\n-two\n+three"


def _text(text: str, **more: Any) -> Json:
    return {"type": "text", "text": text, **more}


def _call(id: str, name: str, **arguments: Any) -> Json:
    call = {"status": "success", "value": {"name": name, "arguments": arguments}}
    return {"type": "toolRequest", "id": id, "toolCall": call}


def _result(id: str, *contents: Json, **more: Any) -> Json:
    result = {"status": "success", "value": {"content": list(contents), "isError": False, **more}}
    return {"type": "toolResponse", "id": id, "toolResult": result}


def _message(role: str, *contents: Json, **metadata: bool) -> Json:
    about = {"userVisible": True, "agentVisible": True, **metadata}
    return {"role": role, "created": START, "content": list(contents), "metadata": about}


MESSAGES = [
    _message(
        "user",
        _text("Make notes, please"),
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        agentVisible=False,
    ),
    _message(
        "assistant",
        {"type": "thinking", "thinking": "I look first.", "signature": "s"},
        _text("I look at the folder."),
        _call("c1", "developer__shell", command="ls"),
        _call("c2", "developer__text_editor", command="str_replace", path=NOTES, old_str="two", new_str="three"),
        _call("c3", "search__find", query="north"),
        _call("c4", "shell", command="rm notes.txt"),
        _call("c5", "shell", command="false"),
        _call("c6", "todo__todo_write", content="- [ ] Pack"),
        {"type": "toolRequest", "id": "c7", "toolCall": {"status": "error", "error": "Not a call"}},
        agentVisible=False,
    ),
    _message(
        "user",
        _result(
            "c1",
            _text("a.txt", annotations={"audience": ["assistant"]}),
            _text("```\na.txt\n```", annotations={"audience": ["user"], "priority": 0.0}),
        ),
        _result("c2", _text("The file was edited.")),
        _result("c3", _text("No matches"), isError=True),
        _result("c4", _text("The user has declined to run this tool. DO NOT try again.")),
        _result("c5", _text("failed"), structuredContent={"exit_code": 1}),
        {"type": "toolResponse", "id": "c6", "toolResult": {"status": "error", "error": "No such tool"}},
        agentVisible=False,
    ),
    _message("user", _text("The notes were made."), userVisible=False),
    _message("assistant", _text("I go on from the summary."), userVisible=False),
    _message("assistant", {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "Compacted"}),
    _message("user", _text("Go on")),
    _message("assistant", _text("Yes."), {"type": "novelty"}),
    _message("critic", _text("No.")),
]
EVENTS = [
    ("user: message", "Make notes, please"),
    ("agent: think", "I look first."),
    ("agent: message", "I look at the folder."),
    ("agent: run", "ls"),
    ("agent: edit", "str_replace", NOTES),
    ("agent: call_tool_mcp", "search__find"),
    ("agent: run", "rm notes.txt"),
    ("agent: run", "false"),
    ("agent: call_tool_mcp", "todo__todo_write"),
    ("= error", "Not a call"),
    ("= run", "a.txt", "-1"),
    ("= edit", "The file was edited.", DIFF),
    ("= mcp", "No matches"),
    ("= user_rejected", "The user has declined to run this tool. DO NOT try again."),
    ("= run", "failed", "1"),
    ("= mcp", "No such tool"),
    ("agent: condensation", "The notes were made."),
    ("= goose.hidden",),
    ("= goose.systemNotification", "systemNotification"),
    ("user: message", "Go on"),
    ("agent: message", "Yes."),
    ("= goose.novelty", "novelty"),
    ("= goose.critic",),
]


def _rows(messages: list[Json]) -> list[Json]:
    return [
        {"session_id": ID, "message_id": f"msg_{number}", "role": each["role"], "content_json": each["content"]}
        | {"created_timestamp": each["created"], "metadata_json": each["metadata"]}
        for number, each in enumerate(messages)
    ]


def _session(**more: Any) -> Json:
    times = {"created_at": "2026-11-28 22:30:36", "updated_at": "2026-11-28 22:31:00"}
    tokens = {"total_tokens": 70, "accumulated_total_tokens": 950, "accumulated_input_tokens": 900}
    about = {"id": ID, "name": "Trip notes", "working_dir": "/home/ada/trip", "accumulated_output_tokens": 50}
    return {**about, **times, **tokens, "accumulated_cost": 0.25, "model_config_json": {"model_name": "test"}, **more}


def _written(home: Path, *sessions: Json, version: int = 14, messages: list[Json] | None = None) -> list[AgentSession]:
    path = home / ".local/share/goose/sessions/sessions.db"
    rows = {"sessions": sessions, "messages": _rows(messages or MESSAGES), "schema_version": [{"version": version}]}
    write(path, SCHEMA, rows)
    return list(goose.discover(Places(home)))


def _write_file(home: Path, name: str = "20250701_120000") -> Path:
    path = home / f".local/share/goose/sessions/{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"working_dir": "/home/ada/trip", "description": "", "total_tokens": 70, "input_tokens": 60}
    path.write_text("".join(json.dumps(line) + "\n" for line in (about, *MESSAGES)))
    return path


def test_a_list_has_what_the_database_says_of_a_session(tmp_path: Path) -> None:
    main, other = _written(tmp_path, _session(), _session(id="20261128_2", name="New Chat", description="Trip"))
    root = tmp_path / ".local/share/goose/sessions"
    assert main == AgentSession(
        agent="goose",
        id=ID,
        root=root,
        path=root / "sessions.db",
        row=ID,
        title="Trip notes",
        folder="/home/ada/trip",
        model="test",
        started_at=datetime(2026, 11, 28, 22, 30, 36, tzinfo=UTC),
        updated_at=datetime(2026, 11, 28, 22, 31, 0, tzinfo=UTC),
        size=9,
        changed_ns=1_795_905_060_000_000_000,
        tokens=950,
        cost=0.25,
    )
    assert (other.title, other.size) == ("Trip", 0)


def test_a_session_is_told_event_by_event(tmp_path: Path) -> None:
    [session] = _written(tmp_path, _session())
    transcript = goose.read(session)
    assert told(transcript.forms) == EVENTS
    assert transcript.usage == Usage("test", 900, 50, cost=0.25)
    assert (transcript.branches, transcript.warnings) == ([], [])
    assert transcript.forms[0]["args"]["image_urls"] == ["data:image/png;base64,iVBORw0KGgo="]
    assert transcript.forms[0]["imported"] == {"record": {"agent": "goose", "place": 1, "kind": "user"}}
    assert transcript.forms[10]["cause"] == 3


def test_the_files_of_older_versions_tell_the_same(tmp_path: Path) -> None:
    path = _write_file(tmp_path)
    [session] = goose.discover(Places(tmp_path))
    assert (session.id, session.title, session.folder) == ("20250701_120000", "Make notes, please", "/home/ada/trip")
    assert (session.tokens, session.started_at) == (70, datetime(2026, 11, 28, 22, 30, 36, tzinfo=UTC))
    with path.open("ab") as file:
        file.write(b'{"role": "user", "cut')
    transcript = goose.read(session)
    assert told(transcript.forms) == EVENTS
    assert transcript.warnings == ["Lines that could not be read: 1."]


def test_the_database_wins_over_a_file_that_it_imported(tmp_path: Path) -> None:
    _write_file(tmp_path, ID)
    [session] = _written(tmp_path, _session())
    assert session.path.name == "sessions.db"


def test_other_places_and_newer_schemas(tmp_path: Path) -> None:
    _written(tmp_path / "home", _session(name=""), version=15)
    (tmp_path / "root").mkdir()
    (tmp_path / "home/.local/share/goose").rename(tmp_path / "root/data")
    [session] = goose.discover(Places(tmp_path / "home", {"GOOSE_PATH_ROOT": str(tmp_path / "root")}))
    assert session.title == "Make notes, please"
    [warning] = goose.read(session).warnings
    assert warning == "A newer goose than Handloom knows wrote this session; parts may be missing."


def test_a_session_that_is_gone_raises_an_os_error(tmp_path: Path) -> None:
    [session] = _written(tmp_path, _session())
    with closing(sqlite3.connect(session.path)) as connection, connection:
        connection.execute("DELETE FROM sessions")
    with pytest.raises(OSError, match="removed from its database"):
        goose.read(session)


def test_damaged_databases_and_files_are_survived(tmp_path: Path) -> None:
    _write_file(tmp_path)
    _written(tmp_path, _session(), _session(id="20261128_2", name=""))
    survives(goose.discover, goose.read, Places(tmp_path), trials=12)


def test_a_long_session_is_read_in_linear_time(tmp_path: Path) -> None:
    [session] = _written(tmp_path, _session(), messages=MESSAGES[6:8] * 1_000)
    started = time.process_time()
    assert len(goose.read(session).forms) == 3_000
    assert time.process_time() - started < 2
