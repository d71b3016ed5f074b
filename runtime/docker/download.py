"""What comes back from an engine elsewhere: an archive that nobody vouches for, and a workspace whose user worked on.

Nothing of it is believed. Every name has to stay beneath the workspace, and two of one path are refused; devices, pipes
and new links do not come, and neither does what a program of the user's would carry out: protected paths, and of git's
own folder all but objects, references and what goes with them. Files are written from descriptor to descriptor, so that
no link that is put into the way leads elsewhere, and all or none.

Invariant: a file that the user changed since it went is never written over and never removed. What the sandbox made of
it is put beside it, with SUFFIX. What does not come is named. Blocks.
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
"""What an archive ends with."""
_NAMED = 20
"""Of one kind, one by one."""


class ArchiveError(Exception):
    """An archive that is not taken; the text says why. Nothing has been written then."""


@dataclass
class Brought:
    """What became of what the sandbox did, by paths beneath the workspace."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    """Kept twice: the user's as it was, the sandbox's with SUFFIX."""
    refused: list[str] = field(default_factory=list)
    """Which a program of the user's would carry out."""
    no_files: list[str] = field(default_factory=list)
    """New links, pipes and the like."""
    too_long: list[str] = field(default_factory=list)
    now: dict[str, str] = field(default_factory=dict)
    """What is the same here and there from here on."""

    @property
    def is_whole(self) -> bool:
        """Whether everything that should come has come."""
        return not (self.refused or self.no_files or self.too_long)

    def told(self) -> list[str]:
        """What the user should know, a line each."""
        kinds = (
            (self.beside, f"was changed here and in the sandbox; the sandbox's is beside it, with {SUFFIX}"),
            (self.refused, "did not come back from the sandbox, because programs of yours could carry it out"),
            (self.no_files, "did not come back from the sandbox, because it is a link, or no file"),
            (self.too_long, f"did not come back from the sandbox: it is longer than {MAX_FILE_BYTES >> 20} MB"),
        )
        lines = []
        for paths, what in kinds:
            lines += [f"{path}: {what}" for path in paths[:_NAMED]]
            if len(paths) > _NAMED:
                lines.append(f"{len(paths) - _NAMED} more: {what}")
        return lines


def bring(archive: Path, top: str, workspace: Path, packed: Packed, protected: Iterable[str]) -> Brought:
    """Take over what changed since `packed`. Raises ArchiveError, OSError; then the workspace is as it was."""
    with tarfile.open(archive, encoding="utf-8", errors="surrogateescape") as opened:
        try:
            found = _members(opened, top)
        except tarfile.TarError as error:
            raise ArchiveError(f"The archive is damaged: {error}") from error
        files = WorkspaceFiles(str(workspace))
        try:
            return _Bringing(opened, found, files, packed, frozenset(name.lower() for name in protected)).done()
        except tarfile.TarError as error:
            raise ArchiveError(f"The archive is damaged: {error}") from error
        finally:
            files.close()


def _members(archive: tarfile.TarFile, top: str) -> dict[str, tarfile.TarInfo]:
    """Everything but folders, by its path beneath the workspace. Raises ArchiveError, TarError."""
    found: dict[str, tarfile.TarInfo] = {}
    for member in archive:
        name = member.name.rstrip("/")
        parts = name.split("/")
        if parts[0] != top or name.startswith("/") or not {"", ".", ".."}.isdisjoint(parts) or "\0" in name:
            raise ArchiveError(f"{name[:200]!r} does not stay beneath the workspace")
        path = "/".join(parts[1:])
        if member.isdir():
            continue
        if not path or path in found:
            raise ArchiveError(f"{path[:200]!r} stands there twice, or in the place of the workspace")
        found[path] = member
        if len(found) > MAX_FILES:
            raise ArchiveError(f"It holds more than {MAX_FILES} files")
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(len(_END)) != _END:  # or what did not come would look as if it had been removed
        raise ArchiveError("It is damaged: it breaks off")
    return found


class _Bringing:
    """One archive on its way into one workspace."""

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
        self._brought = Brought()
        self._caches = {path.rpartition("/")[0] for path in found if path.endswith(f"/{CACHE_TAG}")}
        self._count = self._bytes = 0

    def done(self) -> Brought:
        stage = STAGE + secrets.token_hex(4)
        with self._files.moving(stage, SUFFIX) as moving:
            waiting = [self._waits(moving, path, member) for path, member in self._found.items()]
            for number, path, mode, is_known in filter(None, waiting):
                moving.place(number, path, mode, is_known=is_known)
            for path in self._packed.files.keys() - self._found.keys():
                self._remove(moving, path)
            self._brought.beside += [path.removesuffix(SUFFIX) for path in moving.kept]
            moving.is_whole = True
        return self._brought

    def _waits(self, moving: Moving, path: str, member: tarfile.TarInfo) -> tuple[int, str, int, bool] | None:
        """Read one file and let it wait, where it has to come: its number, its place, its mode, and whether what is
        there may go."""
        brought, known = self._brought, self._packed.files.get(path)
        if known is None and self._is_left_out(path):
            return None
        if (read := self._read(path, member)) is None:
            return None
        mode, content = read
        theirs = digest(mode, content)
        ours = theirs if theirs == known else self._ours(path)
        if ours == theirs:
            brought.now[path] = theirs
            return None
        if mode == LINK:
            brought.no_files.append(path)
            return None
        if self._is_refused(path):
            brought.refused.append(path)
            return None
        is_known = ours == known
        if not is_known and self._ours(path + SUFFIX) == theirs:
            return None  # it stands there since the last time
        self._count, self._bytes = self._count + 1, self._bytes + len(content)
        if self._bytes > MAX_TOTAL_BYTES:
            raise ArchiveError(f"It holds more than {MAX_TOTAL_BYTES >> 20} MB")
        moving.put(self._count, mode, content)
        if is_known:
            brought.now[path] = theirs
            brought.written.append(path)
            return self._count, path, mode, True
        brought.beside.append(path)
        return self._count, path + SUFFIX, mode, False

    def _read(self, path: str, member: tarfile.TarInfo) -> tuple[int, bytes] | None:
        """The mode and the content of a file or link; None for what does not come."""
        if member.issym():
            return LINK, os.fsencode(member.linkname)
        source: tarfile.TarInfo | None = member
        if member.islnk():  # another name of a file that stands there, too
            source = self._found.get(member.linkname.partition("/")[2])
        if source is None or not source.isreg() or source.issparse():
            self._brought.no_files.append(path)
            return None
        if source.size > MAX_FILE_BYTES:
            self._brought.too_long.append(path)
            return None
        opened = self._archive.extractfile(source)
        assert opened is not None, "it is a file"
        with opened:
            content = opened.read()
        if len(content) != source.size:
            raise ArchiveError("It is damaged: it breaks off")
        return (PROGRAM if source.mode & 0o100 else FILE), content

    def _is_left_out(self, path: str) -> bool:
        """Whether it lies in a folder that would not have been packed."""
        above = path.split("/")[:-1]
        return not CACHES.isdisjoint(above) or any(
            "/".join(above[:n]) in self._caches for n in range(1, len(above) + 1)
        )

    def _remove(self, moving: Moving, path: str) -> None:
        """What the sandbox removed goes here, too, unless the user has changed it."""
        if self._ours(path) == self._packed.files[path] and not self._is_refused(path):
            moving.remove(path)
            self._brought.removed.append(path)

    def _ours(self, path: str) -> str | None:
        """The digest of what is in the workspace; None where nothing is."""
        try:
            read = self._files.read(path, MAX_FILE_BYTES)
        except UnreadableError:
            return "unreadable"
        return None if read is None else digest(*read)

    def _is_refused(self, path: str) -> bool:
        """Whether a program of the user's would carry out what is there."""
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
