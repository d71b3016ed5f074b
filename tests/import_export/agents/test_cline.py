"""Sessions of Cline: shortened ones that version 3.0.65 of the command line wrote with a scripted model, and a task as
the extension for editors writes it, after what version 2.18.0 of the command line wrote in the same form."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents.cline import discover, read
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Usage
from tests.import_export.agents.fuzzed import survives
from tests.import_export.agents.shown import shown

ID = "1795906614013_7eigq"
CHILD = "agent_1795906616035_l8e8x1"
TS = 1795906614356


def assistant(number: int, *content: Any, **fields: Any) -> dict[str, Any]:
    metrics = {"inputTokens": 100 + number, "outputTokens": 20, "cacheReadTokens": 7, "cacheWriteTokens": 0}
    model = {"id": "gpt-4o", "provider": "openai-compatible"}
    made = {"id": f"msg_{number}", "role": "assistant", "content": list(content), "ts": TS + number}
    return {**made, "modelInfo": model, "metrics": metrics, **fields}


def use(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(id: str, content: Any, **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": id, "content": content, **fields}
    return {"id": f"result_{id}", "role": "user", "content": [block], "ts": TS + 50}


PATCH = "*** Begin Patch\n*** Update File: b.py\n@@\n-x = 3\n+x = 4\n*** End Patch"
PROMPT = '<user_input mode="act">Please set up the project.</user_input>\n<environment_details>x</environment_details>'
MESSAGES: list[dict[str, Any]] = [
    {"id": "a23c", "role": "user", "content": [{"type": "text", "text": PROMPT}], "ts": TS},
    assistant(
        1,
        {"type": "thinking", "thinking": "A small folder."},
        {"type": "text", "text": "I look around first."},
        use("call_1_0", "run_commands", commands=["ls -la", {"command": "sh", "args": ["-c", "exit 3"]}]),
        use("call_1_1", "read_files", files=[{"path": "/w/b.py"}]),
    ),
    result("call_1_0", [
        {"query": "ls -la", "result": "b.py\n", "success": True},
        {"query": "sh", "result": "[Command exited with code 3]\ntwo\n", "error": "Command exited with code 3",
         "success": False},
    ]),
    result("call_1_1", [{"query": "/w/b.py", "result": "1 | x = 1", "success": True}]),
    assistant(
        2,
        use("call_2_0", "editor", path="/w/b.py", old_text="x = 1", new_text="x = 3"),
        use("call_2_1", "editor", path="/w/c.py", new_text="y = 1\n"),
        use("call_2_2", "editor", path="/w/b.py", insert_line=1, new_text="z"),
        use("call_2_3", "apply_patch", input=PATCH),
    ),
    result("call_2_1", '{"query":"edit:/w/c.py","result":"File created successfully","success":true}'),
    result("call_2_0", '{"error":"Tool call editor was rejected"}', is_error=True),
    result("call_2_2", '{"query":"insert:/w/b.py","result":"Inserted.","success":true}'),
    result("call_2_3", '{"query":"apply_patch","result":"Applied.","success":true}'),
    assistant(3, use("call_3_0", "spawn_agent", systemPrompt="You count", task="Count the files")),
    result("call_3_0", '{"text":"There are two.","iterations":1,"finishReason":"completed"}'),
    assistant(4, {"type": "text", "text": "All done."}, {"type": "new_kind"}),
    assistant(5, {"type": "text", "text": "No credit"}, metadata={"displayOnly": True, "displayRole": "error"}),
]  # fmt: skip
MANIFEST = {
    "version": 1,
    "session_id": ID,
    "started_at": "2026-11-28T22:56:54.018Z",
    "model": "gpt-4o",
    "cwd": "/w",
    "prompt": "Please set up the project.",
    "metadata": {"title": "Set up", "totalCost": 0.5, "usage": {"inputTokens": 729, "outputTokens": 140}},
}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    folder = tmp_path / ".cline" / "data" / "sessions" / ID
    folder.mkdir(parents=True)
    origin = {"source": "cli", "mode": "user", "sessionId": ID}
    saved: dict[str, Any] = {"version": 1, "agent": "lead", "sessionId": ID, "origin": origin, "messages": MESSAGES}
    (folder / f"{ID}.messages.json").write_text(json.dumps(saved))
    (folder / f"{ID}.json").write_text(json.dumps(MANIFEST))
    child = [{"role": "user", "content": [{"type": "text", "text": "Count the files"}], "ts": TS + 60}, assistant(
        9, {"type": "text", "text": "There are two."})]  # fmt: skip
    origin = {"source": "cli", "mode": "subagent", "parentThreadId": ID}
    saved = {"version": 1, "agent": "subagent", "sessionId": f"{ID}__{CHILD}", "origin": origin, "messages": child}
    (folder / f"{CHILD}.messages.json").write_text(json.dumps(saved))
    return Places(tmp_path)


def by_id(places: Places) -> dict[str, AgentSession]:
    return {session.id: session for session in discover(places)}


def test_a_list_shows_sessions_and_sub_agents(places: Places) -> None:
    found = by_id(places)
    session, child = found[ID], found[f"{ID}__{CHILD}"]
    assert len(found) == 2
    assert (session.title, session.folder, session.model) == ("Set up", "/w", "gpt-4o")
    assert (session.tokens, session.cost, session.parent_id) == (869, 0.5, "")
    assert session.started_at is not None
    assert session.started_at.isoformat() == "2026-11-28T22:56:54.018000+00:00"
    assert (child.title, child.parent_id, child.folder, child.cost) == ("Count the files", ID, "/w", None)


def test_the_environment_can_move_the_folder(places: Places, tmp_path: Path) -> None:
    cline = tmp_path / ".cline"
    for name, folder in (
        ("CLINE_DIR", cline), ("CLINE_DATA_DIR", cline / "data"), ("CLINE_SESSION_DATA_DIR", cline / "data/sessions"),
    ):  # fmt: skip
        assert len(by_id(Places(tmp_path / "none", {name: str(folder)}))) == 2


def test_each_command_and_file_is_an_action(places: Places) -> None:
    transcript = read(by_id(places)[ID])
    assert shown(transcript) == [
        ("user", "Please set up the project."),
        ("cline.context",),
        ("thinks", "A small folder."),
        ("agent", "I look around first."),
        ("runs", "ls -la"),
        ("runs", "sh -c 'exit 3'"),
        ("reads", "/w/b.py"),
        ("ran", 4, "b.py\n", 0),
        ("ran", 5, "[Command exited with code 3]\ntwo\n", 3),
        ("read result", 6, "1 | x = 1"),
        ("edits", "/w/b.py", "str_replace"),
        ("edits", "/w/c.py", "create"),
        ("edits", "/w/b.py", "insert"),
        ("edits", "b.py", ""),
        ("edited", 11, "--- /w/c.py\n+++ /w/c.py\n@@ -0,0 +1 @@\n+y = 1"),
        ("user_rejected result", 10, "Tool call editor was rejected"),
        ("edited", 12, None),
        ("edited", 13, "-x = 3\n+x = 4"),
        ("delegates", "sub-agent", {"task": "Count the files", "session": f"{ID}__{CHILD}"}),
        ("delegate result", 18, "There are two."),
        ("agent", "All done."),
        ("cline.new_kind",),
        ("error result", None, "No credit"),
    ]
    assert transcript.usage == Usage("gpt-4o", 410, 80, 28)
    assert transcript.forms[4]["timestamp"] == "2026-11-28T22:56:54.357000+00:00"


def test_a_compaction_is_where_it_was(places: Places) -> None:
    session = by_id(places)[ID]
    state = {"version": 1, "source_message_count": 1, "messages": [{"role": "user", "content": "In short: set up"}]}
    session.path.with_name(f"{ID}.compaction.json").write_text(json.dumps(state))
    transcript = read(session)
    assert shown(transcript)[2] == ("compacts", "In short: set up")
    assert transcript.forms[2]["args"]["forgotten_events_end_id"] == 1


def test_tools_that_the_provider_ran_are_shown(places: Places) -> None:
    session = by_id(places)[ID]
    activity = {"toolCallId": "p1", "toolName": "web_search", "input": {"query": "x"}, "output": "Found"}
    message = assistant(1, {"type": "text", "text": "Yes."}, metadata={"modelToolActivities": [activity, 5]})
    session.path.write_text(json.dumps({"version": 2, "messages": [message]}))
    transcript = read(session)
    assert shown(transcript) == [
        ("calls", "web_search", {"query": "x"}),
        ("mcp result", 0, "Found"),
        ("agent", "Yes."),
    ]
    assert transcript.warnings == ["The file has another version than 1, the one that this reader knows."]


# -- the extension -----------------------------------------------------------------------------------------------------


def say(kind: str, text: str = "", **fields: Any) -> dict[str, Any]:
    return {"ts": TS, "type": "say", "say": kind, "text": text, **fields}


def ask(kind: str, text: str = "", **fields: Any) -> dict[str, Any]:
    return {"ts": TS, "type": "ask", "ask": kind, "text": text, **fields}


SEARCH = "------- SEARCH\nx = 1\n=======\nx = 2\n+++++++ REPLACE\n"
REQUEST = json.dumps({"tokensIn": 10, "tokensOut": 2, "cacheReads": 5, "cacheWrites": 1, "cost": 0.01})
PICTURE = "data:image/png;base64,iVBORw0KGgo="
UI: list[dict[str, Any]] = [
    say("text", "Fix the bug.\nPlease.", images=[PICTURE], conversationHistoryIndex=-1),
    say("api_req_started", REQUEST),
    say("reasoning", "Where is it?"),
    say("text", "I loo", partial=True),
    say("text", "I look.", conversationHistoryIndex=0),
    ask("tool", json.dumps({"tool": "readFile", "path": "a.py", "content": "/w/a.py"}), conversationHistoryIndex=0),
    ask("command", "ls -aREQ_APP", conversationHistoryIndex=2),
    say("command_output", "a.py"),
    ask("command_output", "b.py"),
    say("tool", json.dumps({"tool": "editedExistingFile", "path": "a.py", "diff": SEARCH})),
    say("tool", json.dumps({"tool": "newFileCreated", "path": "b.py", "content": "y\n"})),
    say("tool", json.dumps({"tool": "searchFiles", "path": ".", "regex": "x", "content": "1 found"})),
    ask("use_mcp_server", json.dumps({"serverName": "git", "toolName": "log", "arguments": '{"n": 1}'})),
    say("mcp_server_response", "one commit"),
    say("task_progress", "- [x] Look\n- [ ] Fix"),
    say("user_feedback", "Also the tests."),
    say("api_req_started", json.dumps({"cancelReason": "user_cancelled"})),
    say("diff_error", "a.py"),
    say("checkpoint_created"),
    ask("followup", json.dumps({"question": "Which ones?", "options": ["all"]})),
    ask("summarize_task", "The bug is fixed."),
    say("completion_result", "Done.HAS_CHANGES"),
    ask("completion_result"),
]
DETAILS = "<environment_details>\n# Current Working Directory (/w) Files\na.py\n</environment_details>"
API: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "<task>\nFix the bug.\n</task>"},
                                 {"type": "text", "text": DETAILS}]},
    {"role": "assistant", "content": [{"type": "text", "text": "I look."}]},
    {"role": "user", "content": [{"type": "text", "text": "[read_file for 'a.py'] Result:\nx = 1"},
                                 {"type": "text", "text": "# task_progress RECOMMENDED"},
                                 {"type": "text", "text": DETAILS}]},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Hm."},
        use("t1", "execute_command", command="ls"), {"type": "odd"}]},
    result("t1", [{"type": "text", "text": "Command failed with exit code 3.\nOutput:\na.py"}]),
]  # fmt: skip


def write_task(root: Path, id: str = "1795906614013", ui: Any = None, api: Any = None) -> Path:
    folder = root / "tasks" / id
    folder.mkdir(parents=True)
    if ui is not None:
        (folder / "ui_messages.json").write_text(json.dumps(ui))
    if api is not None:
        (folder / "api_conversation_history.json").write_text(json.dumps(api))
    return folder


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    root = tmp_path / ".config" / "Code" / "User" / "globalStorage" / "saoudrizwan.claude-dev"
    write_task(root, ui=UI, api=API)
    return root


def test_a_list_shows_tasks_of_the_extension(storage: Path, tmp_path: Path) -> None:
    (session,) = discover(Places(tmp_path))
    assert (session.id, session.title, session.folder) == ("1795906614013", "Fix the bug.", "/w")
    assert session.started_at is not None
    assert session.started_at.year == 2026
    item = {"id": session.id, "task": "From the list", "tokensIn": 5, "tokensOut": 6, "totalCost": 0.25,
            "cwdOnTaskInitialization": "/elsewhere", "modelId": "m"}  # fmt: skip
    (storage / "state").mkdir()
    (storage / "state" / "taskHistory.json").write_text(json.dumps([item, None]))
    (session,) = discover(Places(tmp_path))
    assert (session.title, session.folder, session.model) == ("From the list", "/elsewhere", "m")
    assert (session.tokens, session.cost) == (11, 0.25)


def test_a_task_is_what_the_user_saw_with_full_results(storage: Path, tmp_path: Path) -> None:
    (session,) = discover(Places(tmp_path))
    transcript = read(session)
    assert shown(transcript) == [
        ("user", "Fix the bug.\nPlease.", PICTURE),
        ("thinks", "Where is it?"),
        ("agent", "I look."),
        ("reads", "a.py"),
        ("read result", 3, "x = 1"),
        ("runs", "ls -a"),
        ("ran", 5, "a.py\nb.py", 3),
        ("edits", "a.py", "str_replace"),
        ("edited", 7, "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2"),
        ("edits", "b.py", "create"),
        ("edited", 9, "--- b.py\n+++ b.py\n@@ -0,0 +1 @@\n+y"),
        ("calls", "searchFiles", {"path": ".", "regex": "x"}),
        ("mcp result", 11, "1 found"),
        ("calls", "git__log", {"n": 1}),
        ("mcp result", 13, "one commit"),
        ("plans", [("Look", "done"), ("Fix", "todo")]),
        ("user", "Also the tests."),
        ("state", "stopped"),
        ("error result", None, "a.py"),
        ("cline.checkpoint_created",),
        ("agent", "Which ones?"),
        ("compacts", "The bug is fixed."),
        ("agent", "Done."),
    ]
    assert transcript.usage == Usage("", 16, 2, 5, 1, 0.01)


def test_without_what_the_user_saw_the_messages_of_the_model_are_shown(tmp_path: Path) -> None:
    root = tmp_path / ".vscode-server" / "data" / "User" / "globalStorage" / "saoudrizwan.claude-dev"
    write_task(root, api=API)
    (session,) = discover(Places(tmp_path))
    transcript = read(session)
    assert session.title == "Fix the bug."
    assert shown(transcript) == [
        ("user", "Fix the bug."),
        ("cline.text",),
        ("agent", "I look."),
        ("cline.text",),
        ("cline.text",),
        ("cline.text",),
        ("thinks", "Hm."),
        ("runs", "ls"),
        ("cline.odd",),
        ("ran", 7, "Command failed with exit code 3.\nOutput:\na.py", 3),
    ]
    assert len(transcript.warnings) == 1


def test_macos_has_another_folder(tmp_path: Path) -> None:
    root = tmp_path / "Library/Application Support/Cursor/User/globalStorage/saoudrizwan.claude-dev"
    write_task(root, ui=UI)
    assert len(list(discover(Places(tmp_path, {}, "darwin")))) == 1
    assert not list(discover(Places(tmp_path)))


def test_damaged_sessions_raise_nothing_else(places: Places) -> None:
    survives(discover, read, places, trials=25)


def test_damaged_tasks_raise_nothing_else(storage: Path, tmp_path: Path) -> None:
    survives(discover, read, Places(tmp_path), trials=25)


def test_the_time_grows_with_the_number_of_messages_only(tmp_path: Path) -> None:
    root = tmp_path / ".cline" / "data"
    write_task(root, ui=UI[:1] + UI[4:12] * 1000, api=API * 1000)
    (session,) = discover(Places(tmp_path))
    started = time.process_time()
    assert len(read(session).forms) > 10_000
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("blocks", "shown_result"),
    [
        (["[execute_command for 'ls'] Result:\nCommand executed.\nOutput:\nchild: exit code 7"],
         ("ran", 1, "Command executed.\nOutput:\nchild: exit code 7", -1)),
        (["[execute_command for 'ls'] Result:", "[1, 2]"], ("ran", 1, "[1, 2]", -1)),
        (["[execute_command for 'ls'] Result:\nCommand executed in terminal.\nExit code: 2\nOutput:\nno"],
         ("ran", 1, "Command executed in terminal.\nExit code: 2\nOutput:\nno", 2)),
        (["[execute_command for 'ls'] Result:\nThe user denied this operation."],
         ("user_rejected result", 1, "The user denied this operation.")),
    ],
)  # fmt: skip
def test_results_of_commands_in_what_the_model_got(
    tmp_path: Path, blocks: list[str], shown_result: tuple[Any, ...]
) -> None:
    ui = [say("task", "Look."), ask("command", "ls", conversationHistoryIndex=0), say("completion_result")]
    api = [*API[:2], {"role": "user", "content": [{"type": "text", "text": text} for text in blocks]}]
    write_task(tmp_path / ".cline" / "data", ui=ui, api=api)
    (session,) = discover(Places(tmp_path))
    assert shown(read(session))[2] == shown_result


def test_an_edit_that_the_user_denied_has_no_diff(tmp_path: Path) -> None:
    edit = json.dumps({"tool": "editedExistingFile", "path": "a.py", "diff": SEARCH})
    denied = "[replace_in_file for 'a.py'] Result:\nThe user denied this operation."
    api = [*API[:2], {"role": "user", "content": [{"type": "text", "text": denied}]}]
    write_task(tmp_path / ".cline" / "data", ui=[ask("tool", edit, conversationHistoryIndex=0)], api=api)
    (session,) = discover(Places(tmp_path))
    assert shown(read(session)) == [
        ("edits", "a.py", "str_replace"),
        ("user_rejected result", 0, "The user denied this operation."),
    ]


def test_the_exit_code_is_that_of_the_command(places: Places) -> None:
    file = places.home / ".cline" / "data" / "sessions" / ID / f"{ID}.messages.json"
    failed = {"query": "make", "result": "worker exited with code 9", "success": False,
              "error": "Command exited with code 2"}  # fmt: skip
    messages = [assistant(1, use("call", "run_commands", commands=["make"])), result("call", [failed])]
    file.write_text(json.dumps({"version": 1, "messages": messages}))
    assert shown(read(by_id(places)[ID])) == [
        ("runs", "make"),
        ("ran", 0, "worker exited with code 9\nCommand exited with code 2", 2),
    ]


def test_each_tool_of_an_answer_has_its_own_result(tmp_path: Path) -> None:
    ui = [
        ask("tool", json.dumps({"tool": "readFile", "path": "a.py"}), conversationHistoryIndex=0),
        ask("tool", json.dumps({"tool": "editedExistingFile", "path": "a.py", "diff": SEARCH}),
            conversationHistoryIndex=0),
        ask("command", "ls", conversationHistoryIndex=0),
    ]  # fmt: skip
    blocks = [block for id, text in (("r", "x = 1"), ("e", "Saved."), ("c", "Command failed with exit code 3."))
              for block in result(id, [{"type": "text", "text": text}])["content"]]  # fmt: skip
    write_task(tmp_path / ".cline" / "data", ui=ui, api=[*API[:2], {"role": "user", "content": blocks}])
    (session,) = discover(Places(tmp_path))
    assert shown(read(session)) == [
        ("reads", "a.py"),
        ("read result", 0, "x = 1"),
        ("edits", "a.py", "str_replace"),
        ("edited", 2, "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2"),
        ("runs", "ls"),
        ("ran", 4, "Command failed with exit code 3.", 3),
    ]


def test_json_that_a_tool_printed_is_shown_whole(places: Places) -> None:
    file = places.home / ".cline" / "data" / "sessions" / ID / f"{ID}.messages.json"
    printed = '{"text": "Hello", "error": "none"}'
    messages = [assistant(1, use("call", "read_files", files=["/w/a.json"])), result("call", printed)]
    file.write_text(json.dumps({"version": 1, "messages": messages}))
    assert shown(read(by_id(places)[ID])) == [("reads", "/w/a.json"), ("read result", 0, printed)]


def test_call_of_a_tool_that_does_not_exist_is_a_failure_and_not_a_denial(places: Places) -> None:
    file = places.home / ".cline" / "data" / "sessions" / ID / f"{ID}.messages.json"
    why = "Tool call nosuch was rejected before execution: AI_NoSuchToolError: Model tried to call unavailable tool"
    messages = [assistant(1, use("call", "nosuch", a=1)), result("call", why, is_error=True)]
    file.write_text(json.dumps({"version": 1, "messages": messages}))
    call, answered = read(by_id(places)[ID]).forms
    assert (call["action"], answered["observation"]) == ("call_tool_mcp", "mcp")
    assert answered["extras"]["is_error"] is True
