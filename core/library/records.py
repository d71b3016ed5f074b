"""Which sessions of other agents are known, and which version of each was read.

A table of its own beside the copies: a lost record costs that its session is read again, nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from core.errors import StoreError
from core.import_export.agents.source import AgentSession
from core.store.database import remedy, sqlite3

_TABLE = """
    CREATE TABLE IF NOT EXISTS sessions (
        id TEXT PRIMARY KEY,
        session TEXT NOT NULL,  -- JSON
        read_size INTEGER NOT NULL,
        read_ns INTEGER NOT NULL,
        is_gone INTEGER NOT NULL,
        wrong TEXT NOT NULL,
        tokens INTEGER NOT NULL,
        cost REAL
    ) STRICT
"""
_TIMES = ("started_at", "updated_at", "deleted_at", "begun_at")
FOLDER = "agents"
"""The home of the copies, below ours."""
RECORDS = "sessions.db"


@dataclass(frozen=True, slots=True)
class Record:
    """A session, and how much of it is here."""

    id: str
    """The conversation that is its copy."""
    session: AgentSession
    read_size: int = -1
    """Size and time of the version that was read; -1 if it never was."""
    read_ns: int = -1
    is_gone: bool = False
    """Whether its agent has deleted it, so that the copy is all there is."""
    wrong: str = ""
    """Why it could not be read; empty if it could."""
    read_tokens: int = 0
    read_cost: float | None = None
    """What its model calls used, as far as it was read."""

    @property
    def tokens(self) -> int:
        """All tokens: those that its agent counts, else those that were read."""
        return self.session.tokens or self.read_tokens

    @property
    def cost(self) -> float | None:
        """US dollars: what its agent says, else what was computed; None if neither is known.

        An agent that does not know the price of its model says 0.
        """
        return self.session.cost or (self.session.cost if self.read_cost is None else self.read_cost)

    @property
    def was_read(self) -> bool:
        """Whether there is a copy with events, perhaps of an earlier version."""
        return self.read_size >= 0 and not self.wrong

    @property
    def read_version(self) -> tuple[int, int]:
        """The version that was read."""
        return self.read_size, self.read_ns

    @property
    def is_pending(self) -> bool:
        """Whether the version that is there now must be read."""
        return not self.is_gone and (self.session.size, self.session.changed_ns) != self.read_version

    def after_reading(self, wrong: str = "") -> Record:
        """The record once its version was read, or could not be."""
        return replace(self, read_size=self.session.size, read_ns=self.session.changed_ns, wrong=wrong)


class Records:
    """The table in a file. Every call blocks and is one transaction. Raises StoreError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, Record]:
        """Every known session by the id of its copy."""
        with self._opened() as connection:
            rows = connection.execute("SELECT * FROM sessions").fetchall()
        return {record.id: record for row in rows if (record := _record(row)) is not None}

    def one(self, id: str) -> Record | None:
        """One session; None if it is not known."""
        with self._opened() as connection:
            rows = connection.execute("SELECT * FROM sessions WHERE id = ?", (id,)).fetchall()
        return _record(rows[0]) if rows else None

    def read_versions(self, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """The version that was read of each of these sessions that is known."""
        query = f"SELECT id, read_size, read_ns FROM sessions WHERE id IN ({', '.join('?' * len(ids))})"  # noqa: S608
        with self._opened() as connection:
            return {id: (size, changed_ns) for id, size, changed_ns in connection.execute(query, ids)}

    def put(self, records: Iterable[Record]) -> None:
        with self._opened() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [_row(record) for record in records],
            )

    def remove(self, ids: Iterable[str]) -> None:
        with self._opened() as connection:
            connection.executemany("DELETE FROM sessions WHERE id = ?", [(id,) for id in ids])

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            with closing(sqlite3.connect(self._path, timeout=10)) as connection, connection:
                connection.execute(_TABLE)
                yield connection
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} cannot be used: {error}. {remedy(error)}") from error


def _record(row: tuple[Any, ...]) -> Record | None:
    """The record in a row; None for one that another version stored in another form, which is found again."""
    id, session, read_size, read_ns, is_gone, wrong, tokens, cost = row
    if (parsed := _parse(session)) is None:
        return None
    return Record(id, parsed, read_size, read_ns, bool(is_gone), wrong, tokens, cost)


def library_home(home: Path) -> Path:
    """The home of the copies."""
    return home / FOLDER


def records_of(home: Path) -> dict[str, Record]:
    """Every known session of a home by the id of its copy. Blocks. Raises StoreError."""
    path = library_home(home) / RECORDS
    return Records(path).all() if path.exists() else {}


def record_of(home: Path, id: str) -> Record | None:
    """The session whose copy is `id`; None if there is none. Blocks. Raises StoreError."""
    path = library_home(home) / RECORDS
    return Records(path).one(id) if path.exists() else None


def _row(record: Record) -> tuple[Any, ...]:
    state = (record.read_size, record.read_ns, int(record.is_gone), record.wrong)
    return record.id, _to_json(record.session), *state, record.read_tokens, record.read_cost


def _to_json(session: AgentSession) -> str:
    fields = asdict(session)
    texts = {name: at.isoformat() for name in _TIMES if isinstance(at := fields[name], datetime)}
    return json.dumps({**fields, **texts, "root": str(session.root), "path": str(session.path)})


def _parse(text: str) -> AgentSession | None:
    """The session; None if it has another form."""
    try:
        fields: Mapping[str, Any] = json.loads(text)
        times = {name: datetime.fromisoformat(at) for name in _TIMES if (at := fields[name]) is not None}
        return AgentSession(**{**fields, **times, "root": Path(fields["root"]), "path": Path(fields["path"])})
    except (ValueError, TypeError, KeyError):
        return None
