"""The change of a text, as a unified diff, and the lines that it is made of. Pure."""

from __future__ import annotations


def unified_diff(old: str, new: str, path: str, context: int = 3) -> str:
    """The change as one hunk, from the first line that differs to the last.

    Linear in time, and only what differs is taken apart into lines: a small change of a large file costs little.
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
    """Lines with their ends. `\\n` alone ends one: `splitlines` would also break at form feeds."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _common_start(old: str, new: str) -> int:
    """How many characters two texts have in common at their starts. By halves: comparing is fast, looking is not."""
    equal, most = 0, min(len(old), len(new))
    while equal < most:
        middle = (equal + most + 1) // 2
        if old[equal:middle] == new[equal:middle]:
            equal = middle
        else:
            most = middle - 1
    return equal


def _common_end(old: str, new: str, most: int) -> int:
    """The same at their ends, of at most so many characters."""
    equal = 0
    while equal < most:
        middle = (equal + most + 1) // 2
        if old[len(old) - middle : len(old) - equal] == new[len(new) - middle : len(new) - equal]:
            equal = middle
        else:
            most = middle - 1
    return equal


def _ends(old: str, new: str, start: int) -> tuple[int, int]:
    """Where the lines begin, in either text, that both end with; `start` is the first line that differs."""
    same = _common_end(old, new, min(len(old), len(new)) - start)
    old_end, new_end = len(old) - same, len(new) - same
    if not all(at == start or text[at - 1] == "\n" for text, at in ((old, old_end), (new, new_end))):
        line_end = old.find("\n", old_end) + 1 or len(old)
        old_end, new_end = line_end, new_end + line_end - old_end
    return old_end, new_end
