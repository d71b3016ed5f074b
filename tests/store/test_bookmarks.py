"""The user's bookmarks are stored beside the log, atomically."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from core.errors import StoreError
from core.store.bookmarks import Bookmarks


def test_bookmarks_are_returned_in_order_without_duplicates(tmp_path: Path) -> None:
    book = Bookmarks(tmp_path)
    assert book.read("c") == []
    book.write("c", [7, 3, 7])
    assert Bookmarks(tmp_path).read("c") == [3, 7]
    assert book.read("other") == []


def test_conversation_without_bookmarks_has_no_file(tmp_path: Path) -> None:
    book = Bookmarks(tmp_path)
    book.write("c", [1])
    book.delete("c")
    assert list(book.folder.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{}", "[1, -2, true, 2.5, null, 1e999]", "[" * 100_000, '"\\ud800"', "\x00"])
def test_invalid_bookmark_file_counts_as_empty(tmp_path: Path, text: str) -> None:
    book = Bookmarks(tmp_path)
    book.folder.mkdir()
    (book.folder / "c.json").write_text(text, "utf-8")
    assert book.read("c") in ([], [1])


@pytest.mark.parametrize("name", ["../c", "", "a/b", "."])
def test_id_that_is_a_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError):
        Bookmarks(tmp_path).write(name, [1])


def test_unwritable_folder_raises_store_error(tmp_path: Path) -> None:
    (tmp_path / "marks").write_text("in the way")
    with pytest.raises(StoreError, match="marks"):
        Bookmarks(tmp_path).write("c", [1])


def test_bookmarks_are_limited(tmp_path: Path) -> None:
    book = Bookmarks(tmp_path)
    book.write("c", range(10_001))
    file = book.folder / "c.json"
    assert json.loads(file.read_text()) == book.read("c") == list(range(10_000))
    assert [path.name for path in book.folder.iterdir()] == ["c.json"], "nothing else is left"
    assert (stat.S_IMODE(book.folder.stat().st_mode), stat.S_IMODE(file.stat().st_mode)) == (0o700, 0o600)
    file.write_text(json.dumps(list(range(10_001))))
    assert book.read("c") == []
    file.write_text(json.dumps([2**53, 2**53 - 1, 0, -1, 7, True]))
    assert book.read("c") == [0, 7, 2**53 - 1]


def test_first_bookmark_creates_the_folder(tmp_path: Path) -> None:
    book = Bookmarks(tmp_path / "not" / "there")
    book.delete("c")
    assert not book.folder.exists()
    book.write("x" * 128, [1])
    assert book.read("x" * 128) == [1]
    with pytest.raises(StoreError, match="cannot be a file name"):
        book.write("x" * 129, [1])
