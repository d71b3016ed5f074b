"""Code coloured by Pygments, in the theme's roles.

Imports Pygments, which is slow to load, so this module is loaded when the first code is drawn. Never fails:
what has no lexer, or breaks one, stays plain.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import Token  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

ROLES = (
    (Token.Comment, "muted"),
    (Token.Keyword, "accent"),
    (Token.Operator.Word, "accent"),
    (Token.Literal.String, "string"),
    (Token.Literal.Number, "number"),
    (Token.Name.Function, "name"),
    (Token.Name.Class, "name"),
    (Token.Name.Decorator, "name"),
    (Token.Name.Tag, "accent"),
    (Token.Name.Builtin, "name"),
    (Token.Generic.Deleted, "removed"),
    (Token.Generic.Inserted, "added"),
)
"""The first kind of token that fits says the role; the rest is `code`."""


ENDINGS = {
    "yml": "yaml", "h": "c", "hpp": "cpp", "cc": "cpp", "mjs": "js", "cjs": "js", "kt": "kotlin", "htm": "html",
    "cs": "csharp", "pyi": "py", "tsx": "ts", "mk": "make", "cfg": "ini", "conf": "ini", "txt": "text", "zsh": "sh",
    "rst": "restructuredtext", "tf": "terraform", "hs": "haskell", "ex": "elixir", "exs": "elixir", "m": "objc",
}  # fmt: skip
"""Endings of files that Pygments does not take for the name of a language."""


@lru_cache(64)
def _lexer(language: str) -> Lexer | None:
    try:
        lexer: Lexer = get_lexer_by_name(ENDINGS.get(language, language), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return lexer


@lru_cache(512)
def _role(token: object) -> str:
    for kind, role in ROLES:
        if token in kind:
            return role
    return "code"


def coloured_lines(code: str, language: str) -> list[list[tuple[str, str]]]:
    """The lines of code as (role, text) parts, as few as there are changes of role."""
    lines: list[list[tuple[str, str]]] = [[]]
    for role, value in _parts(code, language):
        head, *rest = value.split("\n")
        line = lines[-1]
        if line and line[-1][0] == role:
            line[-1] = (role, line[-1][1] + head)
        else:
            line.append((role, head))
        lines.extend([(role, part)] for part in rest)
    return lines


def _parts(code: str, language: str) -> Iterator[tuple[str, str]]:
    lexer = _lexer(language)
    if lexer is None:
        yield "code", code
        return
    for token, value in lexer.get_tokens(code):
        yield _role(token), value


@lru_cache(1024)
def coloured_line(line: str, language: str) -> tuple[tuple[str, str], ...]:
    """One line on its own. Remembered, so that the lines of code that grows are worked on once."""
    return tuple(part for parts in coloured_lines(line, language) for part in parts)
