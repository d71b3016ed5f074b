"""The folder of an attempt: an empty one, a copy of another, or a clone of a repository.

A repository is mirrored once for a batch, and each attempt gets a clone of its own, so that attempts share no file. All
functions block, and raise BatchFolderError or GitError.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
from pathlib import Path

from core.batch.tasks import BatchTask
from core.errors import HandloomError, UsageError
from core.git import GitError, run_git
from core.repository import Repository

MIRRORS = ".repositories"
PIECE_BYTES = 1024 * 1024


class BatchFolderError(HandloomError):
    """The folder of an attempt cannot be made. The text says why, for the user."""


def prepare(task: BatchTask, folder: Path, batch: Path) -> str:
    """Make the folder in which the agent works, which must not exist yet. Returns the commit it begins at, or ""."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if task.repo:
            return _clone(task, folder, _mirror(task.repo, batch))
        if task.workspace:
            batch.mkdir(parents=True, exist_ok=True)
            _copy(Path(task.workspace), folder, batch)
        else:
            folder.mkdir()
    except OSError as error:
        raise BatchFolderError(f"The folder of task {task.id} cannot be made: {why(error)}.") from error
    return ""


def _clone(task: BatchTask, folder: Path, mirror: Path) -> str:
    wanted = task.commit or "HEAD"
    try:
        commit = run_git(f"--git-dir={mirror}", "rev-parse", "--verify", "--end-of-options", f"{wanted}^{{commit}}")
    except GitError as error:
        raise BatchFolderError(f"{task.repo} has no commit {wanted}. Correct it in the list of tasks.") from error
    run_git("clone", "--quiet", "--no-hardlinks", "--no-checkout", "--", str(mirror), str(folder))
    run_git("-C", str(folder), "remote", "set-url", "origin", "--", _address(task.repo))
    run_git("-C", str(folder), "checkout", "--quiet", "--detach", commit.strip())
    return commit.strip()


def _mirror(repo: str, batch: Path) -> Path:
    """The mirror of a repository, made by the first attempt that needs it."""
    mirror = mirror_folder(repo, batch)
    mirror.parent.mkdir(parents=True, exist_ok=True)
    with (mirror.parent / f"{mirror.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mirror.exists():
            half = mirror.with_name(f"{mirror.name}.half")
            shutil.rmtree(half, ignore_errors=True)
            run_git("clone", "--quiet", "--mirror", "--", _address(repo), str(half))
            half.rename(mirror)
    return mirror


def mirror_folder(repo: str, batch: Path) -> Path:
    """Where the mirror of a repository is."""
    return batch.absolute() / MIRRORS / f"{hashlib.sha256(repo.encode()).hexdigest()[:16]}.git"


def _address(repo: str) -> str:
    try:
        return Repository.parse(repo).url
    except UsageError as error:
        raise BatchFolderError(str(error)) from error


def why(error: Exception) -> str:
    """What went wrong, in a few words."""
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def _copy(source: Path, target: Path, without: Path) -> None:
    """Copy a folder, without special files and without the folder of the batch, if that is inside.

    Of each file only what its size says: there are files without an end. Raises OSError.
    """
    batch = without.stat()
    waiting = [(source, target)]
    while waiting:
        here, there = waiting.pop()
        there.mkdir()
        with os.scandir(here) as entries:
            for entry in entries:
                facts, copy = entry.stat(follow_symlinks=False), there / entry.name
                if stat.S_ISLNK(facts.st_mode):
                    copy.symlink_to(os.readlink(entry.path))
                elif stat.S_ISDIR(facts.st_mode):
                    if not os.path.samestat(facts, batch):
                        waiting.append((Path(entry.path), copy))
                elif stat.S_ISREG(facts.st_mode):
                    _copy_file(entry.path, copy, facts)
        there.chmod(stat.S_IMODE(here.stat().st_mode) | stat.S_IRWXU)


def _copy_file(source: str, target: Path, facts: os.stat_result) -> None:
    with open(source, "rb") as given, target.open("xb") as copy:
        left = facts.st_size
        while left > 0 and (piece := given.read(min(left, PIECE_BYTES))):
            copy.write(piece)
            left -= len(piece)
    target.chmod(stat.S_IMODE(facts.st_mode))
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))
