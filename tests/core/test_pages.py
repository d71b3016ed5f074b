"""What SQLite wrote is read from its pages: every kind of value, and every size at which a record is laid out anew."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.store.pages import Pages

PAGE_SIZES = [512, 4096]
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=2000),
    st.binary(max_size=2000),
)


@contextmanager
def database(path: Path, page_size: int, journal: str = "DELETE") -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute(f"PRAGMA page_size = {page_size}")
        made.execute(f"PRAGMA journal_mode = {journal}")
        yield made


def table(path: Path) -> dict[int | None, tuple[Any, ...]]:
    """The rows of the only table, by their number, without its own row in the list of tables."""
    with Pages(path) as pages:
        return {cell.rowid: cell.record for cell in pages.cells() if cell.rowid and cell.record[:1] != ("table",)}


def around(*sizes: int) -> Iterable[int]:
    return sorted({size + more for size in sizes for more in range(-3, 4) if size + more >= 0})


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_row_of_any_length_is_whole(tmp_path: Path, page_size: int) -> None:
    """The head of a record has up to six bytes: the bounds of a row are those of its text, less a little."""
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
def test_an_entry_of_an_index_of_any_length_is_whole(tmp_path: Path, page_size: int) -> None:
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
def test_every_value_is_as_it_was_written(
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
