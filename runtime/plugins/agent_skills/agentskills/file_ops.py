"""Open a file and move a window over it; search in files and for files; edit files.

Source of rules and texts: `openhands/runtime/plugins/agent_skills/file_ops/file_ops.py`. Files that are not text are
shown as far as possible, and searches skip what is not a regular file: reading a pipe would wait for ever.

`file_editor` is the server's own editor, with the texts of `openhands_aci/editor/__init__.py`. Handloom's folder is in
`sys.path` only while the editor is imported, so that a cell finds its own modules `runtime` and `core` if it has any.
"""

import json
import os
import sys
import uuid
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

WINDOW = 100
"""The number of lines shown at once."""
MAX_FILES = 100
"""If more files match, only their number is printed."""


class _Window:
    """The open file, and the line of the window."""

    file: str | None = None
    line = 1


def open_file(path: str, line_number: int | None = 1, context_lines: int | None = WINDOW) -> None:
    """Open a file and print a window of its lines around a line. Use scroll_down and scroll_up to see the rest.

    Args:
        path: The path of the file; an absolute path is recommended.
        line_number: The line in the middle of the window.
        context_lines: The number of lines to print, at most 100.
    """
    if not os.path.isfile(path):
        _error(f"File {path} not found.")
        return
    _Window.file = os.path.abspath(path)
    lines = _lines(_Window.file)
    if not isinstance(line_number, int) or not 1 <= line_number <= len(lines):
        _error(f"Line number must be between 1 and {len(lines)}")
        return
    _Window.line = line_number
    if context_lines is None or context_lines < 1:
        context_lines = WINDOW
    shown = _header(len(lines)) + _around(lines, line_number, min(context_lines, WINDOW))
    if shown.endswith("more lines below)"):
        shown += "\n[Use `scroll_down` to view the next 100 lines of the file!]"
    print(shown)


def goto_line(line_number: int) -> None:
    """Print the lines of the open file around a line.

    Args:
        line_number: The line in the middle of the window.
    """
    if (lines := _open_lines()) is None:
        return
    if not isinstance(line_number, int) or not 1 <= line_number <= len(lines):
        _error(f"Line number must be between 1 and {len(lines)}.")
        return
    _Window.line = line_number
    print(_header(len(lines)) + _around(lines, line_number, WINDOW))


def scroll_down() -> None:
    """Print the next 100 lines of the open file."""
    _scroll(WINDOW)


def scroll_up() -> None:
    """Print the previous 100 lines of the open file."""
    _scroll(-WINDOW)


def search_dir(search_term: str, dir_path: str = "./") -> None:
    """Print every line that contains a text, in all files of a directory and below; hidden files are skipped.

    Args:
        search_term: The text to search for.
        dir_path: The directory.
    """
    if not os.path.isdir(dir_path):
        _error(f"Directory {dir_path} not found")
        return
    matches = [
        (path, number, line.strip())
        for path in _files_below(dir_path)
        if not os.path.basename(path).startswith(".")
        for number, line in _numbered_lines(path)
        if search_term in line
    ]
    if not matches:
        print(f'No matches found for "{search_term}" in {dir_path}')
        return
    files = len({path for path, _, _ in matches})
    if files > MAX_FILES:
        print(f'More than {files} files matched for "{search_term}" in {dir_path}. Please narrow your search.')
        return
    print(f'[Found {len(matches)} matches for "{search_term}" in {dir_path}]')
    for path, number, line in matches:
        print(f"{path} (Line {number}): {line}")
    print(f'[End of matches for "{search_term}" in {dir_path}]')


def search_file(search_term: str, file_path: str | None = None) -> None:
    """Print every line of a file that contains a text.

    Args:
        search_term: The text to search for.
        file_path: The path of the file; without it, the open file is searched.
    """
    path = _Window.file if file_path is None else file_path
    if path is None:
        _error("No file specified or open. Use the open_file function first.")
        return
    if not os.path.isfile(path):
        _error(f"File {path} not found.")
        return
    matches = [(number, line.strip()) for number, line in _numbered_lines(path) if search_term in line]
    if not matches:
        print(f'[No matches found for "{search_term}" in {path}]')
        return
    print(f'[Found {len(matches)} matches for "{search_term}" in {path}]')
    for number, line in matches:
        print(f"Line {number}: {line}")
    print(f'[End of matches for "{search_term}" in {path}]')


def find_file(file_name: str, dir_path: str = "./") -> None:
    """Print the paths of all files whose name contains a text, in a directory and below.

    Args:
        file_name: The name of the files, or a part of it.
        dir_path: The directory.
    """
    if not os.path.isdir(dir_path):
        _error(f"Directory {dir_path} not found")
        return
    matches = [
        os.path.join(folder, name) for folder, _, names in os.walk(dir_path) for name in names if file_name in name
    ]
    if not matches:
        print(f'[No matches found for "{file_name}" in {dir_path}]')
        return
    print(f'[Found {len(matches)} matches for "{file_name}" in {dir_path}]')
    print(*matches, sep="\n")
    print(f'[End of matches for "{file_name}" in {dir_path}]')


def _scroll(lines_down: int) -> None:
    if (lines := _open_lines()) is None:
        return
    _Window.line = max(1, min(_Window.line + lines_down, len(lines)))
    line = _Window.line
    print(_header(len(lines)) + _numbered(lines, line, min(len(lines), line + WINDOW), WINDOW))


def _around(lines: list[str], line: int, window: int) -> str:
    half = max(1, window // 2)
    return _numbered(lines, max(1, line - half), min(len(lines), line + half), window)


def _numbered(lines: list[str], start: int, end: int, window: int) -> str:
    """Format lines with their numbers, and how many are above and below; at both ends of a file the window is full."""
    if start == 1:
        end = min(len(lines), window)
    if end == len(lines):
        start = max(1, end - window + 1)
    above = f"({start - 1} more lines above)" if start > 1 else "(this is the beginning of the file)"
    below = f"({len(lines) - end} more lines below)" if end < len(lines) else "(this is the end of the file)"
    numbered = [f"{number}|{lines[number - 1]}" for number in range(start, end + 1)]
    return "\n".join([above, *numbered, below])


def _header(total: int) -> str:
    return f"[File: {_Window.file} ({total} lines total)]\n"


def _open_lines() -> list[str] | None:
    """Return the lines of the open file; prints an error and returns None if no file is open."""
    if not _Window.file or not os.path.isfile(_Window.file):
        _error("No file open. Use the open_file function first.")
        return None
    return _lines(_Window.file)


def _lines(path: str) -> list[str]:
    return [line.rstrip("\n") for _, line in _numbered_lines(path)] or [""]


def _numbered_lines(path: str) -> Iterator[tuple[int, str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from enumerate(file, 1)
    except OSError as error:
        _error(f"{path} cannot be read: {error.strerror}")


def _files_below(folder: str) -> Iterator[str]:
    for above, _, names in os.walk(folder):
        for name in names:
            if os.path.isfile(path := os.path.join(above, name)):
                yield path


def _error(message: str) -> None:
    print(f"ERROR: {message}")


_ROOT = Path(__file__).resolve().parents[4]
_PACKAGES = ("runtime", "core")


def file_editor(  # noqa: PLR0917  # as V0 has it
    command: str,
    path: str,
    file_text: str | None = None,
    view_range: list[int] | None = None,
    old_str: str | None = None,
    new_str: str | None = None,
    insert_line: int | None = None,
    enable_linting: bool = False,
) -> str:
    """View, create or edit a text file, as the editor tool does. Returns the result as JSON.

    Args:
        command: `view`, `create`, `str_replace`, `insert` or `undo_edit`.
        path: The absolute path of the file.
        file_text: For `create`: the content.
        view_range: For `view`: the first and last line.
        old_str: For `str_replace`: the text to replace.
        new_str: For `str_replace` and `insert`: the new text.
        insert_line: For `insert`: the line after which the text is inserted.
        enable_linting: Has no effect.
    """
    result: dict[str, Any] = {"output": None, "error": None}
    editor, errors = _editor()
    try:
        editor.check(command, path, os.getcwd())
        if command == "view":
            result |= {"output": editor.view(path, view_range), "path": path}
        else:
            arguments = {
                "create": (file_text,),
                "str_replace": (old_str, new_str),
                "insert": (insert_line, new_str),
                "undo_edit": (),
            }
            edit = getattr(editor, command)(path, *arguments[command])
            contents = {"old_content": edit.old, "new_content": edit.new}
            result |= {"output": edit.output, "path": path, "prev_exist": edit.old is not None, **contents}
    except errors as error:
        result["error"] = str(error)
    formatted = f"ERROR:\n{result['error']}" if result["error"] else result["output"]
    marker = uuid.uuid4().hex
    body = json.dumps({**result, "formatted_output_and_error": formatted})
    return f"<oh_aci_output_{marker}>\n{body}\n</oh_aci_output_{marker}>"


@cache
def _editor() -> tuple[Any, tuple[type[Exception], ...]]:
    """Return the editor of this kernel, whose history is in memory, and the errors that it raises."""
    others = _unload()
    sys.path.insert(0, str(_ROOT))
    try:
        safe_paths = import_module("runtime.server.safe_paths")
        editor = import_module("runtime.server.editor")
    finally:
        sys.path.remove(str(_ROOT))
        _unload()
        sys.modules.update(others)
    umask = os.umask(0)
    os.umask(umask)
    return editor.Editor(safe_paths.Roots(), umask), (editor.EditorError, safe_paths.FileError, OSError)


def _unload() -> dict[str, Any]:
    """Remove the modules of these packages from `sys.modules` and return them."""
    names = [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]
    return {name: sys.modules.pop(name) for name in names}
