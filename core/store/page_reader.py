"""A reader for the pages of an SQLite file, for damaged files that SQLite refuses to open.

Follows sqlite.org/fileformat2.html: reads the file, with the committed pages of its write-ahead log over it, and yields
the records of each leaf page of a table or an index. Nothing is trusted: what is invalid is skipped, and reading always
ends. Free pages are skipped, so that deleted data stays deleted. Never writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

PAGE_BYTES = 4096
"""The page size for a file with an unreadable header: SQLite's default, which Handloom uses."""
_MAGIC = b"SQLite format 3\0"
_HEAD_BYTES = 100
"""The size of the file header on the first page."""
_TABLE_LEAF, _INDEX_LEAF = 0x0D, 0x0A
_WAL_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
"""The magic numbers, and the byte order of the checksums."""
_WAL_HEAD, _FRAME_HEAD = struct.Struct(">8I"), struct.Struct(">6I")
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}

Record = tuple[Any, ...]


class Cell(NamedTuple):
    """One record of a leaf page."""

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
            is_whole = _sum(frame[:8] + frame[_FRAME_HEAD.size :], order, before) == (sum_0, sum_1)
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


def _sum(data: bytes, order: str, begin: tuple[int, int]) -> tuple[int, int]:
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
