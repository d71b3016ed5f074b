"""Highlights code with Pygments, in the roles of the theme. Code without a lexer stays plain.

Pygments is slow to load, so this module is imported when the first code is drawn.
"""

from __future__ import annotations

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
"""The role of a token, by the first type that fits; others have `code`."""


EXTENSIONS = {
    "yml": "yaml", "h": "c", "hpp": "cpp", "cc": "cpp", "mjs": "js", "cjs": "js", "kt": "kotlin", "htm": "html",
    "cs": "csharp", "pyi": "py", "tsx": "ts", "mk": "make", "cfg": "ini", "conf": "ini", "txt": "text", "zsh": "sh",
    "rst": "restructuredtext", "tf": "terraform", "hs": "haskell", "ex": "elixir", "exs": "elixir", "m": "objc",
}  # fmt: skip
"""File extensions that Pygments does not know as names of languages."""


@lru_cache(64)
def _lexer(language: str) -> Lexer | None:
    try:
        lexer: Lexer = get_lexer_by_name(EXTENSIONS.get(language, language), stripnl=False, ensurenl=False)
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
    """Return the lines of code as (role, text) parts; neighbours have different roles."""
    lines: list[list[tuple[str, str]]] = [[]]
    lexer = _lexer(language)
    tokens = ((_role(token), value) for token, value in lexer.get_tokens(code)) if lexer else [("code", code)]
    for role, value in tokens:
        head, *rest = value.split("\n")
        line = lines[-1]
        if line and line[-1][0] == role:
            line[-1] = (role, line[-1][1] + head)
        else:
            line.append((role, head))
        lines.extend([(role, part)] for part in rest)
    return lines


@lru_cache(1024)
def coloured_line(line: str, language: str) -> tuple[tuple[str, str], ...]:
    """Return one line as parts. Cached, so that lines of growing code are highlighted once."""
    return tuple(part for parts in coloured_lines(line, language) for part in parts)
