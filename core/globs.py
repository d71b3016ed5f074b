"""Globs in rules: `*` matches any text and `\\*` a star. Pure.

Matching takes linear time for each star, for any glob. Used by permissions for commands, hosts and parts of paths, and
by the egress proxy for hosts.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=2048)
def _pieces(glob: str) -> tuple[str, ...]:
    """The texts between the stars."""
    found = [""]
    characters = iter(glob)
    for character in characters:
        if character == "\\":
            found[-1] += next(characters, "\\")
        elif character == "*":
            found.append("")
        else:
            found[-1] += character
    return tuple(found)


def unescaped(glob: str) -> str:
    """The text that a glob without stars matches."""
    return "*".join(_pieces(glob))


def has_star(glob: str) -> bool:
    """Whether a glob can match more than one text."""
    return len(_pieces(glob)) > 1


def escaped(text: str) -> str:
    """The glob that matches only this text."""
    return text.replace("\\", "\\\\").replace("*", "\\*")


def matches(glob: str, text: str) -> bool:
    """Whether a glob matches a text."""
    first, *rest = _pieces(glob)
    if not rest:
        return text == first
    if not text.startswith(first):
        return False
    at = len(first)
    for piece in rest[:-1]:
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return len(text) - at >= len(rest[-1]) and text.endswith(rest[-1])
