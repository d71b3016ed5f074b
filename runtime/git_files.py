"""Lists the files of a folder that git does not ignore, without letting a repository run anything.

git gets an empty repository without settings, and the folder as its work tree. So it reads the folder's ignore files,
which only have patterns, and never the folder's own `.git`, whose settings could name programs. Ignored files that are
tracked are therefore not listed.

git opens every `.gitignore` and `.gitattributes` that it finds, and would wait for ever at a FIFO of that name. While
git runs, `unblock_pipes` opens each FIFO briefly for writing, so that git reads an empty file and continues. Folders
are searched for FIFOs only if git takes longer than usual. Links are not followed.
"""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FIRST_PAUSE_S = 0.2
"""git lists most workspaces in less."""
PAUSE_S = 0.005
"""Between two attempts to open known FIFOs."""
SEARCH_EVERY_S = 2.0
"""Searching 100,000 files takes a quarter of a second."""
_NAMES = (".gitignore", ".gitattributes")
_WRITE = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def unblock_pipes(folder: str) -> Iterator[None]:
    """While this context is open, FIFOs below the folder do not block a git that reads its patterns."""
    is_done = threading.Event()
    thread = threading.Thread(target=_release, args=(folder, is_done), name="git-pipes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def _release(folder: str, is_done: threading.Event) -> None:
    pause_s = FIRST_PAUSE_S
    while not is_done.wait(pause_s):
        pipes = []
        for pipe in _pipes(folder, is_done):
            pipes.append(pipe)
            _open_briefly(pipe)
        attempts = int(SEARCH_EVERY_S / PAUSE_S) if pipes else 0
        for _ in range(attempts):  # git opens the same file several times, then the next one
            for pipe in pipes:
                _open_briefly(pipe)
            if is_done.wait(PAUSE_S):
                return
        pause_s = PAUSE_S if pipes else SEARCH_EVERY_S


def _pipes(folder: str, is_done: threading.Event) -> Iterator[str]:
    """Yield FIFOs with such a name. Ends early when git has ended."""
    queue = [folder]
    while queue and not is_done.is_set():
        above = queue.pop()
        try:
            with os.scandir(above) as entries:
                for entry in entries:
                    if entry.name in _NAMES and stat.S_ISFIFO(entry.stat(follow_symlinks=False).st_mode):
                        yield entry.path
                    elif entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                        queue.append(entry.path)
        except OSError:
            continue


def _open_briefly(pipe: str) -> None:
    """Unblock a process that waits for a writer, if there is one."""
    try:
        opened = os.open(pipe, _WRITE)
    except OSError:
        return
    os.close(opened)


TIMEOUT_S = 4.0
"""A folder for which git takes longer is listed in another way."""
MAX_BYTES = 32 * 1024 * 1024
"""Limit for names: some hundred thousand files."""
MAX_REPOSITORIES = 100
"""Limit for nested repositories, such as one cloned into a workspace."""


def git_files(folder: Path) -> list[str] | None:
    """Return the paths of a folder's files, relative to it; None if git cannot list them. Blocks."""
    with tempfile.TemporaryDirectory(prefix="handloom-git-") as repository:
        for name in ("objects", "refs"):
            Path(repository, name).mkdir()
        Path(repository, "HEAD").write_text("ref: refs/heads/none\n")
        names: list[str] = []
        queue = [""]
        for _ in range(MAX_REPOSITORIES):
            if not queue:
                break
            below = queue.pop(0)
            if (output := _listed(repository, folder / below)) is not None:
                names += [below + name for name in output if not name.endswith("/")]
                queue += [below + name for name in output if name.endswith("/")]
            elif not below:
                return None
    return names


def _listed(repository: str, folder: Path) -> list[str] | None:
    """Return files, and nested repositories with a trailing slash."""
    file = folder / ".git" / "info" / "exclude"  # the repository's private patterns
    excludes = [f"--exclude-from={file}"] if file.is_file() else []
    output = _git(repository, folder, "ls-files", "-z", "--others", "--exclude-standard", *excludes)
    return None if output is None else output.decode("utf-8", "surrogateescape").split("\0")[:-1]


def _git(repository: str, folder: Path, *arguments: str) -> bytes | None:
    """Run git with this repository. Returns None if it fails or takes too long."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0"}
    try:
        with subprocess.Popen(
            ["git", f"--git-dir={repository}", f"--work-tree={folder}", *arguments],
            cwd=repository,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            ending = threading.Timer(TIMEOUT_S, process.kill)
            ending.start()
            try:
                assert process.stdout is not None
                with unblock_pipes(str(folder)):
                    output = process.stdout.read(MAX_BYTES)
                process.stdout.close()
                return output if process.wait() == 0 or len(output) == MAX_BYTES else None
            finally:
                ending.cancel()
    except OSError:
        return None
