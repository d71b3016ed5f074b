"""Pack a workspace for a remote engine, and record what was packed.

Left out are folders that can be recreated (CACHES, and folders with a CACHEDIR.TAG), hidden paths, and files larger
than MAX_FILE_BYTES. Symbolic links are packed as links and never followed. Invariant: the record holds the digest of
every packed file, so that changes can be recognised afterwards. Blocks.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import stat
import tarfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from core.errors import RuntimeUnavailableError
from runtime.workspace_files import FILE, LINK, PROGRAM

MB = 1024 * 1024
MAX_FILE_BYTES = 256 * MB
"""Limit for one file in both directions; each is held in memory."""
MAX_TOTAL_BYTES = 4096 * MB
MAX_FILES = 200_000
CACHES = frozenset(
    {
        *("node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache", ".ruff_cache"),
        *(".pytest_cache", ".gradle", ".terraform"),
    }
)
"""Folders that tools recreate, and that seldom work on another machine."""
CACHE_TAG = "CACHEDIR.TAG"
STAGE = ".handloom-coming-"
"""Prefix of the staging folder for files that are copied back."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Packed:
    """The record of an upload."""

    files: dict[str, str] = field(default_factory=dict)
    """Digest of each file by its path in the workspace."""
    size: int = 0
    """Total size in bytes."""
    left_out: list[str] = field(default_factory=list)
    """Files that are too large or could not be read."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Identifies the copy; the volume has it as a label."""

    def write(self, file: Path) -> None:
        """Write the record atomically. Raises OSError."""
        new = file.with_name(f"{file.name}.new")
        new.write_text(json.dumps({"files": self.files, "id": self.id}), "utf-8")
        new.replace(file)

    @classmethod
    def read(cls, file: Path) -> Packed | None:
        """Read a record; None if there is none or it is damaged."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(file.read_text("utf-8"))
            return cls(dict(kept["files"]), id=str(kept["id"]))
        return None


def digest(mode: int, content: bytes) -> str:
    """Return the digest of a file's mode and content."""
    return f"{mode:o}:{hashlib.sha256(content).hexdigest()}"


def pack(workspace: Path, hidden: Iterable[Path], archive: tarfile.TarFile, top: str, user: tuple[int, int]) -> Packed:
    """Add the workspace to an archive as the folder `top` that belongs to `user`.

    Raises RuntimeUnavailableError if it is too large, OSError.
    """
    out_of_sight = {str(path) for path in hidden}
    packing = _Packing(archive, top, user)
    for above, folders, names, fd in os.fwalk(workspace, follow_symlinks=False):
        place = os.path.relpath(above, workspace)
        below = "" if place == "." else f"{place}/"
        packing.add_folder(below, fd)
        links = [name for name in folders if stat.S_ISLNK(_status(name, fd).st_mode)]
        seen = [name for name in (*folders, *names) if os.path.join(above, name) not in out_of_sight]
        folders[:] = [name for name in folders if name in seen and name not in links and not _is_cache(name, fd)]
        for name in seen:
            if name in names or name in links:
                packing.add_file(below + name, name, fd)
    return packing.packed


class _Packing:
    """Adds one workspace to an archive."""

    def __init__(self, archive: tarfile.TarFile, top: str, user: tuple[int, int]) -> None:
        self._archive = archive
        self._top = top
        self._user = user
        self.packed = Packed()

    def add_folder(self, below: str, fd: int) -> None:
        self._archive.addfile(self._entry(below.rstrip("/"), os.fstat(fd), tarfile.DIRTYPE))

    def add_file(self, path: str, name: str, fd: int) -> None:
        """Add a file or link. Raises RuntimeUnavailableError if the workspace is too large."""
        packed = self.packed
        try:
            status, mode, content = _content(name, fd)
        except OSError:
            packed.left_out.append(path)
            return
        if content is None:
            return
        entry = self._entry(path, status, tarfile.SYMTYPE if mode == LINK else tarfile.REGTYPE)
        if mode == LINK:
            entry.linkname = os.fsdecode(content)
            self._archive.addfile(entry)
        else:
            entry.size = len(content)
            self._archive.addfile(entry, io.BytesIO(content))
        packed.files[path] = digest(mode, content)
        packed.size += len(content)
        if packed.size > MAX_TOTAL_BYTES or len(packed.files) > MAX_FILES:
            raise RuntimeUnavailableError(
                "The workspace is too large for a remote container engine: more than "
                f"{MAX_TOTAL_BYTES // MB} MB or {MAX_FILES} files would have to be copied. Choose a smaller folder or "
                "an engine on this machine."
            )

    def _entry(self, path: str, status: os.stat_result, kind: bytes) -> tarfile.TarInfo:
        entry = tarfile.TarInfo(f"{self._top}/{path}" if path else self._top)
        entry.type = kind
        entry.uid, entry.gid = self._user
        entry.mode = stat.S_IMODE(status.st_mode) & 0o777
        entry.mtime = int(status.st_mtime)
        return entry


def _content(name: str, fd: int) -> tuple[os.stat_result, int, bytes | None]:
    """Return a file's status, mode and content; the content is None for special files. Raises OSError."""
    status = _status(name, fd)
    if stat.S_ISLNK(status.st_mode):
        return status, LINK, os.fsencode(os.readlink(name, dir_fd=fd))
    if not stat.S_ISREG(status.st_mode):  # opening a device can have effects
        return status, FILE, None
    with open(os.open(name, _READ, dir_fd=fd), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            raise OSError("no file that can be packed")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise OSError("no file that can be packed")
    return status, PROGRAM if status.st_mode & stat.S_IXUSR else FILE, content


def pack_folder(folder: Path, archive: tarfile.TarFile, top: str, user: tuple[int, int]) -> None:
    """Add one of Handloom's own folders to an archive with another owner. Raises OSError."""

    def owned(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid, entry.gid, entry.uname, entry.gname = *user, "", ""
        return entry if entry.isreg() or entry.isdir() else None

    archive.add(folder, top, filter=owned)


def archive_to(file: IO[bytes]) -> tarfile.TarFile:
    """Open an archive for writing that preserves file names that are not valid UTF-8."""
    return tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape")


def _status(name: str, fd: int) -> os.stat_result:
    return os.stat(name, dir_fd=fd, follow_symlinks=False)


def _is_cache(name: str, fd: int) -> bool:
    if name in CACHES or name.startswith(STAGE):
        return True
    with suppress(OSError):
        return stat.S_ISREG(_status(f"{name}/{CACHE_TAG}", fd).st_mode)
    return False
