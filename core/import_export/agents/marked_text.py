"""Texts of other agents with marks in them: blocks of search and replace, and tags around a part. Pure, linear time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import dropwhile
from typing import NamedTuple

_SEARCH = re.compile(r"(?:-{5,9}|<{5,9}) ?SEARCH>?\s*")
_MIDDLE = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r"(?:\+{5,9}|>{5,9}) ?REPLACE>?\s*")
_LINE_MARK = re.compile(r":(?:start|end)_line:.*|-{5,9}\s*")
"""Roo Code puts lines such as `:start_line:3` and `-------` before the text to search."""


class Replacement(NamedTuple):
    """A block that says which text to search, and what to put in its place."""

    first: int
    """The lines of the block, from 0: its first one, and the one after its last."""
    end: int
    old: str
    new: str


def replacements(lines: list[str]) -> list[Replacement]:
    """The whole blocks in a text."""
    found: list[Replacement] = []
    first, old, new = -1, list[str](), list[str]()
    is_new = False
    for number, line in enumerate(lines):
        if _SEARCH.fullmatch(line):
            first, old, new, is_new = number, [], [], False
        elif first < 0:
            continue
        elif not is_new and _MIDDLE.fullmatch(line):
            is_new = True
        elif is_new and _REPLACE.fullmatch(line):
            searched = dropwhile(_LINE_MARK.fullmatch, old)
            found.append(Replacement(first, number + 1, _joined(searched), _joined(new)))
            first = -1
        else:
            (new if is_new else old).append(line)
    return found


def tagged(text: str, tag: str) -> tuple[list[str], str]:
    """What is between `<tag ...>` and `</tag>`, and the text without it."""
    opening, closing = re.compile(rf"<{re.escape(tag)}(?=[\s>])"), f"</{tag}>"
    inside: list[str] = []
    outside: list[str] = []
    place = 0
    while found := opening.search(text, place):
        start = found.start()
        begin, end = text.find(">", start) + 1, text.find(closing, start)
        if not 0 < begin <= end:
            break
        outside.append(text[place:start])
        inside.append(text[begin:end].strip())
        place = end + len(closing)
    outside.append(text[place:])
    return inside, "".join(outside).strip()


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
