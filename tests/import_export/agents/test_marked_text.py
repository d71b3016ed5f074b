"""Texts of other agents with marks in them."""

from __future__ import annotations

import time

import pytest

from core.import_export.agents.marked_text import Replacement, replacements, tagged


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE", [Replacement(0, 5, "a\n", "b\n")]),
        ("x\n------- SEARCH\n=======\nb\n+++++++ REPLACE\ny", [Replacement(1, 5, "", "b\n")]),
        ("<<<<<<< SEARCH\n:start_line:3\n-------\na\n=======\n>>>>>>> REPLACE", [Replacement(0, 6, "a\n", "")]),
        ("<<<<<<< SEARCH\na\n<<<<<<< SEARCH\nb\n=======\nc\n>>>>>>> REPLACE", [Replacement(2, 7, "b\n", "c\n")]),
        ("<<<<<<< SEARCH\na\n=======\nb", []),
        ("=======\n>>>>>>> REPLACE", []),
        ("", []),
    ],
)
def test_blocks_of_search_and_replace(text: str, blocks: list[Replacement]) -> None:
    assert replacements(text.splitlines()) == blocks


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ('<u mode="act">Hello</u> rest', ["Hello"], "rest"),
        ("a <u>b</u> c <u>d</u>", ["b", "d"], "a  c"),
        ("<us>a</us> <u>b</u>", ["b"], "<us>a</us>"),
        ("<u>never closed", [], "<u>never closed"),
        ("</u><u", [], "</u><u"),
        ("plain", [], "plain"),
    ],
)
def test_tags(text: str, inside: list[str], outside: str) -> None:
    assert tagged(text, "u") == (inside, outside)


def test_hostile_texts_take_linear_time() -> None:
    started = time.process_time()
    replacements(["<<<<<<< SEARCH", "======="] * 100_000)
    tagged("</u>" + "<u>" * 500_000, "u")
    tagged("<u" * 500_000 + "</u>", "u")
    assert time.process_time() - started < 2
