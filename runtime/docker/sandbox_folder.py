"""SandboxFolder: the files of one sandbox on the host: its key, its sockets, and a lock.

    lock            held by the process whose conversation uses the sandbox; the kernel releases it when that ends
    socket          identifies the socket that the server created; not visible in the container
    key             for the next process that reattaches to the container; not visible in the container
    passwd, group   the users in the container
    inside/         mounted in the container as /run/handloom: the socket, and state that outlives the container
    carried.json    the record of an upload to a remote engine
    coming.tar      a download from there that was not applied completely

Invariant: only the process that holds the lock changes the container. All calls block for milliseconds.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
import sys
from contextlib import suppress
from pathlib import Path

from runtime.docker.container_spec import HOME, KEY, SOCKET, STATE
from runtime.isolation import git_config

SUFFIX = ".docker"
SPARE = "spare-"
SOCKET_ID = "socket"
"""The file that identifies the server's socket."""
SOCKET_PATH_BYTES = 100
"""macOS takes 104 for the path of a socket, Linux 108."""


class LockedError(Exception):
    """Another process is using this sandbox."""


class SandboxFolder:
    """The folder of the sandbox `token` in `parent`, created when it is first locked."""

    def __init__(self, parent: Path, token: str) -> None:
        self.token = token
        self.path = parent / f"{token}{SUFFIX}"
        self._lock_fd: int | None = None
        self._inside_fd: int | None = None
        self._socket_fd: int | None = None

    @property
    def inside(self) -> Path:
        return self.path / "inside"

    @property
    def upload_record(self) -> Path:
        """The record of an upload. It exists as long as there may be something to download."""
        return self.path / "carried.json"

    @property
    def download(self) -> Path:
        """The downloaded archive. It is kept if it was not applied completely."""
        return self.path / "coming.tar"

    @property
    def has_unsaved_work(self) -> bool:
        """Whether the folder holds or leads to work that exists nowhere else."""
        return self.upload_record.exists() or self.download.exists()

    def lock(self) -> None:
        """Take the lock. Raises LockedError, OSError."""
        self.path.mkdir(0o700, parents=True, exist_ok=True)
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise LockedError(self.token) from None
        except BaseException:
            os.close(lock)
            raise
        self._lock_fd = lock

    def release(self) -> None:
        """Release the lock. May be called twice."""
        for fd in (self._inside_fd, self._lock_fd, self._socket_fd):
            if fd is not None:
                os.close(fd)
        self._inside_fd = self._lock_fd = self._socket_fd = None

    def prepare(self, user: tuple[int, int]) -> None:
        """Create the files for a new container, with a new key. Raises OSError."""
        uid, gid = user
        for path in (self.inside / KEY, self.inside / SOCKET, self.path / SOCKET_ID):
            path.unlink(missing_ok=True)
        if self._socket_fd is not None:
            os.close(self._socket_fd)
            self._socket_fd = None
        (self.inside / STATE).mkdir(0o700, parents=True, exist_ok=True)
        key = secrets.token_hex(32)
        for file in (self.path / KEY, self.inside / KEY):
            _write(file, key, 0o600)
        _write(self.path / "passwd", f"root:x:0:0:root:/root:/bin/bash\nagent:x:{uid}:{gid}:Agent:{HOME}:/bin/bash\n")
        _write(self.path / "group", f"root:x:0:\nagent:x:{gid}:\n")
        git_config.identity_environment(self.inside)
        if os.getuid() == 0:
            for path in (self.inside, *self.inside.iterdir()):
                os.chown(path, uid, gid, follow_symlinks=False)

    def key(self) -> str:
        """Return the key of the newest container; empty if unknown."""
        with suppress(OSError, UnicodeDecodeError):
            return (self.path / KEY).read_text("ascii")
        return ""

    def socket(self) -> str:
        """Return the path of the server's socket; if it is too long, through a descriptor open until `release`.

        Raises OSError if it is too long where paths through descriptors do not exist.
        """
        path = self.inside / SOCKET
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
            return str(path)
        if sys.platform != "linux":
            raise OSError(
                errno.ENAMETOOLONG, "its name is too long for a socket; set HANDLOOM_HOME to a shorter folder"
            )
        if self._inside_fd is None:
            self._inside_fd = os.open(self.inside, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._inside_fd}/{SOCKET}"

    def verified_socket(self) -> str:
        """Return a path to the server's socket through a descriptor that stays open until `release`.

        A link or another socket that the container puts in its place later is never used. The socket is the one that
        existed when the server became ready, before any command ran. A later process compares it with SOCKET_ID.
        Raises OSError.
        """
        if sys.platform != "linux":  # macOS: programs in the engine's virtual machine cannot create sockets here
            return self.socket()
        path = self.inside / SOCKET
        if self._socket_fd is None:
            opened = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            status = os.fstat(opened)
            identity = f"{status.st_dev} {status.st_ino} {status.st_ctime_ns}"
            with suppress(FileExistsError):
                _write_new(self.path / SOCKET_ID, identity)
            if not stat.S_ISSOCK(status.st_mode) or (self.path / SOCKET_ID).read_text("ascii") != identity:
                os.close(opened)
                raise OSError(errno.EPERM, "the server's socket was replaced", str(path))
            self._socket_fd = opened
        return f"/proc/self/fd/{self._socket_fd}"

    def assign(self, token: str) -> None:
        """Rename the folder to that of another sandbox. Raises OSError if that exists."""
        target = self.path.with_name(f"{token}{SUFFIX}")
        self.path.rename(target)
        self.path, self.token = target, token

    def remove(self) -> None:
        """Remove the folder, including the state that outlives the container."""
        self.release()
        shutil.rmtree(self.path, ignore_errors=True)


def _write_new(file: Path, text: str) -> None:
    """Write a new private file. Raises FileExistsError."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="ascii") as new:
        new.write(text)


def _write(file: Path, text: str, mode: int = 0o644) -> None:
    file.unlink(missing_ok=True)
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(fd, "w", encoding="ascii") as opened:
        os.fchmod(fd, mode)
        opened.write(text)
