"""Sessions of Claude Code.

`samples/claude_code.jsonl` was written by version 2.1.197, with a scripted model; ids and names in it were shortened.
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents import claude_code
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Transcript, Usage
from core.import_export.bounded_json import Fault
from tests.import_export.agents.fuzzed import read_all, survives
from tests.import_export.agents.shown import shown

JsonObject = dict[str, Any]
SAMPLE = Path(__file__).parent / "samples" / "claude_code.jsonl"
ID = "5e551011"
USAGE = {"input_tokens": 10, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 4}
HIDDEN = ("claude-code.",)


class Home:
    """A home in which Claude Code has worked."""

    def __init__(self, path: Path) -> None:
        self.places = Places(path)
        self.project = path / ".claude" / "projects" / "-home-ann-shop"
        self.project.mkdir(parents=True)
        self._numbers = count(1)

    def write(self, *records: JsonObject | str, name: str = ID) -> Path:
        path = self.project / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        path.write_text("\n".join(lines))
        return path

    def session(self, id: str = ID) -> AgentSession:
        (found,) = [session for session in claude_code.discover(self.places) if session.id == id]
        return found

    def read(self, id: str = ID) -> Transcript:
        return claude_code.read(self.session(id))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


_second = count()


def record(uuid: str, parent: str | None, **fields: Any) -> JsonObject:
    at = (datetime(2026, 5, 1, tzinfo=UTC) + timedelta(seconds=next(_second))).isoformat()
    return {"uuid": uuid, "parentUuid": parent, "sessionId": ID, "timestamp": at, "cwd": "/home/ann/shop", **fields}


def user(uuid: str, parent: str | None, content: Any, **fields: Any) -> JsonObject:
    return record(uuid, parent, type="user", message={"role": "user", "content": content}, **fields)


def answer(uuid: str, parent: str | None, *blocks: Any, id: str = "", **fields: Any) -> JsonObject:
    message = {"id": id or f"msg-{uuid}", "model": "claude-x", "content": list(blocks), "usage": USAGE}
    return record(uuid, parent, type="assistant", message=message, **fields)


def text(content: str) -> JsonObject:
    return {"type": "text", "text": content}


def call(id: str, name: str, **arguments: Any) -> JsonObject:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(uuid: str, parent: str, id: str, content: Any, info: Any = None, **block: Any) -> JsonObject:
    found = {"type": "tool_result", "tool_use_id": id, "content": content, **block}
    return user(uuid, parent, [found], toolUseResult=info)


def plain(transcript: Transcript) -> list[tuple[Any, ...]]:
    """What is shown, without what only the event log has."""
    return [event for event in shown(transcript) if not event[0].startswith(HIDDEN)]


# -- what the program itself wrote -------------------------------------------------------------------------------------


def test_a_session_of_the_program_is_listed(home: Home) -> None:
    path = home.write(SAMPLE.read_text())
    found = home.session()
    assert (found.title, found.folder, found.model) == ("MAIN please fix x", "/home/ann/shop", "claude-opus-4-8")
    assert found.started_at == datetime(2026, 11, 28, 22, 33, 51, 586000, UTC)
    assert found.updated_at == datetime(2026, 11, 28, 22, 33, 52, 541000, UTC)
    assert (found.size, found.changed_ns) == (path.stat().st_size, path.stat().st_mtime_ns)
    assert (found.parent_id, found.tokens, found.cost) == ("", 0, None)


def test_a_session_of_the_program_is_read_event_by_event(home: Home) -> None:
    home.write(SAMPLE.read_text())
    folder = home.project / ID / "tool-results"
    folder.mkdir(parents=True)
    (folder / "bxqm9nrum.txt").write_text("1\n2\n3\n")
    found = home.read()
    denied = "This Bash command contains multiple operations. The following part requires approval: exit 3"
    events = plain(found)
    dangerous = next(event for event in events if str(event[-1]).startswith("Dangerous rm operation"))
    assert dangerous[:2] == ("user_rejected result", 22)
    events.remove(dangerous)
    assert events == [
        ("user", "MAIN please fix x"),
        ("thinks", "I should look first."),
        ("agent", "Let me look."),
        ("runs", "echo hello; echo err >&2; exit 3"),
        ("user_rejected result", 7, denied),
        ("reads", "/home/ann/shop/a.py"),
        ("read result", 9, "1\tx = 1\n2\ty = 2\n3\t"),
        ("edits", "/home/ann/shop/a.py", "str_replace"),
        (
            "edited",
            11,
            "--- /home/ann/shop/a.py\n+++ /home/ann/shop/a.py\n@@ -1,2 +1,2 @@\n-x = 1\n+x = 2\n y = 2",
        ),
        ("edits", "/home/ann/shop/b.txt", "create"),
        ("edited", 13, "--- /home/ann/shop/b.txt\n+++ /home/ann/shop/b.txt\n@@ -0,0 +1,2 @@\n+one\n+two"),
        ("plans", [("Fix it", "todo")]),
        ("task_tracking result", 15, "Task #1 created successfully: Fix it"),
        ("plans", [("Fix it", "in_progress")]),
        ("task_tracking result", 17, "Updated task #1 status"),
        ("runs", "seq 1 20000"),
        ("ran", 19, "1\n2\n3\n", 0),
        ("calls", "Grep", {"pattern": "x", "path": "/home/ann/shop", "output_mode": "content"}),
        ("runs", "rm -rf /"),
        ("reads", "/nowhere"),
        ("mcp result", 21, "a.py:1:x = 2"),
        ("error result", 23, "File does not exist. Note: your current working directory is /home/ann/shop."),
        ("delegates", "general-purpose", {"task": "SUBAGENT look around", "session": "agent-ab6c49f9e55044d7c"}),
        ("delegate result", 28, "I saw nothing special."),
        ("agent", "All done."),
    ]
    edited = next(form for form in found.forms if form.get("observation") == "edit")["extras"]
    assert (edited["old_content"], edited["new_content"]) == ("x = 1\ny = 2\n", "x = 2\ny = 2\n")
    assert found.usage == Usage("claude-opus-4-8", 9 * 150, 9 * 40, 9 * 30, 9 * 20)
    assert (found.branches, found.warnings) == ([], [])
    assert found.forms[2]["imported"]["record"] == {"agent": "claude-code", "place": 3, "kind": "user"}
    assert found.forms[2]["timestamp"] == "2026-11-28T22:33:51.790000+00:00"


# -- the list ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "title"),
    [
        ([{"type": "summary", "summary": "Old", "leafUuid": "2"}, {"type": "ai-title", "aiTitle": "Made"}], "Made"),
        ([{"type": "summary", "summary": "Old", "leafUuid": "2"}], "Old"),
        ([{"type": "summary", "summary": "Of another session", "leafUuid": "other"}], "Fix the shop"),
        ([{"type": "custom-title", "customTitle": "Mine"}, {"type": "ai-title", "aiTitle": "Made"}], "Mine"),
        ([{"type": "ai-title", "aiTitle": "First"}, {"type": "ai-title", "aiTitle": "Last\nmore"}], "Last"),
        ([], "Fix the shop"),
        ([{"type": "ai-title", "aiTitle": 7}, {"type": "ai-title", "aiTitle": "x" * 500}], "x" * 200),
    ],
)
def test_the_title_is_the_agents_own_or_the_first_prompt(home: Home, records: list[JsonObject], title: str) -> None:
    opening = [
        user("0", None, "<command-name>/model</command-name><command-args>x</command-args>"),
        user("1", "0", "\n Fix the shop \nplease"),
        answer("2", "1", text("Yes")),
    ]
    home.write(*opening, *records)
    assert home.session().title == title
    assert home.read().title == title


def test_it_says_when_the_agent_deletes_a_session(home: Home) -> None:
    path = home.write(user("1", None, "Hello"))
    os.utime(path, (1_780_000_000, 1_780_000_000))
    changed_at = datetime.fromtimestamp(1_780_000_000, UTC)
    assert home.session().deleted_at == changed_at + timedelta(days=30)
    settings = path.parents[2] / "settings.json"
    known = home.session()
    settings.write_text('{"cleanupPeriodDays": 365}')
    assert home.session().deleted_at == changed_at + timedelta(days=365)
    (listed_again,) = claude_code.discover(Places(home.places.home, known={path: known}))
    assert listed_again.deleted_at == changed_at + timedelta(days=365)
    settings.write_text('{"cleanupPeriodDays": "many"}')
    assert home.session().deleted_at == changed_at + timedelta(days=30)
    settings.write_text('{"cleanupPeriodDays": 999999999999}')
    assert home.session().deleted_at is None


def test_folders_come_from_the_environment(tmp_path: Path) -> None:
    for name in ("one", "two"):
        Home(tmp_path / name).write(user("1", None, name), name=name)
    named = f"{tmp_path}/one/.claude,{tmp_path}/two/.claude,relative"
    found = claude_code.discover(Places(tmp_path / "none", {"CLAUDE_CONFIG_DIR": named}))
    assert sorted(session.id for session in found) == ["one", "two"]
    (tmp_path / "config").symlink_to(tmp_path / "one")
    (tmp_path / "one" / "claude").symlink_to(tmp_path / "one" / ".claude")
    found = claude_code.discover(Places(tmp_path / "one", {"XDG_CONFIG_HOME": str(tmp_path / "config")}))
    assert [session.id for session in found] == ["one"]


def test_only_regular_files_with_a_conversation_are_listed(home: Home) -> None:
    home.write({"type": "file-history-snapshot"}, name="snapshot")
    home.write(name="empty")
    target = home.write(user("1", None, "Hello"))
    (home.project / "link.jsonl").symlink_to(target)
    os.mkfifo(home.project / "pipe.jsonl")
    (home.project / "folder.jsonl").mkdir()
    (home.project / "other").mkdir()
    (home.project / "other" / "journal.jsonl").write_text(json.dumps(user("1", None, "Hello")))
    assert [session.id for session in claude_code.discover(home.places)] == [ID]
    session = home.session()
    target.unlink()
    with pytest.raises(OSError, match="No such file"):
        claude_code.read(session)


# -- branches, compactions, forks, sub-agents --------------------------------------------------------------------------


def test_a_rewound_session_ends_where_the_user_went_on(home: Home) -> None:
    home.write(
        user("1", None, "Hello"),
        answer("2", "1", text("Hi")),
        user("3", "2", "Paint it red"),
        answer("4", "3", text("Red")),
        user("5", "2", "Paint it blue"),
        answer("6", "5", text("Blue")),
        user("7", None, "Hello again"),
        answer("8", "7", text("Again")),
        {"type": "last-prompt", "lastPrompt": "Paint it blue", "leafUuid": "6"},
    )
    found = home.read()
    assert plain(found) == [("user", "Hello"), ("agent", "Hi"), ("user", "Paint it blue"), ("agent", "Blue")]
    assert [(branch.title, plain(branch.transcript)) for branch in found.branches] == [
        ("Paint it red", [("user", "Hello"), ("agent", "Hi"), ("user", "Paint it red"), ("agent", "Red")]),
        ("Hello again", [("user", "Hello again"), ("agent", "Again")]),
    ]
    assert found.usage.prompt == 2 * 15


def test_without_a_mark_the_last_record_is_the_live_end(home: Home) -> None:
    home.write(
        user("1", None, "Hello"),
        {"type": "last-prompt", "leafUuid": "1"},
        answer("2", "1", text("Hi")),
        user("3", "lost", "And now?"),
        answer("4", "3", text("Now")),
    )
    assert plain(home.read()) == [("user", "Hello"), ("agent", "Hi"), ("user", "And now?"), ("agent", "Now")]


def test_a_compaction_replaces_what_was_before_it(home: Home) -> None:
    boundary = {"subtype": "compact_boundary", "logicalParentUuid": "3", "content": "Conversation compacted"}
    kept = {"compactMetadata": {"preservedSegment": {"headUuid": "3"}}}
    home.write(
        user("1", None, "Hello"),
        answer("2", "1", text("Hi")),
        user("3", "2", "More"),
        record("4", None, type="system", **boundary, **kept),
        user("5", "4", "They greeted.", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        user("6", "5", "Go on"),
    )
    found = home.read()
    assert plain(found)[2:] == [("user", "More"), ("compacts", "They greeted."), ("user", "Go on")]
    args = found.forms[3]["args"]
    assert (args["forgotten_events_start_id"], args["forgotten_events_end_id"]) == (0, 1)
    home.write(user("1", None, "Hello"), record("4", None, type="system", **boundary), answer("5", "4", text("Hm")))
    assert plain(home.read()) == [("user", "Hello"), ("compacts", ""), ("agent", "Hm")]


def test_a_fork_names_its_origin_and_does_not_count_it(home: Home) -> None:
    def queued(at: str) -> JsonObject:
        return {"type": "queue-operation", "operation": "enqueue", "timestamp": at, "sessionId": ID}

    begin = queued("2026-04-30T00:00:00Z")
    history = [user("1", None, "Hello"), answer("2", "1", text("Hi"))]
    own = [user("3", "2", "In the fork"), answer("4", "3", text("Here"))]
    home.write(begin, *history)
    copies = [{**each, "sessionId": "fork"} for each in history]
    home.write(queued(own[0]["timestamp"]), *copies, *({**each, "sessionId": "fork"} for each in own), name="fork")
    home.write(*history, *({**each, "sessionId": "resumed"} for each in own), name="resumed")
    marked = [{**each, "sessionId": "marked", "forkedFrom": {"sessionId": ID, "messageUuid": "1"}} for each in history]
    home.write(*marked, *({**each, "sessionId": "marked"} for each in own), name="marked")
    assert (home.session().parent_id, home.read().usage.prompt) == ("", 15)
    for name in ("fork", "resumed", "marked"):
        assert home.session(name).parent_id == ID or home.session().beginning == home.session(name).beginning != "", (
            name
        )
        found = home.read(name)
        assert found.usage.prompt == 15
        events = [event for event in shown(found) if event[0] != "claude-code.queue-operation"]
        assert events == [
            ("user", "Hello"), ("agent", "Hi"), ("claude-code.fork",), ("user", "In the fork"), ("agent", "Here"),
        ]  # fmt: skip


def test_older_versions_copy_a_session_that_is_resumed(home: Home) -> None:
    # as version 1.0.80 wrote it: new ids, one time for all copies, and the ids of the answers
    home.write(user("1", None, "Hello"), answer("2", "1", text("Hi"), id="msg"))
    copies = [user("c1", None, "Hello"), answer("c2", "c1", text("Hi"), id="msg")]
    copies = [{**each, "sessionId": "new", "timestamp": "2026-06-01T00:00:00Z"} for each in copies]
    own = [{**each, "sessionId": "new"} for each in (user("3", "c2", "Again"), answer("4", "3", text("Yes")))]
    home.write(*copies, *own, name="new")
    assert home.session("new").beginning == home.session().beginning == "msg"
    found = home.read("new")
    assert [event[0] for event in shown(found)] == ["user", "agent", "claude-code.fork", "user", "agent"]
    assert (found.usage.prompt, home.read().usage.prompt) == (15, 15)


def test_sub_agents_are_sessions_with_a_parent(home: Home) -> None:
    home.write(
        user("1", None, "Look"),
        answer("2", "1", call("t1", "Task", subagent_type="Explore", prompt="Look around")),
        answer("3", "2", call("t2", "Task", subagent_type="Explore", prompt="Look again")),
        result("4", "3", "t2", "Seen", {"agentId": "b2", "content": [text("Seen it")]}),
    )
    side: JsonObject = {"isSidechain": True, "agentId": "a1"}
    child = f"{ID}/subagents/agent-a1"
    home.write(user("1", None, "Look around", **side), answer("2", "1", text("A door"), **side), name=child)
    (home.project / f"{child}.meta.json").write_text('{"description": "Look at the door", "toolUseId": "t1"}')
    home.write(user("1", None, "Old", isSidechain=True), name="agent-0ld")
    assert [event[2] for event in plain(home.read()) if event[0] == "delegates"] == [
        {"task": "Look around", "session": "agent-a1"},
        {"task": "Look again", "session": "agent-b2"},
    ]
    found = home.session("agent-a1")
    assert (found.title, found.parent_id) == ("Look at the door", ID)
    assert plain(claude_code.read(found)) == [("user", "Look around"), ("agent", "A door")]
    assert (home.session("agent-0ld").title, home.session("agent-0ld").parent_id) == ("Old", ID)


def test_side_chains_in_the_file_are_branches(home: Home) -> None:
    home.write(
        user("1", None, "Look"),
        answer("2", "1", call("t1", "Task", prompt="Look around")),
        user("s1", None, "Look around", isSidechain=True),
        answer("s2", "s1", text("A door"), isSidechain=True),
        result("3", "2", "t1", "A door"),
    )
    found = home.read()
    assert [event[0] for event in plain(found)] == ["user", "delegates", "delegate result"]
    assert [(branch.title, plain(branch.transcript)) for branch in found.branches] == [
        ("Sub-agent: Look around", [("user", "Look around"), ("agent", "A door")])
    ]


# -- single records ----------------------------------------------------------------------------------------------------


def test_what_the_user_did_not_type_is_no_prompt(home: Home) -> None:
    home.write(
        user("1", None, "<system-reminder>Be good.</system-reminder>Fix it"),
        user("2", "1", "Caveat", isMeta=True),
        user("3", "2", "<command-name>/init</command-name>\n<command-args>now</command-args>"),
        user("4", "3", "<local-command-stdout>done</local-command-stdout>"),
        user("5", "4", "<bash-input>ls</bash-input>"),
        user("6", "5", "<bash-stdout>a.py</bash-stdout><bash-stderr></bash-stderr>"),
        user("7", "6", "<task-notification>ended</task-notification>"),
        user("8", "7", [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]),
        record("9", "8", type="attachment", attachment={"type": "queued_command", "prompt": "Faster"}),
        record("10", "9", type="attachment", attachment={"type": "skill_listing", "content": "many"}),
        user("11", "10", [text("[Request interrupted by user]")]),
        user("12", "11", "Ended", origin={"kind": "task-notification"}),
    )
    assert shown(home.read()) == [
        ("user", "Fix it"),
        ("claude-code.user.injected",),
        ("claude-code.user",),
        ("user", "/init now"),
        ("claude-code.user",),
        ("runs", "ls"),
        ("ran", 5, "a.py", -1),
        ("claude-code.user",),
        ("user", "", "data:image/png;base64,AA=="),
        ("user", "Faster"),
        ("claude-code.attachment.skill_listing",),
        ("state", "stopped"),
        ("claude-code.user",),
    ]


@pytest.mark.parametrize(
    ("printed", "kind"),
    [
        ("Permission to use WebFetch has been denied.", "user_rejected result"),
        ("cd to '/' was blocked. For security, Claude Code may only change directories to ...", "user_rejected result"),
        ("HTTP 403: access from this network has been blocked", "error result"),
        ("The request was denied by the server", "error result"),
    ],
)
def test_errors_of_a_server_are_not_denials_of_the_user(home: Home, printed: str, kind: str) -> None:
    fetch = answer("2", "1", call("t", "WebFetch", url="https://example.org"))
    home.write(user("1", None, "Look"), fetch, result("3", "2", "t", printed, is_error=True))
    assert plain(home.read())[-1] == (kind, 1, printed)


def test_prompts_that_quote_the_marks_of_commands_are_prompts(home: Home) -> None:
    quotes = ["Why is <bash-input>ls</bash-input> here?", "What is <command-name>/model</command-name>?"]
    home.write(user("1", None, quotes[0]), user("2", "1", quotes[1]), user("3", "2", "<bash-input>ls</bash-input>"))
    assert plain(home.read()) == [("user", quotes[0]), ("user", quotes[1]), ("runs", "ls")]
    assert home.session().title == quotes[0]


def test_commands_have_exit_codes(home: Home) -> None:
    done = {"stdout": "out", "stderr": "", "interrupted": False}
    cases: list[tuple[Any, Any, JsonObject, tuple[Any, ...]]] = [
        ("out", done, {}, ("ran", "out", 0)),
        ("Exit code 2\nno file", "Error: Exit code 2", {"is_error": True}, ("ran", "no file", 2)),
        ("Exit code 1", None, {"is_error": True}, ("ran", "", 1)),
        ("Exit code 3\na log", {**done, "stdout": "Exit code 3\na log"}, {}, ("ran", "Exit code 3\na log", 0)),
        ("", {**done, "interrupted": True}, {}, ("ran", "out", -1)),
        ("", {**done, "returnCodeInterpretation": "No matches"}, {}, ("ran", "out", -1)),
        ("timed out", None, {"is_error": True}, ("ran", "timed out", 1)),
        ([text("a"), text("b")], None, {}, ("ran", "a\nb", -1)),
        (
            "The user doesn't want to proceed with this tool use.",
            "Error",
            {"is_error": True},
            ("user_rejected result",),
        ),
    ]
    lines = [user("0", None, "Go")]
    for number, (content, info, block, _) in enumerate(cases):
        lines.append(answer(f"c{number}", lines[-1]["uuid"], call(f"t{number}", "Bash", command="make")))
        lines.append(result(f"r{number}", f"c{number}", f"t{number}", content, info, **block))
    home.write(*lines)
    found = [event for event in plain(home.read()) if event[0] not in ("user", "runs")]
    assert [(event[0], *event[2:]) if event[0] == "ran" else event[:1] for event in found] == [
        case[3] for case in cases
    ]


def test_errors_and_answers_of_the_program_are_not_said_by_the_model(home: Home) -> None:
    nobody = {"id": "x", "model": "<synthetic>", "content": [text("No response requested.")]}
    home.write(
        user("1", None, "Hello"),
        record("2", "1", type="system", subtype="api_error", error={"error": {"error": {"message": "Overloaded"}}}),
        answer("3", "2", text("API Error: 529"), isApiErrorMessage=True),
        record("4", "3", type="assistant", message=nobody),
        answer("5", "4", {"type": "redacted_thinking", "data": "x"}, {"type": "new_block"}, text("Hi")),
        record("6", "5", type="system", subtype="turn_duration", durationMs=7),
    )
    assert shown(home.read())[1:] == [
        ("error result", None, "Overloaded"),
        ("error result", None, "API Error: 529"),
        ("claude-code.assistant",),
        ("claude-code.assistant.new_block",),
        ("agent", "Hi"),
        ("claude-code.system.turn_duration",),
    ]


def test_copies_of_requests_are_left_out_and_their_neighbours_are_known(home: Home) -> None:
    """As version 2.1.330 writes them."""
    home.write(
        user("1", None, "Hello"),
        record("2", "1", type="attachment", attachment={"type": "prompt_snapshot", "systemPrompt": ["You are"]}),
        record("3", "2", type="attachment", attachment={"type": "date", "date": "2026-11-29"}),
        {"type": "api-request-shape", "sessionId": ID, "shape": {"system": [text("You are")]}},
        {"type": "api-request-blob", "sessionId": ID, "message": {"role": "user", "content": [text("Hello")]}},
        {"type": "api-request", "sessionId": ID, "params": {"model": "claude-x"}},
        {"type": "atis-latch", "sessionId": ID, "atis": ""},
        {"type": "tools-used", "sessionId": ID, "tools": []},
        answer("4", "3", text("Hi")),
        {"type": "cost-state", "sessionId": ID, "totalCostUSD": 0.5},
    )
    found = home.read()
    assert shown(found) == [
        ("user", "Hello"),
        ("claude-code.attachment.date",),
        ("claude-code.atis-latch",),
        ("claude-code.tools-used",),
        ("agent", "Hi"),
        ("claude-code.cost-state",),
    ]
    assert found.warnings == []


def test_unknown_records_and_bad_lines_are_kept_and_told(home: Home) -> None:
    twice = [user("1", "1", "Hello"), user("1", "1", "Other text")]
    home.write(user("1", None, "Hello"), {"type": "hologram"}, "{bad", "[1]", *twice, '{"cut')
    found = home.read()
    names = ["hologram", "record", "record", "duplicate", "record"]
    assert shown(found) == [("user", "Hello"), *((f"claude-code.{name}",) for name in names)]
    assert found.warnings == [
        "Lines that cannot be read: 2.",
        "Records of kinds that this version does not know are in the event log: hologram.",
    ]


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_damaged_sessions_are_survived(home: Home) -> None:
    home.write(SAMPLE.read_text(), user("x", "u5", "Otherwise"), answer("y", "x", text("Yes")))
    (home.project / ID / "tool-results").mkdir(parents=True)
    (home.project / ID / "tool-results" / "bxqm9nrum.txt").write_text("1\n2\n")
    home.write(user("1", None, "Look", isSidechain=True), name=f"{ID}/subagents/agent-a1")
    (home.project / ID / "subagents" / "agent-a1.meta.json").write_text('{"toolUseId": "toolu_1"}')
    (home.project.parents[1] / "settings.json").write_text('{"cleanupPeriodDays": 9}')
    survives(claude_code.discover, claude_code.read, home.places, trials=25)


def test_outputs_are_read_only_from_the_folder_of_the_session(home: Home) -> None:
    (home.project / "secret.txt").write_text("secret")
    (home.project / ID / "tool-results").mkdir(parents=True)
    (home.project / ID / "tool-results" / "link.txt").symlink_to(home.project / "secret.txt")
    for name in ("../../secret.txt", "/etc/passwd", "link.txt", "..", "", "\0"):
        told = f"<persisted-output>\nOutput too large. Full output saved to: {name}\n\nPreview"
        home.write(
            user("1", None, "Go"), answer("2", "1", call("t", "Bash", command="cat")), result("3", "2", "t", told)
        )
        assert plain(home.read())[-1] == ("ran", 1, told, -1)


def test_long_sessions_take_linear_time(home: Home) -> None:
    # every prompt goes back to the first one, so that there are as many branches as prompts
    lines = [user("0", None, "Go")]
    for number in range(1, 3_000):
        lines.append(user(f"{number}", "0", f"Try {number}"))
    home.write(*lines)
    started = time.process_time()
    found = home.read()
    assert time.process_time() - started < 3
    assert found.warnings == ["Only 50 of 2998 other branches are shown."]
    assert read_all(claude_code.discover, claude_code.read, home.places) == 1


def test_a_file_that_is_no_text_is_read_as_far_as_possible(home: Home) -> None:
    (home.project / f"{ID}.jsonl").write_bytes(b"\xff\xfe\0\n" + json.dumps(user("1", None, "Hi")).encode() + b"\n\xff")
    assert plain(home.read()) == [("user", "Hi")]
    with pytest.raises((OSError, Fault)):
        claude_code.read(AgentSession(agent="x", id="x", root=home.project, path=Path("/etc/passwd")))


def test_servers_can_restart_call_ids_with_each_answer(home: Home) -> None:
    home.write(
        user("1", None, "Look"),
        answer("2", "1", call("call_0", "Bash", command="ls")),
        result("3", "2", "call_0", "one"),
        answer("4", "3", call("call_0", "Bash", command="pwd")),
        result("5", "4", "call_0", "two"),
    )
    assert plain(home.read())[1:] == [("runs", "ls"), ("ran", 1, "one", -1), ("runs", "pwd"), ("ran", 3, "two", -1)]
