"""The database file of a home: the SQLite library, connections, the schema and its migrations.

`user_version` counts the migrations that a file has had. An upgrade is one transaction, so a file has the old version
or the new one, never something between. A file of a newer version is refused unchanged.

SQLite 3.7.0 to 3.51.2 can corrupt a WAL database when two connections write and checkpoint at the same moment
(fixed in 3.51.3; see the release notes of 3.53.0). The wheel `pysqlite3` contains a fixed version and is preferred;
aiosqlite is made to load it. Always import `aiosqlite` and `sqlite3` from this module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from core.errors import StoreError, StoreVersionError

DATABASE = "handloom.db"
JOURNAL = "handloom.db.mending"
"""Exists while a repaired database replaces a damaged one (`core.store.repair`)."""
MIN_PAGE_BYTES = 512
"""The smallest page size; a shorter file has no page."""
FIXED_VERSION = (3, 51, 3)
"""The first SQLite with the fix of the WAL-reset bug."""
BUSY_S = 10.0
"""How long a statement waits for another process's commit before it fails."""


def _load() -> tuple[ModuleType, ModuleType]:
    """The SQLite driver with the newest library, and an aiosqlite that uses it."""
    standard = import_module("sqlite3")
    try:
        bundled = import_module("pysqlite3")
    except ImportError:
        return standard, import_module("aiosqlite")
    if bundled.sqlite_version_info <= standard.sqlite_version_info:
        return standard, import_module("aiosqlite")
    sys.modules["sqlite3"] = bundled
    try:
        return bundled, import_module("aiosqlite")
    finally:
        sys.modules["sqlite3"] = standard


__all__ = ["aiosqlite", "sqlite3"]

if TYPE_CHECKING:
    import sqlite3

    import aiosqlite
else:
    sqlite3, aiosqlite = _load()


def version() -> tuple[int, int, int]:
    return sqlite3.sqlite_version_info


def can_be_shared(found: tuple[int, int, int] | None = None) -> bool:
    """Whether several processes may write to one database with this SQLite."""
    return (found or version()) >= FIXED_VERSION


LANDMARKS = frozenset(
    {
        "action:message",
        "action:change_agent_state",
        "observation:agent_state_changed",
        "observation:browse",
        "observation:task_tracking",
        "observation:checkpoint",
        "observation:error",
    }
)
"""Event kinds with an index: what a screen shows at a position depends on the last of each."""
LANDMARK_LIST = ", ".join(f"'{kind}'" for kind in sorted(LANDMARKS))

_EVENTS_GROW = """
    CREATE TRIGGER a_conversation_knows_its_events AFTER INSERT ON events BEGIN
        UPDATE conversations SET updated_at = NEW.timestamp, event_count = NEW.id + 1,
            size = size + octet_length(NEW.body) WHERE key = NEW.conversation;
    END
"""
_EVENTS_SHRINK = """
    CREATE TRIGGER a_conversation_forgets_its_events AFTER DELETE ON events BEGIN
        UPDATE conversations SET event_count = min(event_count, OLD.id), size = size - octet_length(OLD.body)
            WHERE key = OLD.conversation;
    END
"""
_OWNER = """
    CREATE TRIGGER only_the_owner_writes BEFORE INSERT ON events
    WHEN NEW.lease IS NOT (SELECT token FROM leases WHERE conversation = NEW.conversation)
    BEGIN SELECT raise(ABORT, 'the lease is lost'); END
"""
_NO_GAPS = """
    CREATE TRIGGER ids_have_no_gaps BEFORE INSERT ON events
    WHEN NEW.id <> coalesce((SELECT max(id) + 1 FROM events WHERE conversation = NEW.conversation), 0)
    BEGIN SELECT raise(ABORT, 'the id is not the next one'); END
"""

_SEARCH = (
    """
    CREATE VIRTUAL TABLE words USING fts5 (text, content = '', detail = 'none', columnsize = 0,
        tokenize = 'unicode61 remove_diacritics 2')
    """,
    """
    CREATE VIRTUAL TABLE characters USING fts5 (text, content = '', detail = 'none', columnsize = 0,
        tokenize = 'trigram')
    """,
    "INSERT INTO words (words, rank) VALUES ('secure-delete', 1)",  # removes deleted words immediately
    "INSERT INTO characters (characters, rank) VALUES ('secure-delete', 1)",
    "CREATE VIRTUAL TABLE characters_terms USING fts5vocab (characters, instance)",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE conversations (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            title TEXT NOT NULL,
            workspace TEXT NOT NULL,
            model TEXT NOT NULL,
            created_at TEXT NOT NULL
        ) STRICT
        """,
        """
        CREATE TABLE leases (
            conversation INTEGER PRIMARY KEY REFERENCES conversations (key) ON DELETE CASCADE,
            token INTEGER NOT NULL,  -- grows with every change of owner
            owner TEXT               -- a process mark, or NULL
        ) STRICT
        """,
        """
        CREATE TABLE events (
            conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
            id INTEGER NOT NULL,
            timestamp TEXT NOT NULL,
            source TEXT NOT NULL,
            cause INTEGER,
            kind TEXT NOT NULL,
            lease INTEGER NOT NULL,  -- the token under which it was written
            body TEXT NOT NULL,      -- in the JSON form of OpenHands V0, without what follows from the rest
            PRIMARY KEY (conversation, id)
        ) STRICT
        """,
        _OWNER,
        _NO_GAPS,
    ),
    (
        "ALTER TABLE conversations ADD COLUMN parent TEXT NOT NULL DEFAULT ''",  # who delegated to this one
        "ALTER TABLE conversations ADD COLUMN parent_action INTEGER",
        "ALTER TABLE conversations ADD COLUMN repository TEXT NOT NULL DEFAULT ''",  # to be cloned at the start
        """
        CREATE TABLE spending (  -- of all conversations, written with the events that spent it
            day TEXT PRIMARY KEY,     -- UTC
            calls INTEGER NOT NULL,
            cost REAL NOT NULL,       -- US dollars, without the calls of unknown price
            unpriced INTEGER NOT NULL,
            tokens INTEGER NOT NULL,
            seconds REAL NOT NULL
        ) STRICT
        """,
    ),
    (
        """
        CREATE TABLE blobs (  -- the pictures of events, which refer to them by digest
            conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
            digest TEXT NOT NULL,
            media_type TEXT NOT NULL,
            width INTEGER NOT NULL,
            height INTEGER NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (conversation, digest)
        ) STRICT
        """,
    ),
    (
        """
        CREATE TABLE snapshots (  -- a cache: what the log folds to, so that it need not be folded
            conversation INTEGER PRIMARY KEY REFERENCES conversations (key) ON DELETE CASCADE,
            event INTEGER NOT NULL,  -- the last one that is in it
            made_by TEXT NOT NULL,   -- the code that folded, and what it began with
            state TEXT NOT NULL
        ) STRICT
        """,
    ),
    (
        # A body may be compressed, so its column takes text and bytes.
        """
        CREATE TABLE new_events (
            conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
            id INTEGER NOT NULL,
            timestamp TEXT NOT NULL,
            source TEXT NOT NULL,
            cause INTEGER,
            kind TEXT NOT NULL,
            lease INTEGER NOT NULL,
            body ANY NOT NULL,  -- JSON text, or that compressed (`core.store.event_rows`)
            PRIMARY KEY (conversation, id)
        ) STRICT
        """,
        "INSERT INTO new_events SELECT conversation, id, timestamp, source, cause, kind, lease, body FROM events"
        " ORDER BY rowid",
        "DROP TABLE events",
        "ALTER TABLE new_events RENAME TO events",
        f"CREATE INDEX landmarks ON events (conversation, kind, id) WHERE kind IN ({LANDMARK_LIST})",
        """
        CREATE TABLE recordings (  -- what terminals printed, in rows of frames
            conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
            "after" INTEGER NOT NULL,  -- the event that was the newest then
            number INTEGER NOT NULL,
            at TEXT NOT NULL,
            frames BLOB NOT NULL,
            PRIMARY KEY (conversation, "after", number)
        ) STRICT
        """,
        "ALTER TABLE conversations ADD COLUMN updated_at TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE conversations ADD COLUMN event_count INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE conversations ADD COLUMN size INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE conversations ADD COLUMN first_line TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE conversations ADD COLUMN state TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE conversations ADD COLUMN cost REAL DEFAULT 0.0",  # US dollars; NULL where it is not known
        "ALTER TABLE conversations ADD COLUMN origin TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE conversations ADD COLUMN origin_of TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE conversations ADD COLUMN origin_event INTEGER",
        """
        UPDATE conversations AS c SET
            updated_at = coalesce((SELECT max(timestamp) FROM events e WHERE e.conversation = c.key), created_at),
            event_count = (SELECT count(*) FROM events e WHERE e.conversation = c.key),
            size = (SELECT coalesce(sum(octet_length(body)), 0) FROM events e WHERE e.conversation = c.key)
                + (SELECT coalesce(sum(octet_length(data)), 0) FROM blobs b WHERE b.conversation = c.key),
            first_line = coalesce((SELECT trim(substr(json_extract(body, '$.args.content'), 1,
                    min(200, instr(json_extract(body, '$.args.content') || char(10), char(10)) - 1)))
                FROM events e WHERE e.conversation = c.key AND kind = 'action:message' AND source = 'user'
                ORDER BY id LIMIT 1), ''),
            state = coalesce((SELECT json_extract(body, '$.extras.agent_state')
                FROM events e WHERE e.conversation = c.key AND kind = 'observation:agent_state_changed'
                ORDER BY id DESC LIMIT 1), ''),
            cost = (SELECT json_extract(body, '$.llm_metrics.accumulated_cost')
                FROM events e WHERE e.conversation = c.key AND json_extract(body, '$.llm_metrics') IS NOT NULL
                ORDER BY id DESC LIMIT 1)
        """,
        """
        UPDATE conversations AS c SET cost = 0.0 WHERE cost IS NULL AND NOT EXISTS
            (SELECT 1 FROM events e WHERE e.conversation = c.key AND json_extract(body, '$.llm_metrics') IS NOT NULL)
        """,
        _OWNER,
        _NO_GAPS,
        _EVENTS_GROW,
        _EVENTS_SHRINK,
        """
        CREATE TRIGGER a_conversation_knows_its_pictures AFTER INSERT ON blobs BEGIN
            UPDATE conversations SET size = size + octet_length(NEW.data) WHERE key = NEW.conversation;
        END
        """,
        """
        CREATE TRIGGER a_conversation_knows_its_recordings AFTER INSERT ON recordings BEGIN
            UPDATE conversations SET size = size + octet_length(NEW.frames) WHERE key = NEW.conversation;
        END
        """,
        *_SEARCH,
        """
        CREATE TABLE indexed (  -- how much of a conversation is in words and characters
            conversation INTEGER PRIMARY KEY REFERENCES conversations (key) ON DELETE CASCADE,
            upto INTEGER NOT NULL  -- the id of the first event that is not
        ) STRICT
        """,
        "CREATE TABLE index_form (form INTEGER NOT NULL) STRICT",  # `core.store.search_index.FORM` of what is in it
    ),
)
VERSION = len(MIGRATIONS)
CLEAR_INDEX = (
    *(f"DROP TABLE IF EXISTS {table}" for table in ("characters_terms", "characters", "words")),
    *(f"DROP TABLE IF EXISTS {table}" for table in ("characters_data", "characters_idx", "characters_config")),
    *(f"DROP TABLE IF EXISTS {table}" for table in ("words_data", "words_idx", "words_config")),
    *_SEARCH,
    "DELETE FROM indexed",
    "DELETE FROM index_form",
)
"""The statements that replace the search index by an empty one, whatever its state; for one transaction."""

_COMMON = ("PRAGMA trusted_schema = OFF", "PRAGMA foreign_keys = ON", "PRAGMA cell_size_check = ON")
WRITER_PRAGMAS = (
    *_COMMON,
    "PRAGMA secure_delete = ON",  # overwrites deleted data
    "PRAGMA synchronous = FULL",  # NORMAL loses acknowledged commits at a power cut
    "PRAGMA journal_size_limit = 67108864",  # a WAL that grew under a long reader shrinks again to 64 MB
)
READER_PRAGMAS = (*_COMMON, "PRAGMA query_only = ON", "PRAGMA wal_autocheckpoint = 0")


def upgrade(path: Path, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
    """Upgrade a database file to the newest version. The caller holds the lock that admits one process at a time.

    Raises StoreVersionError for a file of a newer Handloom.
    """
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10.0)) as connection:
        found = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if found > len(migrations):
            raise StoreVersionError(
                f"{path} was written by a newer Handloom (version {found}; this one knows {len(migrations)}). "
                "Install the newer one, or set HANDLOOM_HOME to another folder."
            )
        if found == len(migrations):
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statements in migrations[found:]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(migrations)}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


async def connect(path: Path, pragmas: Iterable[str]) -> aiosqlite.Connection:
    """A connection in autocommit mode."""
    connection = await aiosqlite.connect(path, isolation_level=None, timeout=BUSY_S)
    try:
        for pragma in pragmas:
            await connection.execute(pragma)
    except BaseException:
        await connection.close()  # otherwise its thread would keep the process alive
        raise
    return connection


def remedy(error: Exception) -> str:
    """What the user can do about a database error, in one or two sentences."""
    text = str(error)
    if "full" in text:
        return "The disk is full: free some space, then try again. Nothing that was shown is lost."
    if "readonly" in text or "read-only" in text:
        return "Make the data folder writable, or set HANDLOOM_HOME to another folder."
    if "malformed" in text or "not a database" in text:
        return "The file is damaged. Recover what is readable with: handloom doctor --repair"
    if "locked" in text:
        return "Another program holds the database; close it and try again."
    return "Check the disk, then try again. Nothing that was shown is lost."


def without_database(path: Path) -> bool:
    """Whether a write-ahead log exists without its database: SQLite would delete the log."""
    wal = path.with_name(f"{path.name}-wal")
    try:
        return wal.stat().st_size > 0 and (
            not path.exists() or (path.is_file() and path.stat().st_size < MIN_PAGE_BYTES)
        )
    except OSError:
        return False


def check_can_open(path: Path) -> None:
    """Raise StoreError if opening the database would make damage worse, or open something that is not a file."""
    if path.with_name(JOURNAL).exists():
        raise StoreError(f"A repair of {path} was interrupted. Finish it with: handloom doctor --repair")
    if without_database(path):
        raise StoreError(
            f"{path} is empty or missing, but its write-ahead log exists. "
            "Recover its content with: handloom doctor --repair"
        )
    if os.path.lexists(path) and not path.is_file():
        raise StoreError(
            f"{path} is not a file. Restore the database, or move this away with: handloom doctor --repair"
        )
