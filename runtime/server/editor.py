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

from runtime.server import text_file
from runtime.server.edit_history import History, HistoryInMemory
from runtime.server.file_views import (
    RangeError,
    kept_lines,
    line_numbers_of,
    lines_of,
    listing,
    numbered,
    shown,
    snippet,
    unified_diff,
)
from runtime.server.safe_paths import FileError, Location, Roots
from runtime.server.text_file import BinaryFileError, Replacement, TextFile, replace

COMMANDS = ("view", "create", "str_replace", "insert", "undo_edit")
SNIPPET_LINES = 4
"""Shown on either side of an edit."""

REVIEW = "Review the changes and make sure they are as expected. Edit the file again if necessary."
REVIEW_INSERTED = (
    "Review the changes and make sure they are as expected (correct indentation, no duplicate lines, etc). "
    "Edit the file again if necessary."
)
CHANGED_SINCE = "\nNOTE: The file had been changed since that edit; those changes are undone with it.\n"
UNCHANGED = "\nNOTE: The file stood as before that edit already; nothing in it has changed.\n"


class EditorError(Exception):
    """A command that cannot be carried out; the text is for the model."""


@dataclass(frozen=True)
class Edit:
    """What the model reads of a command, and the file before and after; None before a file that was not."""

    output: str
    old: str | None
    new: str
    diff: str


class Editor:
    """Edits files beneath the roots, and can take back the last edits of each.

    `umask` is the user's; `history` keeps what was before.
    """

    def __init__(self, roots: Roots, umask: int = 0o022, history: History | None = None) -> None:
        self._roots = roots
        self._umask = umask
        self._history = HistoryInMemory() if history is None else history
        self._beside = ThreadPoolExecutor(1, "history")

    def check(self, command: str, path: str, cwd: str) -> None:
        """Refuse what is no command, and a path that is not absolute. Raises EditorError."""
        if command not in COMMANDS:
            allowed = ", ".join(COMMANDS)
            raise EditorError(
                f"Unrecognized command {command}. The allowed commands for the oh_editor tool are: {allowed}"
            )
        if not os.path.isabs(path):
            hint = "The path should be an absolute path, starting with `/`."
            meant = os.path.join(cwd, path)
            with suppress(EditorError, FileError, OSError), self._there(meant):
                hint += f" Maybe you meant {meant}?"
            raise _invalid("path", path, hint)

    def view(self, path: str, view_range: list[int] | None = None) -> str:
        """A file with numbered lines, or a folder two levels deep. Raises EditorError, FileError, OSError."""
        with self._there(path) as (place, is_folder):
            if is_folder:
                if view_range:
                    hint = "The `view_range` parameter is not allowed when `path` points to a directory."
                    raise _invalid("view_range", view_range, hint)
                return listing(self._roots, place)
            return self.excerpt(text_file.read(place).text, path, view_range)

    def excerpt(self, text: str, path: str, view_range: list[int] | None = None) -> str:
        """A text with numbered lines, or a range of them. Raises EditorError."""
        try:
            return shown(text, path, view_range)
        except RangeError as error:
            raise _invalid("view_range", view_range, str(error)) from None

    def create(self, path: str, file_text: str | None) -> Edit:
        """A new file, and the folders above it."""
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
        """Replace the only occurrence of a text by another; None stands for nothing."""
        with self._file(path) as place:
            if old_str is None:
                raise _missing("str_replace", "old_str")
            if new_str == old_str:
                hint = "No replacement was performed. `new_str` and `old_str` must be different."
                raise _invalid("new_str", new_str, hint)
            data = text_file.read_bytes(place)
            file = text_file.decode(path, data)
            at = _only_place(file.text, old_str, path)
            new_str = new_str or ""
            after = dataclasses.replace(file, text=file.text[:at] + new_str + file.text[at + len(old_str) :])
            return self._write(place, data, after, lambda: _replaced(path, file.text, after.text, at, new_str))

    def insert(self, path: str, insert_line: int | None, new_str: str | None) -> Edit:
        """Put whole lines behind line `insert_line`; 0 is before the first."""
        with self._file(path) as place:
            if insert_line is None:
                raise _missing("insert", "insert_line")
            if new_str is None:
                raise _missing("insert", "new_str")
            data = text_file.read_bytes(place)
            file = text_file.decode(path, data)
            after = dataclasses.replace(file, text=_inserted(file.text, insert_line, new_str))
            return self._write(place, data, after, lambda: _put_in(path, file.text, after.text, insert_line, new_str))

    def undo_edit(self, path: str) -> Edit:
        """Take back the last edit of a file, also one that somebody else has changed since."""
        with self._file(path) as place:
            data = text_file.read_bytes(place)
            step = self._history.last(place.real_path)
            if step is None:
                raise EditorError(f"No edit history found for {path}.")
            replace(place, step.before, self._umask)
            # A crash before this line leaves the step, and another undo that changes nothing.
            self._history.pop(place.real_path)
        before = text_file.decode(path, step.before)
        excerpt = numbered("\n".join(lines_of(before.text)), path)
        note = "" if step.is_followed_by(data) else UNCHANGED if data == step.before else CHANGED_SINCE
        said = f"Last edit to {path} undone successfully. {excerpt}{note}"
        return _edit(path, said, _text_of(path, data), before.text)

    def _write(self, place: Location, before: bytes, file: TextFile, told: Callable[[], Edit]) -> Edit:
        """Replace a file's content, once its way back is kept; the answer is what is `told` of it.

        File and way back are written at once, since each waits for the disk; what is told is made while the second of
        them does.
        """
        after = file.encode()
        replacement = Replacement(place, after, self._umask)
        keeping = self._beside.submit(self._history.push, place.real_path, before, after)
        try:
            replacement.flush()
            edit = told()
            keeping.result()
            replacement.commit()
        except BaseException:
            if keeping.exception() is None and not replacement.is_visible:
                self._history.pop(place.real_path)
            replacement.close()
            raise
        self._beside.submit(replacement.close)
        return edit

    @contextmanager
    def _there(self, path: str) -> Iterator[tuple[Location, bool]]:
        """Where something is that is there, and whether it is a folder. Raises EditorError, FileError, OSError."""
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
        """The same, of what can be edited."""
        with self._there(path) as (place, is_folder):
            if is_folder:
                hint = f"The path {path} is a directory and only the `view` command can be used on directories."
                raise _invalid("path", path, hint)
            yield place


def _only_place(text: str, part: str, path: str) -> int:
    """Where a part stands in a text, which is there once. Raises EditorError."""
    at = text.find(part) if part else -1
    if at < 0:
        raise EditorError(f"No replacement was performed, old_str `{part}` did not appear verbatim in {path}.")
    if text.find(part, at + 1) >= 0:
        raise EditorError(
            f"No replacement was performed. Multiple occurrences of old_str `{part}` in lines "
            f"{line_numbers_of(text, part)}. Please ensure it is unique."
        )
    return at


def _inserted(text: str, insert_line: int, new: str) -> str:
    """A text with lines put behind one of its own. Raises EditorError."""
    lines = kept_lines(text)
    if not 0 <= insert_line <= len(lines):
        hint = f"It should be within the range of allowed values: {[0, len(lines)]}"
        raise _invalid("insert_line", insert_line, hint)
    before, after = "".join(lines[:insert_line]), "".join(lines[insert_line:])
    if before and not before.endswith("\n"):
        before += "\n"
    return f"{before}{new}\n{after}"


def _replaced(path: str, old: str, new: str, at: int, part: str) -> Edit:
    """What is told of a part that was put in place of another."""
    line = old.count("\n", 0, at) + 1
    lines = snippet(new, line - SNIPPET_LINES, line + SNIPPET_LINES + part.count("\n"))
    excerpt = numbered(lines, f"a snippet of {path}", max(0, line - SNIPPET_LINES) + 1)
    return _edit(path, f"The file {path} has been edited. {excerpt}{REVIEW}", old, new)


def _put_in(path: str, old: str, new: str, line: int, part: str) -> Edit:
    """What is told of lines that were put behind a line."""
    lines = snippet(new, line - SNIPPET_LINES, line + SNIPPET_LINES + part.count("\n") + 1)
    excerpt = numbered(lines, "a snippet of the edited file", max(1, line - SNIPPET_LINES + 1))
    return _edit(path, f"The file {path} has been edited. {excerpt}{REVIEW_INSERTED}", old, new)


def _edit(path: str, output: str, old: str | None, new: str) -> Edit:
    return Edit(output, old, new, unified_diff(old or "", new, path))


def _text_of(path: str, data: bytes) -> str:
    """The text of what somebody else wrote, which may be none."""
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
