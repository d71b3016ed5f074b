"""Copy a workspace to a remote engine and its changes back.

Upload: folders that can be recreated (CACHES, and folders with a CACHEDIR.TAG), hidden paths and files larger than
MAX_FILE_BYTES are left out. Symbolic links are packed as links and never followed. The record of an upload holds the
digest of every packed file, so that changes can be recognised afterwards.

Download: the archive is untrusted, and the user may have changed the workspace meanwhile. Every name must stay inside
the workspace, and duplicate paths are refused. Devices, pipes and new links are not copied, nor is anything that the
user's programs would execute: protected paths, and in git's folder everything but objects, references and the files
that belong to them. Files are written through directory descriptors, so that a link cannot redirect them, and either
all are written or none.

Invariant: a file that the user has changed since the upload is never overwritten or removed. The sandbox's version is
written next to it, with SUFFIX. Files that are not copied are reported. Blocks.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import stat
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from core.errors import RuntimeUnavailableError
from runtime.workspace_files import FILE, LINK, PROGRAM, Moving, UnreadableError, WorkspaceFiles

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
SUFFIX = ".from-sandbox"
_GIT_FILES = frozenset({"HEAD", "ORIG_HEAD", "MERGE_HEAD", "COMMIT_EDITMSG", "FETCH_HEAD", "index", "packed-refs"})
_GIT_FOLDERS = frozenset({"objects", "refs", "logs"})
_END = bytes(1024)
"""The end of an archive."""
_LISTED = 20
"""Paths of one kind that are listed individually."""


@dataclass
class Upload:
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
    def read(cls, file: Path) -> Upload | None:
        """Read a record; None if there is none or it is damaged."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(file.read_text("utf-8"))
            return cls(dict(record["files"]), id=str(record["id"]))
        return None


def digest(mode: int, content: bytes) -> str:
    """Return the digest of a file's mode and content."""
    return f"{mode:o}:{hashlib.sha256(content).hexdigest()}"


def pack(workspace: Path, hidden: Iterable[Path], archive: tarfile.TarFile, top: str, user: tuple[int, int]) -> Upload:
    """Add the workspace to an archive as the folder `top` that belongs to `user`.

    Raises RuntimeUnavailableError if it is too large, OSError.
    """
    hidden_paths = {str(path) for path in hidden}
    packing = _Packing(archive, top, user)
    for parent, folders, names, fd in os.fwalk(workspace, follow_symlinks=False):
        path = os.path.relpath(parent, workspace)
        prefix = "" if path == "." else f"{path}/"
        packing.add_folder(prefix, fd)
        links = [name for name in folders if stat.S_ISLNK(_status(name, fd).st_mode)]
        visible = [name for name in (*folders, *names) if os.path.join(parent, name) not in hidden_paths]
        folders[:] = [name for name in folders if name in visible and name not in links and not _is_cache(name, fd)]
        for name in visible:
            if name in names or name in links:
                packing.add_file(prefix + name, name, fd)
    return packing.upload


class _Packing:
    def __init__(self, archive: tarfile.TarFile, top: str, user: tuple[int, int]) -> None:
        self._archive = archive
        self._top = top
        self._user = user
        self.upload = Upload()

    def add_folder(self, path: str, fd: int) -> None:
        self._archive.addfile(self._entry(path.rstrip("/"), os.fstat(fd), tarfile.DIRTYPE))

    def add_file(self, path: str, name: str, fd: int) -> None:
        """Add a file or link. Raises RuntimeUnavailableError if the workspace is too large."""
        upload = self.upload
        try:
            status, mode, content = _content(name, fd)
        except OSError:
            upload.left_out.append(path)
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
        upload.files[path] = digest(mode, content)
        upload.size += len(content)
        if upload.size > MAX_TOTAL_BYTES or len(upload.files) > MAX_FILES:
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


class ArchiveError(Exception):
    """An archive was refused; the text says why. Nothing has been written."""


@dataclass
class DownloadResult:
    """What happened to each change, as paths relative to the workspace."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    """Changed on both sides: the sandbox's version has SUFFIX."""
    refused: list[str] = field(default_factory=list)
    """Not copied, because the user's programs could execute them."""
    special: list[str] = field(default_factory=list)
    """New links, pipes and other special files."""
    too_large: list[str] = field(default_factory=list)
    in_sync: dict[str, str] = field(default_factory=dict)
    """Digests of the files that are now the same on both sides."""

    @property
    def is_complete(self) -> bool:
        """Whether everything was copied."""
        return not (self.refused or self.special or self.too_large)

    def messages(self) -> list[str]:
        """Return lines about the exceptions for the user."""
        kinds = (
            (
                self.conflicts,
                f"was changed here and in the sandbox; the sandbox's version has the same name with {SUFFIX}",
            ),
            (self.refused, "was not copied back from the sandbox, because your programs could execute it"),
            (self.special, "was not copied back from the sandbox, because it is a link or a special file"),
            (self.too_large, f"was not copied back from the sandbox: it is larger than {MAX_FILE_BYTES >> 20} MB"),
        )
        lines = []
        for paths, what in kinds:
            lines += [f"{path}: {what}" for path in paths[:_LISTED]]
            if len(paths) > _LISTED:
                lines.append(f"{len(paths) - _LISTED} more: {what}")
        return lines


def apply_download(
    archive: Path, top: str, workspace: Path, upload: Upload, protected: Iterable[str]
) -> DownloadResult:
    """Apply the changes since `upload`. Raises ArchiveError, OSError; then the workspace is unchanged."""
    with tarfile.open(archive, encoding="utf-8", errors="surrogateescape") as opened:
        try:
            found = _members(opened, top)
            with WorkspaceFiles(str(workspace)) as files:
                return _Download(opened, found, files, upload, frozenset(name.lower() for name in protected)).run()
        except tarfile.TarError as error:
            raise ArchiveError(f"The archive is damaged: {error}") from error


def _members(archive: tarfile.TarFile, top: str) -> dict[str, tarfile.TarInfo]:
    """Return all entries but folders by their path in the workspace. Raises ArchiveError, TarError."""
    found: dict[str, tarfile.TarInfo] = {}
    for member in archive:
        name = member.name.rstrip("/")
        parts = name.split("/")
        if parts[0] != top or name.startswith("/") or not {"", ".", ".."}.isdisjoint(parts) or "\0" in name:
            raise ArchiveError(f"{name[:200]!r} is outside the workspace")
        path = "/".join(parts[1:])
        if member.isdir():
            continue
        if not path or path in found:
            raise ArchiveError(f"{path[:200]!r} occurs twice, or replaces the workspace itself")
        found[path] = member
        if len(found) > MAX_FILES:
            raise ArchiveError(f"It contains more than {MAX_FILES} files")
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(len(_END)) != _END:  # or the missing files would look as if they had been removed
        raise ArchiveError("It is damaged: the end is missing")
    return found


class _Download:
    def __init__(
        self,
        archive: tarfile.TarFile,
        found: Mapping[str, tarfile.TarInfo],
        files: WorkspaceFiles,
        upload: Upload,
        protected: frozenset[str],
    ) -> None:
        self._archive = archive
        self._found = found
        self._files = files
        self._upload = upload
        self._protected = protected
        self._result = DownloadResult()
        self._caches = {path.rpartition("/")[0] for path in found if path.endswith(f"/{CACHE_TAG}")}
        self._count = self._bytes = 0

    def run(self) -> DownloadResult:
        stage = STAGE + secrets.token_hex(4)
        with self._files.moving(stage, SUFFIX) as moving:
            staged = [self._stage(moving, path, member) for path, member in self._found.items()]
            for number, path, mode, is_known in filter(None, staged):
                moving.place(number, path, mode, is_known=is_known)
            for path in self._upload.files.keys() - self._found.keys():
                self._remove(moving, path)
            self._result.conflicts += [path.removesuffix(SUFFIX) for path in moving.renamed]
            moving.is_final = True
        return self._result

    def _stage(self, moving: Moving, path: str, member: tarfile.TarInfo) -> tuple[int, str, int, bool] | None:
        """Put a changed file into the staging folder. Returns its number, its target, its mode, and whether the target
        may be overwritten; None if it is not copied."""
        result, known = self._result, self._upload.files.get(path)
        if known is None and self._is_left_out(path):
            return None
        if (read := self._read(path, member)) is None:
            return None
        mode, content = read
        remote = digest(mode, content)
        local = remote if remote == known else self._local_digest(path)
        if local == remote:
            result.in_sync[path] = remote
            return None
        if mode == LINK:
            result.special.append(path)
            return None
        if self._is_refused(path):
            result.refused.append(path)
            return None
        is_known = local == known
        if not is_known and self._local_digest(path + SUFFIX) == remote:
            return None  # written by an earlier download
        self._count, self._bytes = self._count + 1, self._bytes + len(content)
        if self._bytes > MAX_TOTAL_BYTES:
            raise ArchiveError(f"It contains more than {MAX_TOTAL_BYTES >> 20} MB")
        moving.put(self._count, mode, content)
        if is_known:
            result.in_sync[path] = remote
            result.written.append(path)
            return self._count, path, mode, True
        result.conflicts.append(path)
        return self._count, path + SUFFIX, mode, False

    def _read(self, path: str, member: tarfile.TarInfo) -> tuple[int, bytes] | None:
        """Return the mode and the content of a file or link; None if it is not copied."""
        if member.issym():
            return LINK, os.fsencode(member.linkname)
        source: tarfile.TarInfo | None = member
        if member.islnk():  # a hard link to another entry
            source = self._found.get(member.linkname.partition("/")[2])
        if source is None or not source.isreg() or source.issparse():
            self._result.special.append(path)
            return None
        if source.size > MAX_FILE_BYTES:
            self._result.too_large.append(path)
            return None
        opened = self._archive.extractfile(source)
        assert opened is not None, "it is a file"
        with opened:
            content = opened.read()
        if len(content) != source.size:
            raise ArchiveError("It is damaged: the end is missing")
        return (PROGRAM if source.mode & 0o100 else FILE), content

    def _is_left_out(self, path: str) -> bool:
        """Whether it is in a folder that would not have been uploaded."""
        above = path.split("/")[:-1]
        return not CACHES.isdisjoint(above) or any(
            "/".join(above[:n]) in self._caches for n in range(1, len(above) + 1)
        )

    def _remove(self, moving: Moving, path: str) -> None:
        """Remove a file that the sandbox removed, unless the user has changed it."""
        if self._local_digest(path) == self._upload.files[path] and not self._is_refused(path):
            moving.remove(path)
            self._result.removed.append(path)

    def _local_digest(self, path: str) -> str | None:
        """Return the digest of the file in the workspace; None if there is none."""
        try:
            read = self._files.read(path, MAX_FILE_BYTES)
        except UnreadableError:
            return "unreadable"
        return None if read is None else digest(*read)

    def _is_refused(self, path: str) -> bool:
        """Whether the user's programs could execute what is at this path."""
        parts = path.lower().split("/")
        if not self._protected.isdisjoint((*parts, *("/".join(parts[:n]) for n in range(1, len(parts) + 1)))):
            return True
        if ".git" not in parts:
            return False
        below = path.split("/")[1:]
        if parts[0] != ".git" or ".git" in parts[1:] or not below:
            return True
        is_file = len(below) == 1 and below[0] in _GIT_FILES
        return not (is_file or (len(below) > 1 and below[0] in _GIT_FOLDERS and below[:2] != ["objects", "info"]))
