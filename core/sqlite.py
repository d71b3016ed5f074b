"""Which SQLite we use, and whether several processes may share a database with it.

SQLite 3.7.0 to 3.51.2 can corrupt a WAL database when two connections write and checkpoint at the same moment
(fixed in 3.51.3; see the release notes of 3.53.0). The wheel `pysqlite3` carries a fixed one and is preferred;
aiosqlite is made to load it. Import `aiosqlite` and `sqlite3` from here and from nowhere else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

FIXED_VERSION = (3, 51, 3)
"""The first SQLite with the fix of the WAL-reset bug."""


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


__all__ = ["FIXED_VERSION", "aiosqlite", "can_be_shared", "sqlite3", "version"]
