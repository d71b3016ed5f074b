"""Triggers: what the word at the cursor asks for: `@` a file, `#` an event, `/` at the very start a command. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

QUERY_CHARS = 200
"""A longer word is no name that anyone types."""

_FILE = re.compile(r'(?:^|(?<=[\s(]))@(?:"([^"]*)|([^\s"]*))$')
_EVENT = re.compile(r"(?:^|(?<=[\s(]))#([^\s#]*)$")
_COMMAND = re.compile(r"/([^\s/]*)$")


class Kind(StrEnum):
    """What is asked for."""

    FILE = "@"
    EVENT = "#"
    COMMAND = "/"


class Trigger(NamedTuple):
    """A word that asks for something, from `start` to the cursor."""

    kind: Kind
    query: str
    row: int
    start: int


def trigger_at(first: str, line: str, row: int, column: int) -> Trigger | None:
    """What the text before the cursor asks for. `first` is the text's first line, `line` the cursor's."""
    before = line[max(0, column - QUERY_CHARS) : column]
    offset = column - len(before)
    if row == 0 and offset == 0 and (found := _COMMAND.match(before)):
        return Trigger(Kind.COMMAND, found[1], row, 0)
    if found := _FILE.search(before):
        return Trigger(Kind.FILE, found[1] if found[1] is not None else found[2], row, offset + found.start())
    if not first.startswith("!") and (found := _EVENT.search(before)):  # in a shell, # begins a comment
        return Trigger(Kind.EVENT, found[1], row, offset + found.start())
    return None
