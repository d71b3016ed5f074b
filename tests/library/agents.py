"""Small sessions of three agents about one repository, as these agents store them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

CLAUDE_ID = "11111111-2222-4333-8444-555555555555"
CODEX_ID = "019a0000-0000-7000-8000-000000000001"
MINI_TASK = "Say what the pump needs."


def write_all(home: Path, folder: Path) -> None:
    """A session each of Claude Code, Codex and mini-swe-agent in the home of a user; all talk about a washer."""
    write_claude(home, folder)
    write_codex(home, folder)
    write_mini(home)


def write_claude(home: Path, folder: Path, *more: dict[str, Any]) -> Path:
    """A session of Claude Code in which it looks, edits a file, and says what it did."""
    base = {"sessionId": CLAUDE_ID, "cwd": str(folder), "version": "2.1.197", "isSidechain": False}
    use = {"input_tokens": 100, "output_tokens": 20}
    look = {"type": "tool_use", "id": "call-1", "name": "Bash", "input": {"command": "cat pump.txt"}}
    edit = {"file_path": str(folder / "pump.txt"), "old_string": "worn washer", "new_string": "new washer"}
    change = {"type": "tool_use", "id": "call-2", "name": "Edit", "input": edit}
    records: list[dict[str, Any]] = [
        {"type": "user", "message": {"role": "user", "content": "Mend the pump of the garden."}},
        {"type": "assistant", "message": _answer("one", use, {"type": "text", "text": "I look at it first."}, look)},
        {"type": "user", "message": _result("call-1", "worn washer"), "toolUseResult": {"stdout": "worn washer"}},
        {"type": "assistant", "message": _answer("two", use, change)},
        {"type": "user", "message": _result("call-2", "The file was updated.")},
        {"type": "assistant", "message": _answer("three", use, {"type": "text", "text": "The washer is new now."})},
        *more,
    ]
    path = home / ".claude/projects" / str(folder).replace("/", "-") / f"{CLAUDE_ID}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    before = None
    with path.open("w") as file:
        for number, record in enumerate(records):
            at = f"2026-03-01T10:00:{number:02}.000Z"
            line = {**base, "uuid": f"u{number}", "parentUuid": before, "timestamp": at, **record}
            before = line["uuid"]
            file.write(json.dumps(line) + "\n")
    return path


def claude_answer(number: int, text: str) -> dict[str, Any]:
    """A record that continues the session of `write_claude`."""
    message = _answer(f"more-{number}", {"input_tokens": 1, "output_tokens": 1}, {"type": "text", "text": text})
    return {"type": "assistant", "message": message}


def _answer(id: str, usage: dict[str, int], *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"id": id, "role": "assistant", "model": "claude-opus-4-5", "content": list(blocks), "usage": usage}


def _result(call: str, text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text}]}


def write_codex(home: Path, folder: Path) -> Path:
    """A session of Codex that runs a command which fails."""
    call = {
        "type": "function_call",
        "call_id": "c1",
        "name": "shell",
        "arguments": '{"command": ["bash", "-lc", "false"]}',
    }
    output = {"output": "no washer here", "metadata": {"exit_code": 1, "duration_seconds": 0.1}}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It has no washer."}]}
    lines = [
        (
            "session_meta",
            {"id": CODEX_ID, "timestamp": "2026-03-02T10:00:00Z", "cwd": str(folder), "cli_version": "0.98.0"},
        ),
        ("turn_context", {"cwd": str(folder), "model": "gpt-5-codex"}),
        ("event_msg", {"type": "user_message", "message": "Is there a spare part?"}),
        ("response_item", call),
        ("response_item", {"type": "function_call_output", "call_id": "c1", "output": json.dumps(output)}),
        ("response_item", said),
    ]
    path = home / ".codex/sessions/2026/03/02" / f"rollout-2026-03-02T10-00-00-{CODEX_ID}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for second, (kind, payload) in enumerate(lines):
            at = f"2026-03-02T10:00:{second:02}Z"
            file.write(json.dumps({"timestamp": at, "type": kind, "payload": payload}) + "\n")
    return path


def write_mini(home: Path) -> Path:
    """A run of mini-swe-agent."""
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": MINI_TASK},
        {
            "role": "assistant",
            "content": "A look.",
            "extra": {"actions": [{"command": "echo a washer"}], "cost": 0.01, "timestamp": 1772500000.0},
        },
        {
            "role": "user",
            "content": "<returncode>0</returncode>\n<output>\na washer\n</output>",
            "extra": {"returncode": 0, "raw_output": "a washer\n", "timestamp": 1772500001.0},
        },
    ]
    info = {"model_stats": {"instance_cost": 0.01, "api_calls": 1}, "mini_version": "2.4.5", "exit_status": "Submitted"}
    path = home / ".config/mini-swe-agent/last_mini_run.traj.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}))
    return path


def write_broken_database(path: Path) -> None:
    """A database of opencode whose tables are views that never end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    endless = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id FROM n"
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in ("session", "message", "part"):
            connection.execute(f"CREATE VIEW {name} AS {endless}")
