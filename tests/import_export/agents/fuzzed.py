"""Damaged sessions of other agents: every reader has to survive them.

A test makes a small home with sessions in it, and calls `survives`. In each trial one or a few of the files are
damaged: lines are dropped, moved, repeated and cut, values at any depth are replaced by values of other types, cells of
databases too. Then every session is found, read, and made into events. Only OSError and Fault may come out of `read`,
nothing out of `discover`, and no file may be written. The seed is printed; HANDLOOM_SEED repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.events import Event, UnknownAction, UnknownObservation
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.stored import stored_session
from core.import_export.agents.transcript import Transcript
from core.import_export.bounded_json import Fault
from core.import_export.imported_conversation import EnvelopeBuilder
from core.secrets import Redactor
from core.store.event_rows import StoredEvents

Discover = Callable[[Places], Iterable[AgentSession]]
Read = Callable[[AgentSession], Transcript]

NOW = datetime(2026, 11, 1, tzinfo=UTC)
TRIAL_S = 5.0
"""A trial takes milliseconds; more than this is an endless loop."""
TRIALS = "HANDLOOM_DAMAGED"
"""The environment variable with the number of damaged homes, for the campaign."""
SQLITE = b"SQLite format 3\0"
REPLACEMENTS: tuple[Any, ...] = (
    None, True, 0, -1, 7, 2**63, 10**40, 1.5, 1e300, "", "text", "\ud800", "\0", "../../etc/passwd",
    "2026-13-45T99:99:99Z", [], [None], [[]], [1, "two", {}], {}, {"type": 1}, {"": None},
    {"type": "text", "text": "inside"}, {"id": []},
)  # fmt: skip


def survives(discover: Discover, read: Read, places: Places, *, trials: int = 40) -> None:
    """Damage the files below `places.home` in many ways, and assert that the reader stays within its promise.

    Links are left as they are, and every file is restored in the end.
    """
    trials = int(os.environ.get(TRIALS, trials))
    seed = int(os.environ.get("HANDLOOM_SEED") or random.SystemRandom().randrange(2**32))
    print(f"HANDLOOM_SEED={seed}")
    files = sorted(path for path in places.home.rglob("*") if path.is_file() and not path.is_symlink())
    assert files, "there is nothing to damage"
    originals = {path: path.read_bytes() for path in files}
    for trial in range(trials):
        rng = random.Random(f"{seed}-{trial}")
        for path in rng.sample(files, rng.randint(1, min(3, len(files)))):
            damage(path, rng)
        try:
            started = time.monotonic()
            read_all(discover, read, places)
            assert time.monotonic() - started < TRIAL_S
        except BaseException as error:
            error.add_note(f"HANDLOOM_SEED={seed}, trial {trial}")
            raise
        for path, data in originals.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    assert read_all(discover, read, places), "no session could be read after the files were restored"


def read_all(discover: Discover, read: Read, places: Places) -> int:
    """Find and read every session, and make events of it. How many could be read; asserts that nothing is written."""
    before = _state(places.home)
    count = 0
    for session in list(discover(places)):
        assert session.id
        assert session.path.is_relative_to(session.root)
        assert len(session.title) <= 200
        with suppress(OSError, Fault):
            check_events(read(session))
            count += 1
    assert _state(places.home) == before
    return count


def check_events(transcript: Transcript) -> None:
    """Assert that the events of a transcript and of its branches can be stored."""
    for each in (transcript, *(branch.transcript for branch in transcript.branches)):
        assert [form["id"] for form in each.forms] == list(range(len(each.forms)))
        if each.forms:
            imported = list(EnvelopeBuilder("conversation", NOW).envelopes(each.forms))
            assert len(imported) == len(each.forms)
            stored = stored_session("conversation", each, NOW, Redactor())
            for one, other in zip(stored.events, imported, strict=True):
                assert _without_place(one.event) == _without_place(other.event)
                assert (one.id, one.source, one.cause) == (other.id, other.source, other.cause)
            assert stored.events.facts == StoredEvents("conversation", stored.events).facts


def _without_place(event: Event) -> Event:
    """The event without what an import adds to one that has no time."""
    if not isinstance(event, UnknownAction | UnknownObservation):
        return event
    raw = {key: value for key, value in event.raw.items() if key != "imported"}
    return event.model_copy(update={"raw": raw})


def damage(path: Path, rng: random.Random) -> None:
    """Damage a file in one way that fits it."""
    data = path.read_bytes()
    choice = rng.random()
    if choice < 0.03:
        path.unlink()
    elif choice < 0.06:
        path.write_bytes(rng.choice([b"", b"\n\n", b"\xff\xfe\0", b"null", b"[" * 100_000, b'{"a":' * 50_000 + b"\n"]))
    elif choice < 0.12:
        at = rng.randrange(len(data) + 1)
        path.write_bytes(data[:at] + rng.choice([b"", b"\xff", b'"', b"\n", data[at + 1 :], b"\x80" + data[at:]]))
    elif data.startswith(SQLITE):
        damage_database(path, rng)
    elif (damaged := damaged_lines(data, rng)) is not None:
        path.write_bytes(damaged)


def damaged_lines(data: bytes, rng: random.Random) -> bytes | None:
    """The data with a few lines dropped, repeated, moved, cut, or with other values in them."""
    lines = data.splitlines(keepends=True)
    with suppress(ValueError, RecursionError):
        lines = [json.dumps(replaced(json.loads(data), rng)).encode() + b"\n"]  # the file is one value
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        if not lines:
            break
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(9):
            case 0:
                del lines[at]
            case 1:
                lines.insert(other, lines[at])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
            case _:
                with suppress(ValueError, RecursionError):
                    lines[at] = json.dumps(replaced(json.loads(lines[at]), rng)).encode() + b"\n"
    return b"".join(lines)


def replaced(value: Any, rng: random.Random) -> Any:
    """The JSON value with one or a few values in it, at any depth, replaced, removed, or exchanged with others."""
    for _ in range(rng.choice([1, 1, 1, 3, 8])):
        places = list(_places(value))
        if not places:
            return deepcopy(rng.choice(REPLACEMENTS))
        holder, key = rng.choice(places)
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1:
                other, name = rng.choice(places)
                holder[key] = json.loads(json.dumps(other[name]))
            case _:
                holder[key] = deepcopy(rng.choice(REPLACEMENTS))
    return value


def damage_database(path: Path, rng: random.Random) -> None:
    """Replace, delete or repeat cells and rows of a SQLite database; JSON in a cell is damaged inside too."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(rng.choice([1, 1, 2, 5])):
            with suppress(sqlite3.Error):
                _damage_table(connection, rng.choice(names), rng)
    for suffix in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _damage_table(connection: sqlite3.Connection, table: str, rng: random.Random) -> None:
    if rng.random() < 0.05:
        connection.execute(f'DROP TABLE "{table}"')
        return
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    rows = [row[0] for row in connection.execute(f'SELECT rowid FROM "{table}"')]
    column, row = rng.choice(columns), rng.choice(rows) if rows else 0
    if rng.random() < 0.05:
        connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    elif rng.random() < 0.1:
        connection.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,))
    else:
        found = connection.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (row,)).fetchone()
        cell: Any = rng.choice([None, 0, -5, 2**62, 1e300, "", "text", "{}", "[]", "null", b"\xff\0", "[" * 50_000])
        with suppress(ValueError, TypeError, RecursionError):
            if rng.random() < 0.7 and isinstance(value := json.loads(found[0]), dict | list):
                cell = json.dumps(replaced(value, rng))
        connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (cell, row))


def _places(value: Any) -> Iterable[tuple[Any, Any]]:
    """Every list and object in a value with each of its indexes and keys."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys: Iterable[Any] = ()
        if isinstance(holder, dict):
            keys = holder.keys()
        elif isinstance(holder, list):
            keys = range(len(holder))
        for key in keys:
            yield holder, key
            waiting.append(holder[key])


def _state(folder: Path) -> list[tuple[str, int, int]]:
    """The name, size and time of change of everything below a folder."""
    found = ((str(path), path.lstat()) for path in sorted(folder.rglob("*")))
    return [(name, state.st_size, state.st_mtime_ns) for name, state in found]
