"""Who commits: the user's name and address, for a sandbox in which the user's own git settings are hidden.

Only these two are taken over, as settings of the whole machine, so that a repository's own still win. The rest of the
user's settings may hold secrets, and names of programs that a sandbox does not have.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

TIMEOUT_S = 5.0
_WANTED = r"^user\.(name|email)$"


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
    """Run git where no repository can have a say. Raises OSError, SubprocessError."""
    done = subprocess.run(
        ["git", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd="/",
        stdin=subprocess.DEVNULL,
    )
    return done.stdout
