"""Open a file and move a window over it; search in files and for files. Everything is printed.

Source of rules and texts: `openhands/runtime/plugins/agent_skills/file_ops/file_ops.py`. What is no text is shown as
far as it can be, and what is no regular file is left out of searches: reading a pipe would wait for ever.
"""

import os
from collections.abc import Iterator

WINDOW = 100
"""Lines that are shown at once."""
MAX_FILES = 100
"""With matches; of more, only their number is told."""


class _Window:
    """Which file is open, and where the window stands on it."""

    file: str | None = None
    line = 1


def open_file(path: str, line_number: int | None = 1, context_lines: int | None = WINDOW) -> None:
    """Opens a file in the editor and optionally positions at a specific line.

    The function displays a limited window of content, centered around the specified line
    number if provided. To view the complete file content, the agent should use scroll_down and scroll_up
    commands iteratively.

    Args:
        path: The path to the file to open. Absolute path is recommended.
        line_number: The target line number to center the view on (if possible).
            Defaults to 1.
        context_lines: Maximum number of lines to display in the view window.
            Limited to 100 lines. Defaults to 100.
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
    """Moves the window to show the specified line number.

    Args:
        line_number: int: The line number to move to.
    """
    if (lines := _open_lines()) is None:
        return
    if not isinstance(line_number, int) or not 1 <= line_number <= len(lines):
        _error(f"Line number must be between 1 and {len(lines)}.")
        return
    _Window.line = line_number
    print(_header(len(lines)) + _around(lines, line_number, WINDOW))


def scroll_down() -> None:
    """Moves the window down by 100 lines.

    Args:
        None
    """
    _scroll(WINDOW)


def scroll_up() -> None:
    """Moves the window up by 100 lines.

    Args:
        None
    """
    _scroll(-WINDOW)


def search_dir(search_term: str, dir_path: str = "./") -> None:
    """Searches for search_term in all files in dir. If dir is not provided, searches in the current directory.

    Args:
        search_term: str: The term to search for.
        dir_path: str: The path to the directory to search.
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
    """Searches for search_term in file. If file is not provided, searches in the current open file.

    Args:
        search_term: The term to search for.
        file_path: The path to the file to search.
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
    """Finds all files with the given name in the specified directory.

    Args:
        file_name: str: The name of the file to find.
        dir_path: str: The path to the directory to search.
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
    print(_header(len(lines)) + _from(lines, _Window.line, WINDOW))


def _around(lines: list[str], line: int, window: int) -> str:
    """So many lines with one in their middle."""
    half = max(1, window // 2)
    return _shown(lines, max(1, line - half), min(len(lines), line + half), window)


def _from(lines: list[str], line: int, window: int) -> str:
    """So many lines from one on."""
    return _shown(lines, line, min(len(lines), line + window), window)


def _shown(lines: list[str], start: int, end: int, window: int) -> str:
    """Lines with their numbers, and how many there are above and below; moved into the file at its two ends."""
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
    """The lines of the file that is open; None after it was said that there is none."""
    if not _Window.file or not os.path.isfile(_Window.file):
        _error("No file open. Use the open_file function first.")
        return None
    return _lines(_Window.file)


def _lines(path: str) -> list[str]:
    """The lines without their ends; an empty file has one."""
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
