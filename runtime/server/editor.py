"""The editor's commands: view, create, str_replace, insert, undo_edit.

The rules and every text that the model reads are those of OpenHands' editor
(`openhands_aci/editor/editor.py`), which models are tuned to. An edit gives back the whole content before
and after. All methods block; callers use a thread and call one at a time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.server import textfile
from runtime.server.textfile import TextFile

COMMANDS = ("view", "create", "str_replace", "insert", "undo_edit")
MAX_VIEW_CHARS = 16_000
SNIPPET_LINES = 4
"""Shown on either side of an edit."""
UNDO_STEPS = 10
LISTED_ENTRIES = 10_000
"""Of one folder; far more than MAX_VIEW_CHARS can show."""

FILE_CLIPPED = (
    "<response clipped><NOTE>Due to the max output limit, only part of this file has been shown to you. "
    "You should retry this tool after you have searched inside the file with `grep -n` in order to find the "
    "line numbers of what you are looking for.</NOTE>"
)
FOLDER_CLIPPED = (
    "<response clipped><NOTE>Due to the max output limit, only part of this directory has been shown to you. "
    "You should use `ls -la` instead to view large directories incrementally.</NOTE>"
)
REVIEW = "Review the changes and make sure they are as expected. Edit the file again if necessary."
REVIEW_INSERTED = (
    "Review the changes and make sure they are as expected (correct indentation, no duplicate lines, etc). "
    "Edit the file again if necessary."
)


class EditorError(Exception):
    """A command that cannot be carried out; the text is for the model."""


@dataclass(frozen=True)
class Edit:
    """What the model reads of a command, and the file before and after; None before a file that was not."""

    output: str
    old: str | None
    new: str


class Editor:
    """Edits files, and can take back the last edits of each. `umask` is the user's."""

    def __init__(self, umask: int = 0o022) -> None:
        self._umask = umask
        self._history: dict[str, list[TextFile]] = {}

    def view(self, path: str, view_range: list[int] | None = None) -> str:
        """A file with numbered lines, or a folder two levels deep. Raises EditorError, FileError, OSError."""
        if os.path.isdir(path):
            if view_range:
                raise _invalid(
                    "view_range",
                    view_range,
                    "The `view_range` parameter is not allowed when `path` points to a directory.",
                )
            return _folder_listing(path)
        lines = _lines(textfile.read(path).text)
        if not view_range:
            return _numbered("\n".join(lines), path)
        start, end, note = _checked_range(view_range, len(lines))
        return _numbered("\n".join(lines[start - 1 : end]), path, start) + note

    def create(self, path: str, file_text: str | None) -> Edit:
        """A new file."""
        if file_text is None:
            raise _missing("create", "file_text")
        textfile.write(path, TextFile(file_text).encode(), self._umask)
        return Edit(f"File created successfully at: {path}", None, file_text)

    def str_replace(self, path: str, old_str: str | None, new_str: str | None) -> Edit:
        """Replace the only occurrence of a text by another; None stands for nothing."""
        if old_str is None:
            raise _missing("str_replace", "old_str")
        if new_str == old_str:
            hint = "No replacement was performed. `new_str` and `old_str` must be different."
            raise _invalid("new_str", new_str, hint)
        file = textfile.read(path)
        new_str = new_str or ""
        at = file.text.find(old_str) if old_str else -1
        if at < 0:
            raise EditorError(f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.")
        if file.text.find(old_str, at + 1) >= 0:
            raise EditorError(
                f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines "
                f"{_lines_of(file.text, old_str)}. Please ensure it is unique."
            )
        text = file.text[:at] + new_str + file.text[at + len(old_str) :]
        self._write(path, file, text)
        line = file.text.count("\n", 0, at) + 1
        snippet = _snippet(text, line - SNIPPET_LINES, line + SNIPPET_LINES + new_str.count("\n"))
        shown = _numbered(snippet, f"a snippet of {path}", max(0, line - SNIPPET_LINES) + 1)
        return Edit(f"The file {path} has been edited. {shown}{REVIEW}", file.text, text)

    def insert(self, path: str, insert_line: int | None, new_str: str | None) -> Edit:
        """Put whole lines behind line `insert_line`; 0 is before the first."""
        if insert_line is None:
            raise _missing("insert", "insert_line")
        if new_str is None:
            raise _missing("insert", "new_str")
        file = textfile.read(path)
        lines = _kept_lines(file.text)
        if not 0 <= insert_line <= len(lines):
            hint = f"It should be within the range of allowed values: {[0, len(lines)]}"
            raise _invalid("insert_line", insert_line, hint)
        before, after = "".join(lines[:insert_line]), "".join(lines[insert_line:])
        if before and not before.endswith("\n"):
            before += "\n"
        text = f"{before}{new_str}\n{after}"
        self._write(path, file, text)
        last = insert_line + SNIPPET_LINES + new_str.count("\n") + 1
        snippet = _snippet(text, insert_line - SNIPPET_LINES, last)
        shown = _numbered(snippet, "a snippet of the edited file", max(1, insert_line - SNIPPET_LINES + 1))
        return Edit(f"The file {path} has been edited. {shown}{REVIEW_INSERTED}", file.text, text)

    def undo_edit(self, path: str) -> Edit:
        """Take back the last edit of a file."""
        now = textfile.read(path)
        steps = self._history.get(os.path.realpath(path))
        if not steps:
            raise EditorError(f"No edit history found for {path}.")
        textfile.write(path, steps[-1].encode(), self._umask)
        before = steps.pop()
        shown = _numbered("\n".join(_lines(before.text)), path)
        return Edit(f"Last edit to {path} undone successfully. {shown}", now.text, before.text)

    def _write(self, path: str, before: TextFile, text: str) -> None:
        textfile.write(path, replace(before, text=text).encode(), self._umask)
        steps = self._history.setdefault(os.path.realpath(path), [])
        steps.append(before)
        del steps[:-UNDO_STEPS]


def check_path(command: str, path: str, cwd: str) -> None:
    """Refuse what a command cannot be about. Raises EditorError."""
    if command not in COMMANDS:
        allowed = ", ".join(COMMANDS)
        raise EditorError(f"Unrecognized command {command}. The allowed commands for the oh_editor tool are: {allowed}")
    if not os.path.isabs(path):
        hint = "The path should be an absolute path, starting with `/`."
        meant = os.path.join(cwd, path)
        raise _invalid("path", path, hint + (f" Maybe you meant {meant}?" if os.path.exists(meant) else ""))
    if command == "create" and os.path.exists(path):
        hint = f"File already exists at: {path}. Cannot overwrite files using command `create`."
        raise _invalid("path", path, hint)
    if command != "create" and not os.path.exists(path):
        raise _invalid("path", path, f"The path {path} does not exist. Please provide a valid path.")
    if command != "view" and os.path.isdir(path):
        hint = f"The path {path} is a directory and only the `view` command can be used on directories."
        raise _invalid("path", path, hint)


def unified_diff(old: str, new: str, path: str, context: int = 3) -> str:
    """The change as one hunk, from the first line that differs to the last. Linear in time."""
    before, after = _kept_lines(old), _kept_lines(new)
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


def _kept_lines(text: str) -> list[str]:
    """Lines with their ends. `\\n` alone ends one: `splitlines` would also break at form feeds."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _lines(text: str) -> list[str]:
    """Lines without their ends, as `cat -n` counts them."""
    lines = text.split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _snippet(text: str, after: int, last: int) -> str:
    return "\n".join(_lines(text)[max(0, after) : last])


def _lines_of(text: str, part: str) -> list[int]:
    numbers: dict[int, None] = {}
    line, counted = 1, 0
    at = text.find(part)
    while at >= 0:
        line += text.count("\n", counted, at)
        counted = at
        numbers[line] = None
        at = text.find(part, at + len(part))
    return list(numbers)


def _numbered(text: str, what: str, first: int = 1) -> str:
    if len(text) > MAX_VIEW_CHARS:
        text = text[:MAX_VIEW_CHARS] + FILE_CLIPPED
    numbered = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(text.split("\n"), first))
    return f"Here's the result of running `cat -n` on {what}:\n{numbered}\n"


def _checked_range(view_range: list[int], count: int) -> tuple[int, int, str]:
    """First and last line to show, and the note for an end that was beyond the file. Raises EditorError."""
    if len(view_range) != 2:
        raise _invalid("view_range", view_range, "It should be a list of two integers.")
    start, end = view_range
    if not 1 <= start <= count:
        hint = f"Its first element `{start}` should be within the range of lines of the file: {[1, count]}."
        raise _invalid("view_range", view_range, hint)
    if end == -1:
        return start, count, ""
    if end > count:
        note = f"\nNOTE: We only show up to {count} since there's only {count} lines in this file\n"
        return start, count, note
    if end < start:
        hint = f"Its second element `{end}` should be greater than or equal to the first element `{start}`."
        raise _invalid("view_range", view_range, hint)
    return start, end, ""


def _folder_listing(path: str) -> str:
    top, hidden = _entries(path)
    paths = [path]
    for entry in top:
        paths.append(entry)
        if os.path.isdir(entry):
            paths += _entries(entry)[0]
    listing = "\n".join(f"{item}/" if os.path.isdir(item) else item for item in sorted(paths))
    if len(listing) > MAX_VIEW_CHARS:
        listing = listing[:MAX_VIEW_CHARS] + FOLDER_CLIPPED
    text = f"Here's the files and directories up to 2 levels deep in {path}, excluding hidden items:\n{listing}"
    if hidden:
        text += (
            f"\n\n{hidden} hidden files/directories in this directory are excluded. "
            f"You can use 'ls -la {path}' to see them."
        )
    return text


def _entries(folder: str) -> tuple[list[str], int]:
    """The paths in a folder that are not hidden, and how many are. An unreadable one counts as empty."""
    try:
        names = sorted(entry.name for entry, _ in zip(os.scandir(folder), range(LISTED_ENTRIES)))  # noqa: B905
    except OSError:
        return [], 0
    shown = [str(Path(folder) / name) for name in names if not name.startswith(".")]
    return shown, len(names) - len(shown)


def _missing(command: str, parameter: str) -> EditorError:
    return EditorError(f"Parameter `{parameter}` is required for command: {command}.")


def _invalid(parameter: str, value: object, hint: str) -> EditorError:
    return EditorError(f"Invalid `{parameter}` parameter: {value}. {hint}")
