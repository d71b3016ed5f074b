"""Views of files and folders as the model reads them: numbered lines, ranges, diffs and folder listings.

The texts are those of OpenHands' editor (`openhands_aci/editor/editor.py`), which models are tuned to. All functions
are pure except `listing`, which reads folders by descriptor and follows links only as long as they stay below the
roots.
"""

from __future__ import annotations

import os
import stat
from itertools import islice

from runtime.server.safe_paths import FileError, Location, Roots

MAX_CHARS = 16_000
"""Limit for one answer."""

_CLIPPED = (
    "<response clipped><NOTE>Due to the max output limit, only part of this file has been shown to you. "
    "You should retry this tool after you have searched inside the file with `grep -n` in order to find the "
    "line numbers of what you are looking for.</NOTE>"
)


class RangeError(ValueError):
    """An invalid range of lines; the text says why."""


def shown(text: str, what: str, view_range: list[int] | None = None) -> str:
    """Return a text with line numbers, or only a range of its lines, counted from 1. Raises RangeError."""
    lines = lines_of(text)
    if not view_range:
        return numbered("\n".join(lines), what)
    start, end, note = _checked_range(view_range, len(lines))
    return numbered("\n".join(lines[start - 1 : end]), what, start) + note


def numbered(text: str, what: str, first: int = 1) -> str:
    """Number lines as `cat -n` does, and cut a long text."""
    if len(text) > MAX_CHARS:
        text = text[:MAX_CHARS] + _CLIPPED
    numbered = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(text.split("\n"), first))
    return f"Here's the result of running `cat -n` on {what}:\n{numbered}\n"


def snippet(text: str, after: int, last: int) -> str:
    """Return the lines after line `after`, up to line `last`."""
    lines = text.split("\n", last)  # the rest stays in one piece
    return "\n".join((lines[:last] if len(lines) > last else lines_of(text))[max(0, after) :])


def lines_of(text: str) -> list[str]:
    """Split a text into lines without their ends, as `cat -n` counts them."""
    lines = text.split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def line_numbers_of(text: str, part: str) -> list[int]:
    """Return the lines in which occurrences of `part` begin."""
    numbers: dict[int, None] = {}
    line, counted = 1, 0
    at = text.find(part)
    while at >= 0:
        line += text.count("\n", counted, at)
        counted = at
        numbers[line] = None
        at = text.find(part, at + len(part))
    return list(numbers)


def _checked_range(view_range: list[int], count: int) -> tuple[int, int, str]:
    """Return the first and last line to show, and a note if the range ends after the file. Raises RangeError."""
    if len(view_range) != 2:
        raise RangeError("It should be a list of two integers.")
    start, end = view_range
    if not 1 <= start <= count:
        hint = f"Its first element `{start}` should be within the range of lines of the file: {[1, count]}."
        raise RangeError(hint)
    if end == -1:
        return start, count, ""
    if end > count:
        note = f"\nNOTE: We only show up to {count} since there's only {count} lines in this file\n"
        return start, count, note
    if end < start:
        hint = f"Its second element `{end}` should be greater than or equal to the first element `{start}`."
        raise RangeError(hint)
    return start, end, ""


def unified_diff(old: str, new: str, path: str, context: int = 3) -> str:
    """Return a diff with one hunk, from the first line that differs to the last.

    Linear in time; only the part that differs is split into lines, so a small change of a large file costs little.
    """
    if old == new:
        return ""
    start = old.rfind("\n", 0, _common_start(old, new)) + 1
    old_end, new_end = _ends(old, new, start)
    lead_at, trail_to = start, old_end
    for _ in range(context):
        lead_at = old.rfind("\n", 0, max(0, lead_at - 1)) + 1
        trail_to = old.find("\n", trail_to) + 1 or len(old)
    lead, trail = kept_lines(old[lead_at:start]), kept_lines(old[old_end:trail_to])
    removed, added = kept_lines(old[start:old_end]), kept_lines(new[start:new_end])
    first = old.count("\n", 0, lead_at) + 1
    old_count, new_count = len(lead) + len(removed) + len(trail), len(lead) + len(added) + len(trail)
    hunk = f"@@ -{first if old_count else 0},{old_count} +{first if new_count else 0},{new_count} @@\n"
    marked = [" " + line for line in lead] + ["-" + line for line in removed]
    marked += ["+" + line for line in added] + [" " + line for line in trail]
    body = "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in marked)
    return f"--- {path}\n+++ {path}\n{hunk}{body}"


def kept_lines(text: str) -> list[str]:
    """Split a text into lines with their ends. Only `\\n` ends a line; `splitlines` would also split at form feeds."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _common_start(old: str, new: str) -> int:
    """Return the length of the common prefix, by bisection, because comparing slices is fast."""
    equal, most = 0, min(len(old), len(new))
    while equal < most:
        middle = (equal + most + 1) // 2
        if old[equal:middle] == new[equal:middle]:
            equal = middle
        else:
            most = middle - 1
    return equal


def _common_end(old: str, new: str, most: int) -> int:
    """Return the length of the common suffix, at most `most`."""
    equal = 0
    while equal < most:
        middle = (equal + most + 1) // 2
        if old[len(old) - middle : len(old) - equal] == new[len(new) - middle : len(new) - equal]:
            equal = middle
        else:
            most = middle - 1
    return equal


def _ends(old: str, new: str, start: int) -> tuple[int, int]:
    """Return where the lines begin, in each text, with which both end; `start` is the first line that differs."""
    same = _common_end(old, new, min(len(old), len(new)) - start)
    old_end, new_end = len(old) - same, len(new) - same
    if not all(at == start or text[at - 1] == "\n" for text, at in ((old, old_end), (new, new_end))):
        line_end = old.find("\n", old_end) + 1 or len(old)
        old_end, new_end = line_end, new_end + line_end - old_end
    return old_end, new_end


LISTED_ENTRIES = 10_000
"""Limit for one folder; far more than MAX_CHARS can show."""

_LISTING_CLIPPED = (
    "<response clipped><NOTE>Due to the max output limit, only part of this directory has been shown to you. "
    "You should use `ls -la` instead to view large directories incrementally.</NOTE>"
)


def listing(roots: Roots, place: Location) -> str:
    """List a folder two levels deep; hidden entries are left out and counted. Raises FileError, OSError."""
    path = place.path
    top = _entries(place)
    hidden = sum(name.startswith(".") for name in top)
    paths = [f"{path}/"]
    for entry in (os.path.join(path, name) for name in top if not name.startswith(".")):
        below = _below(roots, entry)
        paths.append(entry if below is None else f"{entry}/")
        paths += below or []
    shown = "\n".join(sorted(paths))
    if len(shown) > MAX_CHARS:
        shown = shown[:MAX_CHARS] + _LISTING_CLIPPED
    text = f"Here's the files and directories up to 2 levels deep in {path}, excluding hidden items:\n{shown}"
    if hidden:
        text += (
            f"\n\n{hidden} hidden files/directories in this directory are excluded. "
            f"You can use 'ls -la {path}' to see them."
        )
    return text


def _below(roots: Roots, path: str) -> list[str] | None:
    """Return the entries of a subfolder, or None if it is not a folder. An unreadable folder counts as empty."""
    try:
        with roots.locate(path) as place:
            if not _is_folder(place):
                return None
            try:
                names = [name for name in _entries(place) if not name.startswith(".")]
            except (FileError, OSError):
                return []
            return [_marked(roots, os.path.join(path, name)) for name in names]
    except (FileError, OSError):
        return None


def _marked(roots: Roots, path: str) -> str:
    try:
        with roots.locate(path) as place:
            return f"{path}/" if _is_folder(place) else path
    except (FileError, OSError):
        return path


def _is_folder(place: Location) -> bool:
    status = place.status()
    return status is not None and stat.S_ISDIR(status.st_mode)


def _entries(place: Location) -> list[str]:
    fd = place.open_folder()
    try:
        with os.scandir(fd) as entries:
            return sorted(entry.name for entry in islice(entries, LISTED_ENTRIES))
    finally:
        os.close(fd)
