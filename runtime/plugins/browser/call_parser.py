"""The text of a step as calls: names and literals, found as BrowserGym finds them, and never executed. Pure.

Calls may stand one a line or side by side, with comments and other text between them, which is skipped; so a model may
say what it does. A call whose arguments are not literals is such other text. Follows the parser of
`browsergym/core/action/parsers.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_TEXT_CHARS = 64 * 1024
MAX_CALLS = 100
MAX_BRACKETS = 100
"""Closing brackets that are tried as the end of one call: its texts may hold some."""

_BEGIN = re.compile(r"(?P<comment>#[^\n]*)|(?<!\w)(?P<name>[A-Za-z_]\w*)[ \t]*\(")


class Call(NamedTuple):
    """A function's name and what it is called with."""

    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]


def parse(text: str) -> list[Call]:
    """The calls of a step, in order. Raises ValueError where there is none, or too much."""
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(f"Received an action of {len(text)} characters, at most {MAX_TEXT_CHARS} are taken.")
    calls = list(_calls(text))
    if not calls:
        raise ValueError("Received an empty action.")
    if len(calls) > MAX_CALLS:
        raise ValueError(f"Received {len(calls)} actions at once, at most {MAX_CALLS} are taken.")
    return calls


def _calls(text: str) -> Iterator[Call]:
    position = 0
    while (begin := _BEGIN.search(text, position)) is not None:
        position = begin.end()
        if begin["name"] and (found := _call_at(text, begin.start("name"), begin.end())) is not None:
            call, position = found
            yield call


def _call_at(text: str, start: int, bracket: int) -> tuple[Call, int] | None:
    end = bracket
    for _ in range(MAX_BRACKETS):
        end = text.find(")", end) + 1
        if not end:
            return None
        try:
            tree = ast.parse(text[start:end], mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        return (call, end) if (call := _literal(tree)) is not None else None
    return None


def _literal(tree: ast.expr) -> Call | None:
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        return None
    try:
        arguments = tuple(map(ast.literal_eval, tree.args))
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in tree.keywords if keyword.arg}
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None
    return Call(tree.func.id, arguments, named) if len(named) == len(tree.keywords) else None
