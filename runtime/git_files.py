"""Which files a folder has that git would not ignore: asked of git, where no repository can have a say.

git is given a repository of our own, empty and without settings, and the folder as its work tree. So it reads the
ignore files of the folder, which are lists of patterns, and never the folder's own `.git`, whose settings could name
programs to run. What is tracked although it is ignored is therefore not among the files.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from pathlib import Path

from runtime.git_pipes import released

TIMEOUT_S = 4.0
"""A folder for which git takes longer is looked through in another way."""
MAX_BYTES = 32 * 1024 * 1024
"""Of names: some hundred thousand."""
MAX_REPOSITORIES = 100
"""Within one another, such as the one that was cloned into a workspace."""


def git_files(folder: Path) -> list[str] | None:
    """The paths of its files, relative to it; None where git cannot tell. Blocks."""
    with tempfile.TemporaryDirectory(prefix="handloom-git-") as ours:
        for name in ("objects", "refs"):
            Path(ours, name).mkdir()
        Path(ours, "HEAD").write_text("ref: refs/heads/none\n")
        names: list[str] = []
        waiting = [""]
        for _ in range(MAX_REPOSITORIES):
            if not waiting:
                break
            below = waiting.pop(0)
            if (told := _listed(ours, folder / below)) is not None:
                names += [below + name for name in told if not name.endswith("/")]
                waiting += [below + name for name in told if name.endswith("/")]
            elif not below:
                return None
    return names


def _listed(repository: str, folder: Path) -> list[str] | None:
    """Its files, and with a slash behind it each folder that is a repository of its own."""
    file = folder / ".git" / "info" / "exclude"  # the patterns that a repository keeps to itself
    excludes = [f"--exclude-from={file}"] if file.is_file() else []
    told = _git(repository, folder, "ls-files", "-z", "--others", "--exclude-standard", *excludes)
    return None if told is None else told.decode("utf-8", "surrogateescape").split("\0")[:-1]


def _git(repository: str, folder: Path, *arguments: str) -> bytes | None:
    """Run git with that repository and no other. None where it fails, or takes too long."""
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
                with released(str(folder)):
                    told = process.stdout.read(MAX_BYTES)
                process.stdout.close()
                return told if process.wait() == 0 or len(told) == MAX_BYTES else None
            finally:
                ending.cancel()
    except OSError:
        return None
