"""What the host keeps of one sandbox: its key, its sockets, and a lock that says whose it is.

    lock            held by the process whose conversation it serves, and let go of however that ends
    socket          which socket the server made; out of the container's sight, too
    key             for the next process that finds the container; out of the container's sight
    passwd, group   who the container's processes are
    inside/         seen in the container as /run/handloom: the socket, and what outlasts the container
    carried.json    what was copied to an engine elsewhere
    coming.tar      what came back from there and was not taken over

Invariant: whoever holds the lock alone decides about the container. All calls block for milliseconds.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from runtime.docker.container_spec import HOME, KEY, SOCKET, STATE
from runtime.isolation import git_config

SUFFIX = ".docker"
SPARE = "spare-"
NOTED = "socket"
"""Which socket the server made."""
SOCKET_PATH_BYTES = 100
"""macOS takes 104 for the path of a socket, Linux 108."""


class HeldError(Exception):
    """Another process has this sandbox."""


class SandboxFolder:
    """The folder of the sandbox `token` below `parent`, made when it is first held."""

    def __init__(self, parent: Path, token: str) -> None:
        self.token = token
        self.path = parent / f"{token}{SUFFIX}"
        self._lock: int | None = None
        self._inside: int | None = None
        self._server: int | None = None

    @property
    def inside(self) -> Path:
        return self.path / "inside"

    @property
    def carried(self) -> Path:
        """The list of what was copied to an engine elsewhere; there for as long as something may have to be fetched."""
        return self.path / "carried.json"

    @property
    def coming(self) -> Path:
        """The archive of what was fetched; stays where something of it was not taken over."""
        return self.path / "coming.tar"

    @property
    def is_needed(self) -> bool:
        """Whether work lies in it, or can be found by it, that is nowhere else."""
        return self.carried.exists() or self.coming.exists()

    def hold(self) -> None:
        """Take the lock. Raises HeldError, OSError."""
        self.path.mkdir(0o700, parents=True, exist_ok=True)
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise HeldError(self.token) from None
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock

    def let_go(self) -> None:
        """Give the lock back. May be called twice."""
        for fd in (self._inside, self._lock, self._server):
            if fd is not None:
                os.close(fd)
        self._inside = self._lock = self._server = None

    def furnish(self, user: tuple[int, int]) -> None:
        """Put everything there that a new container needs, with a new key. Raises OSError."""
        uid, gid = user
        for path in (self.inside / KEY, self.inside / SOCKET, self.path / NOTED):
            path.unlink(missing_ok=True)
        if self._server is not None:
            os.close(self._server)
            self._server = None
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
        """The key of the container that was started last; empty where it is not known."""
        with suppress(OSError, UnicodeDecodeError):
            return (self.path / KEY).read_text("ascii")
        return ""

    def socket(self) -> str:
        """The path of the server's socket; where that is too long, by a descriptor that stays open until `let_go`."""
        path = self.inside / SOCKET
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
            return str(path)
        if self._inside is None:
            self._inside = os.open(self.inside, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._inside}/{SOCKET}"

    def server(self) -> str:
        """The way to the server's socket inode, by a descriptor that stays open until `let_go`.

        What the container puts in its place later, a link or a socket of its own, is not reached. The socket is the one
        that was there when the server said that it is ready, before any command ran; a later process of ours compares
        it with what was noted then. Raises OSError.
        """
        if not hasattr(os, "O_PATH"):  # no Linux: what runs in the engine's virtual machine makes no socket here
            return self.socket()
        path = self.inside / SOCKET
        if self._server is None:
            opened = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            status = os.fstat(opened)
            noted = f"{status.st_dev} {status.st_ino} {status.st_ctime_ns}"
            with suppress(FileExistsError):
                _write_new(self.path / NOTED, noted)
            if not stat.S_ISSOCK(status.st_mode) or (self.path / NOTED).read_text("ascii") != noted:
                os.close(opened)
                raise OSError(errno.EPERM, "the server's socket was replaced", str(path))
            self._server = opened
        return f"/proc/self/fd/{self._server}"

    def become(self, token: str) -> None:
        """Serve another sandbox from here on, which has none yet. Raises OSError where it has."""
        target = self.path.with_name(f"{token}{SUFFIX}")
        self.path.rename(target)
        self.path, self.token = target, token

    def remove(self) -> None:
        """Take all of it away, also what should outlast the container."""
        self.let_go()
        shutil.rmtree(self.path, ignore_errors=True)


def _write_new(file: Path, text: str) -> None:
    """Raises FileExistsError."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="ascii") as new:
        new.write(text)


def _write(file: Path, text: str, mode: int = 0o644) -> None:
    file.unlink(missing_ok=True)
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(fd, "w", encoding="ascii") as opened:
        os.fchmod(fd, mode)
        opened.write(text)
