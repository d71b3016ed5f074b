"""Checkpoints: a workspace as it was at moments of its conversations, to look at, restore and unpack elsewhere.

Kept in a repository of our own (`shadow_git`), one for each workspace: what conversations in the same folder have in
common is kept once, and the first checkpoint of a new conversation costs no more than a later one. What a conversation
took is held by names of its own, so that it can be forgotten alone.

Invariants: taking changes nothing in the workspace; the workspace's `.git` is neither kept nor written; what is
restored is what was there, byte for byte, with links and the right to be run; nothing is lost by restoring, because the
workspace as it is gets a checkpoint first, and what is in none is never removed. Ignored files are in none, unless they
were not always ignored; empty folders are in none.
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
from runtime.cancellation import seen_through
from runtime.checkpoints.shadow_git import OURS, Entry, Kept, ShadowGit, object_id
from runtime.workspace_files import LINK, UnreadableError, WorkspaceFiles

T = TypeVar("T")

FOLDER = "checkpoints"
"""In the home of Handloom."""
MAX_FILE_BYTES = 50 * 1024 * 1024
"""Larger files are data sets and disk images, of which a copy at every turn is not what a user wants."""
MAX_NEW_BYTES = 2 * 1024**3
MAX_NEW_FILES = 200_000
"""What one checkpoint may have to read: a home folder or a disk is not a workspace."""
MAX_STORE_BYTES = 5 * 1024**3
TIDY_EVERY = 50
"""Checkpoints between two looks at what the store takes."""
STAGE = f"{OURS}restoring-"
ASIDE = ".kept-by-handloom-"


def is_kept(home: Path, workspace: str) -> bool:
    """Whether there is anything of checkpoints of this workspace, of any conversation. Blocks for a moment."""
    store = _store_of(home, workspace)
    return store.exists() or _lock_of(store).exists()


def _store_of(home: Path, workspace: str) -> Path:
    """The folder of a workspace's checkpoints."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:32]
    return home / FOLDER / name


def _lock_of(store: Path) -> Path:
    """The lock of whoever uses the store, beside it: the store itself comes and goes under it."""
    return store.with_suffix(".lock")


class WorkspaceCheckpoints:
    """The checkpoints of one conversation in its workspace. Implements `core.protocols.Checkpoints`.

    Any number of them, in any number of processes, may be used for one workspace: they wait for one another.
    """

    def __init__(self, home: Path, workspace: str, conversation_id: str) -> None:
        self._workspace = os.path.realpath(workspace)
        self._folder = _store_of(home, workspace)
        self._excluded = _below(self._workspace, os.path.realpath(home))
        self._ref = f"refs/checkpoints/{conversation_id}"
        self._turn = asyncio.Lock()
        self._last: tuple[str, Checkpoint] | None = None
        """The tree of the newest one, and itself."""
        self._taken = 0

    # -- what others call --------------------------------------------------------------------------------------------

    async def take(self, label: str) -> Checkpoint:
        """The workspace as it is. Where nothing has changed since this conversation's last one, that one.

        Raises CheckpointError with what to do. Cancelling leaves the store as it was.
        """
        return await self._apart(lambda git: self._take(git, label))

    async def changes(self, one: str, other: str) -> list[FileChange]:
        """How the files of two checkpoints differ, from the first to the second. Raises CheckpointError."""

        def compare(git: ShadowGit) -> list[FileChange]:
            git.require(one)
            git.require(other)
            return git.changes(one, other)

        return await self._apart(compare)

    async def read(self, checkpoint: str, path: str, max_bytes: int) -> bytes | None:
        """The content of a file then; None where it was not there. Raises CheckpointError, also for a larger one."""

        def look(git: ShadowGit) -> bytes | None:
            git.require(checkpoint)
            entry = git.entries(checkpoint).get(path)
            if entry is None:
                return None
            with git.contents() as contents:
                return contents.read(entry.id, max_bytes)

        return await self._apart(look)

    async def amend(self, checkpoint: str, contents: Mapping[str, bytes | None], label: str) -> Checkpoint:
        """Another checkpoint, of the same files but for these, which have these contents or are not there.

        A file keeps its right to be run. The workspace is not touched. Raises CheckpointError.
        """
        return await self._apart(lambda git: self._amend(git, checkpoint, contents, label))

    async def restore(self, checkpoint: str, paths: Sequence[str] | None = None) -> Restored:
        """Have the workspace, or only these paths of it, be as it was then.

        Only what differs is touched; what no checkpoint has stays. Raises CheckpointError, and then, unless its text
        says otherwise, nothing has changed. Cancelling before the first file is in its place leaves nothing; later, the
        rest is seen through.
        """
        return await self._apart(lambda git: self._restore(git, checkpoint, paths))

    async def unpack(self, checkpoint: str, folder: str) -> None:
        """Write all files of a checkpoint into another folder, which is empty or not there. Raises CheckpointError."""
        await self._apart(lambda git: self._unpack(git, checkpoint, folder))

    async def list(self) -> list[Checkpoint]:
        """Those of this conversation, the oldest first. Raises CheckpointError."""
        return await self._apart(lambda git: [_read(kept) for kept in git.kept(self._ref)])

    async def prune(self, max_bytes: int = MAX_STORE_BYTES) -> int:
        """Forget the oldest of the workspace, of all conversations, until the store takes no more; says how many.

        The newest ones stay in any case. Raises CheckpointError.
        """
        return await self._apart(lambda git: _prune(git, max_bytes))

    async def delete(self) -> None:
        """Forget all of this conversation; the store goes with the last one of its workspace.

        Raises CheckpointError.
        """

        def forget(git: ShadowGit) -> None:
            git.forget(kept.ref for kept in git.kept(self._ref))
            self._last = None
            if not git.kept("refs/checkpoints"):
                shutil.rmtree(self._folder)
                _lock_of(self._folder).unlink(missing_ok=True)  # last: who waits for it sees that it went
            else:
                git.tidy()

        await self._apart(forget)

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

    async def _apart(self, work: Callable[[ShadowGit], T]) -> T:
        """Do it in a thread. Cancelling ends git, waits for the thread, and is raised then."""
        stop = _Stop()
        async with self._turn:
            return await seen_through(asyncio.to_thread(self._locked, work, stop), stop.set)

    def _locked(self, work: Callable[[ShadowGit], T], stop: _Stop) -> T:
        try:
            lock = self._lock()
        except OSError as error:
            raise CheckpointError(f"{self._folder} cannot be made: {error.strerror}. Free room for it.") from error
        try:
            self._folder.mkdir(0o700, exist_ok=True)  # whoever had the lock may have removed it
            git = ShadowGit(self._folder, self._workspace, lock)
            stop.for_git(git)
            git.open()
            return work(git)
        except OSError as error:
            name = error.filename if isinstance(error.filename, str) else "the checkpoint"
            raise CheckpointError(f"{name}: {error.strerror or error}. Make room or give the right to it.") from error
        finally:
            os.close(lock)

    def _lock(self) -> int:
        """The lock of the store, held; closing it gives it back. Raises OSError."""
        path = _lock_of(self._folder)
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if _is_at(lock, path):
                    return lock
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)  # whoever had it has removed it with the store, and it holds nobody back any more

    @contextmanager
    def _opened(self, folder: str) -> Iterator[WorkspaceFiles]:
        files = WorkspaceFiles(folder)
        try:
            for stage in files.stages(STAGE):
                files.clear(stage)
            yield files
        finally:
            files.close()


class _Stop:
    """Ends the git of a piece of work, also where that begins only afterwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._git: ShadowGit | None = None
        self._is_set = False

    def for_git(self, git: ShadowGit) -> None:
        """This is the one to end."""
        with self._lock:
            self._git = git
            if self._is_set:
                git.cancel()

    def set(self) -> None:
        """End it."""
        with self._lock:
            self._is_set = True
            if self._git is not None:
                self._git.cancel()


class _Reading:
    """The contents at some paths, one after another; what was found out about each is in `entries` afterwards."""

    def __init__(self, files: WorkspaceFiles, paths: Sequence[str]) -> None:
        self._files = files
        self._paths = paths
        self.entries: list[tuple[str, Entry | None]] = []
        """None for what is there no more, or is not kept."""
        self.skipped: list[str] = []
        self.bytes = 0
        sizes = sum(size for path in paths if (size := files.size(path)) <= MAX_FILE_BYTES)
        if len(paths) > MAX_NEW_FILES or sizes > MAX_NEW_BYTES:
            raise CheckpointError(
                f"The workspace is too large for checkpoints: {len(paths)} files with {sizes // 1024**2} MB to read. "
                "Name what need not be kept in a .gitignore file, or work in a folder further down."
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
    """Carry out changes, all or none; says what was kept of what should have gone. `left` may not be removed."""
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
        moving.is_whole = True
    return sorted({*kept, *ignored, *moving.kept})


def _is_at(fd: int, path: Path) -> bool:
    """Whether an open file is the one that stands at a path now."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _mode(entry: Entry | None) -> int:
    """Of a file that gets another content: links become files, and what may be run stays so."""
    return entry.mode if entry is not None and entry.mode != LINK else 0o100644


def _is_ignore_file(path: str, entry: Entry) -> bool:
    return path.rpartition("/")[2] == ".gitignore" and entry.mode != LINK


def _prune(git: ShadowGit, max_bytes: int) -> int:
    forgotten = 0
    if git.disk_bytes() <= max_bytes:
        return forgotten
    git.tidy()
    while git.disk_bytes() > max_bytes and len(all := git.kept("refs/checkpoints")) > 1:
        oldest = all[: (len(all) + 1) // 2]  # by halves: each look costs a new pack
        git.forget(kept.ref for kept in oldest)
        git.tidy()
        forgotten += len(oldest)
    return forgotten


def _read(kept: Kept) -> Checkpoint:
    told = json.loads(kept.message)
    return Checkpoint(**{**told, "id": kept.id, "skipped": tuple(told["skipped"])})


def _below(folder: str, inner: str) -> list[str]:
    """The path of a folder in another one, as a list, which is empty where it is not in it."""
    return [inner[len(folder) + 1 :]] if inner.startswith(folder.rstrip("/") + "/") else []
