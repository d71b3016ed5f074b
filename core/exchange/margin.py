"""Which lines of a message are code: fences at the margin, about which all readers of Markdown agree. Pure."""

from __future__ import annotations

import re

_FENCE = re.compile(r"(`{3,}|~{3,})([^`]*)")


def which_is_code(lines: list[str]) -> tuple[list[bool], str]:
    """For each line whether it is of a fence that begins at the margin; and the fence that nobody closed, if any."""
    fence, marks = "", []
    for line in lines:
        opening = None if fence else _FENCE.fullmatch(line)
        marks.append(bool(fence or opening))
        if opening is not None:
            fence = opening[1]
        elif fence and _closes(line, fence):
            fence = ""
    return marks, fence


def _closes(line: str, fence: str) -> bool:
    mark = line.strip(" ")
    is_indented = line.startswith("    ")
    return not is_indented and len(mark) >= len(fence) and set(mark) == {fence[0]}
