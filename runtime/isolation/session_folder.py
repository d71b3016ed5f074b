"""The folder on this machine that belongs to one local runtime, and the removal of those that killed ones left.

    lock            locked by our process for as long as it uses the folder
    s               the server's socket; the server gets it as a descriptor, and nothing in the sandbox sees its path
    log             what the server wrote on standard error
    placeholders    what was made in the workspace's `.git` to be mounted on
    inside/         what the sandbox sees: its key, its way out, its private files

All of them lie in one folder of ours, with mode 0700. Nothing that belongs to another user is looked into or connected
to. All calls block for milliseconds.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from runtime.isolation import protected_paths

ABANDONED_S = 60.0
"""A folder without a lock is being made, or its maker was killed this long ago."""
SOCKET = "s"
SOCKET_PATH_BYTES = 100
"""macOS takes 104 for the path of a socket, Linux 108."""
_NAME_BYTES = 16
"""A folder's name, the socket's, and what stands between."""


def base() -> Path:
    """The folder for those of all our runtimes, made where it is missing. Raises OSError."""
    name = f"handloom-{os.geteuid()}"
    above = [Path(tempfile.gettempdir()), Path("/tmp")]  # noqa: S108  # used only where it is ours alone
    if runtime_dir := os.environ.get("XDG_RUNTIME_DIR"):
        above.append(Path(runtime_dir))
    for folder in above:
        if len(os.fsencode(folder / name)) + _NAME_BYTES > SOCKET_PATH_BYTES:
            continue
        with suppress(OSError):
            (folder / name).mkdir(mode=0o700, exist_ok=True)
            if _is_ours(folder / name):
                return folder / name
    return Path(tempfile.mkdtemp(prefix="handloom-", dir="/tmp"))


def _is_ours(folder: Path) -> bool:
    """Whether it is a folder that only we can use. Raises OSError."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


class SessionFolder:
    """A new folder of one runtime, locked until `remove`. Raises OSError."""

    def __init__(self) -> None:
        parent = base()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix="", dir=parent))  # which makes it private
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            with suppress(OSError):  # somebody took it for an abandoned one
                self.inside.mkdir(mode=0o700)
                if (self.path / "lock").stat().st_ino == os.fstat(self._lock).st_ino:
                    return
            os.close(self._lock)

    @property
    def inside(self) -> Path:
        """What the sandbox sees."""
        return self.path / "inside"

    @property
    def socket(self) -> Path:
        return self.path / SOCKET

    @property
    def log(self) -> Path:
        return self.path / "log"

    def note(self, placeholders: Iterable[Path]) -> None:
        """Remember what is to be removed from the workspace should we be killed. Raises OSError."""
        (self.path / "placeholders").write_text(json.dumps([str(path) for path in placeholders]), "utf-8")

    def remove(self) -> None:
        """Remove the folder. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_abandoned() -> None:
    """Remove what killed runtimes left: their folders, and their placeholders in workspaces."""
    with suppress(OSError):
        for folder in base().iterdir():
            with suppress(OSError):
                _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    """Raises OSError, BlockingIOError for one that is in use."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        if time.time() - folder.lstat().st_mtime > ABANDONED_S:
            shutil.rmtree(folder, ignore_errors=True)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(OSError, ValueError, TypeError):
            protected_paths.remove_left(map(Path, json.loads((folder / "placeholders").read_bytes())))
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
