"""Finds submodules of a workspace whose settings git would obey in the whole workspace.

`git status` and `git diff` also look into each repository that the index names as a submodule, and obey that
repository's settings there, such as `core.fsmonitor`, which runs a command. A sandbox can make such a repository and
add it to the index, and many prompts run `git status` after every command.

The index is read here, because git itself would obey the settings of the repository while it reads it
(https://git-scm.com/docs/index-format). Object names of both lengths are tried, and both halves of a split index are
read, so that more may be found than git sees, but not less.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

from runtime.isolation.workspace_audit import audit_repository

MAX_SUBMODULES = 200
"""All of them in one workspace, nested ones included; those beyond are reported as hostile."""
MAX_DEPTH = 8
MAX_INDEX_BYTES = 256 * 1024 * 1024
_GITLINK = (0o160000).to_bytes(4, "big")
"""The mode of a submodule in the index."""
_OBJECT_NAMES = (20, 32)
"""Bytes of an object's name, by SHA-1 and by SHA-256."""
_IS_EXTENDED = 0x4000
_REFUSED = frozenset({b"", b".", b"..", b".git"})
"""Parts of paths that git does not accept in an index."""


class Submodules:
    """The submodules of one workspace. `known` has the keys of the audit's findings at the start."""

    def __init__(self, workspace: Path, known: Collection[str]) -> None:
        self._workspace = workspace
        self._known = known
        self._listed: dict[str, tuple[object, list[str]]] = {}
        """For each repository the state of its index, and the submodules that it named then."""

    def hostile(self) -> list[str]:
        """Return the `.git` of each submodule with new settings or hooks, relative to the workspace. Blocks.

        Nothing if the index of the workspace cannot be read: then git obeys none of them either.
        """
        try:
            return list(self._hostile("", 0, [MAX_SUBMODULES]))
        except (OSError, ValueError):
            return []

    def _hostile(self, repository: str, depth: int, left: list[int]) -> Iterator[str]:
        for path in self._submodules(repository):
            git = os.path.join(path, ".git")
            if not os.path.lexists(self._workspace / git):
                continue
            left[0] -= 1
            if left[0] < 0 or depth >= MAX_DEPTH or not self._is_harmless(path):
                yield git
            elif (self._workspace / git).is_dir():
                try:
                    yield from self._hostile(path, depth + 1, left)
                except (OSError, ValueError):  # an index that cannot be read
                    yield git

    def _is_harmless(self, path: str) -> bool:
        target = self._target(path)
        if target is not None:  # the modules of the workspace's repository are read-only in the sandbox
            return target.startswith(".git/modules/")
        return all(finding.key in self._known for finding in audit_repository(self._workspace, path))

    def _target(self, path: str) -> str | None:
        """Return where a `.git` file points, relative to the workspace; None for a folder."""
        file = self._workspace / path / ".git"
        if not stat.S_ISREG(file.lstat().st_mode):
            return None
        with file.open("rb") as opened:
            target = opened.read(4096).decode("utf-8", "replace").removeprefix("gitdir:").strip()
        return os.path.normpath(os.path.join(path, target))

    def _submodules(self, repository: str) -> list[str]:
        """Return the submodules in the index of a repository. Raises OSError and ValueError."""
        folder = self._workspace / repository / ".git"
        files = [folder / "index", *sorted(folder.glob("sharedindex.*"))]
        if not os.path.lexists(files[0]):
            return []
        state = [_state(file) for file in files]
        if repository not in self._listed or self._listed[repository][0] != state:
            paths = dict.fromkeys(path for file in files for path in gitlinks(_read(file)))
            self._listed[repository] = state, [os.path.join(repository, path) for path in paths]
        return self._listed[repository][1]


def _state(file: Path) -> tuple[int, ...]:
    status = file.lstat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(file: Path) -> bytes:
    """Read an index. Raises OSError if it is too large, or no regular file."""
    fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(fd, "rb") as opened:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_INDEX_BYTES:
            raise OSError(f"{file} cannot be an index of git")
        return opened.read(MAX_INDEX_BYTES)


def gitlinks(index: bytes) -> list[str]:
    """Return the paths of the submodules in an index. Raises ValueError if it is none."""
    if index[:4] != b"DIRC":
        raise ValueError("not an index of git")
    if _GITLINK not in index:  # the modes are never compressed
        return []
    found = []
    errors = []
    for name_bytes in _OBJECT_NAMES:
        try:
            found += _gitlinks(index, name_bytes)
        except (IndexError, struct.error, ValueError) as error:
            errors.append(error)
    if len(errors) == len(_OBJECT_NAMES):
        raise ValueError("an index of git that cannot be read")
    return found


def _gitlinks(index: bytes, name_bytes: int) -> list[str]:
    version, count = struct.unpack_from(">II", index, 4)
    found = []
    path = b""
    at = 12
    for _ in range(count):
        mode = index[at + 24 : at + 28]
        flags_at = at + 40 + name_bytes
        (flags,) = struct.unpack_from(">H", index, flags_at)
        start = flags_at + (4 if version > 2 and flags & _IS_EXTENDED else 2)
        kept = 0
        if version == 4:
            removed, start = _varint(index, start)
            kept = len(path) - removed
            if kept < 0:
                raise ValueError("a path that is shorter than nothing")
        end = index.index(b"\0", start)
        path = path[:kept] + index[start:end]
        at = end + 1 if version == 4 else at + ((end - at + 8) & ~7)
        if mode == _GITLINK and not _REFUSED.intersection(path.lower().split(b"/")):
            found.append(os.fsdecode(path))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number as in a pack of git; return it with where it ends."""
    number = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        number = ((number + 1) << 7) | (data[at] & 0x7F)
    return number, at + 1
