"""Reading SQLite pages: every kind of value, and every size at which the layout of a record changes."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.store.page_recovery import Cell, Pages

PAGE_SIZES = [512, 4096]
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=2000),
    st.binary(max_size=2000),
)
LEAF = 0x0D


@contextmanager
def database(path: Path, page_size: int, journal: str = "DELETE") -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute(f"PRAGMA page_size = {page_size}")
        made.execute(f"PRAGMA journal_mode = {journal}")
        made.execute("PRAGMA synchronous = OFF")
        made.execute("PRAGMA secure_delete = OFF")
        yield made


def table(path: Path) -> dict[int | None, tuple[Any, ...]]:
    """The rows of the only table, by their number, without its own row in the list of tables."""
    with Pages(path) as pages:
        return {cell.rowid: cell.record for cell in pages.cells() if cell.rowid and cell.record[:1] != ("table",)}


def around(*sizes: int) -> Iterable[int]:
    return sorted({size + more for size in sizes for more in range(-3, 4) if size + more >= 0})


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_row_of_any_length_is_complete(tmp_path: Path, page_size: int) -> None:
    """The header of a record has up to six bytes, so the limits for a row are those of its text, less a little."""
    fits = page_size - 35
    least = (page_size - 12) * 32 // 255 - 23
    sizes = {*range(8), *range(120, 132)}
    for bound in (fits, fits + least, *(least + pages * (page_size - 4) for pages in (1, 2, 3))):
        sizes |= set(range(max(bound - 12, 0), bound + 4))
    with database(tmp_path / "db", page_size) as made:
        made.execute("CREATE TABLE t (body)")
        made.executemany("INSERT INTO t VALUES (?)", [("x" * (size - 1) + "y",) for size in sizes if size])
        written = {number: (body,) for number, body in made.execute("SELECT rowid, body FROM t")}
    assert table(tmp_path / "db") == written


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_index_entry_of_any_length_is_complete(tmp_path: Path, page_size: int) -> None:
    """Of a tree, only leaves are read; one of an index also has entries above them, so each size is in a file alone."""
    fits = (page_size - 12) * 64 // 255 - 23
    least = (page_size - 12) * 32 // 255 - 23
    for size in (size - 5 for size in around(fits, fits + 4, least + page_size - 4, least + page_size, 200)):
        path = tmp_path / f"db{size}"
        with database(path, page_size) as made:
            made.execute("CREATE TABLE t (body TEXT PRIMARY KEY) WITHOUT ROWID")
            made.execute("INSERT INTO t VALUES (?)", ["x" * size])
        with Pages(path) as pages:
            assert [cell.record for cell in pages.cells() if cell.rowid is None] == [("x" * size,)]


@settings(max_examples=40, deadline=None)
@given(
    rows=st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.lists(VALUES, min_size=5, max_size=5), max_size=12),
    page_size=st.sampled_from(PAGE_SIZES),
    journal=st.sampled_from(["DELETE", "WAL"]),
)
def test_every_value_is_read_unchanged(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[int, list[Any]], page_size: int, journal: str
) -> None:
    path = tmp_path_factory.mktemp("pages") / "db"
    with database(path, page_size, journal) as made:
        made.execute("CREATE TABLE t (a, b, c, d, e)")
        made.executemany("INSERT INTO t (rowid, a, b, c, d, e) VALUES (?, ?, ?, ?, ?, ?)", [
            (number, *values) for number, values in rows.items()
        ])  # fmt: skip
        written = {number: tuple(values) for number, *values in made.execute("SELECT rowid, * FROM t")}
        with Pages(path) as pages:  # with a log, while it is there
            found = {cell.rowid: cell.record for cell in pages.cells() if len(cell.record) == 5}
    assert {number: values for number, values in found.items() if values[:1] != ("table",)} == written


# -- the layout of the file ----------------------------------------------------------------------------------------


NUMBERS = [sign * (2**bits + more) for bits in (7, 8, 15, 16, 23, 31, 47, 62) for more in (-1, 0) for sign in (1, -1)]


def test_every_kind_of_value_is_read(tmp_path: Path) -> None:
    values = [None, 0, 1, 2, -1, *NUMBERS, 2**63 - 1, -(2**63), 0.5, -1e300, "", "text", "é漢", b"", b"\0\xff"]
    with database(tmp_path / "db", 4096) as made:
        made.execute("CREATE TABLE t (a, b, c)")
        made.executemany("INSERT INTO t (rowid, a, b, c) VALUES (?, ?, ?, ?)", [
            (rowid, value, "between", value) for rowid, value in enumerate(values, 1)
        ])  # fmt: skip
    assert table(tmp_path / "db") == {rowid: (value, "between", value) for rowid, value in enumerate(values, 1)}


def test_row_number_of_any_length_is_read(tmp_path: Path) -> None:
    rowids = [1, *(2 ** (7 * size) + more for size in range(1, 9) for more in (-1, 0)), 2**63 - 1, -1, -(2**63)]
    with database(tmp_path / "db", 4096) as made:
        made.execute("CREATE TABLE t (a)")
        made.executemany("INSERT INTO t (rowid, a) VALUES (?, ?)", [(rowid, f"row {rowid}") for rowid in rowids])
    assert table(tmp_path / "db") == {rowid: (f"row {rowid}",) for rowid in rowids}


def test_row_with_many_columns_is_complete(tmp_path: Path) -> None:
    names = ", ".join(f"c{number}" for number in range(200))
    with database(tmp_path / "db", 4096) as made:
        made.execute(f"CREATE TABLE t ({names})")
        made.execute(f"INSERT INTO t VALUES ({', '.join('?' * 200)})", range(200))
    assert table(tmp_path / "db") == {1: tuple(range(200))}


@pytest.mark.parametrize("page_size", [512, 1024, 8192, 32768, 65536])
@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_every_page_size_is_read(tmp_path: Path, page_size: int, journal: str) -> None:
    """Many rows are a tree of several levels, and the list of tables is on the first page."""
    with database(tmp_path / "db", page_size, journal) as made:
        made.execute("CREATE TABLE t (body)")
        made.execute("BEGIN")
        made.executemany("INSERT INTO t VALUES (?)", [(f"{number} " * 20,) for number in range(400)])
        made.execute("INSERT INTO t VALUES (?)", ["long" * page_size])
        made.execute("COMMIT")
        written = {number: (body,) for number, body in made.execute("SELECT rowid, body FROM t")}
        assert table(tmp_path / "db") == written
        with Pages(tmp_path / "db") as pages:
            (schema,) = (cell for cell in pages.cells_of(1))
            count = made.execute("PRAGMA page_count").fetchone()[0]
            assert (pages.size, pages.count, pages.log_is_torn) == (page_size, count, False)
    assert schema == Cell(1, ("table", "t", "t", 2, "CREATE TABLE t (body)"))


def test_missing_or_empty_file_has_no_pages(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(b"SQLite format 3\0")
    for name, count in (("none", 0), ("empty", 0), ("short", 1)):
        with Pages(tmp_path / name) as pages:
            assert (pages.count, list(pages.cells())) == (count, [])
    assert not (tmp_path / "none").exists()


# -- deleted data ------------------------------------------------------------------------------------------------------


def test_free_pages_are_skipped(tmp_path: Path) -> None:
    """Among so many free pages, the list of them is several pages itself."""
    with database(tmp_path / "db", 512) as made:
        made.execute("CREATE TABLE t (body)")
        made.execute("BEGIN")
        made.executemany("INSERT INTO t VALUES (?)", [(f"{number}".ljust(300, "x"),) for number in range(700)])
        made.execute("COMMIT")
        made.execute("DELETE FROM t WHERE rowid > 300")
        assert made.execute("PRAGMA freelist_count").fetchone()[0] > 2 * 126
        written = {number: (body,) for number, body in made.execute("SELECT rowid, body FROM t")}
    assert b"650xxx" in (tmp_path / "db").read_bytes()
    assert table(tmp_path / "db") == written
    with Pages(tmp_path / "db") as pages:
        assert sum(len(list(pages.cells_of(number))) for number in range(1, pages.count + 1)) > len(written) + 200


def with_free_pages(path: Path) -> tuple[bytearray, int]:
    """Two rows in pages 2 and 3, and pages that are free; the file and the number of the page with their list."""
    with database(path, 512) as made:
        made.execute("CREATE TABLE t (body)")
        made.execute("CREATE TABLE u (body)")
        made.execute("INSERT INTO t VALUES ('kept')")
        made.execute("INSERT INTO u VALUES (?)", ["flows" * 700])
        made.execute("DELETE FROM u")
        assert made.execute("PRAGMA freelist_count").fetchone()[0] > 4
    data = bytearray(path.read_bytes())
    return data, int.from_bytes(data[32:36], "big")


def page_of(data: bytearray, number: int, cell: bytes) -> None:
    """Make a page a leaf with one record, of a page size of 512."""
    place = 512 - len(cell)
    leaf = struct.pack(">BHHHBH", LEAF, 0, 1, place, 0, place)
    data[(number - 1) * 512 : number * 512] = leaf.ljust(place, b"\0") + cell


def test_damaged_freelist_frees_no_other_pages(tmp_path: Path) -> None:
    path = tmp_path / "db"
    whole, trunk = with_free_pages(path)
    at = (trunk - 1) * 512
    damages = {
        "goes round": (at, struct.pack(">I", trunk)),
        "goes on at the first page": (at, struct.pack(">I", 1)),
        "goes on behind the end": (at, struct.pack(">I", 2**31)),
        "is longer than a page": (at + 4, struct.pack(">I", 2**31)),
        "has the first page in it": (at + 8, struct.pack(">I", 1)),
        "begins at the first page": (32, struct.pack(">I", 1)),
        "begins behind the end": (32, struct.pack(">I", len(whole) // 512 + 1)),
    }
    for damage, (place, by) in damages.items():
        data = whole.copy()
        data[place : place + len(by)] = by
        path.write_bytes(data)
        with Pages(path) as pages:
            found = [cell.record for cell in pages.cells() if cell.record[0] == "table" or len(cell.record) == 1]
        assert [record[:2] for record in found] == [("table", "t"), ("table", "u"), ("kept",)], damage


def test_page_with_records_is_not_in_the_freelist(tmp_path: Path) -> None:
    data, trunk = with_free_pages(tmp_path / "db")
    page_of(data, trunk, b"\x06\x09\x02\x15save")
    (tmp_path / "db").write_bytes(data)
    assert table(tmp_path / "db") == {1: ("kept",), 9: ("save",)}


def test_last_page_can_be_free_or_a_freelist_page(tmp_path: Path) -> None:
    data, _ = with_free_pages(tmp_path / "db")
    last = len(data) // 512
    page_of(data, last, b"\x06\x09\x02\x15save")
    for first, leaf in ((last - 1, last), (last - 1, 2)):
        data[32:36] = struct.pack(">I", first)
        data[(first - 1) * 512 : first * 512] = struct.pack(">III", 0, 1, leaf).ljust(512, b"\0")
        (tmp_path / "db").write_bytes(data)
        assert table(tmp_path / "db") == ({1: ("kept",)} if leaf == last else {9: ("save",)})
    data[32:36] = struct.pack(">I", last)
    data[(last - 1) * 512 :] = struct.pack(">III", 0, 1, 2).ljust(512, b"\0")
    (tmp_path / "db").write_bytes(data)
    assert table(tmp_path / "db") == {}


def test_only_listed_pages_are_free(tmp_path: Path) -> None:
    """Old entries follow those of the freelist's first page; its second one is full and points to another."""
    data = bytearray(512 * 8)
    for number in range(2, 9):
        page_of(data, number, bytes([6, number]) + b"\x02\x15page")
    data[:18], data[32:36] = b"SQLite format 3\0\x02\0", struct.pack(">I", 2)
    data[512 : 512 * 2] = struct.pack(">IIIII", 3, 1, 4, 5, 6).ljust(512, b"\0")
    data[512 * 2 : 512 * 3] = struct.pack(">II", 0, 2**30).ljust(508, b"\0") + struct.pack(">I", 7)
    (tmp_path / "db").write_bytes(data)
    assert table(tmp_path / "db") == dict.fromkeys((5, 6, 8), ("page",))


# -- damaged pages -------------------------------------------------------------------------------------------------


def test_truncated_file_is_read_up_to_its_end(tmp_path: Path) -> None:
    with database(tmp_path / "db", 512) as made:
        made.execute("CREATE TABLE t (body)")
        made.executemany("INSERT INTO t VALUES (?)", [(f"{number}".ljust(100, "x"),) for number in range(60)])
        written = {number: (body,) for number, body in made.execute("SELECT rowid, body FROM t")}
    data = (tmp_path / "db").read_bytes()
    pages = len(data) // 512
    for size in (512 * (pages - 4), 512 * (pages - 4) - 1, 512 * (pages - 6) - 130):
        (tmp_path / "db").write_bytes(data[:size])
        with Pages(tmp_path / "db") as cut:
            assert cut.count == -(-size // 512)
        found = table(tmp_path / "db")
        assert 20 < len(found) < 60
        whole = {number for number, (body,) in found.items() if (body,) == written[number]}
        assert len(found) - len(whole) <= (size % 512 > 0)


@pytest.mark.parametrize("said", [0, 2, 256, 1000, 3000, 32769])
def test_invalid_page_size_falls_back_to_the_default(tmp_path: Path, said: int) -> None:
    with database(tmp_path / "db", 4096) as made:
        made.execute("CREATE TABLE t (body)")
        made.execute("INSERT INTO t VALUES ('kept')")
    data = bytearray((tmp_path / "db").read_bytes())
    data[16:18] = struct.pack(">H", said)
    (tmp_path / "db").write_bytes(data)
    assert table(tmp_path / "db") == {1: ("kept",)}
    data[:18] = b"SQLite format 4\0\x02\x00"
    (tmp_path / "db").write_bytes(data)
    assert table(tmp_path / "db") == {1: ("kept",)}


def cells_with(path: Path, cell: bytes, *overflow: bytes, kind: int = LEAF) -> list[Cell]:
    """The records of a database of 512-byte pages whose second one holds a sound record, this cell, and another."""
    sound = b"\x06\x01\x02\x15good"
    head = b"SQLite format 3\0" + struct.pack(">H", 512)
    places = [512 - len(sound), 512 - len(sound) - len(cell)]
    page = struct.pack(">BHHHB3H", kind, 0, 3, places[1], 0, places[0], places[1], places[0])
    pages = [head, page.ljust(places[1], b"\0") + cell + sound, *overflow]
    path.write_bytes(b"".join(each.ljust(512, b"\0") for each in pages))
    with Pages(path) as found:
        return list(found.cells())


GOOD = Cell(1, ("good",))


@pytest.mark.parametrize(
    ("payload", "record"),
    [
        (b"\x03\x01\x15\x7fgood", (127, "good")),
        (b"\x01", ()),
        (b"\x02\x0c", (b"",)),
        (b"\x02\x0d", ("",)),
        (b"\x02\x0e\xff", (b"\xff",)),
        (b"\x02\x0f\xff", None),  # no UTF-8
        (b"\x02\x0a", None),  # kinds that only SQLite itself uses
        (b"\x02\x0b", None),
        (b"\x02\x0f", None),  # cut off
        (b"\x02\x15goo", None),
        (b"\x02\x07\0\0\0\0\0\0\0", None),
        (b"\x02\x01", None),
        (b"\x02\x15goods", None),  # more than the head says
        (b"\x02\x00\x00", None),
        (b"\x03\x00", None),  # a head that is longer than the record
        (b"\x02\x81\x00", None),  # a head that ends within a number
        (b"\x00", None),
    ],
)
def test_invalid_record_is_skipped(tmp_path: Path, payload: bytes, record: tuple[Any, ...] | None) -> None:
    found = cells_with(tmp_path / "db", bytes([len(payload), 7]) + payload)
    assert found == ([GOOD, GOOD] if record is None else [GOOD, Cell(7, record), GOOD])


def test_invalid_cell_is_skipped(tmp_path: Path) -> None:
    for cell in (b"\x00\x07", b"\x7f\x07\x02\x15good", b"\xff" * 9 + b"\x07", b"\xff" * 20):
        assert cells_with(tmp_path / "db", cell) == [GOOD, GOOD]


@pytest.mark.parametrize("kind", [0x00, 0x02, 0x05, 0x0C, 0x0E])
def test_non_leaf_page_has_no_records(tmp_path: Path, kind: int) -> None:
    assert cells_with(tmp_path / "db", b"", kind=kind) == []


def test_page_with_an_impossible_record_count_is_read(tmp_path: Path) -> None:
    sound = b"\x06\x01\x02\x15good"
    for number, begin in ((1, 100), (2, 0)):
        head = b"SQLite format 3\0" + struct.pack(">H", 512)
        page = struct.pack(">BHHHBH", LEAF, 0, 0xFFFF, 0, 0, 512 - len(sound))
        page = page.ljust(512 - len(sound) - begin, b"\xff") + sound
        (tmp_path / "db").write_bytes(head.ljust(100, b"\0") + page if number == 1 else head.ljust(512, b"\0") + page)
        with Pages(tmp_path / "db") as pages:
            assert list(pages.cells_of(number)) == [GOOD]


def long_row(next_page: int) -> bytes:
    """The cell of a text of 1,100 letters, of which 508 bytes each are in further pages, from this one on."""
    payload = b"\x03\x91\x25" + b"x" * 1100
    size = len(payload)
    least = (512 - 12) * 32 // 255 - 23
    here = least + (size - least) % 508
    return bytes([0x80 | size >> 7, size & 0x7F, 7]) + payload[:here] + struct.pack(">I", next_page)


@pytest.mark.parametrize(
    ("first", "second", "is_whole"),
    [
        (3, 4, True),
        (4, 3, True),
        (0, 4, False),
        (1, 4, False),
        (3, 0, False),
        (3, 1, False),
        (3, 5, False),
        (3, 2**31, False),
        (2**32 - 1, 4, False),
    ],
)
def test_row_with_missing_overflow_pages_is_skipped(tmp_path: Path, first: int, second: int, is_whole: bool) -> None:
    more = {first: struct.pack(">I", second) + b"x" * 508, second: struct.pack(">I", 0) + b"x" * 508}
    found = cells_with(tmp_path / "db", long_row(first), *(more.get(number, b"") for number in (3, 4)))
    assert found == ([GOOD, Cell(7, ("x" * 1100,)), GOOD] if is_whole else [GOOD, GOOD])


def test_row_with_a_free_overflow_page_is_skipped(tmp_path: Path) -> None:
    more = struct.pack(">I", 4) + b"x" * 508, struct.pack(">I", 0) + b"x" * 508
    cells_with(tmp_path / "db", long_row(3), *more, b"")
    data = bytearray((tmp_path / "db").read_bytes())
    data[32:36], data[512 * 4 : 512 * 4 + 12] = struct.pack(">I", 5), struct.pack(">III", 0, 1, 4)
    (tmp_path / "db").write_bytes(data)
    with Pages(tmp_path / "db") as pages:
        assert list(pages.cells()) == [GOOD, GOOD]


def test_row_longer_than_the_file_is_skipped_at_once(tmp_path: Path) -> None:
    """Its overflow pages form a cycle."""
    round_and_round = struct.pack(">I", 3) + b"x" * 508
    cell = b"\xff" * 8 + b"\xff\x07" + b"\x03\x91\x25" + b"x" * 36 + struct.pack(">I", 3)
    assert cells_with(tmp_path / "db", cell + struct.pack(">I", 3) * 100, round_and_round) == [GOOD, GOOD]
