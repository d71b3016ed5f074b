"""Small files of other agents that ask for much time or memory."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import time
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents import claude_code, files, gemini, transcript, zips
from core.import_export.agents.claude_code_records import _whole_files
from core.import_export.agents.source import AgentSession
from core.import_export.bounded_json import Fault

QUICK_S = 5.0


def test_prompt_with_many_command_outputs_takes_linear_time() -> None:
    begin = time.monotonic()
    part = "\n```\n\nThis produced the following result:\n```\n"
    text = "I ran the following shell command:\n```sh\n" + part * 20_000
    assert gemini._by_hand(text + "x") is None
    assert gemini._by_hand(text + "x\n```\n") == ("", part * 19_999 + "x")
    assert time.monotonic() - begin < QUICK_S


def test_records_that_were_all_copied_at_once_take_linear_time(tmp_path: Path) -> None:
    begin = time.monotonic()
    path = tmp_path / "projects/p/s/subagents/agent-x.jsonl"
    path.parent.mkdir(parents=True)
    line = '{"type": "user", "uuid": "u%d", "isSidechain": false, "timestamp": 1, "message": {"content": "Why?"}}\n'
    path.write_text("".join(line % number for number in range(50_000)))
    session = AgentSession(agent="claude-code", id="agent-x", root=tmp_path, path=path)
    assert claude_code.read(session).forms
    assert time.monotonic() - begin < 2 * QUICK_S


def test_descriptions_of_sub_agents_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "projects/p/s.jsonl"
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    line = {"type": "user", "uuid": "u", "message": {"content": "Why?"}}
    path.write_text(json.dumps(line) + "\n")
    for number in range(5):
        (folder / f"agent-{number}.meta.json").write_text(json.dumps({"toolUseId": f"call-{number}"}))
    session = AgentSession(agent="claude-code", id="s", root=tmp_path, path=path)
    assert len(claude_code._Session(session).facts.children) == 5
    monkeypatch.setattr(claude_code, "MAX_SUB_AGENTS", 3)
    assert len(claude_code._Session(session).facts.children) == 3
    monkeypatch.setattr(claude_code, "MAX_OUTPUT_BYTES", 50)
    assert len(claude_code._Session(session).facts.children) == 2


def test_edit_that_replaces_all_is_not_made_anew_if_it_is_long() -> None:
    edit: dict[str, Any] = {"originalFile": "a" * 32_000, "oldString": "a", "newString": "b" * 30_000}
    assert _whole_files({**edit, "replaceAll": True}) == ("a" * 32_000, None)
    assert _whole_files(edit) == ("a" * 32_000, "b" * 30_000 + "a" * 31_999)


def test_lines_that_change_places_are_not_compared() -> None:
    begin = time.monotonic()
    lines = [str(number) for number in range(20_000)]
    swapped = [str(number ^ 1) for number in range(20_000)]
    assert transcript.difference("\n".join(lines), "\n".join(swapped), "a") is None
    changed = "\n".join([*lines[:10_000], "new", *lines[10_000:]])
    assert "+new" in (transcript.difference("\n".join(lines), changed, "a") or "")
    assert time.monotonic() - begin < QUICK_S


def test_all_edits_of_a_session_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript.Transcript, "_left", 5)
    made = transcript.Transcript("agent")
    made._left = 5
    for call in ("one", "two"):
        made.call(call, "edit", {"path": "a", "old_string": "1\n2", "new_string": "3\n4"})
        made.result(call, "done")
    diffs = [form["extras"]["diff"] for form in made.forms if form.get("observation") == "edit"]
    assert diffs[0]
    assert diffs[1] is None


def test_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_VALUES", 1000)
    bomb = b"[" + b"[]," * 600 + b"1]"
    with pytest.raises(ValueError, match="too many values"):
        files.parse(bomb)
    found = [line.wrong for line in files.lines(io.BytesIO(b"{}\n" + bomb + b"\n{}\n"))]
    assert found == ["", "too long"]


def test_file_with_a_hole_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINES_BYTES", 64 * 1024 * 1024)
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    os.truncate(path, 2**43)
    begin = time.monotonic()
    with path.open("rb") as file:
        assert {line.wrong for line in files.lines(file)} == {"", "too long"}
    assert time.monotonic() - begin < QUICK_S


def _database(tmp_path: Path, *statements: str) -> Path:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return path


@pytest.mark.parametrize(
    "column",
    ["text GENERATED ALWAYS AS (hex(zeroblob(100000000)))", f"text DEFAULT '{'x' * 1000}'"],
)
def test_table_with_costly_columns_has_none(tmp_path: Path, column: str) -> None:
    path = _database(
        tmp_path, "CREATE TABLE a (id)", "INSERT INTO a VALUES (1)", f"ALTER TABLE a ADD COLUMN b {column}"
    )
    with files.database(tmp_path, path) as connection:
        assert files.columns(connection, "a") == frozenset()
        assert not list(files.rows(connection, "a", "id b"))


def test_virtual_table_has_no_columns(tmp_path: Path) -> None:
    path = _database(tmp_path, "CREATE VIRTUAL TABLE a USING fts4(b)")
    with files.database(tmp_path, path) as connection:
        assert files.columns(connection, "a") == frozenset()


def test_rows_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_ROWS_BYTES", 1000)
    path = _database(tmp_path, "CREATE TABLE a (b)", f"INSERT INTO a VALUES ('{'x' * 500}'), ('{'y' * 500}')")
    with pytest.raises(Fault), files.database(tmp_path, path) as connection:
        list(files.rows(connection, "a", "b"))


def test_large_database_with_a_log_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_COPIED_BYTES", 1000)
    path = _database(tmp_path, "CREATE TABLE a (b)")
    path.with_name("a.db-wal").write_bytes(b"x")
    with pytest.raises(Fault, match="too much to copy"), files.database(tmp_path, path):
        pass


def test_long_list_of_a_zip_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(1000):
            archive.writestr(f"{number}.json", json.dumps(number))
    assert len(zips.members(file)) == 1000
    monkeypatch.setattr(zips, "MAX_LIST_BYTES", 30_000)
    with pytest.raises(Fault, match="too long"):
        zips.members(file)


def test_fifo_beside_a_database_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = _database(tmp_path, "CREATE TABLE a (b)", "INSERT INTO a VALUES (1)")
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).write_bytes(b"x")
    os.mkfifo(path.with_name("a.db-journal"))
    with files.database(tmp_path, path) as connection:
        assert list(files.rows(connection, "a", "b")) == [{"b": 1}]
