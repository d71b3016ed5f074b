"""Files of the workspace, for the picker: listed once it opens, narrowed with every key.

`list_files` asks git, then ripgrep, then walks by itself; whatever answers keeps to ignore files as well as it can,
runs nothing that a repository names, and stops at MAX_FILES. `FileIndex.find` looks at 100,000 names in some ten
milliseconds: a test by containment in C goes before anything cleverer. Both block: they are for a thread. No Textual.
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
"""What is not found by walking until then is typed by hand."""
SKIPPED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".ruff_cache"}
    | {".pytest_cache", "target", "dist", "build", ".next", ".cache"}
)
"""Folders that a walk leaves out: made by programs, and large."""
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
    """As ripgrep tells; None without it. It is found by the PATH from elsewhere: a folder's own program is not run."""
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
    """What a walk finds, the upper folders first. Links are not followed."""
    found: list[str] = []
    waiting, end = [""], time.monotonic() + WALK_S
    for below in waiting:  # grows while it is gone through
        try:
            with os.scandir(folder / below) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in SKIPPED:
                            waiting.append(f"{below}{entry.name}/")
                    else:
                        found.append(below + entry.name)
        except OSError:
            continue
        if len(found) >= MAX_FILES or time.monotonic() > end:
            break
    return found


class FileIndex:
    """The files of one workspace, ready to be searched."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = sorted(paths, key=lambda path: (path.count("/"), len(path), path))
        """The likeliest first: near the top, then short."""
        self._folded = [path.lower() for path in self.paths]
        self._names = [path.rpartition("/")[2] for path in self._folded]

    def find(self, query: str, limit: int) -> list[str]:
        """The best matches: a name that begins so, a name or a path that contains it, a path with its letters in order.

        Not `textual.fuzzy`: that looks at every way to scatter the letters, which for a long path takes seconds.
        """
        query = query.lower().removeprefix("./")
        if not query:
            return self.paths[:limit]
        named = [at for at, name in enumerate(self._names) if query in name]
        begun = [at for at in named if self._names[at].startswith(query)]
        found = dict.fromkeys(islice(begun, limit))
        found |= dict.fromkeys(islice(named, limit))
        if len(found) < limit:
            found |= dict.fromkeys(islice((at for at, path in enumerate(self._folded) if query in path), limit))
        if len(found) < limit:
            found |= dict.fromkeys(islice(self._scattered(query), limit))
        return [self.paths[at] for at in islice(found, limit)]

    def _scattered(self, query: str) -> list[int]:
        """Where the letters of the query come in their order, those first whose letters are close together."""
        in_order = re.compile("".join(f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in query)).match
        hits = [at for at, path in enumerate(self._folded) if in_order(path)]
        if len(hits) > _SCORED:
            hits = hits[:_SCORED]
        return sorted(hits, key=lambda at: _spread(query, self._folded[at]))


_SCORED = 2000
"""Of what matches loosely, as many are put into order as a thread does without being noticed."""


def _spread(query: str, path: str) -> int:
    """Over how many characters the letters are spread, looked for from the end, where the name is."""
    at = end = path.rfind(query[-1]) + 1
    for letter in reversed(query):
        at = path.rfind(letter, 0, at)
        if at < 0:
            return len(path)
    return end - at
