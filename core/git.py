"""git, run on this machine for Handloom itself, never for an agent: for batches, and for a copy at a commit."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from core.errors import HandloomError

MAX_OUTPUT_BYTES = 1024 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
GIT_S = 3600.0
"""A large repository takes minutes to clone."""
_ALONE = {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
_OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
               "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT")  # fmt: skip
"""Variables that name another repository, as in a git hook."""
_HOSTILE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
"""For a repository that others made: its settings can name a command that fetches the objects it lacks."""
_LOOK_S = 10.0
"""A FIFO in a repository keeps git waiting."""
_SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.ext.allow=never")


class GitError(HandloomError):
    """git failed. The text says why, for the user."""


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

    Returns the first `most_bytes` that it prints; then it is ended. Raises GitError.
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
            raise GitError(f"git cannot be run: {error.strerror or error}.") from error
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
            raise GitError(f"git failed: {said[-1][:300] if said else f'status {process.returncode}'}")
        return output.decode("utf-8", "surrogateescape")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it has started: that may hold its output open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def clone_at(repository: Path, commit: str, folder: Path) -> None:
    """Clone a repository of this machine into a new folder, at a commit. Blocks. Raises GitError.

    `commit` is untrusted. The clone shares no file with the repository.
    """
    here = f"--git-dir={repository / '.git'}"
    asked = ("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}")
    found = run_git(here, *asked, environ=_HOSTILE, limit_s=_LOOK_S).strip()
    local = {**_HOSTILE, "GIT_ALLOW_PROTOCOL": "file"}
    run_git("clone", "--quiet", "--no-hardlinks", "--no-checkout", "--", str(repository), str(folder), environ=local)
    run_git("-C", str(folder), "checkout", "--quiet", "--detach", found, environ=_HOSTILE)


def has_commit(repository: Path, commit: str) -> bool:
    """Whether a folder is a repository that has a commit. `commit` is untrusted. Blocks."""
    if not commit or not (repository / ".git").is_dir():
        return False
    here = f"--git-dir={repository / '.git'}"
    try:
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
        run_git(here, *asked, environ=_HOSTILE, limit_s=_LOOK_S)
    except GitError:
        return False
    return True
