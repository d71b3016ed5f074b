"""Sessions of the Codex CLI.

The files in `samples` were written by the versions in their names, with a scripted model; instructions were left out of
them, and names were changed.
"""

from __future__ import annotations

import base64
import json
import os
import time
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents import codex
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Transcript, Usage
from core.import_export.bounded_json import Fault
from tests.import_export.agents.fuzzed import read_all, survives
from tests.import_export.agents.shown import shown

JsonObject = dict[str, Any]
SAMPLES = Path(__file__).parent / "samples"
MAIN = "01a2244f-6e06-7963-a85a-ebcdfa8cdd01"
FORK = "01a22450-6495-79a0-b1e6-ce4661ab17d4"
CHILD = "01a2244f-75ea-7bd0-95cb-441514953bd6"
OLD_PARENT = "01a22451-ef69-74a1-93e0-654da83f6a28"
OLD_CHILD = "01a22451-f525-7070-9d74-f507e2e79485"
ID = "019a0000-0000-7000-8000-000000000001"
OTHER = "019a0000-0000-7000-8000-000000000000"
HIDDEN = ("codex.",)
PACKED = base64.b64decode(
    "KLUv/SB2jQIAAkUQFZClOlwI4jfPuHCbS+rXvnSar+ejDmLXC6EHRg/fpOoTEa6D0USaOuBi1wGjy/FDl1zIJfNwtiei1lG9Gn3m"
    "ml8EAC1STshWU1IWakoP"
)
"""A prompt `Hello`, compressed with zstd."""


class Home:
    """A home in which Codex has worked."""

    def __init__(self, path: Path) -> None:
        self.places = Places(path)
        self.root = path / ".codex"
        self.root.mkdir(parents=True)

    def path(self, id: str = ID, folder: str = "sessions/2026/05/01", suffix: str = ".jsonl") -> Path:
        path = self.root / folder / f"rollout-2026-05-01T10-00-00-{id}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, *lines: JsonObject | str, id: str = ID, **where: str) -> Path:
        path = self.path(id, **where)
        path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
        return path

    def sample(self, name: str, id: str) -> Path:
        return self.write((SAMPLES / name).read_text(), id=id)

    def session(self, id: str = ID) -> AgentSession:
        (found,) = [session for session in codex.discover(self.places) if session.id == id]
        return found

    def read(self, id: str = ID) -> Transcript:
        return codex.read(self.session(id))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


_second = count()


def line(kind: str, /, **payload: Any) -> JsonObject:
    at = datetime(2026, 5, 1, 10, tzinfo=UTC).timestamp() + next(_second)
    return {"timestamp": datetime.fromtimestamp(at, UTC).isoformat(), "type": kind, "payload": payload}


def meta(id: str = ID, **fields: Any) -> JsonObject:
    return line("session_meta", id=id, cwd="/home/ann/shop", **fields)


def event(type: str, **fields: Any) -> JsonObject:
    return line("event_msg", type=type, **fields)


def item(type: str, **fields: Any) -> JsonObject:
    return line("response_item", type=type, **fields)


def turn_item(type: str, **fields: Any) -> JsonObject:
    return event("item_completed", item={"type": type, **fields})


def message(role: str, text: str) -> JsonObject:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


def prompt(text: str) -> JsonObject:
    return event("user_message", message=text, images=[], local_images=[])


def call(id: str, name: str, arguments: Any, **fields: Any) -> JsonObject:
    return item("function_call", call_id=id, name=name, arguments=json.dumps(arguments), **fields)


def output(id: str, text: Any) -> JsonObject:
    return item("function_call_output", call_id=id, output=text)


def tokens(count: int, total: int) -> JsonObject:
    usage = {"input_tokens": count, "cached_input_tokens": 1, "output_tokens": 2}
    everything = {"input_tokens": total, "output_tokens": total, "total_tokens": 2 * total}
    return event("token_count", info={"total_token_usage": everything, "last_token_usage": usage})


def plain(transcript: Transcript) -> list[tuple[Any, ...]]:
    """What is shown, without what only the event log has."""
    return [found for found in shown(transcript) if not found[0].startswith(HIDDEN)]


# -- what the program itself wrote -------------------------------------------------------------------------------------


def test_a_session_of_the_program_is_listed(home: Home) -> None:
    path = home.sample("codex-0.171.0.jsonl", MAIN)
    found = home.session(MAIN)
    assert (found.title, found.folder, found.model) == ("MAIN fix x", "/home/ann/shop", "gpt-5.2-codex")
    assert found.started_at == datetime(2026, 11, 28, 22, 38, 35, 178000, UTC)
    assert found.updated_at == datetime(2026, 11, 28, 22, 39, 39, 358000, UTC)
    assert (found.size, found.changed_ns) == (path.stat().st_size, path.stat().st_mtime_ns)
    assert (found.parent_id, found.tokens, found.commit) == ("", 1260, "c0ffee")


def test_a_paginated_session_of_the_program_is_read_event_by_event(home: Home) -> None:
    home.sample("codex-0.171.0.jsonl", MAIN)
    found = home.read(MAIN)
    events = plain(found)
    much = next(event for event in events if str(event[2:3]).startswith("('1\\n2\\n"))
    summary = next(event for event in events if event[0] == "compacts")
    assert much[0] == "ran"
    assert much[3] == 0
    assert summary[1].startswith("Another language model started")
    new, old = "/home/ann/shop/new.txt", "/home/ann/shop/a.py"
    diff = (
        f"--- {new}\n+++ {new}\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        f"--- {old}\n+++ {old}\n@@ -1,2 +1,2 @@\n-x = 1\n+x = 2\n y = 2"
    )
    assert [(event[0], *event[2:]) if " result" in event[0] or event[0] in ("ran", "edited") else event
            for event in events] == [
        ("user", "MAIN fix x"),
        ("thinks", "**Looking first**\n\nI should look."),
        ("agent", "Let me look."),
        ("runs", "echo hello; exit 3"),
        ("runs", "cat a.py"),
        ("ran", "hello\n", 3),
        ("ran", "x = 1\ny = 2\n", 0),
        ("edits", "a.py, new.txt", ""),
        ("edited", diff),
        ("plans", [("First", "done"), ("Second", "in_progress")]),
        ("error result", "unsupported call: update_plan"),
        ("runs", "seq 1 30000"),
        ("ran", much[2], 0),
        ("delegates", "default", {"task": "SUBAGENT look around", "session": CHILD}),
        ("delegate result", f'{{"agent_id":"{CHILD}","nickname":"Carver"}}'),
        ("calls", "wait_agent", {"timeout_ms": 15000}),
        ("mcp result", "agent ids must be non-empty"),
        ("agent", "All done."),
        summary,
        ("user", "HELLO resumed"),
        ("agent", "Hello there."),
    ]  # fmt: skip
    assert found.usage == Usage("gpt-5.2-codex", 900, 360, 270, 0)
    assert (found.commit, found.branches, found.warnings) == ("c0ffee", [], [])


def test_a_fork_of_the_program_begins_with_the_records_of_its_parent(home: Home) -> None:
    home.sample("codex-0.171.0.jsonl", MAIN)
    home.sample("codex-0.171.0-fork.jsonl", FORK)
    listed = home.session(FORK)
    assert (listed.title, listed.parent_id, listed.tokens) == ("HELLO in the fork", MAIN, 0)
    found = home.read(FORK)
    events = [event for event in shown(found) if event[0] in ("user", "agent", "codex.fork", "compacts")]
    assert events == [
        ("user", "MAIN fix x"),
        ("agent", "Let me look."),
        ("agent", "All done."),
        ("codex.fork",),
        ("user", "HELLO in the fork"),
        ("agent", "Hello there."),
    ]
    assert found.usage == Usage("gpt-5.2-codex", 100, 40, 30, 0)
    assert str(found.forms[0]["imported"]["record"]["place"]).endswith(f"{MAIN}.jsonl:1")
    home.path(MAIN).unlink()
    alone = home.read(FORK)
    assert plain(alone) == [("user", "HELLO in the fork"), ("agent", "Hello there.")]
    assert alone.warnings == [f"The session of which this is a fork cannot be read: {MAIN}."]


def test_a_legacy_sub_agent_of_the_program_does_not_count_its_copy(home: Home) -> None:
    home.sample("codex-0.125.0-sub-agent.jsonl", OLD_CHILD)
    listed = home.session(OLD_CHILD)
    assert (listed.title, listed.parent_id, listed.tokens) == ("SUBAGENT look around", OLD_PARENT, 0)
    found = home.read(OLD_CHILD)
    assert [event for event in shown(found) if event[0] == "codex.fork" or not event[0].startswith(HIDDEN)] == [
        ("user", "MAIN fix x"),
        ("thinks", "**Looking first**\n\nI should look."),
        ("agent", "Let me look."),
        ("codex.fork",),
        ("user", "SUBAGENT look around"),
        ("runs", "echo hello; exit 3"),
        ("ran", 16, "hello\n", 3),
        ("agent", "Nothing special seen."),
    ]
    assert found.usage == Usage("gpt-5.2-codex", 200, 80, 60, 0)


# -- the list ----------------------------------------------------------------------------------------------------------


def test_the_active_and_the_plain_file_win(home: Home) -> None:
    home.write(meta(), prompt("Archived"), folder="archived_sessions")
    assert home.session().title == "Archived"
    home.path(suffix=".jsonl.zst").write_bytes(b"")
    assert home.session().path.suffix == ".zst"
    home.write(meta(), prompt("Active"))
    assert home.session().title == "Active"
    assert home.session().started_at == datetime(2025, 10, 20, 5, 3, 11, 360000, UTC)


def test_the_title_is_the_users_or_the_first_prompt(home: Home) -> None:
    context = "# Context from my IDE setup:\nopen: a.py\n## My request for Codex:\nFix it\nnow"
    home.write(meta(), message("user", "<environment_context>x</environment_context>"), prompt(context))
    assert home.session().title == "Fix it"
    assert shown(home.read())[2:] == [("user", "Fix it\nnow"), ("codex.context",)]
    names: list[Any] = [
        {"id": ID, "thread_name": "Old"},
        {"id": 7},
        [],
        {"id": ID, "thread_name": "New"},
        {"id": ID[:5]},
    ]
    (home.root / "session_index.jsonl").write_text("\n".join(map(json.dumps, names)))
    assert home.session().title == "New"


def test_only_regular_files_with_an_id_are_listed(home: Home) -> None:
    target = home.write(meta(), prompt("Hello"))
    (target.parent / f"rollout-x-{OTHER}.jsonl").symlink_to(target)
    os.mkfifo(target.parent / f"rollout-y-{OTHER}.jsonl")
    (target.parent / "rollout-z.jsonl").write_text("{}")
    assert [session.id for session in codex.discover(home.places)] == [ID]
    moved = Places(home.places.home / "none", {"CODEX_HOME": str(home.root)})
    (session,) = codex.discover(moved)
    target.unlink()
    with pytest.raises(OSError, match="No such file"):
        codex.read(session)


def test_compressed_sessions_are_unpacked(home: Home) -> None:
    home.path(suffix=".jsonl.zst").write_bytes(PACKED)
    assert (home.session().title, home.session().started_at) == (
        "Hello", datetime(2025, 10, 20, 5, 3, 11, 360000, UTC)
    )  # fmt: skip
    assert plain(home.read()) == [("user", "Hello")]
    home.path(suffix=".jsonl.zst").write_bytes(PACKED[:-9])
    assert home.session().id == ID
    with pytest.raises(Fault, match="it cannot be unpacked"):
        home.read()


# -- both views of one thing -------------------------------------------------------------------------------------------


def test_texts_are_shown_once_in_the_order_of_either_view(home: Home) -> None:
    home.write(
        meta(),
        message("user", "Hello"),
        prompt("Hello"),
        event("agent_reasoning", text="Hm"),
        item("reasoning", summary=[{"type": "summary_text", "text": "Hm"}], encrypted_content="x"),
        message("assistant", "Yes"),
        event("agent_message", message="Yes"),
        event("agent_message", message="Yes"),
        message("assistant", "Yes"),
        event("agent_message", message="Only here"),
        item("reasoning", summary=[], encrypted_content="x"),
        message("developer", "Be good"),
    )
    assert plain(home.read()) == [
        ("user", "Hello"), ("thinks", "Hm"), ("agent", "Yes"), ("agent", "Yes"), ("agent", "Only here"),
    ]  # fmt: skip


def test_events_enrich_the_calls_of_the_model(home: Home) -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"
    changes = {"a.py": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n", "move_path": "b.py"}}
    home.write(
        meta(),
        item("custom_tool_call", call_id="p", name="apply_patch", input=patch),
        event("patch_apply_end", call_id="p", success=True, changes=changes),
        item("custom_tool_call_output", call_id="p", output='{"output":"Done","metadata":{"exit_code":0}}'),
        call("m", "find", {"q": 1}, namespace="mcp__docs__"),
        event("mcp_tool_call_end", call_id="m", invocation={"server": "docs", "tool": "find"}, result={"Ok": {}}),
        output("m", [{"type": "input_text", "text": "Found"}]),
        event("mcp_tool_call_end", call_id="n", invocation={"server": "docs", "tool": "get"}, result={"Err": "No"}),
        turn_item("CommandExecution", id="u", command=["bash", "-lc", "ls"], source="user_shell", exit_code=0,
                  aggregated_output="a.py"),
        turn_item("FileChange", id="f", changes=changes, status="declined"),
        turn_item("Hologram", id="h"),
    )  # fmt: skip
    diff = "--- a.py\n+++ b.py\n@@ -1 +1 @@\n-x\n+y"
    found = home.read()
    assert shown(found)[1:] == [
        ("edits", "a.py", ""), ("edited", 1, diff),
        ("calls", "mcp__docs__find", {"q": 1}), ("mcp result", 3, "Found"),
        ("calls", "mcp__docs__get", {}), ("mcp result", 5, "No"),
        ("runs", "ls"), ("ran", 7, "a.py", 0),
        ("edits", "a.py", ""), ("user_rejected result", 9, ""),
        ("codex.item.Hologram",),
    ]  # fmt: skip
    assert (found.forms[7]["source"], found.forms[6]["extras"]["is_error"]) == ("user", True)


@pytest.mark.parametrize(
    ("printed", "text", "code"),
    [
        ("Exit code: 2\nWall time: 0.1 seconds\nTotal output lines: 3\nOutput:\nno", "no", 2),
        ("Chunk ID: a1\nWall time: 0.0 seconds\nProcess exited with code 0\nOutput:\n", "", 0),
        ("Wall time: 1.0 seconds\nProcess running with session ID 5\nOutput:\nhalf", "half", -1),
        ('{"output":"yes\\n","metadata":{"exit_code":1,"duration_seconds":0.2}}', "yes\n", 1),
        ({"content": "out", "success": False}, "out", 1),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nExit code: 5\nOutput:\na log", "a log", 0),
        ("Output:\nof mine", "Output:\nof mine", -1),
        ("Output of mine", "Output of mine", -1),
        ([{"type": "input_text", "text": "a"}], "a", -1),
        (7, "", -1),
    ],
)
def test_exit_codes_are_in_what_the_tool_printed(home: Home, printed: Any, text: str, code: int) -> None:
    home.write(meta(), call("1", "shell", {"command": ["bash", "-lc", "make"]}), output("1", printed), output("1", "x"))
    assert shown(home.read())[1:] == [("runs", "make"), ("ran", 1, text, code), ("codex.output",)]


def test_tokens_are_counted_once_for_each_call(home: Home) -> None:
    context = line("turn_context", model="gpt-x", cwd="/home/ann/shop")
    nothing = event("token_count", info=None)
    home.write(meta(), context, tokens(10, 10), tokens(10, 10), nothing, tokens(20, 30), message("assistant", "Hi"))
    found = home.read()
    assert found.usage == Usage("gpt-x", 30, 4, 2, 0)
    assert found.forms[-1]["llm_metrics"]["accumulated_token_usage"]["prompt_tokens"] == 30
    assert home.session().tokens == 60


# -- turns that were taken back, compactions, interrupts ---------------------------------------------------------------


def test_turns_that_were_taken_back_are_a_branch(home: Home) -> None:
    home.write(
        meta(),
        event("task_started", turn_id="1"), prompt("One"), message("assistant", "First"),
        event("task_started", turn_id="2"), prompt("Two"), message("assistant", "Second"),
        event("task_started", turn_id="3"), prompt("Three"), message("assistant", "Third"),
        event("thread_rolled_back", num_turns=2),
        event("task_started", turn_id="4"), prompt("Four"),
        event("thread_rolled_back", num_turns=99),
        event("turn_aborted", reason="interrupted"), prompt("Five"),
    )  # fmt: skip
    found = home.read()
    assert plain(found) == [("state", "stopped"), ("user", "Five")]
    assert [(branch.title, [event[1] for event in plain(branch.transcript)]) for branch in found.branches] == [
        ("Two", ["One", "First", "Two", "Second", "Three", "Third"]),
        ("One", ["One", "First", "Four"]),
    ]


def test_a_compaction_is_not_told_as_an_answer(home: Home) -> None:
    home.write(
        meta(), prompt("One"), message("assistant", "They said one."),
        line("compacted", message="Summary:\nThey said one.", replacement_history=[{"type": "message"}]),
        event("context_compacted"), message("assistant", "They said one."),
    )  # fmt: skip
    assert plain(home.read()) == [
        ("user", "One"), ("compacts", "Summary:\nThey said one."), ("agent", "They said one."),
    ]  # fmt: skip


def test_old_files_have_items_without_an_envelope(home: Home) -> None:
    items: list[JsonObject] = [
        message("user", "<user_instructions>x"),
        message("user", "Hello"),
        message("assistant", "Hi"),
    ]
    header = {"id": ID, "timestamp": "2025-05-01T10:00:00Z", "instructions": None}
    bare = [each["payload"] for each in items]
    home.write(header, *bare, {"record_type": "state"})
    assert plain(home.read()) == [("user", "Hello"), ("agent", "Hi")]
    home.path().unlink()
    path = home.write({"session": header, "items": bare}, suffix=".json")
    assert plain(home.read()) == [("user", "Hello"), ("agent", "Hi")]
    path.write_text(json.dumps({"session": header, "items": bare}, indent=2))
    assert (home.session().title, plain(home.read())) == ("Hello", [("user", "Hello"), ("agent", "Hi")])


def test_records_are_in_the_order_of_their_ordinals(home: Home) -> None:
    records = [meta(), prompt("One"), message("assistant", "Two"), {"type": "hologram", "payload": {}}]
    home.write(*({**each, "ordinal": number} for number, each in reversed(list(enumerate(records)))))
    found = home.read()
    assert shown(found) == [("codex.session_meta",), ("user", "One"), ("agent", "Two"), ("codex.hologram",)]
    assert found.warnings == ["Records of kinds that this version does not know are in the event log: hologram."]
    home.write(meta(history_mode="holographic"), "{bad", prompt("One"), '{"cut')
    assert home.read().warnings == [
        "Lines that cannot be read: 1.",
        "The history mode 'holographic' is not known to this version; some events may be missing.",
        "Records of kinds that this version does not know are in the event log: ?.",
    ]


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_damaged_sessions_are_survived(home: Home) -> None:
    home.sample("codex-0.171.0.jsonl", MAIN)
    home.sample("codex-0.171.0-fork.jsonl", FORK)
    home.sample("codex-0.125.0-sub-agent.jsonl", OLD_CHILD)
    home.write(meta(), prompt("One"), event("thread_rolled_back", num_turns=1), prompt("Two"), tokens(1, 1))
    (home.root / "session_index.jsonl").write_text(json.dumps({"id": ID, "thread_name": "New"}))
    survives(codex.discover, codex.read, home.places, trials=15)


def test_forks_of_each_other_end(home: Home) -> None:
    for id, parent in ((ID, OTHER), (OTHER, ID)):
        fork = {"forked_from_id": parent, "forked_from_ordinal_exclusive": 10**6}
        home.write({**meta(id, **fork), "ordinal": 0}, {**prompt(f"In {id}"), "ordinal": 1}, id=id)
    found = home.read()
    assert plain(found) == [("user", f"In {OTHER}"), ("user", f"In {ID}")]
    assert found.warnings == [f"The session of which this is a fork cannot be read: {ID}."]


def test_long_sessions_take_linear_time(home: Home) -> None:
    lines = [meta()]
    for number in range(1_000):
        lines += [prompt(f"Try {number}"), message("assistant", "x"), event("thread_rolled_back", num_turns=number % 2)]
    home.write(*lines)
    started = time.process_time()
    found = home.read()
    assert time.process_time() - started < 3
    assert len(found.branches) <= 50
    assert read_all(codex.discover, codex.read, home.places) == 1


def test_events_tell_which_calls_failed(home: Home) -> None:
    changes = {"a.py": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y"}}
    home.write(
        meta(),
        item("custom_tool_call", call_id="1", name="apply_patch", input="*** Begin Patch\n*** Update File: a.py"),
        event("patch_apply_end", call_id="1", success=False, stdout="", stderr="No such lines", changes=changes),
        item("custom_tool_call_output", call_id="1", output="No such lines"),
        event("patch_apply_end", call_id="2", success=False, stdout="", stderr="Neither", changes=changes),
        event("mcp_tool_call_end", call_id="3", invocation={"server": "docs", "tool": "get", "arguments": {}},
              result={"Ok": {"content": [{"type": "text", "text": "No"}], "isError": True}}),
    )  # fmt: skip
    found = home.read()
    assert shown(found)[1:] == [
        ("edits", "a.py", ""), ("error result", 1, "No such lines"),
        ("edits", "a.py", ""), ("error result", 3, "Neither"),
        ("calls", "mcp__docs__get", {}), ("mcp result", 5, "No"),
    ]  # fmt: skip
    assert found.forms[6]["extras"]["is_error"] is True


def test_a_call_that_is_no_command_keeps_the_exit_code_in_its_text(home: Home) -> None:
    printed = "Wall time: 0.1 seconds\nProcess exited with code 3\nOutput:\nend"
    home.write(meta(), call("1", "write_stdin", {"session_id": 5}), output("1", printed))
    assert shown(home.read())[1:] == [("calls", "write_stdin", {"session_id": 5}), ("mcp result", 1, printed)]


def test_servers_can_restart_call_ids_with_each_answer(home: Home) -> None:
    first, second = (call("call_0", "shell", {"command": [name]}) for name in ("ls", "pwd"))
    home.write(meta(), first, output("call_0", "one"), second, output("call_0", "two"))
    assert plain(home.read()) == [("runs", "ls"), ("ran", 1, "one", -1), ("runs", "pwd"), ("ran", 3, "two", -1)]


def test_patches_that_are_applied_through_a_shell_are_edits(home: Home) -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"
    scripts = [f"apply_patch <<'EOF'\n{patch}\nEOF", f"cd /w && apply_patch <<EOF\n{patch}\nEOF\n"]
    commands = [["apply_patch", patch], *(["bash", "-lc", script] for script in scripts), ["apply_patch", "--help", ""]]
    home.write(meta(), *(call(str(n), "shell", {"command": command}) for n, command in enumerate(commands)))
    assert plain(home.read()) == [("edits", "a.py", "")] * 3 + [("runs", "apply_patch --help ''")]
