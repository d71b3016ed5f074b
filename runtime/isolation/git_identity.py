"""Who commits: the user's name and address, for a sandbox in which the user's own git settings are hidden.

Only these two are taken over, as settings of the whole machine, so that a repository's own still win. The rest of the
user's settings may hold secrets, and names of programs that a sandbox does not have.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TIMEOUT_S = 5.0
_WANTED = r"^user\.(name|email)$"
_OF_A_REPOSITORY = frozenset({"GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_CONFIG", "GIT_INDEX_FILE"})
"""Set where Handloom is started by a hook of a repository."""


def settings_for(folder: Path) -> dict[str, str]:
    """The environment that names them to git, in a file in `folder`; empty where there is no git, or nobody. Blocks."""
    file = folder / "gitconfig"
    try:
        told = _git("config", "--global", "--null", "--get-regexp", _WANTED)
        for entry in filter(None, told.split("\0")):
            name, _, value = entry.partition("\n")
            _git("config", "--file", str(file), name, value)
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"GIT_CONFIG_GLOBAL": str(file)}


def _git(*arguments: str) -> str:
    """Run git where no repository can have a say, by its place or by a variable. Raises OSError, SubprocessError."""
    environ = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    done = subprocess.run(
        ["git", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd="/",
        stdin=subprocess.DEVNULL,
        env=environ,
    )
    return done.stdout
