"""Databases of other agents are read while they are in use, and nothing beside them changes."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE

import pytest

from core.import_export.agents.files import cell, columns, database, rows
from core.import_export.agents.source import AgentSession
from core.import_export.bounded_json import Fault

WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.executescript("PRAGMA journal_mode = WAL; CREATE TABLE notes (text); INSERT INTO notes VALUES ('first')")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "a.db"


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE notes (text)")
    connection.execute("INSERT INTO notes VALUES ('first')")
    connection.commit()
    yield connection
    connection.close()


def _state(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        each.name: (hashlib.sha256(each.read_bytes()).hexdigest(), each.stat().st_mtime_ns) for each in folder.iterdir()
    }


def _texts(path: Path) -> list[str]:
    with database(path.parent, path) as connection:
        return [row["text"] for row in connection.execute("SELECT text FROM notes")]


def test_a_database_in_use_is_read_in_place_with_its_newest_rows(path: Path, writer: sqlite3.Connection) -> None:
    before = _state(path.parent)
    assert _texts(path) == ["first"]
    writer.execute("INSERT INTO notes VALUES ('second')")
    writer.commit()
    assert _texts(path) == ["first", "second"]
    assert sorted(_state(path.parent)) == sorted(before)


def test_reading_changes_nothing_that_another_process_uses(path: Path) -> None:
    path.parent.mkdir()
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = _state(path.parent)
        assert _texts(path) == ["first"]
        assert _state(path.parent) == before
        process.communicate()


@pytest.mark.parametrize("left", ["a.db a.db-wal", "a.db a.db-wal a.db-shm"])
def test_a_database_whose_agent_was_killed_is_read_with_its_log(
    path: Path, writer: sqlite3.Connection, tmp_path: Path, left: str
) -> None:
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in left.split():
        (killed / name).write_bytes((path.parent / name).read_bytes())
    before = _state(killed)
    assert _texts(killed / path.name) == ["first"]
    assert _state(killed) == before


def test_a_closed_database_is_read_although_its_folder_is_read_only(path: Path, writer: sqlite3.Connection) -> None:
    writer.close()
    os.chmod(path.parent, 0o500)
    try:
        assert _texts(path) == ["first"]
    finally:
        os.chmod(path.parent, 0o700)


def test_links_pipes_and_other_files_are_no_databases(path: Path, writer: sqlite3.Connection) -> None:
    folder = path.parent
    (folder / "link.db").symlink_to(path)
    os.mkfifo(folder / "pipe.db")
    (folder / "text.db").write_text("This is not a database, but it is long enough for a header." * 99)
    for name, error in (("link.db", OSError), ("pipe.db", OSError), ("text.db", Fault)):
        with pytest.raises(error), database(folder, folder / name) as connection:
            connection.execute("SELECT * FROM notes").fetchall()


def test_a_pipe_beside_a_database_does_not_block(path: Path, writer: sqlite3.Connection) -> None:
    log = path.with_name("a.db-wal").read_bytes()
    other = path.with_name("b.db")
    other.write_bytes(path.read_bytes())
    os.mkfifo(path.with_name("b.db-shm"))
    path.with_name("b.db-wal").write_bytes(log)
    assert _texts(other) == ["first"]


def test_a_view_has_no_columns(path: Path, writer: sqlite3.Connection) -> None:
    writer.execute("CREATE VIEW seen AS SELECT text FROM notes")
    writer.commit()
    with database(path.parent, path) as connection:
        assert columns(connection, "notes") == {"text"}
        assert columns(connection, "seen") == columns(connection, "missing") == frozenset()


def test_rows_have_the_columns_that_are_there_as_json_values(path: Path, writer: sqlite3.Connection) -> None:
    writer.execute("CREATE TABLE wild (id, value)")
    values = ["{}", b'{"a": 1}', b"\xff", "[", None, 7, float("inf"), "[" * 100_000]
    writer.executemany("INSERT INTO wild VALUES (?, ?)", enumerate(values))
    writer.commit()
    with database(path.parent, path) as connection:
        found = list(rows(connection, "wild", "id value missing", "WHERE id < ? ORDER BY id", (7,)))
        [deep] = rows(connection, "wild", "value", "WHERE id = 7")
        assert list(rows(connection, "wild", "missing")) == list(rows(connection, "missing", "id")) == []
    assert [row["value"] for row in found] == ["{}", '{"a": 1}', "\ufffd", "[", None, 7, None]
    assert [cell(row, "value") for row in found] == [{}, {"a": 1}, None, None, None, None, None]
    assert cell(deep, "value") is None


def test_no_copy_stays_if_the_process_that_reads_it_is_killed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.mkdir()
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdin=PIPE, stdout=PIPE)
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    path.with_name("a.db-shm").unlink()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with database(path.parent, path) as connection:
        assert list(scratch.iterdir()) == []
        assert [row["text"] for row in connection.execute("SELECT text FROM notes")] == ["first"]


def test_log_of_a_database_grows_with_its_sessions(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    in_database = AgentSession(agent="x", id="1", root=tmp_path, path=path, row="1")
    assert in_database.growing_files() == (tmp_path, ["sessions.db", "sessions.db-wal"])
    assert replace(in_database, row="").growing_files() == (tmp_path, ["sessions.db"])
    assert replace(in_database, path=tmp_path).growing_files() == (tmp_path, [])
