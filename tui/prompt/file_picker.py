"""Files of the workspace for the completion of `@`: listed when the list opens, searched with every key.

`list_files` uses git, else ripgrep, else walks the folder. It respects ignore files as far as possible, runs nothing
that a repository names, and stops at MAX_FILES. `FileIndex.find` searches 100,000 names in about ten milliseconds,
because it tests for containment first. Both block and run in a thread. No Textual.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

MAX_FILES = 200_000
WALK_S = 3.0
"""A walk stops after this time; other paths can be typed."""
SKIPPED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".ruff_cache"}
    | {".pytest_cache", "target", "dist", "build", ".next", ".cache"}
)
"""Folders that a walk leaves out: generated, and large."""
RG_TIMEOUT_S = 4.0


def list_files(folder: Path) -> list[str]:
    """The paths of a folder's files, relative to it. Names that cannot be typed are left out. Blocks."""
    from runtime.git_files import git_files  # not before the first frame

    found = git_files(folder)
    if found is None:
        found = _rg_files(folder)
    if found is None:
        found = _walk(folder)
    return [name for name in islice(found, MAX_FILES) if name.isprintable()]


def _rg_files(folder: Path) -> list[str] | None:
    """The files that ripgrep lists; None without it. Never runs a program of the folder."""
    if (program := shutil.which("rg")) is None or not os.path.isabs(program):
        return None
    command = [program, "--no-config", "--files", "--hidden", "--glob", "!.git", "--null", "--", str(folder)]
    try:
        done = subprocess.run(command, cwd="/", capture_output=True, timeout=RG_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode not in (0, 2):  # 2: some folder could not be read
        return None
    names = done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    return [os.path.relpath(name, folder) for name in names]


def _walk(folder: Path) -> list[str]:
    """The files below a folder, the upper ones first. Does not follow links."""
    found: list[str] = []
    pending, end = [""], time.monotonic() + WALK_S
    for prefix in pending:  # grows during the loop
        try:
            with os.scandir(folder / prefix) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in SKIPPED:
                            pending.append(f"{prefix}{entry.name}/")
                    else:
                        found.append(prefix + entry.name)
        except OSError:
            continue
        if len(found) >= MAX_FILES or time.monotonic() > end:
            break
    return found


class FileIndex:
    """The searchable files of one workspace."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = sorted(paths, key=lambda path: (path.count("/"), len(path), path))
        """The likeliest first: those near the top, then those with short names."""
        self._folded = [path.lower() for path in self.paths]
        self._names = [path.rpartition("/")[2] for path in self._folded]

    def find(self, query: str, limit: int) -> list[str]:
        """The best matches: names that begin with the query, names and paths that contain it, paths with its letters.

        Not `textual.fuzzy`: that tries every way to match the letters, which takes seconds for a long path.
        """
        query = query.lower().removeprefix("./")
        if not query:
            return self.paths[:limit]
        in_name = [at for at, name in enumerate(self._names) if query in name]
        at_start = [at for at in in_name if self._names[at].startswith(query)]
        found = dict.fromkeys(islice(at_start, limit))
        found |= dict.fromkeys(islice(in_name, limit))
        if len(found) < limit:
            found |= dict.fromkeys(islice((at for at, path in enumerate(self._folded) if query in path), limit))
        if len(found) < limit:
            found |= dict.fromkeys(islice(self._fuzzy(query), limit))
        return [self.paths[at] for at in islice(found, limit)]

    def _fuzzy(self, query: str) -> list[int]:
        """The paths that contain the letters of the query in order, those first whose letters are close together."""
        in_order = re.compile("".join(f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in query)).match
        hits = islice((at for at, path in enumerate(self._folded) if in_order(path)), _SCORED)
        return sorted(hits, key=lambda at: _spread(query, self._folded[at]))


_SCORED = 2000
"""The most fuzzy matches that are sorted."""


def _spread(query: str, path: str) -> int:
    """The number of characters over which the letters are spread, searched from the end, where the name is."""
    at = end = path.rfind(query[-1]) + 1
    for letter in reversed(query):
        at = path.rfind(letter, 0, at)
        if at < 0:
            return len(path)
    return end - at
