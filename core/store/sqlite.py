"""The SQLite library in use, and whether several processes may share a database with it.

SQLite 3.7.0 to 3.51.2 can corrupt a WAL database when two connections write and checkpoint at the same moment
(fixed in 3.51.3; see the release notes of 3.53.0). The wheel `pysqlite3` contains a fixed version and is preferred;
aiosqlite is made to load it. Always import `aiosqlite` and `sqlite3` from this module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

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


if TYPE_CHECKING:
    import sqlite3

    import aiosqlite
else:
    sqlite3, aiosqlite = _load()


def version() -> tuple[int, int, int]:
    """The version of the SQLite library in use."""
    return sqlite3.sqlite_version_info


def can_be_shared(found: tuple[int, int, int] | None = None) -> bool:
    """Whether several processes may write to one database with this SQLite."""
    return (found or version()) >= FIXED_VERSION


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
        return "The file is damaged. Recover what is readable with: handloom doctor --mend"
    if "locked" in text:
        return "Another program holds the database; close it and try again."
    return "Check the disk, then try again. Nothing that was shown is lost."


__all__ = ["FIXED_VERSION", "aiosqlite", "can_be_shared", "connect", "remedy", "sqlite3", "version"]
