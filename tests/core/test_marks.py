"""Marks of the user are kept beside the log, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import StoreError
from core.store.marks import MarkBook


def test_marks_come_back_in_order_and_once_each(tmp_path: Path) -> None:
    book = MarkBook(tmp_path)
    assert book.read("c") == []
    book.write("c", [7, 3, 7])
    assert MarkBook(tmp_path).read("c") == [3, 7]
    assert book.read("other") == []


def test_a_conversation_without_marks_leaves_no_file(tmp_path: Path) -> None:
    book = MarkBook(tmp_path)
    book.write("c", [1])
    book.forget("c")
    assert list(book.folder.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{}", "[1, -2, true, 2.5, null, 1e999]", "[" * 100_000, '"\\ud800"', "\x00"])
def test_a_file_that_is_no_list_of_events_harms_nobody(tmp_path: Path, text: str) -> None:
    book = MarkBook(tmp_path)
    book.folder.mkdir()
    (book.folder / "c.json").write_text(text, "utf-8")
    assert book.read("c") in ([], [1])


@pytest.mark.parametrize("name", ["../c", "", "a/b", "."])
def test_a_name_that_is_no_conversations_leads_nowhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError):
        MarkBook(tmp_path).write(name, [1])


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "marks").write_text("in the way")
    with pytest.raises(StoreError, match="marks"):
        MarkBook(tmp_path).write("c", [1])
