"""The change of a text, as a unified diff, and the lines that it is made of. Pure."""

from __future__ import annotations


def unified_diff(old: str, new: str, path: str, context: int = 3) -> str:
    """The change as one hunk, from the first line that differs to the last. Linear in time."""
    before, after = kept_lines(old), kept_lines(new)
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    most = shorter - start
    same_end = next((at for at in range(most) if before[-1 - at] != after[-1 - at]), most)
    removed, added = before[start : len(before) - same_end], after[start : len(after) - same_end]
    if not removed and not added:
        return ""
    lead = before[max(0, start - context) : start]
    trail = before[len(before) - same_end :][:context]
    first = start - len(lead) + 1
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
