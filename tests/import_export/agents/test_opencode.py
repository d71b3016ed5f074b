"""Sessions of opencode.

The rows of v1 and v2 are an extract of what opencode 1.18.33 wrote, and the files of what 1.1.53 wrote, with other
names and texts. Rows of v2 for shell commands, synthetic texts and compactions follow its published source.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents import opencode
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Usage
from core.import_export.bounded_json import Fault
from tests.import_export.agents.databases import told, write
from tests.import_export.agents.fuzzed import survives

Json = dict[str, Any]
SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL,
  directory text NOT NULL, title text NOT NULL, version text NOT NULL, cost real DEFAULT 0 NOT NULL,
  tokens_input integer DEFAULT 0 NOT NULL, tokens_output integer DEFAULT 0 NOT NULL,
  tokens_reasoning integer DEFAULT 0 NOT NULL, tokens_cache_read integer DEFAULT 0 NOT NULL,
  tokens_cache_write integer DEFAULT 0 NOT NULL, revert text, agent text, model text,
  time_created integer NOT NULL, time_updated integer NOT NULL, time_archived integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE session_message (id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, seq integer NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
"""
START = 1795905036000
NOTES = "/home/ada/trip/notes.txt"
PICTURE = "data:image/png;base64,iVBORw0KGgo="
DIFF = f"--- {NOTES}\n+++ {NOTES}\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"
TOKENS = {"total": 1050, "input": 800, "output": 50, "reasoning": 0, "cache": {"write": 0, "read": 200}}
STEP = {"type": "step-start", "snapshot": "178ac745"}


def _text(text: str, **more: Any) -> Json:
    return {"type": "text", "text": text, **more}


def _tool(name: str, given: Json, output: str, metadata: Json | None = None, status: str = "completed") -> Json:
    state = {"status": status, "input": given, "metadata": metadata or {}, "time": {"start": START, "end": START + 9}}
    state["error" if status == "error" else "output"] = output
    return {"type": "tool", "tool": name, "callID": "call_0", "state": state}


def _v2_tool(name: str, given: Json, structured: Json, *texts: str, **more: Any) -> Json:
    content = [{"type": "text", "text": text} for text in texts]
    state = {"status": "error" if more else "completed", "input": given, "content": content, "structured": structured}
    return {"type": "tool", "id": "call_1", "name": name, "state": {**state, **more}, "time": {"created": START}}


def _answer(*parts: Json, **more: Any) -> tuple[Json, list[Json]]:
    about = {"role": "assistant", "modelID": "test", "providerID": "local", "cost": 0.001, "tokens": TOKENS, **more}
    return about, [STEP, *parts, {"type": "step-finish", "tokens": TOKENS, "cost": 0.001}]


STRINGS = {"oldString": "two", "newString": "three"}
EDIT = {"filePath": NOTES, **STRINGS}
TODOS = {"todos": [{"content": "Pack", "status": "completed"}, {"content": "Leave", "status": "in_progress"}]}
CHILD = {"description": "Look", "prompt": "Look around", "subagent_type": "general"}
MESSAGES: list[tuple[Json, list[Json]]] = [
    (
        {"role": "user", "agent": "build", "model": {"providerID": "local", "modelID": "test"}},
        [
            _text("Make notes, please"),
            {"type": "file", "mime": "image/png", "filename": "x.png", "url": PICTURE},
            _text("Called the Read tool", synthetic=True),
            {"type": "file", "mime": "text/plain", "filename": "notes.txt", "url": f"file://{NOTES}"},
        ],
    ),
    _answer(
        {"type": "reasoning", "text": "I look first."},
        _text("I look at the folder."),
        _tool("bash", {"command": "ls; exit 3", "description": "Lists"}, "a.txt\n", {"exit": 3, "output": "a.txt\n"}),
    ),
    _answer(
        _tool("write", {"filePath": NOTES, "content": "one\ntwo\n"}, "Wrote file successfully.", {"exists": False}),
        _tool("edit", EDIT, "Edit applied.", {"diff": f"Index: {NOTES}\n{'=' * 67}\n{DIFF}"}),
        {"type": "patch", "hash": "178ac745", "files": [NOTES]},
        _tool("todowrite", TODOS, "[]"),
        _tool("task", CHILD, "Nothing found.", {"sessionId": "ses_child"}),
        _tool("invalid", {"tool": "nosuchtool", "error": "unavailable"}, "The arguments are invalid."),
        _tool("read", {"filePath": "/gone"}, "File not found: /gone", status="error"),
        _tool("webfetch", {"url": "https://a.test"}, "The user rejected permission to use this tool", status="error"),
        _tool("bash", {"command": "sleep 99"}, "", status="running"),
    ),
    ({"role": "user"}, [_text("The following tool was executed by the user", synthetic=True)]),
    ({"role": "assistant", "tokens": {}}, [_tool("bash", {"command": "date"}, "today\n", {"output": "today\n"})]),
    ({"role": "user"}, [_text("Go on")]),
    ({"role": "assistant", "error": {"name": "APIError", "data": {"message": "No such model"}}}, []),
    ({"role": "user"}, [{"type": "compaction", "auto": False, "tail_start_id": "msg_05"}]),
    _answer(_text("Notes were made."), summary=True),
    ({"role": "assistant", "error": {"name": "MessageAbortedError", "data": {"message": "Aborted"}}}, []),
    ({"role": "user"}, [_text("Now something else")]),
    _answer(_text("As you like."), {"type": "novelty", "value": 7}),
]
FIRST = [
    ("user: message", "Make notes, please"),
    ("= opencode.synthetic", "text"),
    ("= opencode.file", "file"),
    ("agent: think", "I look first."),
    ("agent: message", "I look at the folder."),
    ("agent: run", "ls; exit 3"),
    ("= run", "a.txt\n", "3"),
    ("agent: edit", "create", NOTES),
    ("= edit", "Wrote file successfully.", f"--- {NOTES}\n+++ {NOTES}\n@@ -0,0 +1,2 @@\n+one\n+two"),
    ("agent: edit", "str_replace", NOTES),
    ("= edit", "Edit applied.", DIFF),
    ("= opencode.patch", "patch"),
    ("agent: task_tracking", "plan", "Pack: done", "Leave: in_progress"),
    ("= task_tracking", "[]"),
    ("agent: delegate", "general", "ses_child"),
    ("= delegate", "Nothing found."),
    ("agent: call_tool_mcp", "nosuchtool"),
    ("= mcp", "The arguments are invalid."),
    ("agent: read", "/gone"),
    ("= error", "File not found: /gone"),
    ("agent: browse", "https://a.test"),
    ("= user_rejected", "The user rejected permission to use this tool"),
    ("agent: run", "sleep 99"),
    ("= opencode.synthetic", "text"),
    ("user: run", "date"),
    ("= run", "today\n", "-1"),
    ("user: message", "Go on"),
    ("= error", "No such model"),
    ("= opencode.compaction", "compaction"),
    ("agent: condensation", "Notes were made."),
    ("= agent_state_changed", "Aborted"),
]
LAST = [
    ("user: message", "Now something else"),
    ("agent: message", "As you like."),
    ("= opencode.novelty", "novelty"),
]


def _rows(messages: list[tuple[Json, list[Json]]] = MESSAGES, session: str = "ses_main") -> dict[str, list[Json]]:
    rows: dict[str, list[Json]] = {"message": [], "part": []}
    for number, (about, parts) in enumerate(messages):
        id, at = f"msg_{number:02}", START + 1000 * number
        stored = {"time": {"created": at, "completed": at + 500}, **about}
        place = {"session_id": session, "time_created": at, "time_updated": at}
        rows["message"].insert(0, {"id": id, **place, "data": stored})
        for each, part in enumerate(parts):
            rows["part"].insert(0, {"id": f"prt_{number:02}_{each:02}", "message_id": id, **place, "data": part})
    return rows


def _session(**more: Any) -> Json:
    times = {"time_created": START, "time_updated": START + 20_000}
    about = {"id": "ses_main", "project_id": "p", "slug": "s", "directory": "/home/ada/trip", "title": "Trip notes"}
    counts = {"cost": 0.011, "tokens_input": 800, "tokens_output": 50, "tokens_cache_read": 200}
    model = {"id": "test", "providerID": "local"}
    return {**about, "version": "1.18.33", "model": model, "revert": None, **counts, **times, **more}


def _written(home: Path, *sessions: Json, **rows: list[Json]) -> list[AgentSession]:
    path = home / ".local/share/opencode/opencode.db"
    write(path, SCHEMA, {"session": list(sessions), **rows})
    return list(opencode.discover(Places(home)))


def test_a_list_has_what_the_database_says_of_a_session(tmp_path: Path) -> None:
    child = _session(id="ses_child", parent_id="ses_main", title="New session - 2026-11-28T22:30:36.593Z")
    rows = _rows(MESSAGES[:1], "ses_child")
    found = _written(tmp_path, _session(), child, **rows)
    root = tmp_path / ".local/share/opencode"
    assert found[0] == AgentSession(
        agent="opencode",
        id="ses_main",
        root=root,
        path=root / "opencode.db",
        row="ses_main",
        title="Trip notes",
        folder="/home/ada/trip",
        model="test",
        started_at=datetime(2026, 11, 28, 22, 30, 36, tzinfo=UTC),
        updated_at=datetime(2026, 11, 28, 22, 30, 56, tzinfo=UTC),
        changed_ns=(START + 20_000) * 1_000_000,
        tokens=1050,
        cost=0.011,
    )
    assert (found[1].parent_id, found[1].title, found[1].size) == ("ses_main", "Make notes, please", 1)


def test_a_session_is_told_event_by_event(tmp_path: Path) -> None:
    [session] = _written(tmp_path, _session(), **_rows())
    transcript = opencode.read(session)
    assert told(transcript.forms) == FIRST + LAST
    assert transcript.usage == Usage("test", 4000, 200, 800, 0, 0.004)
    assert (transcript.branches, transcript.warnings) == ([], [])
    prompt, summary = transcript.forms[0], transcript.forms[29]
    assert prompt["args"]["image_urls"] == [PICTURE]
    assert prompt["timestamp"] == "2026-11-28T22:30:36+00:00"
    assert prompt["imported"] == {"record": {"agent": "opencode", "place": "msg_00", "kind": "user"}}
    assert summary["args"]["forgotten_events_end_id"] == 25  # the history is kept from "Go on"


def test_what_a_revert_hides_is_a_branch(tmp_path: Path) -> None:
    [session] = _written(tmp_path, _session(revert={"messageID": "msg_10", "snapshot": "aa"}), **_rows())
    transcript = opencode.read(session)
    assert told(transcript.forms) == FIRST
    [branch] = transcript.branches
    assert branch.title == "Now something else"
    assert told(branch.transcript.forms) == FIRST + LAST


def test_a_revert_to_a_part_keeps_the_parts_before_it(tmp_path: Path) -> None:
    revert = {"messageID": "msg_01", "partID": "prt_01_02"}
    [session] = _written(tmp_path, _session(revert=revert), **_rows())
    assert told(opencode.read(session).forms) == FIRST[:4]


def _v2_rows(session: str) -> list[Json]:
    content = [
        {"type": "reasoning", "text": "First, a look."},
        {"type": "text", "text": "I look."},
        _v2_tool("bash", {"command": "ls"}, {"exit": 3}, "a.txt\n", "Command exited with code 3."),
        _v2_tool("bash", {"command": "true"}, {"exit": 0}, "(no output)", "Command exited with code 0."),
        _v2_tool(
            "edit", {"path": NOTES, **STRINGS}, {"files": [{"patch": f"Index: notes.txt\n==\n{DIFF}"}]}, "Edited."
        ),
        _v2_tool("read", {"path": NOTES}, {"content": "one\nthree\n", "mime": "text/plain"}),
        _v2_tool("read", {"filePath": "/gone"}, {}, error={"type": "unknown", "message": "Not found"}),
    ]
    model = {"id": "test", "providerID": "local"}
    messages = [
        ("user", {"text": "Look", "files": [{"uri": PICTURE, "mime": "image/png"}]}),
        ("model-switched", {"model": model}),
        ("synthetic", {"text": "A reminder"}),
        ("assistant", {"content": content, "model": model, "cost": 0.5, "tokens": TOKENS}),
        ("shell", {"command": "date", "exit": 1, "output": "today"}),
        ("compaction", {"status": "completed", "summary": "There is one file."}),
        ("compaction", {"status": "failed"}),
    ]
    return [
        {"id": f"m{number}", "session_id": session, "type": kind, "seq": number, "time_created": START}
        | {"time_updated": START, "data": data}
        for number, (kind, data) in reversed(list(enumerate(messages)))
    ]


def test_messages_of_v2_are_told_too(tmp_path: Path) -> None:
    [session] = _written(tmp_path, _session(title=""), session_message=_v2_rows("ses_main"))
    assert (session.title, session.size) == ("Look", 7)
    transcript = opencode.read(session)
    assert told(transcript.forms) == [
        ("user: message", "Look"),
        ("= opencode.model-switched",),
        ("= opencode.synthetic", "text"),
        ("agent: think", "First, a look."),
        ("agent: message", "I look."),
        ("agent: run", "ls"),
        ("= run", "a.txt\n", "3"),
        ("agent: run", "true"),
        ("= run", "0"),
        ("agent: edit", "str_replace", NOTES),
        ("= edit", "Edited.", DIFF),
        ("agent: read", NOTES),
        ("= read", "one\nthree\n"),
        ("agent: read", "/gone"),
        ("= error", "Not found"),
        ("user: run", "date"),
        ("= run", "today", "1"),
        ("agent: condensation", "There is one file."),
        ("= opencode.compaction",),
    ]
    assert transcript.usage == Usage("test", 1000, 50, 200, 0, 0.5)


def _write_files(home: Path) -> Path:
    storage = home / ".local/share/opencode/storage"
    about = {"id": "stale", "title": "Trip notes", "directory": "/home/ada/trip", "version": "0.5.1"}
    found = {"session/p/ses_main": {**about, "time": {"created": START, "updated": START + 20_000}}}
    rows = _rows()
    found |= {f"message/ses_main/{row['id']}": row["data"] for row in rows["message"]}
    found |= {f"part/{row['message_id']}/{row['id']}": row["data"] for row in rows["part"]}
    for name, value in found.items():
        path = storage / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    return storage


def test_the_files_of_older_versions_tell_the_same(tmp_path: Path) -> None:
    _write_files(tmp_path)
    [session] = opencode.discover(Places(tmp_path))
    assert (session.id, session.title, session.folder) == ("ses_main", "Trip notes", "/home/ada/trip")
    assert told(opencode.read(session).forms) == FIRST + LAST


def test_the_database_wins_over_files(tmp_path: Path) -> None:
    _write_files(tmp_path)
    [session] = _written(tmp_path, _session(title="From the database"), **_rows())
    assert session.title == "From the database"


def test_a_file_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    storage = _write_files(tmp_path)
    (storage / "message/ses_main/msg_10.json").write_text("{")
    (storage / "part/msg_05/prt_05_00.json").unlink()
    (storage / "part/msg_05/prt_05_00.json").symlink_to("/etc/passwd")
    [session] = opencode.discover(Places(tmp_path))
    assert opencode.read(session).warnings == ["Files that could not be read: 1."]


def test_other_places_and_newer_versions(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere/mine.db"
    write(path, SCHEMA, {"session": [_session(version="2.0.1")], **_rows()})
    [session] = opencode.discover(Places(tmp_path, {"OPENCODE_DB": str(path)}))
    [warning] = opencode.read(session).warnings
    assert warning == "opencode 2.0.1 is newer than Handloom knows; parts may be missing."


def test_a_session_that_is_gone_raises_an_os_error(tmp_path: Path) -> None:
    [session] = _written(tmp_path, _session(), **_rows())
    with closing(sqlite3.connect(session.path)) as connection, connection:
        connection.execute("DELETE FROM session")
    with pytest.raises(OSError, match="removed from its database"):
        opencode.read(session)
    session.path.write_bytes(b"no database")
    with pytest.raises(Fault):
        opencode.read(session)
    session.path.unlink()
    with pytest.raises(OSError, match="No such file"):
        opencode.read(session)


def test_damaged_databases_and_files_are_survived(tmp_path: Path) -> None:
    _write_files(tmp_path / "files")
    _written(
        tmp_path / "rows",
        _session(revert={"messageID": "msg_10"}),
        _session(id="ses_2"),
        **_rows(),
        session_message=_v2_rows("ses_2"),
    )
    survives(opencode.discover, opencode.read, Places(tmp_path / "files"), trials=3)
    survives(opencode.discover, opencode.read, Places(tmp_path / "rows"), trials=7)


def test_a_long_session_is_read_in_linear_time(tmp_path: Path) -> None:
    messages = [({"role": "user"}, [_text("Go on")]), _answer(_text("Yes."))] * 1_000
    [session] = _written(tmp_path, _session(revert={"messageID": "msg_1998"}), **_rows(messages))
    started = time.process_time()
    assert len(opencode.read(session).forms) > 1_900
    assert time.process_time() - started < 2
