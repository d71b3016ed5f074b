"""Checkpoints: snapshots of a workspace, to inspect, restore and unpack elsewhere.

They are stored in one repository for each workspace (`shadow_git`), so conversations in the same folder share what they
have in common, and the first checkpoint of a new conversation costs no more than a later one. Each conversation has its
own refs, so that its checkpoints can be deleted separately.

Invariants: taking a checkpoint changes nothing in the workspace; the workspace's `.git` is neither stored nor written;
a restore brings back the exact bytes, links and executable bits; restoring loses nothing, because the workspace gets a
checkpoint first, and files in no checkpoint are never removed. Ignored files are left out, unless they were not always
ignored; empty folders are left out.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

from core.checkpoints.model import ChangeKind, Checkpoint, FileChange, Restored
from core.errors import CheckpointError
from runtime.cancellation import run_to_completion
from runtime.checkpoints.shadow_git import OURS, Entry, KeptCommit, ShadowGit, object_id
from runtime.workspace_files import LINK, UnreadableError, WorkspaceFiles

T = TypeVar("T")

FOLDER = "checkpoints"
"""In Handloom's home folder."""
MAX_FILE_BYTES = 50 * 1024 * 1024
"""Larger files are data sets and disk images, which users do not want copied at every turn."""
MAX_NEW_BYTES = 2 * 1024**3
MAX_NEW_FILES = 200_000
"""Limits for one checkpoint: a home folder or a disk is not a workspace."""
MAX_STORE_BYTES = 5 * 1024**3
TIDY_EVERY = 50
"""Checkpoints between two checks of the store's size."""
STAGE = f"{OURS}restoring-"
ASIDE = ".kept-by-handloom-"


def is_kept(home: Path, workspace: str) -> bool:
    """Return whether this workspace has any checkpoints, of any conversation. Blocks briefly."""
    store = _store_of(home, workspace)
    return store.exists() or _lock_of(store).exists()


def _store_of(home: Path, workspace: str) -> Path:
    """Return the folder of a workspace's checkpoints."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:32]
    return home / FOLDER / name


def _lock_of(store: Path) -> Path:
    """Return the lock file of a store. It is beside the store, which may be removed while locked."""
    return store.with_suffix(".lock")


class WorkspaceCheckpoints:
    """The checkpoints of one conversation in its workspace. Implements `core.protocols.Checkpoints`.

    Several objects, in several processes, may use one workspace: they wait for one another.
    """

    def __init__(self, home: Path, workspace: str, conversation_id: str) -> None:
        self._workspace = os.path.realpath(workspace)
        self._folder = _store_of(home, workspace)
        self._excluded = _relative_path(self._workspace, os.path.realpath(home))
        self._ref = f"refs/checkpoints/{conversation_id}"
        self._turn = asyncio.Lock()
        self._last: tuple[str, Checkpoint] | None = None
        """The newest checkpoint and its tree."""
        self._taken = 0

    # -- what others call --------------------------------------------------------------------------------------------

    async def take(self, label: str) -> Checkpoint:
        """Take a checkpoint, or return this conversation's last one if nothing has changed.

        Raises CheckpointError, which says what to do. Cancelling leaves the store unchanged.
        """
        return await self._in_thread(lambda git: self._take(git, label))

    async def changes(self, one: str, other: str) -> list[FileChange]:
        """Return how the files of two checkpoints differ. Raises CheckpointError."""

        def compare(git: ShadowGit) -> list[FileChange]:
            git.require(one)
            git.require(other)
            return git.changes(one, other)

        return await self._in_thread(compare)

    async def read(self, checkpoint: str, path: str, max_bytes: int) -> bytes | None:
        """Return a file's content in a checkpoint, or None if it is not there. Raises CheckpointError, also if it is
        too large.
        """

        def look(git: ShadowGit) -> bytes | None:
            git.require(checkpoint)
            entry = git.entries(checkpoint).get(path)
            if entry is None:
                return None
            with git.contents() as contents:
                return contents.read(entry.id, max_bytes)

        return await self._in_thread(look)

    async def amend(self, checkpoint: str, contents: Mapping[str, bytes | None], label: str) -> Checkpoint:
        """Make another checkpoint with these files replaced, or removed if the content is None.

        Executable bits are kept. The workspace is not touched. Raises CheckpointError.
        """
        return await self._in_thread(lambda git: self._amend(git, checkpoint, contents, label))

    async def restore(self, checkpoint: str, paths: Sequence[str] | None = None) -> Restored:
        """Restore the workspace, or only these paths, from a checkpoint.

        Only differing files are touched; files in no checkpoint stay. Raises CheckpointError; unless its text says
        otherwise, nothing has changed. Cancelling before the first file is moved into place changes nothing; later, the
        restore is completed.
        """
        return await self._in_thread(lambda git: self._restore(git, checkpoint, paths))

    async def unpack(self, checkpoint: str, folder: str) -> None:
        """Write all files of a checkpoint into another folder, which is empty or missing. Raises CheckpointError."""
        await self._in_thread(lambda git: self._unpack(git, checkpoint, folder))

    async def list(self) -> list[Checkpoint]:
        """Return this conversation's checkpoints, oldest first. Raises CheckpointError."""
        return await self._in_thread(lambda git: [_read(kept) for kept in git.kept(self._ref)])

    async def prune(self, max_bytes: int = MAX_STORE_BYTES) -> int:
        """Delete the workspace's oldest checkpoints, of all conversations, until the store is small enough; return how
        many.

        The newest always stays. Raises CheckpointError.
        """
        return await self._in_thread(lambda git: _prune(git, max_bytes))

    async def delete(self) -> None:
        """Delete this conversation's checkpoints; the store is removed with the workspace's last one.

        Raises CheckpointError.
        """

        def forget(git: ShadowGit) -> None:
            git.forget(kept.ref for kept in git.kept(self._ref))
            self._last = None
            if not git.kept("refs/checkpoints"):
                shutil.rmtree(self._folder)
                _lock_of(self._folder).unlink(missing_ok=True)  # last, so that a waiting process sees that it is gone
            else:
                git.tidy()

        await self._in_thread(forget)

    # -- taking ------------------------------------------------------------------------------------------------------

    def _take(self, git: ShadowGit, label: str) -> Checkpoint:
        with self._opened(self._workspace) as files:
            if paths := git.changed_paths(self._excluded):
                read = _Reading(files, paths)
                git.store(read)
                git.update_index(read.entries)
                git.refresh()
                skipped, changed, size = tuple(read.skipped), len(read.entries) - len(read.skipped), read.bytes
            else:
                skipped, changed, size = (), 0, 0
        tree = git.write_tree()
        if self._last is not None and self._last[0] == tree and self._last[1].skipped == skipped:
            return self._last[1]
        taken = Checkpoint("", label, git.files(), changed, size, skipped)
        taken = replace(taken, id=git.commit(tree, json.dumps(asdict(taken)), self._ref))
        self._last = (tree, taken)
        self._taken += 1
        if self._taken % TIDY_EVERY == 0:
            _prune(git, MAX_STORE_BYTES)
        return taken

    def _amend(self, git: ShadowGit, checkpoint: str, contents: Mapping[str, bytes | None], label: str) -> Checkpoint:
        git.require(checkpoint)
        files = git.entries(checkpoint)
        git.store(content for content in contents.values() if content is not None)
        entries = [
            (path, None if content is None else Entry(_mode(files.get(path)), object_id(content)))
            for path, content in contents.items()
        ]
        tree = git.amended_tree(checkpoint, entries)
        amended = Checkpoint("", label, len(files), len(entries), sum(len(c or b"") for c in contents.values()))
        return replace(amended, id=git.commit(tree, json.dumps(asdict(amended)), self._ref))

    # -- restoring ---------------------------------------------------------------------------------------------------

    def _restore(self, git: ShadowGit, checkpoint: str, paths: Sequence[str] | None) -> Restored:
        git.require(checkpoint)
        before = self._take(git, f"before restoring {checkpoint[:12]}")
        chosen = None if paths is None else set(paths)
        changes = [change for change in git.changes(before.id, checkpoint) if chosen is None or change.path in chosen]
        wanted = git.entries(checkpoint)
        then = next((_read(kept) for kept in git.kept("refs/checkpoints") if kept.id == checkpoint), before)
        left = {line.rpartition(": ")[0] for line in then.skipped}
        with self._opened(self._workspace) as files:
            kept = _write(git, files, changes, wanted, left)
        self._last = None
        return Restored(before, tuple(change for change in changes if change.path not in kept), tuple(kept))

    def _unpack(self, git: ShadowGit, checkpoint: str, folder: str) -> None:
        git.require(checkpoint)
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{folder} cannot be made: {error.strerror}. Choose another folder.") from error
        wanted = git.entries(checkpoint)
        changes = [FileChange(path, ChangeKind.CREATED, 0, 0, binary=False) for path in wanted]
        with self._opened(folder) as files:
            if not files.is_empty():
                raise CheckpointError(f"{folder} is not empty. Choose another folder.")
            _write(git, files, changes, wanted, set())

    # -- one at a time, in a thread ----------------------------------------------------------------------------------

    async def _in_thread(self, work: Callable[[ShadowGit], T]) -> T:
        """Run `work` in a thread. Cancelling ends git, waits for the thread, and is then raised."""
        stop = _Stop()
        async with self._turn:
            return await run_to_completion(asyncio.to_thread(self._locked, work, stop), stop.set)

    def _locked(self, work: Callable[[ShadowGit], T], stop: _Stop) -> T:
        try:
            lock = self._lock()
        except OSError as error:
            raise CheckpointError(f"{self._folder} cannot be created: {error.strerror}. Free disk space.") from error
        try:
            self._folder.mkdir(0o700, exist_ok=True)  # the previous holder of the lock may have removed it
            git = ShadowGit(self._folder, self._workspace, lock)
            stop.for_git(git)
            git.open()
            return work(git)
        except OSError as error:
            name = error.filename if isinstance(error.filename, str) else "the checkpoint"
            raise CheckpointError(
                f"{name}: {error.strerror or error}. Free disk space or correct its permissions."
            ) from error
        finally:
            os.close(lock)

    def _lock(self) -> int:
        """Lock the store; closing the descriptor unlocks it. Raises OSError."""
        path = _lock_of(self._folder)
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if _is_same_file(lock, path):
                    return lock
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)  # its previous holder removed it with the store, so it locks nothing

    @contextmanager
    def _opened(self, folder: str) -> Iterator[WorkspaceFiles]:
        with WorkspaceFiles(folder) as files:
            for stage in files.stages(STAGE):
                files.clear(stage)
            yield files


class _Stop:
    """Cancels the git of a piece of work, even if it starts later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._git: ShadowGit | None = None
        self._is_set = False

    def for_git(self, git: ShadowGit) -> None:
        """Set the git to cancel."""
        with self._lock:
            self._git = git
            if self._is_set:
                git.cancel()

    def set(self) -> None:
        """Cancel."""
        with self._lock:
            self._is_set = True
            if self._git is not None:
                self._git.cancel()


class _Reading:
    """Yields the contents of some paths, and collects their entries."""

    def __init__(self, files: WorkspaceFiles, paths: Sequence[str]) -> None:
        self._files = files
        self._paths = paths
        self.entries: list[tuple[str, Entry | None]] = []
        """None for a path that is gone or not stored."""
        self.skipped: list[str] = []
        self.bytes = 0
        sizes = sum(size for path in paths if (size := files.size(path)) <= MAX_FILE_BYTES)
        if len(paths) > MAX_NEW_FILES or sizes > MAX_NEW_BYTES:
            raise CheckpointError(
                f"The workspace is too large for checkpoints: {len(paths)} files with {sizes // 1024**2} MB to read. "
                "List large files in .gitignore, or work in a subfolder."
            )

    def __iter__(self) -> Iterator[bytes]:
        for path in self._paths:
            entry = None
            try:
                if (found := self._files.read(path, MAX_FILE_BYTES)) is not None:
                    mode, content = found
                    entry = Entry(mode, object_id(content))
                    self.bytes += len(content)
                    yield content
            except UnreadableError as error:
                self.skipped.append(f"{path}: {error}")
            self.entries.append((path, entry))


def _write(
    git: ShadowGit, files: WorkspaceFiles, changes: Iterable[FileChange], wanted: dict[str, Entry], left: set[str]
) -> list[str]:
    """Apply changes, all or none; return paths that should have been removed but were kept. `left` must not be
    removed.
    """
    token = secrets.token_hex(6)
    writes = [change for change in changes if change.kind is not ChangeKind.DELETED]
    removals = [change.path for change in changes if change.kind is ChangeKind.DELETED and change.path not in left]
    kept = left.intersection(change.path for change in changes if change.kind is ChangeKind.DELETED)
    with files.moving(STAGE + token, ASIDE + token) as moving:
        with git.contents() as contents:
            for number, change in enumerate(writes):
                moving.put(number, wanted[change.path].mode, contents.read(wanted[change.path].id))
            rules = {path: contents.read(entry.id) for path, entry in wanted.items() if _is_ignore_file(path, entry)}
        ignored = git.ignored(removals, rules) if rules else set()
        for path in removals:
            if path not in ignored:
                moving.remove(path)
        for number, change in enumerate(writes):
            moving.place(number, change.path, wanted[change.path].mode, is_known=change.kind is ChangeKind.CHANGED)
        moving.is_final = True
    return sorted({*kept, *ignored, *moving.renamed})


def _is_same_file(fd: int, path: Path) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _mode(entry: Entry | None) -> int:
    """Return the mode of a file with new content: links become files, executable bits stay."""
    return entry.mode if entry is not None and entry.mode != LINK else 0o100644


def _is_ignore_file(path: str, entry: Entry) -> bool:
    return path.rpartition("/")[2] == ".gitignore" and entry.mode != LINK


def _prune(git: ShadowGit, max_bytes: int) -> int:
    forgotten = 0
    if git.disk_bytes() <= max_bytes:
        return forgotten
    git.tidy()
    while git.disk_bytes() > max_bytes and len(all := git.kept("refs/checkpoints")) > 1:
        oldest = all[: (len(all) + 1) // 2]  # by halves, because each round repacks
        git.forget(kept.ref for kept in oldest)
        git.tidy()
        forgotten += len(oldest)
    return forgotten


def _read(kept: KeptCommit) -> Checkpoint:
    data = json.loads(kept.message)
    return Checkpoint(**{**data, "id": kept.id, "skipped": tuple(data["skipped"])})


def _relative_path(folder: str, inner: str) -> list[str]:
    """Return a list with the path of `inner` relative to `folder`, or an empty list if it is outside."""
    return [inner[len(folder) + 1 :]] if inner.startswith(folder.rstrip("/") + "/") else []
