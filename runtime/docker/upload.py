"""A workspace on its way to an engine elsewhere: what is packed, and what is known of it afterwards.

Left out is what can be made again (CACHES, and folders with a CACHEDIR.TAG), what the sandbox may not see, and files
that are longer than MAX_FILE_BYTES. Symbolic links are packed as links and never followed. Invariant: what was packed
is in the list of it, with its digest, so that what comes back can be told from what went. Blocks.
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
"""Of one file, both ways; each is in memory once."""
MAX_TOTAL_BYTES = 4096 * MB
MAX_FILES = 200_000
CACHES = frozenset(
    {
        *("node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache", ".ruff_cache"),
        *(".pytest_cache", ".gradle", ".terraform"),
    }
)
"""Folders that are made again by those who need them, and that seldom fit another machine."""
CACHE_TAG = "CACHEDIR.TAG"
STAGE = ".handloom-coming-"
"""Begins the name of a folder in which files wait that come back."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Packed:
    """What went to the engine: the digest of each file by its path beneath the workspace."""

    files: dict[str, str] = field(default_factory=dict)
    size: int = 0
    """Bytes, of all of them."""
    left_out: list[str] = field(default_factory=list)
    """Files that are too long, or could not be read."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Of the copy, by which the volume that it went into is known again."""

    def write(self, file: Path) -> None:
        """Keep it, whole or not at all. Raises OSError."""
        new = file.with_name(f"{file.name}.new")
        new.write_text(json.dumps({"files": self.files, "id": self.id}), "utf-8")
        new.replace(file)

    @classmethod
    def read(cls, file: Path) -> Packed | None:
        """What was kept; None where nothing was, or it is damaged."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(file.read_text("utf-8"))
            return cls(dict(kept["files"]), id=str(kept["id"]))
        return None


def digest(mode: int, content: bytes) -> str:
    """What tells one file from another: its kind and what is in it."""
    return f"{mode:o}:{hashlib.sha256(content).hexdigest()}"


def pack(workspace: Path, hidden: Iterable[Path], archive: tarfile.TarFile, top: str, user: tuple[int, int]) -> Packed:
    """Put the workspace into an archive, as the folder `top` that belongs to `user`.

    Raises RuntimeUnavailableError where it is too large, OSError.
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
    """One workspace on its way into an archive."""

    def __init__(self, archive: tarfile.TarFile, top: str, user: tuple[int, int]) -> None:
        self._archive = archive
        self._top = top
        self._user = user
        self.packed = Packed()

    def add_folder(self, below: str, fd: int) -> None:
        self._archive.addfile(self._entry(below.rstrip("/"), os.fstat(fd), tarfile.DIRTYPE))

    def add_file(self, path: str, name: str, fd: int) -> None:
        """Put a file or link in. Raises RuntimeUnavailableError where that makes too much of it."""
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
                "The workspace is too large for a container engine elsewhere: more than "
                f"{MAX_TOTAL_BYTES // MB} MB or {MAX_FILES} files would have to be copied. Choose a smaller folder, or "
                "an engine of this machine."
            )

    def _entry(self, path: str, status: os.stat_result, kind: bytes) -> tarfile.TarInfo:
        entry = tarfile.TarInfo(f"{self._top}/{path}" if path else self._top)
        entry.type = kind
        entry.uid, entry.gid = self._user
        entry.mode = stat.S_IMODE(status.st_mode) & 0o777
        entry.mtime = int(status.st_mtime)
        return entry


def _content(name: str, fd: int) -> tuple[os.stat_result, int, bytes | None]:
    """How a file stands, its kind and content; no content where it is neither file nor link. Raises OSError."""
    status = _status(name, fd)
    if stat.S_ISLNK(status.st_mode):
        return status, LINK, os.fsencode(os.readlink(name, dir_fd=fd))
    if not stat.S_ISREG(status.st_mode):  # opening a device can do something
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
    """Put a folder of our own into an archive, as it is but for its owner. Raises OSError."""

    def owned(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid, entry.gid, entry.uname, entry.gname = *user, "", ""
        return entry if entry.isreg() or entry.isdir() else None

    archive.add(folder, top, filter=owned)


def archive_to(file: IO[bytes]) -> tarfile.TarFile:
    """An archive to be written, in which names are bytes, as they are in a folder."""
    return tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape")


def _status(name: str, fd: int) -> os.stat_result:
    return os.stat(name, dir_fd=fd, follow_symlinks=False)


def _is_cache(name: str, fd: int) -> bool:
    if name in CACHES or name.startswith(STAGE):
        return True
    with suppress(OSError):
        return stat.S_ISREG(_status(f"{name}/{CACHE_TAG}", fd).st_mode)
    return False
