"""The generated parts of the documentation are current, and what they name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests import threats as threat_model
from tests.documents import TABLES, THREAT_PAGE, VERDICT_PAGE, VOCABULARY, threats, vocabulary, with_table
from tests.manual import licences
from tests.manual.pages import README, ROOT
from tests.security.verdicts import page as verdicts
from tests.threats import THREATS


@pytest.mark.parametrize("page", TABLES, ids=lambda page: page.name)
def test_table_of_a_page_is_current(page: Path) -> None:
    name, make = TABLES[page]
    text = page.read_text("utf-8")
    assert with_table(text, name, make()) == text, "run: make documents"


def test_page_without_a_place_for_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match="0 places"):
        with_table("# Shortcuts\n", "keys", "| a |")


def test_every_stated_licence_is_needed() -> None:
    assert set(licences.STATED) <= licences.packages() | licences.of_cluster().keys()


def test_vocabulary_page_is_current() -> None:
    assert VOCABULARY.read_text("utf-8") == vocabulary(), "run: make documents"


def test_every_test_named_in_the_threats_exists() -> None:
    for row in THREATS:
        assert row.tests
        for node in row.tests:
            path, _, name = node.partition("::")
            assert name in names_of_tests(ROOT / path), f"{row.number}: there is no test {node}"


def test_threats_page_is_current() -> None:
    assert THREAT_PAGE.read_text("utf-8") == threats(), "run: make documents"


def test_verdicts_page_is_current() -> None:
    assert VERDICT_PAGE.read_text("utf-8") == verdicts(), "run: make documents"


def test_threats_are_unique_and_ordered_by_number() -> None:
    numbers = [threat.number for threat in THREATS]
    assert numbers == sorted(set(numbers))
    assert set(threat_model.TITLES) <= set(numbers)


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


def test_every_function_in_the_one_message_walk_exists() -> None:
    """`module:Class.method` in the section "One message, end to end" exists."""
    text = README.read_text("utf-8")
    section = text.split("## One message, end to end")[1].split("\n## ")[0]
    named = re.findall(r"`((?:core|runtime|tui)[\w.]*):([\w.]+)`", section)
    assert len(named) >= 12
    for module, path in named:
        found: object = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
