"""Files of other agents, opened read-only: regular files below their agent's folder, reached through no link.

Nothing here writes to a folder of another agent, not even the files that SQLite puts beside a database.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import pydantic_core

from core.import_export.bounded_json import Fault

MAX_LINE_BYTES = 32 * 1024 * 1024
"""A longer line is not read; it counts as a record that is not understood."""
MAX_FILE_BYTES = 256 * 1024 * 1024
"""A file that is one JSON value; a longer one is refused."""
MAX_LINES = 2_000_000
MAX_LINES_BYTES = 1024 * 1024 * 1024
"""Of all lines of a file: what comes later is not read. A file with a hole can seem to have any size."""
MAX_VALUES = 8_000_000
"""Of JSON in one file: an empty list takes two bytes there, and eighty in memory."""
MAX_COPIED_BYTES = 1024 * 1024 * 1024
"""Of a database that must be copied."""
MAX_ROWS_BYTES = 256 * 1024 * 1024
"""Of all cells that one query gives: the default of a column makes long cells of none."""
_ROW_BYTES = 100
_DEFAULT_CHARS = 100
EDGE_BYTES = 64 * 1024
"""How much of the beginning and the end of a file a list reads."""
MAX_ENTRIES = 2_000_000
"""Files in an agent's folder that a list looks at."""
QUERY_S = 60.0
"""A hostile database can make one query run for ever."""
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+["\\]?|[][{}:,]|[^][{}:,"\s]+', re.DOTALL)
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_STEPS = 1_000
_OBJECT, _NUMBER = (dict, Mapping), (int, float)
"""Made once: `dict | Mapping` makes a type each time, and these are looked at in every record."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file below a folder."""

    path: Path
    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file with one JSON object on each line."""

    number: int
    """From 1."""
    value: Any
    """The parsed value; None if there is none."""
    wrong: str = ""
    """Why there is no value: `cut off`, `not JSON`, `too long`; empty if there is one."""


def walk(root: Path, suffix: str | tuple[str, ...] = "", depth: int = 8) -> Iterator[FoundFile]:
    """The regular files below a folder whose names end in `suffix`, without following links.

    `depth` is the number of levels of folders. What cannot be read is skipped; a missing folder is empty.
    """
    waiting = [(root, 0)]
    count = 0
    while waiting:
        folder, level = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    count += 1
                    if count > MAX_ENTRIES:
                        return
                    with suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            if level + 1 < depth:
                                waiting.append((Path(entry.path), level + 1))
                        elif entry.name.endswith(suffix) and entry.is_file(follow_symlinks=False):
                            found = entry.stat(follow_symlinks=False)
                            yield FoundFile(Path(entry.path), found.st_size, found.st_mtime_ns)
        except OSError:
            continue


def open_below(root: Path, path: Path) -> BinaryIO:
    """A regular file below `root`, opened for reading. `root` may be a link, nothing below it may.

    Raises OSError, also for anything that is not a regular file below it.
    """
    parts = path.relative_to(root).parts if path.is_relative_to(root) else ()
    if not parts or ".." in parts:
        raise OSError(errno.EINVAL, "it is not below the folder of its agent", str(path))
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _FLAGS | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        fd = os.open(parts[-1], _FLAGS, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(fd, "rb")


def lines(file: BinaryIO, first_bytes: int = 0) -> Iterator[Line]:
    """The lines of a file, read one at a time. Empty lines are left out. A line that is not JSON says so.

    With `first_bytes`, only the lines that end within so many bytes. After `MAX_LINES_BYTES` or `MAX_VALUES`, no more
    is read.
    """
    number = size = values = 0
    longest = min(MAX_LINE_BYTES, first_bytes or MAX_LINE_BYTES)
    while number < MAX_LINES and (data := file.readline(longest + 1)):
        number += 1
        size += len(data)
        if first_bytes and size > first_bytes:
            return
        is_long = len(data) > MAX_LINE_BYTES and not data.endswith(b"\n")
        values += 0 if is_long else _values(data)
        if size > MAX_LINES_BYTES or values > MAX_VALUES:
            yield Line(number, None, "too long")
            return
        if is_long:
            size += _skip_line(file, MAX_LINES_BYTES - size)
            yield Line(number, None, "too long")
        elif data.strip():
            yield _line(number, data)


def edges(file: BinaryIO, size: int = EDGE_BYTES) -> tuple[list[Any], list[Any]]:
    """The objects on the first lines and on the last lines of a file, each read from at most `size` bytes."""
    head = file.read(size)
    end = file.seek(0, os.SEEK_END)
    tail = b""
    if end > len(head):
        file.seek(max(len(head), end - size))
        tail = file.read(size)
        is_whole = end - size <= len(head)
        tail = tail if is_whole and head.endswith(b"\n") else tail.partition(b"\n")[2]
    return _objects(head), _objects(tail)


def read_json(file: BinaryIO, limit: int = MAX_FILE_BYTES) -> Any:
    """The JSON value in a file. Raises Fault for anything else, and for more than `limit` bytes."""
    data = file.read(limit + 1)
    if len(data) > limit:
        raise Fault(f"it is longer than {limit // 1_000_000} MB, which is the limit")
    try:
        return parse(data)
    except ValueError as error:
        raise Fault(f"it is not JSON ({error})") from error


def parse(data: bytes) -> Any:
    """The JSON value in `data`. Raises ValueError for anything else.

    Bytes that are no UTF-8 are replaced. NaN and infinite numbers, which Python writes, are None. Pydantic's parser is
    three times as fast as the standard library's, which handles what it refuses.
    """
    if len(data) > MAX_VALUES and _values(data) > MAX_VALUES:
        raise ValueError("it has too many values")
    with suppress(ValueError):
        return pydantic_core.from_json(data, allow_inf_nan=False, cache_strings="keys")
    try:
        return _DECODER.decode(data.decode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def beginning(file: BinaryIO, size: int = EDGE_BYTES) -> Any:
    """The JSON value in a file as far as its first `size` bytes have it; None if they have none.

    A text that is cut off there is cut off in the value too.
    """
    data = file.read(size)
    with suppress(ValueError):
        return parse(data)
    with suppress(ValueError):
        return parse(_closed(data.decode("utf-8", "ignore")).encode())
    return None


def changed_ns(file: BinaryIO) -> int:
    """When an open file was changed."""
    return os.fstat(file.fileno()).st_mtime_ns


def path_id(path: Path) -> str:
    """An id for a file whose agent gives it none: its name, and a digest of its path."""
    name = path.name.split(".")[0] or path.parent.name
    return f"{name[:80]}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"


@contextmanager
def database(root: Path, path: Path) -> Iterator[sqlite3.Connection]:
    """A SQLite database below `root`, read-only, with rows as mappings by column name.

    Nothing is written beside it: an unfinished log is read in place through the agent's own index of it, and if there
    is no index, the database is copied with its log. The copy has no name any more once it is open, so that nothing of
    it stays if this process is killed. Raises OSError and Fault.
    """
    with open_below(root, path) as file:
        try:
            with tempfile.TemporaryDirectory(prefix="handloom-") as scratch:
                connection = _connect(root, path, file, Path(scratch, "copy.db"))
            try:
                yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise Fault(f"its database cannot be read ({error})") from error


def columns(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    """The columns of a table; empty if there is no such table.

    None are a view, a virtual table, and a table with columns that are computed or have long defaults: these can run
    anything, and make gigabytes of a small file.
    """
    kind = connection.execute("SELECT type, rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if kind is None or kind[0] != "table" or not kind[1]:
        return frozenset()
    found = connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
    is_plain = all(not row["hidden"] and len(row["dflt_value"] or "") <= _DEFAULT_CHARS for row in found)
    return frozenset(row["name"] for row in found) if is_plain else frozenset()


def rows(
    connection: sqlite3.Connection, table: str, names: str, rest: str = "", values: Sequence[Any] = ()
) -> Iterator[dict[str, Any]]:
    """Rows of a table, as objects with those of the columns `names` that it has; none if there is no such table.

    Bytes become text, and infinite numbers None, because events are JSON.
    `rest` comes after the table's name: `WHERE`, `ORDER BY`. It must name only columns that every version has.
    """
    known, size = columns(connection, table), 0
    if found := ", ".join(f'"{name}"' for name in names.split() if name in known):
        query = f'SELECT {found} FROM "{table}" {rest}'  # noqa: S608
        for row in connection.execute(query, values):
            size += _ROW_BYTES + sum(len(value) for value in tuple(row) if isinstance(value, str | bytes))
            if size > MAX_ROWS_BYTES:
                raise Fault(f"it has more than {MAX_ROWS_BYTES // 1_000_000} MB in its database, which is the limit")
            yield {name: _plain(row[name]) for name in row.keys()}  # noqa: SIM118  # a row's items are its values


def cell(row: Mapping[str, Any], key: str) -> Any:
    """The JSON value in a cell of `rows`; None if there is none."""
    found = row.get(key)
    with suppress(ValueError):
        if isinstance(found, str):
            return parse(found.encode("utf-8", "replace"))
    return None


def text(value: Any, key: str) -> str:
    """A text field of an object; empty if it is missing or not a text."""
    found = value.get(key) if isinstance(value, _OBJECT) else None
    return found if isinstance(found, str) else ""


def number(value: Any, key: str) -> int:
    """A count in an object; 0 if it is missing or not a count."""
    found = value.get(key) if isinstance(value, _OBJECT) else None
    return int(found) if isinstance(found, _NUMBER) and not isinstance(found, bool) and 0 <= found < 2**53 else 0


def dollars(value: Any, key: str) -> float | None:
    """A cost in an object; None if it is missing or none."""
    found = value.get(key) if isinstance(value, _OBJECT) else None
    is_cost = isinstance(found, _NUMBER) and not isinstance(found, bool) and 0 <= found < 2**53
    return float(found) if is_cost and found is not None else None


def inner(value: Any, *keys: str) -> dict[str, Any]:
    """The object at a path of keys; empty if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, _OBJECT) else None
    return dict(value) if isinstance(value, _OBJECT) else {}


def items(value: Any, key: str) -> list[Any]:
    """A list in an object; empty if it is missing or not a list."""
    found = value.get(key) if isinstance(value, _OBJECT) else None
    return found if isinstance(found, list) else []


def _closed(text: str) -> str:
    """The longest beginning of a JSON text that is complete once its texts, lists and objects are closed."""
    ends: list[str] = []
    is_key, whole = False, 0
    for token in _TOKEN.finditer(text):
        sign, is_last = token[0], token.end() == len(text)
        if sign in "{[":
            ends.append("}" if sign == "{" else "]")
        elif sign in "}]":
            if not ends or ends[-1] != sign:
                break
            ends.pop()
        elif sign not in ",:":
            if is_key:
                continue
            if is_last and sign[0] == '"' and not _is_whole(sign):
                return text[: token.start()] + _closed_text(sign) + "".join(reversed(ends))
            if is_last and sign[0] != '"':
                break
        is_key = sign in "{," and ends[-1:] == ["}"]
        if sign in ",:":
            continue
        whole = token.end()
        if not ends:
            break
    return text[:whole] + "".join(reversed(ends))


def _is_whole(sign: str) -> bool:
    """Whether a JSON text has its last quote."""
    inside = sign[1:-1]
    return len(sign) > 1 and sign[-1] == '"' and (len(inside) - len(inside.rstrip("\\"))) % 2 == 0


def _closed_text(sign: str) -> str:
    """A JSON text that was cut off, closed; an escape at its end that is not whole is left out."""
    if cut := _CUT_ESCAPE.search(sign):
        start = cut.start()
        backslashes = start + 1 - len(sign[: start + 1].rstrip("\\"))
        if backslashes % 2 == 1:
            sign = sign[:start]
    return sign + '"'


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _values(data: bytes) -> int:
    """At least how many values a JSON text has, or the commas in its texts."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _skip_line(file: BinaryIO, most: int) -> int:
    """Skip the rest of a line, or `most` bytes of it. Returns how many bytes that were."""
    skipped = 0
    while skipped <= most and (part := file.readline(1 << 20)):
        skipped += len(part)
        if part.endswith(b"\n"):
            break
    return skipped


def _line(number: int, data: bytes) -> Line:
    try:
        return Line(number, parse(data))
    except ValueError:
        return Line(number, None, "not JSON" if data.endswith(b"\n") else "cut off")


def _objects(data: bytes) -> list[Any]:
    found = []
    for line in data.split(b"\n"):
        if line.strip():
            with suppress(ValueError):
                found.append(parse(line))
    return [value for value in found if isinstance(value, dict)]


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


_DECODER = json.JSONDecoder(parse_constant=lambda name: None, parse_float=_finite)
"""Made once: `json.loads` makes one for each line."""


def _connect(root: Path, path: Path, file: BinaryIO, copy: Path) -> sqlite3.Connection:
    log, index = (path.with_name(path.name + ending) for ending in ("-wal", "-shm"))
    if not _size(log):
        return _opened(f"file:{quote(f'/dev/fd/{file.fileno()}')}?mode=ro&immutable=1")
    if _size(index) and not os.path.lexists(path.with_name(path.name + "-journal")):  # SQLite would open a FIFO there
        with suppress(sqlite3.Error):
            return _opened(f"file:{quote(str(path))}?mode=ro&readonly_shm=1")
    if _size(path) + _size(log) > MAX_COPIED_BYTES:
        raise Fault(f"its database has more than {MAX_COPIED_BYTES // 1_000_000} MB, which is too much to copy it")
    for _attempt in range(3):  # until the log does not change while both are copied
        before = _changed_ns(log)
        with open_below(root, path) as source, open(copy, "wb") as target:
            _copy(source, target)
        with suppress(FileNotFoundError), open_below(root, log) as source, open(f"{copy}-wal", "wb") as target:
            _copy(source, target)
        if _changed_ns(log) == before:
            break
    return _opened(f"file:{quote(str(copy))}")


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    left = MAX_COPIED_BYTES
    while left > 0 and (part := source.read(min(left, 1 << 20))):
        target.write(part)
        left -= len(part)


def _size(path: Path) -> int:
    """The size of a regular file; 0 if there is none. It is not opened: that would end the locks of other threads."""
    with suppress(OSError):
        found = path.lstat()
        return found.st_size if stat.S_ISREG(found.st_mode) else 0
    return 0


def _changed_ns(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_mtime_ns
    return 0


def _opened(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True)
    try:
        end = time.monotonic() + QUERY_S
        connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_FILE_BYTES)
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
