"""The folder of an attempt: an empty one, a copy of another, or a clone of a repository.

A repository is mirrored once for a batch, and each attempt gets a clone of its own, so that attempts share no file. All
functions block, and raise BatchFolderError.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from core.batch.tasks import BatchTask
from core.errors import HandloomError, UsageError
from core.repository import Repository

MIRRORS = ".repositories"
MAX_OUTPUT_BYTES = 1024 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
PIECE_BYTES = 1024 * 1024
GIT_S = 3600.0
"""A large repository takes minutes to clone."""
_ALONE = {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
_OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
               "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT")  # fmt: skip
"""Variables that name another repository, as in a git hook."""
_SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.ext.allow=never")


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
    except BatchFolderError as error:
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


def run_git(
    *arguments: str,
    environ: Mapping[str, str] = MappingProxyType({}),
    cwd: Path = Path("/"),
    stdin: str = "",
    limit_s: float = GIT_S,
    most_bytes: int = MAX_OUTPUT_BYTES,
    statuses: Sequence[int] = (0,),
) -> str:
    """Run git where no repository has a say: from the root, so that the current folder's settings are not read.

    Returns the first `most_bytes` that it prints; then it is ended. Raises BatchFolderError.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(stdin.encode("utf-8", "surrogateescape"))
        given.seek(0)
        try:
            process = subprocess.Popen(
                ["git", *_SAFE, *arguments],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=cwd,
                env={**inherited, **_ALONE, **environ},
                start_new_session=True,  # so that what it has started is ended with it
            )
        except OSError as error:
            raise BatchFolderError(f"git cannot be run: {why(error)}.") from error
        timer = threading.Timer(limit_s, _kill, (process,))
        timer.start()
        try:
            with process:
                assert process.stdout is not None
                output = process.stdout.read(most_bytes)
                if len(output) >= most_bytes:
                    _kill(process)
        finally:
            timer.cancel()
        if process.returncode not in statuses and len(output) < most_bytes:
            errors.seek(0)
            said = errors.read(MAX_ERROR_BYTES).decode("utf-8", "replace").strip().splitlines()
            raise BatchFolderError(f"git failed: {said[-1][:300] if said else f'status {process.returncode}'}")
        return output.decode("utf-8", "surrogateescape")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it has started: that may hold its output open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


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
