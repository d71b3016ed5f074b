"""What the documentation says of the program is what the program is."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests import threats as threat_model
from tests.asked import WISHES, Wish
from tests.documents import (
    CONTRIBUTING,
    README,
    ROOT,
    THREAT_PAGE,
    VERDICT_PAGE,
    VOCABULARY,
    WEAKNESS_PAGE,
    WISH_PAGE,
    contributing,
    readme,
    threats,
    vocabulary,
    weaknesses,
    wishes,
)
from tests.security.verdicts import page as verdicts
from tests.threats import THREATS, Threat
from tests.weaknesses import TITLES, WEAKNESSES, Weakness


def test_the_table_of_keys_in_the_readme_is_the_command_table() -> None:
    text = README.read_text("utf-8")
    assert "<!-- keys: begin -->" in text
    assert readme(text) == text, "run: make documents"


def test_the_vocabulary_page_is_current() -> None:
    assert VOCABULARY.read_text("utf-8") == vocabulary(), "run: make documents"


def test_the_table_of_the_second_tier_is_current() -> None:
    text = CONTRIBUTING.read_text("utf-8")
    assert "| Containers |" in text
    assert contributing(text) == text, "run: make documents"


def test_the_page_of_weaknesses_is_current() -> None:
    assert WEAKNESS_PAGE.read_text("utf-8") == weaknesses(), "run: make documents"


@pytest.mark.parametrize("rows", [WEAKNESSES, THREATS, WISHES], ids=["weaknesses", "threats", "wishes"])
def test_every_test_that_is_named_as_an_answer_is_there(rows: Sequence[Weakness | Threat | Wish]) -> None:
    for row in rows:
        assert row.tests or (isinstance(row, Wish) and row.missing and not row.answer)
        for node in row.tests:
            path, _, name = node.partition("::")
            assert name in names_of_tests(ROOT / path), f"{row.number}: there is no test {node}"


def test_every_wish_has_a_number_of_its_own_and_its_pictures_are_there() -> None:
    assert len({wish.number for wish in WISHES}) == len(WISHES)
    for wish in WISHES:
        assert bool(wish.answer) == bool(wish.tests), wish.number
        for path in wish.pictures:
            assert (ROOT / path).is_file(), f"{wish.number}: there is no picture {path}"


def test_the_page_of_wishes_is_current() -> None:
    assert WISH_PAGE.read_text("utf-8") == wishes(), "run: make documents"


def test_the_page_of_threats_is_current() -> None:
    assert THREAT_PAGE.read_text("utf-8") == threats(), "run: make documents"


def test_the_page_of_verdicts_is_current() -> None:
    assert VERDICT_PAGE.read_text("utf-8") == verdicts(), "run: make documents"


def test_threats_stand_once_and_in_the_order_of_their_numbers() -> None:
    numbers = [threat.number for threat in THREATS]
    assert numbers == sorted(set(numbers))
    assert set(threat_model.TITLES) <= set(numbers)


def test_weaknesses_stand_once_and_in_the_order_of_their_numbers() -> None:
    numbers = [weakness.number for weakness in WEAKNESSES]
    assert numbers == sorted(set(numbers))
    assert set(TITLES) <= set(numbers)


@cache
def names_of_tests(file: Path) -> frozenset[str]:
    """The tests that pytest would collect in a file: functions, and methods as `Class::method`."""
    found = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        inside = {f"{node.name}::": node.body} if isinstance(node, ast.ClassDef) else {"": [node]}
        for prefix, body in inside.items():
            for each in body:
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_"):
                    found.add(prefix + each.name)
    return frozenset(found)


def test_every_function_that_the_walk_through_one_message_names_is_there() -> None:
    """`module:Class.method` in the section "One message, end to end" exists."""
    text = README.read_text("utf-8")
    section = text.split("## One message, end to end")[1].split("\n## ")[0]
    named = re.findall(r"`((?:core|runtime|tui)[\w.]*):([\w.]+)`", section)
    assert len(named) >= 12
    for module, path in named:
        found: object = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)


def test_every_picture_of_the_readme_is_in_the_repository() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README.read_text("utf-8"))
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).is_file(), f"{picture} is missing; run: make pictures"
