"""Globs of rules, in which `*` stands for anything and `\\*` for a star.

Matching takes time linear in the text for each star, whoever wrote the glob. Pure. Used by the permission engine for
commands, hosts and the parts of paths, and by the proxy of sandboxes for hosts.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=2048)
def _pieces(glob: str) -> tuple[str, ...]:
    """What stands between the stars."""
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
    """The text that a glob without stars means."""
    return "*".join(_pieces(glob))


def has_star(glob: str) -> bool:
    """Whether a glob may mean more than one text."""
    return len(_pieces(glob)) > 1


def escaped(text: str) -> str:
    """The glob that means this text and no other."""
    return text.replace("\\", "\\\\").replace("*", "\\*")


def matches(glob: str, text: str) -> bool:
    """Whether a text is what a glob means; a star stands for anything."""
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
