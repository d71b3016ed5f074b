"""Recovery: makes an intact database of the readable rows of a damaged one that SQLite refuses to open. Blocks.

`Pages` follows sqlite.org/fileformat2.html: it reads the file, with the committed pages of its write-ahead log over it,
and yields the records of each leaf page of a table or an index. Nothing is trusted: what is invalid is skipped, and
reading always ends. Free pages are skipped, so that deleted data stays deleted. Never writes to the damaged file.

Rows are recognised by their shape, so neither the file header nor the page tree is needed. Only valid events are taken;
derived data is rebuilt later. Ids have no gaps, so lost events are replaced: the first of a range by an error that
names the lost ids, the others by empty observations.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import uuid
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

from core.events import (
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    NullObservation,
    SystemMessageAction,
    envelope_from_dict,
)
from core.store import database
from core.store.database import sqlite3
from core.store.event_rows import ADD_EVENT, UPDATE_FACTS, Facts, event_row, unpack
from core.store.recordings import RecordedRow, unpack_frames

PAGE_BYTES = 4096
"""The page size for a file with an unreadable header: SQLite's default, which Handloom uses."""
_MAGIC = b"SQLite format 3\0"
_HEAD_BYTES = 100
_TABLE_LEAF, _INDEX_LEAF = 0x0D, 0x0A
_WAL_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
_WAL_HEAD, _FRAME_HEAD = struct.Struct(">8I"), struct.Struct(">6I")
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}

Record = tuple[Any, ...]


class Cell(NamedTuple):
    rowid: int | None
    """None in an index."""
    record: Record


class Pages:
    """The pages of a database file. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Raises OSError if the file cannot be read. A missing file or log has no pages."""
        self._file: BinaryIO | None = path.open("rb") if path.exists() else None
        wal = path.with_name(f"{path.name}-wal")
        self._wal: BinaryIO | None = wal.open("rb") if wal.exists() else None
        self.size = _page_size(self._read(self._file, 0, _HEAD_BYTES))
        self.log_is_torn = False
        """Whether a commit follows a damaged part of the log, so that SQLite would ignore it."""
        self._in_wal, pages = self._scan_wal()
        in_file = -(-self._file.seek(0, 2) // self.size) if self._file is not None else 0
        self.count = max(pages, in_file)  # Handloom never shrinks a database
        self._free = self._free_pages()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for file in (self._file, self._wal):
            if file is not None:
                file.close()

    def cells(self) -> Iterator[Cell]:
        """The complete records of all leaf pages, in the order of pages."""
        for number in range(1, self.count + 1):
            if number not in self._free:
                yield from self.cells_of(number)

    def page(self, number: int) -> bytes:
        """A page, numbered from 1; zeros if the file does not have it."""
        if (place := self._in_wal.get(number)) is not None:
            data = self._read(self._wal, place, self.size)
        else:
            data = self._read(self._file, (number - 1) * self.size, self.size)
        return data.ljust(self.size, b"\0")

    @staticmethod
    def _read(file: BinaryIO | None, place: int, size: int) -> bytes:
        if file is None:
            return b""
        file.seek(place)
        try:
            return file.read(size)
        except OSError:  # an unreadable part of the disk
            return b""

    def _scan_wal(self) -> tuple[dict[int, int], int]:
        """The position in the log of each page's newest committed version, and the page count of the last commit.

        Damaged frames are skipped, but not the frames after them: each checksum continues from the one before.
        """
        found: dict[int, int] = {}
        head = self._read(self._wal, 0, _WAL_HEAD.size)
        if len(head) < _WAL_HEAD.size:
            return found, 0
        magic, _version, size, _sequence, *salt, sum_0, sum_1 = _WAL_HEAD.unpack(head)
        if magic not in _WAL_MAGIC or not _is_page_size(size):
            return found, 0
        self.size, order = size, _WAL_MAGIC[magic]
        waiting: dict[int, int] = {}
        pages, place, before, is_torn = 0, _WAL_HEAD.size, (sum_0, sum_1), False
        while len(frame := self._read(self._wal, place, _FRAME_HEAD.size + size)) == _FRAME_HEAD.size + size:
            number, commits, *its_salt, sum_0, sum_1 = _FRAME_HEAD.unpack(frame[: _FRAME_HEAD.size])
            if its_salt != salt:
                break  # the rest of an older log
            is_whole = _checksum(frame[:8] + frame[_FRAME_HEAD.size :], order, before) == (sum_0, sum_1)
            if is_whole:
                waiting[number] = place + _FRAME_HEAD.size
            is_torn |= not is_whole
            self.log_is_torn |= is_torn and is_whole and bool(commits)
            if commits and is_whole:
                found.update(waiting)
                waiting, pages = {}, commits
            before, place = (sum_0, sum_1), place + len(frame)
        return found, pages

    def _free_pages(self) -> set[int]:
        """The free pages, as far as the freelist can be read."""
        free: set[int] = set()
        trunk = int.from_bytes(self.page(1)[32:36], "big")
        while 1 < trunk <= self.count and trunk not in free:
            page = self.page(trunk)
            if page[0] in (_TABLE_LEAF, _INDEX_LEAF):  # not a freelist page: that begins with a page number
                break
            free.add(trunk)
            count = min(int.from_bytes(page[4:8], "big"), self.size // 4 - 2)
            leaves = struct.unpack(f">{count}I", page[8 : 8 + 4 * count])
            free.update(leaf for leaf in leaves if leaf != 1)
            trunk = int.from_bytes(page[:4], "big")
        return free

    def cells_of(self, number: int) -> Iterator[Cell]:
        """The records of a page; none where it is no leaf."""
        page, head = self.page(number), _HEAD_BYTES if number == 1 else 0
        if page[head] not in (_TABLE_LEAF, _INDEX_LEAF):
            return
        is_table = page[head] == _TABLE_LEAF
        count = min(int.from_bytes(page[head + 3 : head + 5], "big"), (self.size - head - 8) // 2)
        for place in struct.unpack(f">{count}H", page[head + 8 : head + 8 + 2 * count]):
            try:
                if (cell := self._cell(page, place, is_table)) is not None:
                    yield cell
            except (IndexError, ValueError, struct.error):
                continue

    def _cell(self, page: bytes, place: int, is_table: bool) -> Cell | None:
        size, place = _varint(page, place)
        rowid: int | None = None
        if is_table:
            rowid, place = _varint(page, place)
            rowid = rowid - (1 << 64) if rowid >> 63 else rowid
        payload = self._payload(page, place, size, is_table)
        return None if payload is None else Cell(rowid, _record(payload))

    def _payload(self, page: bytes, place: int, size: int, is_table: bool) -> bytes | None:
        """What a cell holds, with what flows over into other pages; None where that is not there."""
        if size > self.count * self.size:
            return None
        most = self.size - 35 if is_table else (self.size - 12) * 64 // 255 - 23
        if size <= most:
            return page[place : place + size]
        least = (self.size - 12) * 32 // 255 - 23
        here = least + (size - least) % (self.size - 4)
        here = here if here <= most else least
        parts, left, next_page = [page[place : place + here]], size - here, page[place + here : place + here + 4]
        while left > 0:
            number = int.from_bytes(next_page, "big")
            if not 1 < number <= self.count or number in self._free:
                return None
            more = self.page(number)
            parts.append(more[4 : 4 + left])
            left, next_page = left - (self.size - 4), more[:4]
        return b"".join(parts)


def _is_page_size(size: int) -> bool:
    return 512 <= size <= 65536 and size & (size - 1) == 0


def _page_size(head: bytes) -> int:
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    return size if head.startswith(_MAGIC) and _is_page_size(size) else PAGE_BYTES


def _checksum(data: bytes, order: str, begin: tuple[int, int]) -> tuple[int, int]:
    """The checksum of a log frame, continued from the frame before."""
    one, two = begin
    for first, second in struct.iter_unpack(f"{order}II", data):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A variable-length integer, and the position after it. Raises IndexError."""
    value = 0
    for count in range(8):
        byte = data[place + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + count + 1
    return value << 8 | data[place + 8], place + 9


def _record(payload: bytes) -> Record:
    """The values of a record. Raises ValueError or IndexError for invalid data."""
    head_end, place = _varint(payload, 0)
    at, values = head_end, []
    while place < head_end:
        kind, place = _varint(payload, place)
        size = _INTEGER_BYTES.get(kind, 8 if kind == 7 else (kind - 12) // 2 if kind >= 12 else 0)
        data = payload[at : at + size]
        if len(data) != size or kind in (10, 11):
            raise ValueError("a record is cut off")
        at += size
        values.append(_value(kind, data))
    if at != len(payload) or place != head_end:
        raise ValueError("a record has a wrong length")
    return tuple(values)


def _value(kind: int, data: bytes) -> Any:
    if kind == 0:
        return None
    if kind in (8, 9):
        return kind - 8
    if kind == 7:
        return struct.unpack(">d", data)[0]
    if kind < 7:
        return int.from_bytes(data, "big", signed=True)
    return data.decode() if kind % 2 else data


LOST = "LOST"
"""The `error_id` of the event that says what was lost."""
MAX_GAP = 100_000
"""The most ids in a row that can be lost; an event after a wider gap has a damaged id."""
UNTITLED = "Saved conversation"
"""The title of a conversation whose row was lost."""
_ID = re.compile(r"[0-9a-f]{32}")
_SOURCES = frozenset(EventSource)
_INSTRUCTIONS = (
    "The instructions at the start of this conversation were lost when its database was damaged. Work as a careful "
    "software agent with the tools that you are given, and ask the user if the task is no longer clear."
)


@dataclass(frozen=True, slots=True)
class LostRange:
    """Events that could not be read."""

    conversation_id: str
    first: int
    last: int


@dataclass(slots=True)
class RecoveryResult:
    conversations: int = 0
    events: int = 0
    """Recovered events, without replacements for lost ones."""
    nameless: int = 0
    """Conversations whose title, folder and model were lost."""
    lost: list[LostRange] = field(default_factory=list)
    pictures: int = 0


def recover(source: Path, target: Path, scratch: Path) -> RecoveryResult:
    """Recover `source` and its write-ahead log into the new database `target`. `scratch` is a temporary file.

    Raises OSError or sqlite3.Error if the target cannot be written.
    """
    with closing(sqlite3.connect(scratch, isolation_level=None)) as found:
        for statement in _SCRATCH:
            found.execute(statement)
        found.execute("BEGIN")  # without a commit: the file is temporary
        with Pages(source) as pages:
            for cell in pages.cells():
                for statement, values in _classify(cell):
                    found.execute(statement, values)
        database.upgrade(target)
        with closing(sqlite3.connect(target, isolation_level=None)) as new:
            new.execute("PRAGMA synchronous = OFF")  # the caller syncs the finished file
            return _fill(found, new)


_COLUMNS = (
    "key", "id", "title", "workspace", "model", "created_at", "parent", "parent_action", "repository", "updated_at",
    "event_count", "size", "first_line", "state", "cost", "origin", "origin_of", "origin_event",
)  # fmt: skip
_DEFAULTS: tuple[Any, ...] = (*[""] * 6, "", None, "", "", 0, 0, "", "", 0.0, "", "", None)
_SCRATCH = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    f"CREATE TABLE conversations (key INTEGER PRIMARY KEY, {', '.join(_COLUMNS[1:])})",
    "CREATE TABLE ids (key INTEGER PRIMARY KEY, id TEXT)",
    "CREATE TABLE events (conversation, id, timestamp, source, cause, kind, lease, body,"
    " PRIMARY KEY (conversation, id)) WITHOUT ROWID",
    "CREATE TABLE blobs (conversation, digest, media_type, width, height, data, PRIMARY KEY (conversation, digest))",
    'CREATE TABLE recordings (conversation, "after", number, at, frames, PRIMARY KEY (conversation, "after", number))',
    "CREATE TABLE spending (day PRIMARY KEY, calls, cost, unpriced, tokens, seconds)",
)


def _add(table: str, count: int) -> str:
    return f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * count)})"  # noqa: S608


def _classify(cell: Cell) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The table and row of a record; none for a record that is damaged or not ours."""
    match cell.record:
        case (str() as id, int() as key) if cell.rowid is None and _ID.fullmatch(id):
            yield _add("ids", 2), (key, id)
        case _ if cell.rowid is None:
            pass
        case (int(), int(), str(), str(), None | int(), str(), int(), str() | bytes()):
            if row := valid_row(cell.record):
                yield _add("events", 8), row
        case (int(), str() as digest, str(), int(), int(), bytes() as data):
            if hashlib.sha256(data).hexdigest() == digest:
                yield _add("blobs", 6), cell.record
        case (int(), int() as after, int(), str() as at, bytes() as frames) if is_recording(after, at, frames):
            yield _add("recordings", 5), cell.record
        case (str() as day, int(), int() | float(), int(), int(), int() | float()) if _is_time(day):
            yield _add("spending", 6), cell.record
        case (None, str(), str(), str(), str(), str() as created_at, *more) if _is_time(created_at):
            row = (cell.rowid, *cell.record[1:6], *more)
            yield _add("conversations", len(_COLUMNS)), (row + _DEFAULTS[len(row) :])[: len(_COLUMNS)]


def valid_row(row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The row of an event, corrected by its body; None if the body cannot be read."""
    conversation, lease, body = row[0], row[6], row[7]
    envelope = _envelope(body)
    if envelope is None or not 0 < conversation < 2**31 or not 0 <= envelope.id < 2**31:
        return None
    if row[3] not in _SOURCES or (row[1], row[4]) != (envelope.id, envelope.cause) or not _is_time(row[2]):
        return event_row(conversation, min(max(lease, 0), 2**31), envelope, body)
    return (*row[:6], min(max(lease, 0), 2**31), body)


def _envelope(body: str | bytes) -> Envelope | None:
    try:
        return envelope_from_dict(json.loads(unpack(body)), "")
    except (ValueError, zlib.error, RecursionError):
        return None


def is_recording(after: int, at: str, frames: bytes) -> bool:
    """Whether a row of a recording is valid."""
    if not _is_time(at):
        return False
    try:
        return all(True for _frame in unpack_frames(RecordedRow(after, datetime.fromisoformat(at), frames)))
    except (zlib.error, ValueError, OverflowError, IndexError, struct.error):
        return False


def _is_time(text: str) -> bool:
    try:
        return bool(datetime.fromisoformat(text))
    except ValueError:
        return False


# -- the new database ----------------------------------------------------------------------------------------------


def _fill(found: sqlite3.Connection, new: sqlite3.Connection) -> RecoveryResult:
    result = RecoveryResult()
    new.execute("BEGIN IMMEDIATE")
    triggers = new.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'events'"
    ).fetchall()
    for name, _sql in triggers:  # they check each insert against the log, which is slow here
        new.execute(f"DROP TRIGGER {name}")
    _add_conversations(found, new, result)
    for key, id, count in new.execute("SELECT key, id, event_count FROM conversations ORDER BY key").fetchall():
        _add_events(found, _Conversation(new, result, key, id, count))
    for table in ("blobs", "recordings", "spending"):
        rows = found.execute(f"SELECT * FROM {table} ORDER BY rowid")  # noqa: S608
        marks = ", ".join(f"?{n + 1}" for n in range(len(rows.description)))
        for row in rows:
            if table == "spending" or new.execute("SELECT 1 FROM conversations WHERE key = ?", row[:1]).fetchone():
                new.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)  # noqa: S608
                result.pictures += table == "blobs"
    new.execute(_COUNT)
    for _name, sql in triggers:
        new.execute(sql)
    new.execute("COMMIT")
    new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return result


class _Conversation(NamedTuple):
    new: sqlite3.Connection
    result: RecoveryResult
    key: int
    id: str
    count: Any
    """Its event count in the damaged database."""


_COUNT = """
    UPDATE conversations AS c SET
        updated_at = coalesce((SELECT timestamp FROM events e WHERE e.conversation = c.key ORDER BY id DESC LIMIT 1),
            created_at),
        event_count = (SELECT count(*) FROM events e WHERE e.conversation = c.key),
        size = (SELECT coalesce(sum(octet_length(body)), 0) FROM events e WHERE e.conversation = c.key)
            + (SELECT coalesce(sum(octet_length(data)), 0) FROM blobs b WHERE b.conversation = c.key)
            + (SELECT coalesce(sum(octet_length(frames)), 0) FROM recordings r WHERE r.conversation = c.key)
"""


def _add_conversations(found: sqlite3.Connection, new: sqlite3.Connection, result: RecoveryResult) -> None:
    """Add conversations whose row was found, and those of which only events are left."""
    taken: set[str] = set()
    for row in found.execute("SELECT * FROM conversations ORDER BY key"):
        if _insert_conversation(new, row):
            taken.add(row[1])
            result.conversations += 1
    left = found.execute(  # a single event of an unknown conversation has a damaged key
        "SELECT e.conversation, i.id, min(e.timestamp) FROM events e LEFT JOIN ids i ON i.key = e.conversation"
        " GROUP BY e.conversation HAVING count(*) > 1 OR i.id IS NOT NULL ORDER BY 1"
    ).fetchall()
    for key, id, created_at in left:
        if new.execute("SELECT 1 FROM conversations WHERE key = ?", (key,)).fetchone() is None:
            known = id if id and id not in taken else uuid.uuid4().hex
            row = (key, known, UNTITLED, "", "", created_at)
            _insert_conversation(new, row + _DEFAULTS[len(row) :])
            taken.add(known)
            result.conversations += 1
            result.nameless += 1


def _insert_conversation(new: sqlite3.Connection, row: tuple[Any, ...]) -> bool:
    """Add a conversation. Returns False if its row is invalid."""
    try:
        columns = ", ".join(_COLUMNS)
        new.execute(f"INSERT INTO conversations ({columns}) VALUES ({', '.join('?' * len(_COLUMNS))})", row)  # noqa: S608
    except sqlite3.IntegrityError:
        return False
    return True


def _add_events(found: sqlite3.Connection, log: _Conversation) -> None:
    """Add the events of a conversation in order, with replacements for lost ones."""
    facts, next_id, token, last_at = Facts(), 0, 0, ""
    rows = found.execute("SELECT * FROM events WHERE conversation = ? ORDER BY id", (log.key,))
    for row in rows:
        if row[1] - next_id > MAX_GAP:
            break
        last_at = row[2]
        _fill_gap(log, range(next_id, row[1]), last_at)
        envelope = _envelope(row[7])
        if envelope is not None:
            facts = facts.after(envelope.event, envelope.source)
        log.new.execute(ADD_EVENT, row)
        next_id, token, log.result.events = row[1] + 1, max(token, row[6]), log.result.events + 1
    if isinstance(log.count, int) and log.count <= next_id + MAX_GAP:
        _fill_gap(log, range(next_id, log.count), last_at)
    log.new.execute(UPDATE_FACTS, facts.row(log.key))
    log.new.execute("INSERT INTO leases (conversation, token, owner) VALUES (?, ?, NULL)", (log.key, token + 1))


def _fill_gap(log: _Conversation, gap: range, at: str) -> None:
    if not gap:
        return
    log.result.lost.append(LostRange(log.id, gap[0], gap[-1]))
    when = datetime.fromisoformat(at) if at else datetime.now(UTC)
    which = f"The events {gap[0]} to {gap[-1]} are" if len(gap) > 1 else f"The event {gap[0]} is"
    error = ErrorObservation(content=f"{which} lost: the database was damaged.", error_id=LOST)
    begin = [SystemMessageAction(content=_INSTRUCTIONS)] if gap[0] == 0 else []
    for number, lost_id in enumerate(gap):
        event: Event = [*begin, error][number] if number <= len(begin) else NullObservation()
        source = EventSource.AGENT if isinstance(event, SystemMessageAction) else EventSource.ENVIRONMENT
        envelope = Envelope(conversation_id=log.id, id=lost_id, timestamp=when, source=source, cause=None, event=event)
        log.new.execute(ADD_EVENT, event_row(log.key, 0, envelope))
