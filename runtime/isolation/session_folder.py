"""The folder on the host that belongs to one local runtime, and the removal of folders of killed ones.

    lock            locked by our process while it uses the folder
    s               the server's socket; the server inherits its descriptor, and the sandbox cannot see its path
    log             the server's standard error
    placeholders    mount points that were made in the workspace's `.git`
    inside/         what the sandbox sees: its key, the proxy's socket, its private files

All of these folders are in one folder with mode 0700. Nothing that belongs to another user is opened. All calls block
for milliseconds.
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
"""A folder without a lock is being made, or its process was killed at least this long ago."""
SOCKET = "s"
SOCKET_PATH_BYTES = 100
"""macOS allows 104 bytes for the path of a socket, Linux 108."""
_NAME_BYTES = 16
"""The name of a session's folder, the socket's, and separators."""


def base() -> Path:
    """Return the parent folder of all session folders, made if missing. Raises OSError."""
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
    """Return whether only we can use a folder. Raises OSError."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


class SessionFolder:
    """A new folder of one runtime, locked until `remove`. Raises OSError."""

    def __init__(self) -> None:
        parent = base()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix="", dir=parent))  # with mode 0700
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            with suppress(OSError):  # it was removed as abandoned
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
        """Record the mount points to remove from the workspace if we are killed. Raises OSError."""
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
    """Remove a folder. Raises OSError, BlockingIOError if it is in use."""
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
