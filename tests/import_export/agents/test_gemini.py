"""Sessions of Gemini CLI. The records are an extract of what version 0.61.0 wrote, with other names and texts."""

from __future__ import annotations

import hashlib
import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents import gemini
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Usage
from core.import_export.bounded_json import Fault
from tests.import_export.agents.databases import told
from tests.import_export.agents.fuzzed import survives

Json = dict[str, Any]
ID = "df0bb6a0-8e1f-41ad-8a8b-531d5c81779d"
CHILD = "63a44889-dc55-4654-83ff-90a94f524ef3"
FOLDER = "/home/ada/trip"
NOTES = f"{FOLDER}/notes.txt"
HASH = hashlib.sha256(FOLDER.encode()).hexdigest()
AT = "2026-11-28T22:32:35.859Z"
TOKENS = {"input": 1000, "output": 50, "cached": 200, "thoughts": 20, "tool": 0, "total": 1070}
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
DIFF = "--- notes.txt\tCurrent\n+++ notes.txt\tProposed\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"
CONTEXT = f"<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n  - {FOLDER}\n</session_context>"
HEADER = {"sessionId": ID, "projectHash": HASH, "startTime": AT, "lastUpdated": AT, "kind": "main"}
BY_HAND = (
    "I ran the following shell command:\n```sh\ndate; exit 2\n```\n\n"
    "This produced the following result:\n```\nCommand exited with code 2.\ntoday\n```"
)


def _user(id: str, *texts: str, **more: Any) -> Json:
    return {"id": id, "timestamp": AT, "type": "user", "content": [{"text": text} for text in texts], **more}


def _answer(id: str, text: str = "", *calls: Json, **more: Any) -> Json:
    about = {"thoughts": [], "tokens": TOKENS, "model": "gemini-2.5-pro"}
    found = {"id": id, "timestamp": AT, "type": "gemini", "content": text, **about, **more}
    return {**found, "toolCalls": list(calls)} if calls else found


def _call(name: str, args: Json, response: Json, status: str = "success", **more: Any) -> Json:
    id = f"{name}__{name}_1"
    result = [{"functionResponse": {"id": id, "name": name, "response": response}}]
    return {"id": id, "name": name, "args": args, "result": result, "status": status, "timestamp": AT, **more}


def _shell(text: str) -> Json:
    return {"output": f"<untrusted_context>\nOutput: {text}\nProcess Group PGID: 31314\n</untrusted_context>"}


RUN = _call("run_shell_command", {"command": "ls; exit 3"}, _shell("(empty)\nExit Code: 3"))
EDIT = _call(
    "replace",
    {"file_path": NOTES, "old_string": "two", "new_string": "three"},
    {"output": "Successfully modified file"},
    resultDisplay={
        "fileDiff": f"Index: notes.txt\n{'=' * 67}\n{DIFF}",
        "fileName": "notes.txt",
        "originalContent": "one\ntwo\n",
        "newContent": "one\nthree\n",
    },
)
TODOS = {"todos": [{"description": "Pack", "status": "completed"}, {"description": "Go", "status": "in_progress"}]}
GONE = _call("read_file", {"file_path": "/gone"}, {"error": "File not found"}, "error")
REFUSED = _call("web_fetch", {"prompt": "x"}, {"error": "[Operation Cancelled] User did not allow it"}, "cancelled")
LINES: list[Json] = [
    HEADER,
    {"$set": {"messages": [_user("d049", CONTEXT)], "lastUpdated": AT}},
    {**_user("u1", "Make notes, please"), "content": [{"text": "Make notes, please"}, PICTURE]},
    {"$set": {"lastUpdated": "2026-11-28T22:40:00Z"}},
    _answer("a1", "I look at the folder."),
    _answer("a1", "I look at the folder.", RUN, thoughts=[{"subject": "Look", "description": "Then write."}]),
    {"id": "r1", "timestamp": AT, "type": "user", "content": RUN["result"]},
    _answer("a2", "", EDIT, _call("write_todos", TODOS, {"output": "Updated"})),
    _answer("a3", "", _call("invoke_agent", {"agent_name": "generalist", "prompt": "Look"}, {}, agentId=CHILD)),
    {**_user("r3"), "content": [{"functionResponse": {"id": "x1", "name": "other", "response": {"error": "No tool"}}}]},
    _answer("a4", "", GONE, REFUSED),
    _user("u2", BY_HAND),
    {"id": "e1", "timestamp": AT, "type": "error", "content": "The model is not there."},
    {"id": "i1", "timestamp": AT, "type": "info", "content": "Request cancelled."},
    {"id": "i2", "timestamp": AT, "type": "info", "content": ""},
    {"$novelty": 7},
]
FIRST = [
    ("= gemini.context",),
    ("user: message", "Make notes, please"),
    ("agent: think", "Look\n\nThen write."),
    ("agent: message", "I look at the folder."),
    ("agent: run", "ls; exit 3"),
    ("= run", "3"),
    ("agent: edit", "str_replace", NOTES),
    ("= edit", "Successfully modified file", DIFF),
    ("agent: task_tracking", "plan", "Pack: done", "Go: in_progress"),
    ("= task_tracking", "Updated"),
    ("agent: delegate", "generalist", CHILD),
    ("= delegate",),
    ("agent: call_tool_mcp", "other"),
    ("= mcp", "No tool"),
    ("agent: read", "/gone"),
    ("= error", "File not found"),
    ("agent: call_tool_mcp", "web_fetch"),
    ("= user_rejected", "[Operation Cancelled] User did not allow it"),
    ("user: run", "date; exit 2"),
    ("= run", "today", "2"),
    ("= error", "The model is not there."),
    ("= agent_state_changed", "Request cancelled."),
    ("= gemini.record",),
]


def _written(
    home: Path, lines: list[Json], name: str = f"session-2026-11-28T22-32-{ID[:8]}.jsonl"
) -> list[AgentSession]:
    path = home / ".gemini/tmp/trip/chats" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(gemini.discover(Places(home)))


def test_a_list_has_what_head_and_tail_of_a_file_say(tmp_path: Path) -> None:
    [session] = _written(tmp_path, [*LINES, {"$set": {"summary": "Trip notes"}}])
    root = tmp_path / ".gemini"
    path = root / f"tmp/trip/chats/session-2026-11-28T22-32-{ID[:8]}.jsonl"
    assert session == AgentSession(
        agent="gemini",
        id=ID,
        root=root,
        path=path,
        title="Trip notes",
        folder=FOLDER,
        model="gemini-2.5-pro",
        started_at=datetime(2026, 11, 28, 22, 32, 35, 859_000, UTC),
        updated_at=datetime(2026, 11, 28, 22, 40, tzinfo=UTC),
        size=path.stat().st_size,
        changed_ns=path.stat().st_mtime_ns,
        deleted_at=datetime(2026, 12, 28, 22, 40, tzinfo=UTC),
    )


def test_a_session_is_told_event_by_event(tmp_path: Path) -> None:
    [session] = _written(tmp_path, LINES)
    transcript = gemini.read(session)
    assert session.title == "Make notes, please"
    assert told(transcript.forms) == FIRST
    assert transcript.usage == Usage("gemini-2.5-pro", 4000, 280, 800)
    assert (transcript.branches, transcript.warnings) == ([], [])
    prompt, edit = transcript.forms[1], transcript.forms[7]
    assert prompt["args"]["image_urls"] == ["data:image/png;base64,iVBORw0KGgo="]
    assert prompt["imported"] == {"record": {"agent": "gemini", "place": 3, "kind": "user"}}
    assert edit["extras"]["old_content"] == "one\ntwo\n"


def test_what_a_rewind_drops_is_a_branch(tmp_path: Path) -> None:
    more = [_user("u3", "Go north"), _answer("a5", "North."), {"$rewindTo": "u3"}, _user("u4", "Go south")]
    [session] = _written(tmp_path, [*LINES, *more])
    transcript = gemini.read(session)
    assert told(transcript.forms) == [*FIRST, ("user: message", "Go south")]
    [branch] = transcript.branches
    assert branch.title == "Go north"
    assert told(branch.transcript.forms) == [*FIRST, ("user: message", "Go north"), ("agent: message", "North.")]


def test_a_rewind_to_an_unknown_message_drops_everything(tmp_path: Path) -> None:
    [session] = _written(tmp_path, [*LINES, {"$rewindTo": "nowhere"}, _user("u3", "Again")])
    transcript = gemini.read(session)
    assert told(transcript.forms) == [("user: message", "Again")]
    assert told(transcript.branches[0].transcript.forms) == FIRST


def test_a_compaction_keeps_what_was_said_before_it(tmp_path: Path) -> None:
    history = [_user("s1", "<state_snapshot>Notes were made.</state_snapshot>"), _answer("s2", "Got it."), LINES[11]]
    [session] = _written(tmp_path, [*LINES, {"$set": {"messages": history}}, _user("u3", "Go on")])
    transcript = gemini.read(session)
    assert told(transcript.forms) == [
        *FIRST,
        ("agent: condensation", "<state_snapshot>Notes were made.</state_snapshot>"),
        ("= gemini.history", "gemini"),
        ("user: message", "Go on"),
    ]
    assert transcript.forms[-3]["args"]["forgotten_events_end_id"] == 17  # the command of the user is kept


def test_a_history_that_only_drops_notices_is_no_compaction(tmp_path: Path) -> None:
    history = [line for line in LINES if line.get("type") in ("user", "gemini")]
    [session] = _written(tmp_path, [*LINES, {"$set": {"messages": history}}])
    assert told(gemini.read(session).forms) == FIRST


def test_the_objects_of_older_versions_tell_the_same(tmp_path: Path) -> None:
    messages = [*LINES[1]["$set"]["messages"], *LINES[2:3], *LINES[5:15]]
    name = f"session-2025-10-01T10-00-{ID[:8]}.json"
    path = tmp_path / ".gemini/tmp" / HASH / "chats" / name
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**HEADER, "messages": [line for line in messages if "$set" not in line]}))
    [session] = gemini.discover(Places(tmp_path, projects=(Path(FOLDER),)))
    assert (session.id, session.folder, session.title) == (ID, FOLDER, "Make notes, please")
    assert told(gemini.read(session).forms) == FIRST[:-1]
    path.with_suffix(".jsonl").write_text(json.dumps(HEADER))
    [session] = gemini.discover(Places(tmp_path))
    assert session.path.suffix == ".jsonl"  # it was continued there


def test_a_copy_of_a_project_folder_does_not_repeat_its_sessions(tmp_path: Path) -> None:
    [session] = _written(tmp_path, LINES)
    copy = tmp_path / ".gemini/tmp/trip-1/chats" / session.path.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(session.path.read_bytes())
    os.utime(copy, ns=(session.changed_ns + 1, session.changed_ns + 1))
    [found] = gemini.discover(Places(tmp_path))
    assert (found.id, found.path) == (ID, copy)
    copy.rename(copy.with_name("session-other.jsonl"))
    assert {found.id for found in gemini.discover(Places(tmp_path))} == {ID, "session-other"}


def test_sub_agents_are_children_of_their_session(tmp_path: Path) -> None:
    _written(tmp_path, LINES)
    main, child = _written(tmp_path, [{**HEADER, "sessionId": CHILD, "kind": "subagent"}], f"{ID}/{CHILD}.jsonl")
    assert (main.id, child.id, child.parent_id, child.deleted_at) == (ID, CHILD, ID, main.deleted_at)


@pytest.mark.parametrize(
    ("retention", "days"), [({"maxAge": "2w"}, 14), ({"enabled": False}, None), ({"maxAge": "soon"}, None)]
)
def test_the_settings_say_when_sessions_are_deleted(tmp_path: Path, retention: Json, days: int | None) -> None:
    settings = tmp_path / ".gemini/settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"general": {"sessionRetention": retention}}))
    [session] = _written(tmp_path, LINES)
    assert session.updated_at is not None
    assert session.deleted_at == (session.updated_at + timedelta(days=days) if days else None)


def test_the_registry_names_the_folder_of_a_project(tmp_path: Path) -> None:
    _written(tmp_path, [{**HEADER, "projectHash": "0"}])
    (tmp_path / ".gemini/projects.json").write_text(json.dumps({"projects": {"/srv/trip": "trip"}}))
    [session] = gemini.discover(Places(tmp_path / "x", {"GEMINI_CLI_HOME": str(tmp_path)}))
    assert session.folder == "/srv/trip"


def test_bad_lines_links_and_pipes_are_left_out(tmp_path: Path) -> None:
    [session] = _written(tmp_path, LINES)
    session.path.write_bytes(session.path.read_bytes() + b'{"id": "cut\n\xff\xfe\n' + b"[" * 100_000 + b"\n{")
    chats = session.path.parent
    (chats / "session-a.jsonl").symlink_to("/etc/passwd")
    os.mkfifo(chats / "session-b.jsonl")
    (chats / "session-c.jsonl").write_text("nothing\n")
    [session] = gemini.discover(Places(tmp_path))
    transcript = gemini.read(session)
    assert told(transcript.forms) == FIRST
    assert transcript.warnings == ["Lines that could not be read: 4."]


def test_a_session_that_is_gone_raises_an_os_error(tmp_path: Path) -> None:
    [session] = _written(tmp_path, LINES)
    session.path.unlink()
    with pytest.raises(OSError, match="No such file"):
        gemini.read(session)


def test_an_object_that_is_no_session_is_a_fault(tmp_path: Path) -> None:
    [session] = _written(tmp_path, [HEADER], "session-a.json")
    session.path.write_text("[]")
    with pytest.raises(Fault):
        gemini.read(session)


def test_damaged_sessions_are_survived(tmp_path: Path) -> None:
    history = [_user("s1", "<state_snapshot>"), _answer("s2", "Got it."), LINES[11]]
    _written(tmp_path, [*LINES, {"$set": {"messages": history}}, _user("u3", "On"), {"$rewindTo": "u3"}])
    _written(tmp_path, [HEADER, *LINES[2:5]], f"{ID}/{CHILD}.jsonl")
    _written(tmp_path, [{**HEADER, "sessionId": "old", "messages": LINES[4:15]}], "session-old.json")
    (tmp_path / ".gemini/projects.json").write_text(json.dumps({"projects": {FOLDER: "trip"}}))
    (tmp_path / ".gemini/settings.json").write_text(json.dumps({"general": {"sessionRetention": {"maxAge": "9d"}}}))
    survives(gemini.discover, gemini.read, Places(tmp_path), trials=30)


def test_many_rewinds_and_histories_take_linear_time(tmp_path: Path) -> None:
    turns = [line for n in range(4_000) for line in (_user(f"u{n}", "On"), {"$rewindTo": f"u{n}"}, _user(f"k{n}", "x"))]
    [session] = _written(tmp_path, [HEADER, *turns])
    started = time.process_time()
    transcript = gemini.read(session)
    assert time.process_time() - started < 2
    assert len(transcript.forms) == 4_000
    assert len(transcript.branches) == gemini.MAX_BRANCHES
    assert transcript.warnings == ["Branches that are not shown: 3980."]


@pytest.mark.parametrize(
    ("text", "printed", "code"),
    [
        ("Output: half\nSignal: 9\nProcess Group PGID: 1", "half", None),
        (
            "Command: ls;\nfalse\nDirectory: (root)\nOutput: a\nError: (none)\nExit Code: 1\nSignal: (none)\n"
            "Background PIDs: (none)\nProcess Group PGID: 1",
            "a",
            1,
        ),
        ("Command: ls", "Command: ls", None),
    ],
)
def test_fields_around_the_output_of_a_command(text: str, printed: str, code: int | None) -> None:
    assert gemini._shell(text, is_over=True) == (printed, code)


@pytest.mark.parametrize("printed", ["Command was cancelled.\nhalf", "Command terminated by signal: 9.\nhalf"])
def test_a_command_of_the_user_that_was_stopped_has_no_exit_code(tmp_path: Path, printed: str) -> None:
    prompt = BY_HAND.replace("Command exited with code 2.\ntoday", printed)
    [session] = _written(tmp_path, [HEADER, _user("u1", prompt)])
    _command, result = gemini.read(session).forms
    assert (result["content"], result["extras"]["metadata"]["exit_code"]) == (printed, -1)


def test_a_notice_about_something_else_that_was_cancelled_stops_nothing(tmp_path: Path) -> None:
    notice = {"id": "i1", "timestamp": AT, "type": "info", "content": "The update of the extension was cancelled."}
    [session] = _written(tmp_path, [HEADER, _user("u1", "Go on"), notice])
    assert told(gemini.read(session).forms) == [("user: message", "Go on"), ("= gemini.info", "info")]
