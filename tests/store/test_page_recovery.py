"""Reading a damaged database: rows by shape alone, each counted once, and placeholders for lost events."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3 as any_sqlite
import zlib
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.events import (
    AgentState,
    AgentStateChangedObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    LLMMetrics,
    MessageAction,
    NullObservation,
    SystemMessageAction,
    TerminalOutput,
    envelope_from_dict,
)
from core.store import database
from core.store.database import sqlite3
from core.store.event_rows import ADD_EVENT, UPDATE_FACTS, Facts, event_row, unpack
from core.store.page_recovery import LOST, UNTITLED, LostRange, RecoveryResult, is_recording, recover, valid_row
from core.store.recordings import _HEAD, RecordedFrame, pack_frames
from core.store.writer import ADD_BLOB, ADD_RECORDING

AT = datetime(2026, 11, 22, 13, 0, tzinfo=UTC)
ONE, TWO = "1" * 32, "2" * 32
EVENTS: tuple[Event, ...] = (
    SystemMessageAction(content="work"),
    MessageAction(content="first line\nsecond"),
    CmdRunAction(command="ls " * 400, llm_metrics=LLMMetrics(accumulated_cost=0.25)),
    AgentStateChangedObservation(agent_state=AgentState.FINISHED),
    MessageAction(content="last"),
)
PICTURE = b"\x89PNG" * 300
DIGEST = hashlib.sha256(PICTURE).hexdigest()
PRINTED = pack_frames([RecordedFrame(3, AT, TerminalOutput(2, b"printed" * 10))])[0]
TABLES = ("conversations", "events", "blobs", "recordings", "spending", "leases", "snapshots", "indexed")


def envelope(conversation: str, id: int, event: Event | None = None) -> Envelope:
    """The event at its place: one a minute, each because of the one before."""
    return Envelope(
        conversation_id=conversation,
        id=id,
        timestamp=AT + timedelta(minutes=id),
        source=EventSource.USER if id % 2 else EventSource.AGENT,
        cause=id - 1 if id else None,
        event=event or EVENTS[id],
    )


def write(path: Path) -> None:
    """Two conversations, the second without pictures, and their costs."""
    database.upgrade(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute("PRAGMA synchronous = OFF")
        for key, id in ((3, ONE), (4, TWO)):
            made.execute(
                "INSERT INTO conversations VALUES (?, ?, ?, '/w', 'm', ?, ?, ?, 'r', '', 0, 0, '', '', 0.0, ?, ?, ?)",
                (key, id, f"title {key}", AT.isoformat(), "p", 7, "o", "of", 9),
            )
            made.execute("INSERT INTO leases VALUES (?, 5, 'somebody')", (key,))
            facts = Facts()
            for number in range(len(EVENTS)):
                event = envelope(id, number)
                facts = facts.after(event.event, event.source)
                made.execute(ADD_EVENT, event_row(key, 5, event))
            made.execute(UPDATE_FACTS, facts.row(key))
        made.execute(ADD_BLOB, (3, DIGEST, "image/png", 3, 2, PICTURE))
        made.execute(ADD_RECORDING, (3, PRINTED.after, PRINTED.at.isoformat(), PRINTED.frames))
        made.execute("INSERT INTO spending VALUES ('2026-11-22', 2, 0.5, 1, 1000, 3.5), ('2026-11-23', 1, 0, 0, 5, 1)")


def damage(path: Path, *statements: str, values: Iterable[Any] = ()) -> None:
    """Change rows behind the back of the tables' triggers."""
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        for (name,) in made.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            made.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            made.execute(statement, tuple(values))


def rows(path: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as read:
        return {table: read.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}


def saved(source: Path) -> tuple[RecoveryResult, dict[str, list[Any]]]:
    """The report of a recovery, and the rows of the new database."""
    target = source.with_name("new.db")
    before = source.read_bytes() if source.exists() else None
    done = recover(source, target, source.with_name("scratch.db"))
    assert (source.read_bytes() if source.exists() else None) == before
    assert not target.with_name("new.db-wal").exists()
    with closing(sqlite3.connect(target)) as read:
        assert read.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert read.execute("PRAGMA foreign_key_check").fetchall() == []
    return done, rows(target)


def events_of(found: dict[str, list[Any]], key: int, conversation: str) -> list[Envelope]:
    return [envelope_from_dict(json.loads(unpack(row[7])), conversation) for row in found["events"] if row[0] == key]


def told(what: str) -> ErrorObservation:
    return ErrorObservation(content=f"{what} lost: the database was damaged.", error_id=LOST)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path / "old.db")
    return tmp_path / "old.db"


def test_intact_database_is_recovered_completely(home: Path, tmp_path: Path) -> None:
    done, found = saved(home)
    assert done == RecoveryResult(conversations=2, events=10, pictures=1)
    expected = rows(home)
    expected["leases"] = [(3, 6, None), (4, 6, None)]
    assert found == expected
    with closing(sqlite3.connect(tmp_path / "new.db")) as new, closing(sqlite3.connect(home)) as old:
        statement = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
        assert new.execute(statement).fetchall() == old.execute(statement).fetchall()


def test_missing_file_is_recovered_as_an_empty_database(tmp_path: Path) -> None:
    done, found = saved(tmp_path / "none.db")
    assert done == RecoveryResult()
    assert found == {table: [] for table in TABLES}


def test_lost_events_are_replaced_by_an_error_that_names_them(home: Path) -> None:
    damage(home, "DELETE FROM events WHERE conversation = 3 AND id IN (1, 3)")
    damage(home, "DELETE FROM events WHERE conversation = 4 AND id IN (1, 2, 3)")
    done, found = saved(home)
    lost = [LostRange(ONE, 1, 1), LostRange(ONE, 3, 3), LostRange(TWO, 1, 3)]
    assert done == RecoveryResult(conversations=2, events=5, lost=lost, pictures=1)
    one = events_of(found, 3, ONE)
    assert [one[0], one[2], one[4]] == [envelope(ONE, 0), envelope(ONE, 2), envelope(ONE, 4)]
    assert (one[1].event, one[3].event) == (told("The event 1 is"), told("The event 3 is"))
    marks = events_of(found, 4, TWO)[1:4]
    assert [mark.event for mark in marks] == [told("The events 1 to 3 are"), NullObservation(), NullObservation()]
    assert {(mark.source, mark.cause, mark.timestamp) for mark in marks} == {
        (EventSource.ENVIRONMENT, None, AT + timedelta(minutes=4))
    }
    assert [row[6] for row in found["events"] if row[0] == 4] == [5, 0, 0, 0, 5]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_lost_beginning_is_replaced_by_instructions(home: Path, count: int) -> None:
    damage(home, f"DELETE FROM events WHERE conversation = 4 AND id < {count}")
    done, found = saved(home)
    assert done.lost == [LostRange(TWO, 0, count - 1)]
    first, *more = events_of(found, 4, TWO)[:count]
    assert isinstance(first.event, SystemMessageAction)
    assert "damaged" in first.event.content
    assert first.source is EventSource.AGENT
    says = told(f"The events 0 to {count - 1} are")
    assert [each.event for each in more] == [says, NullObservation()][: count - 1]
    assert all(each.source is EventSource.ENVIRONMENT for each in more)


def test_lost_end_is_replaced_up_to_the_event_count(home: Path) -> None:
    damage(home, "DELETE FROM events WHERE conversation = 3 AND id = 4 OR conversation = 4")
    done, found = saved(home)
    assert done.lost == [LostRange(ONE, 4, 4), LostRange(TWO, 0, 4)]
    assert events_of(found, 3, ONE)[4].event == told("The event 4 is")
    assert events_of(found, 3, ONE)[4].timestamp == AT + timedelta(minutes=3)
    marks = events_of(found, 4, TWO)
    assert len(marks) == 5
    assert all(abs(mark.timestamp - datetime.now(UTC)) < timedelta(days=1) for mark in marks)
    assert found["leases"] == [(3, 6, None), (4, 1, None)]


@pytest.mark.parametrize("length", [5, 0, 4, 150_000, "many"])
def test_impossible_event_count_is_ignored(home: Path, length: int | str) -> None:
    damage(home, "CREATE TABLE c (a, b, c, d, e, f, g, h, i, j, k)", "DELETE FROM conversations WHERE key = 4")
    row = (None, TWO, "t", "", "", AT.isoformat(), "", None, "", "", length)
    damage(
        home, f"INSERT INTO c (rowid, a, b, c, d, e, f, g, h, i, j, k) VALUES (4, {', '.join('?' * 11)})", values=row
    )
    done, found = saved(home)
    assert done.lost == []
    assert len(events_of(found, 4, TWO)) == 5
    assert done.nameless == (length == "many")


def test_events_after_a_too_wide_gap_are_left_out(home: Path) -> None:
    far = 150_000
    damage(home, ADD_EVENT, values=event_row(4, 5, envelope(TWO, far, MessageAction(content="far"))))
    done, found = saved(home)
    assert (done.events, done.lost) == (10, [])
    near = 2500
    damage(home, ADD_EVENT, values=event_row(4, 5, envelope(TWO, near, MessageAction(content="near"))))
    (home.parent / "new.db").unlink()
    (home.parent / "scratch.db").unlink()
    done, found = saved(home)
    assert (done.events, done.lost) == (11, [LostRange(TWO, 5, near - 1)])
    assert events_of(found, 4, TWO)[-1].event == MessageAction(content="near")


# -- conversations -------------------------------------------------------------------------------------------------


def with_ids(path: Path, *pairs: tuple[str, int]) -> None:
    """Ids as the index of conversations has them, without the conversations."""
    damage(path, "CREATE TABLE i (id, key, PRIMARY KEY (id, key)) WITHOUT ROWID")
    for pair in pairs:
        damage(path, "INSERT INTO i VALUES (?, ?)", values=pair)


def test_conversation_without_its_row_is_recovered_from_its_events(home: Path) -> None:
    damage(home, "DELETE FROM conversations WHERE key = 4")
    done, found = saved(home)
    assert done == RecoveryResult(conversations=2, events=10, nameless=1, pictures=1)
    nameless = found["conversations"][1]
    assert re.fullmatch("[0-9a-f]{32}", nameless[1])
    assert nameless[1] not in (ONE, TWO)
    assert nameless[0:1] + nameless[2:10] == (
        4,
        UNTITLED,
        "",
        "",
        AT.isoformat(),
        "",
        None,
        "",
        envelope(TWO, 4).timestamp.isoformat(),
    )
    assert nameless[10:11] + nameless[12:] == (5, "first line", "finished", 0.25, "", "", None)
    assert nameless[11] == sum(len(row[7]) for row in found["events"] if row[0] == 4)


def test_id_of_a_lost_row_is_taken_from_the_index(home: Path) -> None:
    damage(home, "DELETE FROM conversations", "DELETE FROM events WHERE conversation = 4 AND id > 0")
    with_ids(home, (TWO, 4), ("x" * 32, 3), ("3" * 31, 3), ("3" * 33, 3))
    done, found = saved(home)
    assert done == RecoveryResult(conversations=2, events=6, nameless=2, pictures=1)
    by_key = {row[0]: row[1] for row in found["conversations"]}
    assert by_key[4] == TWO
    assert re.fullmatch("[0-9a-f]{32}", by_key[3])


def test_single_event_of_an_unknown_conversation_is_left_out(home: Path) -> None:
    damage(home, ADD_EVENT, values=event_row(77, 5, envelope(TWO, 0)))
    done, found = saved(home)
    assert done == RecoveryResult(conversations=2, events=10, pictures=1)
    assert {row[0] for row in found["events"]} == {3, 4}


def test_no_two_conversations_have_the_same_id(home: Path) -> None:
    """Two rows, and two numbers that only events have."""
    damage(home, "CREATE TABLE c (a, b, c, d, e, f)", "DELETE FROM conversations WHERE key = 4")
    for key in (3, 4, 9):
        row = (key, None, ONE, f"again {key}", "", "", AT.isoformat())
        damage(home, "INSERT INTO c (rowid, a, b, c, d, e, f) VALUES (?, ?, ?, ?, ?, ?, ?)", values=row)
    for number in range(2):
        damage(home, ADD_EVENT, values=event_row(8, 5, envelope(TWO, number)))
        damage(home, ADD_EVENT, values=event_row(10, 5, envelope(TWO, number)))
    with_ids(home, (ONE, 4), (TWO, 8), (TWO, 10))
    done, found = saved(home)
    assert (done.conversations, done.nameless) == (4, 3)
    by_key = {row[0]: row[1:3] for row in found["conversations"]}
    assert by_key[3] == (ONE, "title 3")
    assert by_key[4][0] not in (ONE, TWO)
    assert by_key[8] == (TWO, UNTITLED)
    assert re.fullmatch("[0-9a-f]{32}", by_key[10][0])
    assert len(found["events"]) == 14


@pytest.mark.parametrize("columns", [6, 9, 18, 20])
def test_row_of_an_older_or_newer_database_is_a_conversation(tmp_path: Path, columns: int) -> None:
    path = tmp_path / "old.db"
    whole = (
        None,
        ONE,
        "t",
        "/w",
        "m",
        AT.isoformat(),
        "p",
        3,
        "r",
        "u",
        0,
        9,
        "l",
        "s",
        0.5,
        "o",
        "of",
        4,
        "new",
        "er",
    )
    with closing(any_sqlite.connect(path, isolation_level=None)) as made:
        names = ", ".join(f"c{number}" for number in range(columns))
        made.execute(f"CREATE TABLE c ({names})")
        made.execute(f"INSERT INTO c (rowid, {names}) VALUES (5, {', '.join('?' * columns)})", whole[:columns])
    done, found = saved(path)
    assert done == RecoveryResult(conversations=1)
    defaults = ("", None, "", "", 0, 0, "", "", 0.0, "", "", None)
    (row,) = found["conversations"]
    expected = (5, *whole[1:columns], *defaults[columns - 6 :])[:18]
    assert row == (*expected[:9], AT.isoformat(), 0, 0, *expected[12:])


@pytest.mark.parametrize("place", [2, 5, 14])
def test_invalid_conversation_row_is_left_out(home: Path, place: int) -> None:
    row: list[Any] = [None, TWO, "t", "", "", AT.isoformat(), "", None, "", "", 5, 9, "", "", 0.0, "", "", None]
    row[place] = "no time, no number" if place > 2 else 5
    names = ", ".join(f"c{number}" for number in range(18))
    damage(home, "DELETE FROM conversations WHERE key = 4", f"CREATE TABLE c ({names})")
    damage(home, f"INSERT INTO c (rowid, {names}) VALUES (4, {', '.join('?' * 18)})", values=row)
    done, found = saved(home)
    assert (done.conversations, done.nameless, done.events) == (2, 1, 10)
    assert found["conversations"][1][2] == UNTITLED


# -- events --------------------------------------------------------------------------------------------------------


def row_of(id: int = 3) -> tuple[Any, ...]:
    return event_row(4, 5, envelope(TWO, id))


@pytest.mark.parametrize(
    ("place", "value"),
    [(1, 99), (2, "yesterday"), (3, "nobody"), (4, 77), (4, None)],
)
def test_column_that_does_not_match_the_body_is_corrected(place: int, value: Any) -> None:
    assert valid_row(row_of()) == row_of()
    assert valid_row((*row_of()[:place], value, *row_of()[place + 1 :])) == row_of()


def test_valid_row_is_not_changed() -> None:
    """It may have been written in another way; only what cannot be is put right."""
    row = (*row_of()[:2], "2026-11-22 13:03", *row_of()[3:5], "observation:of_old", *row_of()[6:])
    assert valid_row(row) == row


@pytest.mark.parametrize(("token", "kept"), [(0, 0), (-1, 0), (2**31, 2**31), (2**31 + 1, 2**31), (2**62, 2**31)])
def test_invalid_lease_token_is_corrected(token: int, kept: int) -> None:
    row = row_of()
    assert valid_row((*row[:6], token, row[7])) == (*row[:6], kept, row[7])
    assert valid_row((*row[:2], "never", *row[3:6], token, row[7])) == (*row[:6], kept, row[7])


@pytest.mark.parametrize(("key", "is_sound"), [(0, False), (-3, False), (1, True), (2**31 - 1, True), (2**31, False)])
def test_conversation_key_is_limited(key: int, is_sound: bool) -> None:
    row = (key, *row_of()[1:])
    assert valid_row(row) == (row if is_sound else None)


@pytest.mark.parametrize(("id", "is_sound"), [(0, True), (2**31 - 1, True), (2**31, False)])
def test_event_id_is_limited(id: int, is_sound: bool) -> None:
    row = event_row(4, 5, envelope(TWO, id, MessageAction(content="x")))
    assert valid_row(row) == (row if is_sound else None)


@pytest.mark.parametrize(
    "body",
    ["", "no JSON", "[]", "{}", "[" * 100_000, b"no zlib", zlib.compress(b"\xff"), zlib.compress(b"{}")],
)
def test_event_with_an_unreadable_body_is_lost(home: Path, body: str | bytes) -> None:
    assert valid_row((*row_of()[:7], body)) is None
    damage(home, "UPDATE events SET body = ? WHERE conversation = 4 AND id = 3", values=(body,))
    done, _ = saved(home)
    assert (done.events, done.lost) == (9, [LostRange(TWO, 3, 3)])


def test_duplicate_event_counts_once(home: Path) -> None:
    damage(home, "CREATE TABLE e (a, b, c, d, e, f, g, h)", "INSERT INTO e SELECT * FROM events WHERE id < 2")
    done, found = saved(home)
    assert done == RecoveryResult(conversations=2, events=10, pictures=1)
    assert found["events"] == rows(home)["events"]


# -- pictures, recordings, spending --------------------------------------------------------------------------------


def test_unusable_picture_or_recording_is_left_out(home: Path) -> None:
    damage(home, "INSERT INTO blobs VALUES (3, ?, 'image/png', 1, 1, ?)", values=("0" * 64, b"other bytes"))
    damage(home, "INSERT INTO blobs VALUES (99, ?, 'image/png', 3, 2, ?)", values=(DIGEST, PICTURE))
    damage(home, "INSERT INTO recordings VALUES (3, 3, 1, ?, ?)", values=(AT.isoformat(), b"no zlib"))
    damage(home, "INSERT INTO recordings VALUES (3, 3, 2, ?, ?)", values=("never", PRINTED.frames))
    damage(home, "INSERT INTO recordings VALUES (99, 3, 2, ?, ?)", values=(AT.isoformat(), PRINTED.frames))
    damage(home, "INSERT INTO spending VALUES ('whenever', 1, 1, 1, 1, 1)")
    damage(home, "INSERT INTO leases VALUES (99, 5, 'somebody')")
    expected = rows(home)
    done, found = saved(home)
    assert done == RecoveryResult(conversations=2, events=10, pictures=1)
    assert found["blobs"] == [row for row in expected["blobs"] if row[:2] == (3, DIGEST)]
    assert found["recordings"] == expected["recordings"][:1]
    assert found["spending"] == expected["spending"][:2]
    assert found["leases"] == [(3, 6, None), (4, 6, None)]
    assert found["conversations"][0][11] == sum(
        len(row[-1]) for name in ("events", "blobs", "recordings") for row in found[name] if row[0] == 3
    )


def test_duplicate_pictures_and_recordings_count_once(home: Path) -> None:
    damage(home, "CREATE TABLE b AS SELECT * FROM blobs", "CREATE TABLE r AS SELECT * FROM recordings")
    damage(home, "CREATE TABLE s AS SELECT * FROM spending")
    done, found = saved(home)
    assert done.pictures == 1
    assert {name: found[name] for name in ("blobs", "recordings", "spending")} == {
        name: rows(home)[name] for name in ("blobs", "recordings", "spending")
    }


def frame(ms: int = 0, size: int = 4) -> bytes:
    return _HEAD.pack(ms, 2, 0, size) + b"data"


@pytest.mark.parametrize(
    ("at", "frames", "can_be_played"),
    [
        (AT.isoformat(), zlib.compress(frame() + frame()), True),
        (AT.isoformat(), zlib.compress(b""), True),
        ("never", zlib.compress(frame()), False),
        (AT.isoformat(), zlib.compress(frame())[:-6], False),
        (AT.isoformat(), zlib.compress(frame() + frame()[:7]), False),
        ("9999-12-31T23:59:59+00:00", zlib.compress(frame(2**31)), False),
        ("0001-01-01T00:00:00+05:00", zlib.compress(frame()), False),
    ],
)
def test_playable_recordings_are_distinguished(at: str, frames: bytes, can_be_played: bool) -> None:
    assert is_recording(3, at, frames) is can_be_played
