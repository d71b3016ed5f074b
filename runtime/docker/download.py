"""Copy changes back from a remote engine: apply an untrusted archive to a workspace that the user may have changed too.

Every name must stay inside the workspace, and duplicate paths are refused. Devices, pipes and new links are not copied,
nor is anything that the user's programs would execute: protected paths, and in git's folder everything but objects,
references and the files that belong to them. Files are written through directory descriptors, so that a link cannot
redirect them, and either all are written or none.

Invariant: a file that the user has changed since the upload is never overwritten or removed. The sandbox's version is
written next to it, with SUFFIX. Files that are not copied are reported. Blocks.
"""

from __future__ import annotations

import os
import secrets
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runtime.docker.upload import CACHE_TAG, CACHES, MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES, STAGE, Packed, digest
from runtime.workspace_files import FILE, LINK, PROGRAM, Moving, UnreadableError, WorkspaceFiles

SUFFIX = ".from-sandbox"
_GIT_FILES = frozenset({"HEAD", "ORIG_HEAD", "MERGE_HEAD", "COMMIT_EDITMSG", "FETCH_HEAD", "index", "packed-refs"})
_GIT_FOLDERS = frozenset({"objects", "refs", "logs"})
_END = bytes(1024)
"""The end of an archive."""
_NAMED = 20
"""Paths of one kind that are listed individually."""


class ArchiveError(Exception):
    """An archive was refused; the text says why. Nothing has been written."""


@dataclass
class DownloadResult:
    """What happened to each change, as paths relative to the workspace."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    """Changed on both sides: the sandbox's version has SUFFIX."""
    refused: list[str] = field(default_factory=list)
    """Not copied, because the user's programs could execute them."""
    no_files: list[str] = field(default_factory=list)
    """New links, pipes and other special files."""
    too_long: list[str] = field(default_factory=list)
    now: dict[str, str] = field(default_factory=dict)
    """Digests of the files that are now the same on both sides."""

    @property
    def is_whole(self) -> bool:
        """Whether everything was copied."""
        return not (self.refused or self.no_files or self.too_long)

    def messages(self) -> list[str]:
        """Return lines about the exceptions for the user."""
        kinds = (
            (
                self.beside,
                f"was changed here and in the sandbox; the sandbox's version has the same name with {SUFFIX}",
            ),
            (self.refused, "was not copied back from the sandbox, because your programs could execute it"),
            (self.no_files, "was not copied back from the sandbox, because it is a link or a special file"),
            (self.too_long, f"was not copied back from the sandbox: it is larger than {MAX_FILE_BYTES >> 20} MB"),
        )
        lines = []
        for paths, what in kinds:
            lines += [f"{path}: {what}" for path in paths[:_NAMED]]
            if len(paths) > _NAMED:
                lines.append(f"{len(paths) - _NAMED} more: {what}")
        return lines


def apply_download(
    archive: Path, top: str, workspace: Path, packed: Packed, protected: Iterable[str]
) -> DownloadResult:
    """Apply the changes since `packed`. Raises ArchiveError, OSError; then the workspace is unchanged."""
    with tarfile.open(archive, encoding="utf-8", errors="surrogateescape") as opened:
        try:
            found = _members(opened, top)
        except tarfile.TarError as error:
            raise ArchiveError(f"The archive is damaged: {error}") from error
        files = WorkspaceFiles(str(workspace))
        try:
            return _Download(opened, found, files, packed, frozenset(name.lower() for name in protected)).done()
        except tarfile.TarError as error:
            raise ArchiveError(f"The archive is damaged: {error}") from error
        finally:
            files.close()


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
    """Applies one archive to one workspace."""

    def __init__(
        self,
        archive: tarfile.TarFile,
        found: Mapping[str, tarfile.TarInfo],
        files: WorkspaceFiles,
        packed: Packed,
        protected: frozenset[str],
    ) -> None:
        self._archive = archive
        self._found = found
        self._files = files
        self._packed = packed
        self._protected = protected
        self._result = DownloadResult()
        self._caches = {path.rpartition("/")[0] for path in found if path.endswith(f"/{CACHE_TAG}")}
        self._count = self._bytes = 0

    def done(self) -> DownloadResult:
        stage = STAGE + secrets.token_hex(4)
        with self._files.moving(stage, SUFFIX) as moving:
            waiting = [self._stage(moving, path, member) for path, member in self._found.items()]
            for number, path, mode, is_known in filter(None, waiting):
                moving.place(number, path, mode, is_known=is_known)
            for path in self._packed.files.keys() - self._found.keys():
                self._remove(moving, path)
            self._result.beside += [path.removesuffix(SUFFIX) for path in moving.kept]
            moving.is_whole = True
        return self._result

    def _stage(self, moving: Moving, path: str, member: tarfile.TarInfo) -> tuple[int, str, int, bool] | None:
        """Put a changed file into the staging folder. Returns its number, its target, its mode, and whether the target
        may be overwritten; None if it is not copied."""
        result, known = self._result, self._packed.files.get(path)
        if known is None and self._is_left_out(path):
            return None
        if (read := self._read(path, member)) is None:
            return None
        mode, content = read
        theirs = digest(mode, content)
        ours = theirs if theirs == known else self._ours(path)
        if ours == theirs:
            result.now[path] = theirs
            return None
        if mode == LINK:
            result.no_files.append(path)
            return None
        if self._is_refused(path):
            result.refused.append(path)
            return None
        is_known = ours == known
        if not is_known and self._ours(path + SUFFIX) == theirs:
            return None  # written by an earlier download
        self._count, self._bytes = self._count + 1, self._bytes + len(content)
        if self._bytes > MAX_TOTAL_BYTES:
            raise ArchiveError(f"It contains more than {MAX_TOTAL_BYTES >> 20} MB")
        moving.put(self._count, mode, content)
        if is_known:
            result.now[path] = theirs
            result.written.append(path)
            return self._count, path, mode, True
        result.beside.append(path)
        return self._count, path + SUFFIX, mode, False

    def _read(self, path: str, member: tarfile.TarInfo) -> tuple[int, bytes] | None:
        """Return the mode and the content of a file or link; None if it is not copied."""
        if member.issym():
            return LINK, os.fsencode(member.linkname)
        source: tarfile.TarInfo | None = member
        if member.islnk():  # a hard link to another entry
            source = self._found.get(member.linkname.partition("/")[2])
        if source is None or not source.isreg() or source.issparse():
            self._result.no_files.append(path)
            return None
        if source.size > MAX_FILE_BYTES:
            self._result.too_long.append(path)
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
        if self._ours(path) == self._packed.files[path] and not self._is_refused(path):
            moving.remove(path)
            self._result.removed.append(path)

    def _ours(self, path: str) -> str | None:
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
