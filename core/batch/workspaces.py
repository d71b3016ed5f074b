"""The folder of an attempt, and the patch that the attempt made.

A repository is mirrored once for a batch, and each attempt gets a clone of its own, so that attempts share no file. The
patch is made with a git folder that no attempt can write: the settings and hooks in the attempt's own could run any
program on this machine. All functions block, and raise BatchFolderError.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from core.batch.tasks import BatchTask
from core.errors import HandloomError, UsageError
from core.repository import Repository

MIRRORS = ".repositories"
MAX_PATCH_BYTES = 64 * 1024 * 1024
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
            shutil.copytree(task.workspace, folder, symlinks=True)
        else:
            folder.mkdir()
    except (OSError, shutil.Error) as error:
        raise BatchFolderError(f"The folder of task {task.id} cannot be made: {_why(error)}.") from error
    return ""


def patch(task: BatchTask, folder: Path, batch: Path, commit: str) -> str:
    """Every difference of an attempt's files from the commit that it began at, new files included; "" without one."""
    if not commit:
        return ""
    mirror = _mirror_folder(task.repo, batch)
    scratch = folder.parent / ".patch"
    shutil.rmtree(scratch, ignore_errors=True)
    environ = {**_ALONE, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    try:
        _git("init", "--quiet", "--bare", str(scratch), environ=environ)
        (scratch / "objects" / "info" / "alternates").write_text(f"{mirror / 'objects'}\n", "utf-8")
        here = (f"--git-dir={scratch}", f"--work-tree={folder}")
        _git(*here, "read-tree", commit, environ=environ)
        _git(*here, "add", "--all", environ=environ, cwd=folder)
        return _git(
            *(*here, "diff", "--cached", "--binary", "--no-color", "--no-ext-diff", "--no-textconv"),
            *("--ignore-submodules=all", commit),
            environ=environ,
        )
    except OSError as error:
        raise BatchFolderError(f"The patch of task {task.id} cannot be made: {_why(error)}.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _clone(task: BatchTask, folder: Path, mirror: Path) -> str:
    wanted = task.commit or "HEAD"
    try:
        commit = _git(f"--git-dir={mirror}", "rev-parse", "--verify", "--end-of-options", f"{wanted}^{{commit}}")
    except BatchFolderError as error:
        raise BatchFolderError(f"{task.repo} has no commit {wanted}. Correct it in the list of tasks.") from error
    _git("clone", "--quiet", "--no-hardlinks", "--no-checkout", "--", str(mirror), str(folder))
    _git("-C", str(folder), "remote", "set-url", "origin", "--", _address(task.repo))
    _git("-C", str(folder), "checkout", "--quiet", "--detach", commit.strip())
    return commit.strip()


def _mirror(repo: str, batch: Path) -> Path:
    """The mirror of a repository, made by the first attempt that needs it."""
    mirror = _mirror_folder(repo, batch)
    mirror.parent.mkdir(parents=True, exist_ok=True)
    with (mirror.parent / f"{mirror.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mirror.exists():
            half = mirror.with_name(f"{mirror.name}.half")
            shutil.rmtree(half, ignore_errors=True)
            _git("clone", "--quiet", "--mirror", "--", _address(repo), str(half))
            half.rename(mirror)
    return mirror


def _mirror_folder(repo: str, batch: Path) -> Path:
    return batch.absolute() / MIRRORS / f"{hashlib.sha256(repo.encode()).hexdigest()[:16]}.git"


def _address(repo: str) -> str:
    try:
        return Repository.parse(repo).url
    except UsageError as error:
        raise BatchFolderError(str(error)) from error


def _git(*arguments: str, environ: Mapping[str, str] = _ALONE, cwd: Path = Path("/")) -> str:
    """Run git where no repository has a say: from the root, so that the current folder's settings are not read."""
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
    try:
        done = subprocess.run(
            ["git", *_SAFE, *arguments],
            capture_output=True,
            timeout=GIT_S,
            cwd=cwd,
            env={**inherited, **environ},
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BatchFolderError(f"git cannot be run: {_why(error)}.") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise BatchFolderError(f"git failed: {said[-1][:300] if said else f'status {done.returncode}'}")
    if len(done.stdout) > MAX_PATCH_BYTES:
        raise BatchFolderError(f"The patch is larger than {MAX_PATCH_BYTES // 1024**2} MB.")
    return done.stdout.decode("utf-8", "surrogateescape")


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
