"""The database's tables, and how an older database becomes today's.

`user_version` says which migrations a file has seen. Each upgrade runs in one transaction, so a file is of the old
version or of the new one, never between. A file of a newer version is refused and not touched.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from core.errors import StoreVersionError
from core.sqlite import sqlite3

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
        """
        CREATE TRIGGER only_the_owner_writes BEFORE INSERT ON events
        WHEN NEW.lease IS NOT (SELECT token FROM leases WHERE conversation = NEW.conversation)
        BEGIN SELECT raise(ABORT, 'the lease is lost'); END
        """,
        """
        CREATE TRIGGER ids_have_no_gaps BEFORE INSERT ON events
        WHEN NEW.id <> coalesce((SELECT max(id) + 1 FROM events WHERE conversation = NEW.conversation), 0)
        BEGIN SELECT raise(ABORT, 'the id is not the next one'); END
        """,
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
)
VERSION = len(MIGRATIONS)

_COMMON = ("PRAGMA trusted_schema = OFF", "PRAGMA foreign_keys = ON", "PRAGMA cell_size_check = ON")
WRITER_PRAGMAS = (
    *_COMMON,
    "PRAGMA synchronous = FULL",  # NORMAL loses acknowledged commits at a power cut
    "PRAGMA journal_size_limit = 67108864",  # a WAL that grew under a long reader shrinks again to 64 MB
)
READER_PRAGMAS = (*_COMMON, "PRAGMA query_only = ON", "PRAGMA wal_autocheckpoint = 0")


def upgrade(path: Path, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
    """Bring a database file to the newest version. One process at a time; the caller holds the lock for it.

    Raises StoreVersionError where the file comes from a newer Handloom.
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
