"""What the documentation says of the program is what the program is."""

from __future__ import annotations

import re
from importlib import import_module

from tests.documents import README, ROOT, VOCABULARY, readme, vocabulary


def test_the_table_of_keys_in_the_readme_is_the_command_table() -> None:
    text = README.read_text("utf-8")
    assert "<!-- keys: begin -->" in text
    assert readme(text) == text, "run: make documents"


def test_the_vocabulary_page_is_current() -> None:
    assert VOCABULARY.read_text("utf-8") == vocabulary(), "run: make documents"


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
