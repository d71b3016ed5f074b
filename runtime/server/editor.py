"""The editor's commands: view, create, str_replace, insert, undo_edit.

The rules and every text that the model reads are those of OpenHands' editor
(`openhands_aci/editor/editor.py`), which models are tuned to. An edit gives back the whole content before
and after. All methods block; callers use a thread and call one at a time.
"""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice

from runtime.server import text_file
from runtime.server.edit_history import History, MemoryHistory
from runtime.server.safe_paths import FileError, Location, Roots
from runtime.server.text_file import BinaryFileError, Replacement, TextFile, replace

COMMANDS = ("view", "create", "str_replace", "insert", "undo_edit")
SNIPPET_LINES = 4
"""Lines shown before and after an edit."""

REVIEW = "Review the changes and make sure they are as expected. Edit the file again if necessary."
REVIEW_INSERTED = (
    "Review the changes and make sure they are as expected (correct indentation, no duplicate lines, etc). "
    "Edit the file again if necessary."
)
CHANGED_SINCE = "\nNOTE: The file had been changed since that edit; those changes are undone with it.\n"
UNCHANGED = "\nNOTE: The file already had this content; nothing in it has changed.\n"


class EditorError(Exception):
    """A command that cannot be carried out; the text is for the model."""


@dataclass(frozen=True)
class Edit:
    """The result of a command: the text for the model, and the file before (None if it did not exist) and after."""

    output: str
    old: str | None
    new: str
    diff: str


class Editor:
    """Edits files below the roots, and can undo the last edits of each.

    `umask` is the user's; `history` keeps the previous versions.
    """

    def __init__(self, roots: Roots, umask: int, history: History | None = None) -> None:
        self._roots = roots
        self._umask = umask
        self.history = MemoryHistory() if history is None else history
        self._history_thread = ThreadPoolExecutor(1, "history")

    def check(self, command: str, path: str, cwd: str) -> None:
        """Refuse an unknown command, and a path that is not absolute. Raises EditorError."""
        if command not in COMMANDS:
            allowed = ", ".join(COMMANDS)
            raise EditorError(
                f"Unrecognized command {command}. The allowed commands for the oh_editor tool are: {allowed}"
            )
        if not os.path.isabs(path):
            hint = "The path should be an absolute path, starting with `/`."
            meant = os.path.join(cwd, path)
            with suppress(EditorError, FileError, OSError), self._existing(meant):
                hint += f" Maybe you meant {meant}?"
            raise _invalid("path", path, hint)

    def view(self, path: str, view_range: list[int] | None = None) -> str:
        """Show a file with line numbers, or a folder two levels deep. Raises EditorError, FileError, OSError."""
        with self._existing(path) as (place, is_folder):
            if is_folder:
                if view_range:
                    hint = "The `view_range` parameter is not allowed when `path` points to a directory."
                    raise _invalid("view_range", view_range, hint)
                return listing(self._roots, place)
            return excerpt(text_file.read(place).text, path, view_range)

    def create(self, path: str, file_text: str | None) -> Edit:
        """Create a file, and missing parent folders."""
        with suppress(FileNotFoundError, NotADirectoryError), self._roots.locate(path) as place:
            _refuse_existing(place)
        if file_text is None:
            raise _missing("create", "file_text")
        data = TextFile(file_text).encode()
        with self._roots.locate(path, umask=self._umask) as place:
            _refuse_existing(place)
            replace(place, data, self._umask)
        return _edit(path, f"File created successfully at: {path}", None, file_text)

    def str_replace(self, path: str, old_str: str | None, new_str: str | None) -> Edit:
        """Replace the only occurrence of a text; None means an empty text."""
        with self._file(path) as place:
            if old_str is None:
                raise _missing("str_replace", "old_str")
            if new_str == old_str:
                hint = "No replacement was performed. `new_str` and `old_str` must be different."
                raise _invalid("new_str", new_str, hint)
            data = text_file.read_bytes(place)
            file = text_file.decode(path, data)
            at = _only_occurrence(file.text, old_str, path)
            new_str = new_str or ""
            after = dataclasses.replace(file, text=file.text[:at] + new_str + file.text[at + len(old_str) :])
            line = file.text.count("\n", 0, at) + 1

            def make_result() -> Edit:
                shown = _snippet_around(after.text, line, line + new_str.count("\n"), f"a snippet of {path}")
                return _edit(path, f"The file {path} has been edited. {shown}{REVIEW}", file.text, after.text)

            return self._write(place, data, after, make_result)

    def insert(self, path: str, insert_line: int | None, new_str: str | None) -> Edit:
        """Insert lines after line `insert_line`; 0 is before the first."""
        with self._file(path) as place:
            if insert_line is None:
                raise _missing("insert", "insert_line")
            if new_str is None:
                raise _missing("insert", "new_str")
            data = text_file.read_bytes(place)
            file = text_file.decode(path, data)
            after = dataclasses.replace(file, text=_inserted(file.text, insert_line, new_str))

            def make_result() -> Edit:
                last = insert_line + new_str.count("\n") + 1
                shown = _snippet_around(after.text, insert_line, last, "a snippet of the edited file")
                return _edit(path, f"The file {path} has been edited. {shown}{REVIEW_INSERTED}", file.text, after.text)

            return self._write(place, data, after, make_result)

    def undo_edit(self, path: str) -> Edit:
        """Undo the last edit of a file, even if it was changed since."""
        with self._file(path) as place:
            data = text_file.read_bytes(place)
            step = self.history.last(place.real_path)
            if step is None:
                raise EditorError(f"No edit history found for {path}.")
            content = step.before
            replace(place, content, self._umask)
            # After a crash before this line, the step remains, and the next undo changes nothing.
            self.history.pop(place.real_path)
        before = text_file.decode(path, content)
        note = "" if step.is_followed_by(data) else UNCHANGED if data == content else CHANGED_SINCE
        output = f"Last edit to {path} undone successfully. {excerpt(before.text, path)}{note}"
        return _edit(path, output, _text_of(path, data), before.text)

    def _write(self, place: Location, before: bytes, file: TextFile, make_result: Callable[[], Edit]) -> Edit:
        """Replace the content of a file after storing the previous version, and return the result.

        Content and history are written at the same time, because each waits for the disk; `make_result` runs while the
        second of them does.
        """
        after = file.encode()
        replacement = Replacement(place, after, self._umask)
        storing = self._history_thread.submit(self.history.push, place.real_path, before, after)
        try:
            replacement.flush()
            edit = make_result()
            storing.result()
            replacement.commit()
        except BaseException:
            if storing.exception() is None and not replacement.is_visible:
                self.history.pop(place.real_path)
            replacement.close()
            raise
        self._history_thread.submit(replacement.close)
        return edit

    @contextmanager
    def _existing(self, path: str) -> Iterator[tuple[Location, bool]]:
        """Locate a path that exists; yield whether it is a folder. Raises EditorError, FileError, OSError."""
        missing = _invalid("path", path, f"The path {path} does not exist. Please provide a valid path.")
        try:
            with self._roots.locate(path) as place:
                status = place.status()
                if status is None:
                    raise missing
                yield place, stat.S_ISDIR(status.st_mode)
        except (FileNotFoundError, NotADirectoryError):
            raise missing from None

    @contextmanager
    def _file(self, path: str) -> Iterator[Location]:
        with self._existing(path) as (place, is_folder):
            if is_folder:
                hint = f"The path {path} is a directory and only the `view` command can be used on directories."
                raise _invalid("path", path, hint)
            yield place


LISTED_LINES = 1_000
"""Of the lines with an occurrence, those that are named."""


def _only_occurrence(text: str, part: str, path: str) -> int:
    at = text.find(part)
    if at < 0:
        raise EditorError(f"No replacement was performed, old_str `{part}` did not appear verbatim in {path}.")
    if text.find(part, at + 1) >= 0:
        lines = line_numbers_of(text, part) if part else list(range(1, text.count("\n") + 2))
        more = ", ..." if len(lines) > LISTED_LINES else ""
        raise EditorError(
            f"No replacement was performed. Multiple occurrences of old_str `{part}` in lines "
            f"[{', '.join(map(str, lines[:LISTED_LINES]))}{more}]. Please ensure it is unique."
        )
    return at


def _inserted(text: str, insert_line: int, new: str) -> str:
    lines = split_lines(text)
    if not 0 <= insert_line <= len(lines):
        hint = f"It should be within the range of allowed values: {[0, len(lines)]}"
        raise _invalid("insert_line", insert_line, hint)
    before, after = "".join(lines[:insert_line]), "".join(lines[insert_line:])
    if before and not before.endswith("\n"):
        before += "\n"
    return f"{before}{new}\n{after}"


def _snippet_around(text: str, first: int, last: int, what: str) -> str:
    """Return the lines from `first` to `last` with SNIPPET_LINES around them, numbered."""
    lines = snippet(text, first - SNIPPET_LINES, last + SNIPPET_LINES)
    return numbered(lines, what, max(0, first - SNIPPET_LINES) + 1)


def _edit(path: str, output: str, old: str | None, new: str) -> Edit:
    return Edit(output, old, new, unified_diff(old or "", new, path))


def _text_of(path: str, data: bytes) -> str:
    try:
        return text_file.decode(path, data).text
    except BinaryFileError:
        return ""


def _refuse_existing(place: Location) -> None:
    if place.status() is not None:
        hint = f"File already exists at: {place.path}. Cannot overwrite files using command `create`."
        raise _invalid("path", place.path, hint)


def _missing(command: str, parameter: str) -> EditorError:
    return EditorError(f"Parameter `{parameter}` is required for command: {command}.")


def _invalid(parameter: str, value: object, hint: str) -> EditorError:
    return EditorError(f"Invalid `{parameter}` parameter: {value}. {hint}")


MAX_CHARS = 16_000
"""Limit for one answer."""

_CLIPPED = (
    "<response clipped><NOTE>Due to the max output limit, only part of this file has been shown to you. "
    "You should retry this tool after you have searched inside the file with `grep -n` in order to find the "
    "line numbers of what you are looking for.</NOTE>"
)


def excerpt(text: str, path: str, view_range: list[int] | None = None) -> str:
    """Return a text with line numbers, or only a range of its lines, counted from 1. Raises EditorError."""
    lines = lines_of(text)
    if not view_range:
        return numbered("\n".join(lines), path)
    start, end, note = _checked_range(view_range, len(lines))
    return numbered("\n".join(lines[start - 1 : end]), path, start) + note


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
    """Return the first and last line to show, and a note if the range ends after the file. Raises EditorError."""
    if len(view_range) != 2:
        raise _invalid("view_range", view_range, "It should be a list of two integers.")
    start, end = view_range
    if not 1 <= start <= count:
        hint = f"Its first element `{start}` should be within the range of lines of the file: {[1, count]}."
        raise _invalid("view_range", view_range, hint)
    if end == -1:
        return start, count, ""
    if end > count:
        return start, count, f"\nNOTE: We only show up to {count} since there's only {count} lines in this file\n"
    if end < start:
        hint = f"Its second element `{end}` should be greater than or equal to the first element `{start}`."
        raise _invalid("view_range", view_range, hint)
    return start, end, ""


def unified_diff(old: str, new: str, path: str, context: int = 3) -> str:
    """Return a diff with one hunk, from the first line that differs to the last.

    Linear in time; only the part that differs is split into lines, so a small change of a large file costs little.
    """
    if old == new:
        return ""
    same = _equal_length(min(len(old), len(new)), lambda start, end: old[start:end] == new[start:end])
    start = old.rfind("\n", 0, same) + 1
    old_end, new_end = _ends(old, new, start)
    lead_at, trail_to = start, old_end
    for _ in range(context):
        lead_at = old.rfind("\n", 0, max(0, lead_at - 1)) + 1
        trail_to = old.find("\n", trail_to) + 1 or len(old)
    lead, trail = split_lines(old[lead_at:start]), split_lines(old[old_end:trail_to])
    removed, added = split_lines(old[start:old_end]), split_lines(new[start:new_end])
    first = old.count("\n", 0, lead_at) + 1
    old_count, new_count = len(lead) + len(removed) + len(trail), len(lead) + len(added) + len(trail)
    hunk = f"@@ -{first if old_count else 0},{old_count} +{first if new_count else 0},{new_count} @@\n"
    marked = [" " + line for line in lead] + ["-" + line for line in removed]
    marked += ["+" + line for line in added] + [" " + line for line in trail]
    body = "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in marked)
    return f"--- {path}\n+++ {path}\n{hunk}{body}"


def split_lines(text: str) -> list[str]:
    """Split a text into lines with their ends. Only `\\n` ends a line; `splitlines` would also split at form feeds."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _equal_length(most: int, is_equal: Callable[[int, int], bool]) -> int:
    """Return up to which length two texts are equal, by bisection, because comparing slices is fast."""
    equal = 0
    while equal < most:
        middle = (equal + most + 1) // 2
        if is_equal(equal, middle):
            equal = middle
        else:
            most = middle - 1
    return equal


def _ends(old: str, new: str, start: int) -> tuple[int, int]:
    """Return where the lines begin, in each text, with which both end; `start` is the first line that differs."""
    old_end, new_end = len(old), len(new)
    same = _equal_length(
        min(old_end, new_end) - start,
        lambda low, high: old[old_end - high : old_end - low] == new[new_end - high : new_end - low],
    )
    old_end, new_end = old_end - same, new_end - same
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
    listed = "\n".join(sorted(paths))
    if len(listed) > MAX_CHARS:
        listed = listed[:MAX_CHARS] + _LISTING_CLIPPED
    text = f"Here's the files and directories up to 2 levels deep in {path}, excluding hidden items:\n{listed}"
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
