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
from runtime.server.edit_history import History, MemoryHistory
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
"""Lines shown before and after an edit."""

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
    """The result of a command: the text for the model, and the file before (None if it did not exist) and after."""

    output: str
    old: str | None
    new: str
    diff: str


class Editor:
    """Edits files below the roots, and can undo the last edits of each.

    `umask` is the user's; `history` keeps the previous versions.
    """

    def __init__(self, roots: Roots, umask: int = 0o022, history: History | None = None) -> None:
        self._roots = roots
        self._umask = umask
        self._history = MemoryHistory() if history is None else history
        self._beside = ThreadPoolExecutor(1, "history")

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
            with suppress(EditorError, FileError, OSError), self._there(meant):
                hint += f" Maybe you meant {meant}?"
            raise _invalid("path", path, hint)

    def view(self, path: str, view_range: list[int] | None = None) -> str:
        """Show a file with line numbers, or a folder two levels deep. Raises EditorError, FileError, OSError."""
        with self._there(path) as (place, is_folder):
            if is_folder:
                if view_range:
                    hint = "The `view_range` parameter is not allowed when `path` points to a directory."
                    raise _invalid("view_range", view_range, hint)
                return listing(self._roots, place)
            return self.excerpt(text_file.read(place).text, path, view_range)

    def excerpt(self, text: str, path: str, view_range: list[int] | None = None) -> str:
        """Show a text, or a range of its lines, with line numbers. Raises EditorError."""
        try:
            return shown(text, path, view_range)
        except RangeError as error:
            raise _invalid("view_range", view_range, str(error)) from None

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
            at = _only_place(file.text, old_str, path)
            new_str = new_str or ""
            after = dataclasses.replace(file, text=file.text[:at] + new_str + file.text[at + len(old_str) :])
            return self._write(place, data, after, lambda: _replaced(path, file.text, after.text, at, new_str))

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
            return self._write(place, data, after, lambda: _put_in(path, file.text, after.text, insert_line, new_str))

    def undo_edit(self, path: str) -> Edit:
        """Undo the last edit of a file, even if it was changed since."""
        with self._file(path) as place:
            data = text_file.read_bytes(place)
            step = self._history.last(place.real_path)
            if step is None:
                raise EditorError(f"No edit history found for {path}.")
            replace(place, step.before, self._umask)
            # After a crash before this line, the step remains, and the next undo changes nothing.
            self._history.pop(place.real_path)
        before = text_file.decode(path, step.before)
        excerpt = numbered("\n".join(lines_of(before.text)), path)
        note = "" if step.is_followed_by(data) else UNCHANGED if data == step.before else CHANGED_SINCE
        said = f"Last edit to {path} undone successfully. {excerpt}{note}"
        return _edit(path, said, _text_of(path, data), before.text)

    def _write(self, place: Location, before: bytes, file: TextFile, told: Callable[[], Edit]) -> Edit:
        """Replace the content of a file after storing the previous version; `told` makes the result.

        Content and history are written at the same time, because each waits for the disk; `told` runs while the second
        of them does.
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
        """Locate an existing file that can be edited."""
        with self._there(path) as (place, is_folder):
            if is_folder:
                hint = f"The path {path} is a directory and only the `view` command can be used on directories."
                raise _invalid("path", path, hint)
            yield place


def _only_place(text: str, part: str, path: str) -> int:
    """Return the position of the only occurrence of a text. Raises EditorError."""
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
    """Return the text with lines inserted. Raises EditorError."""
    lines = kept_lines(text)
    if not 0 <= insert_line <= len(lines):
        hint = f"It should be within the range of allowed values: {[0, len(lines)]}"
        raise _invalid("insert_line", insert_line, hint)
    before, after = "".join(lines[:insert_line]), "".join(lines[insert_line:])
    if before and not before.endswith("\n"):
        before += "\n"
    return f"{before}{new}\n{after}"


def _replaced(path: str, old: str, new: str, at: int, part: str) -> Edit:
    """Make the result of a replacement."""
    line = old.count("\n", 0, at) + 1
    lines = snippet(new, line - SNIPPET_LINES, line + SNIPPET_LINES + part.count("\n"))
    excerpt = numbered(lines, f"a snippet of {path}", max(0, line - SNIPPET_LINES) + 1)
    return _edit(path, f"The file {path} has been edited. {excerpt}{REVIEW}", old, new)


def _put_in(path: str, old: str, new: str, line: int, part: str) -> Edit:
    """Make the result of an insertion."""
    lines = snippet(new, line - SNIPPET_LINES, line + SNIPPET_LINES + part.count("\n") + 1)
    excerpt = numbered(lines, "a snippet of the edited file", max(1, line - SNIPPET_LINES + 1))
    return _edit(path, f"The file {path} has been edited. {excerpt}{REVIEW_INSERTED}", old, new)


def _edit(path: str, output: str, old: str | None, new: str) -> Edit:
    return Edit(output, old, new, unified_diff(old or "", new, path))


def _text_of(path: str, data: bytes) -> str:
    """Return the text of content that somebody else wrote, or an empty text if it is binary."""
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
