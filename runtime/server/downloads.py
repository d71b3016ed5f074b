"""Files on their way out of the sandbox: `/download_files` and `/list_files` of OpenHands V0
(`openhands/runtime/action_execution_server.py`), without HTTP.

Invariant: what leaves is read piece by piece; memory grows by less than 1 KB a file, and not with its size.

Everything here blocks, and belongs into a thread; of one download, one call at a time.
"""

from __future__ import annotations

import os
import stat
import time
import zipfile
from collections.abc import Generator
from contextlib import closing, suppress
from typing import BinaryIO, cast

from runtime.server.uploads import TransferError, opened, opened_file

CHUNK_BYTES = 256 * 1024
_LARGE_BYTES = 1 << 30
"""Far enough below the size from which a zip needs another form that deflating cannot pass it."""
_FIRST_YEAR, _LAST_YEAR = 1980, 2107
"""That a zip can say."""


class Download:
    """A file or all files below a folder, as a zip that is made while it is read.

    Links and special files are left out, and what vanishes meanwhile. Raises TransferError, FileNotFoundError, OSError.
    """

    def __init__(self, path: str) -> None:
        if not os.path.isabs(path) or "\0" in path:
            raise TransferError("Path must be an absolute path")  # V0's words
        if stat.S_IFMT(os.stat(path).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            raise TransferError(f"{path} is no regular file and no folder. Choose another path.")
        self.name = os.path.basename(os.path.normpath(path))
        self._root = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            for _ in self._files():
                pass  # what may not be opened is an error here, and not an answer that breaks off
        except BaseException:
            os.close(self._root)
            raise
        self._zipping = self._zip()

    def read(self) -> bytes | None:
        """The next bytes, which may be none yet; None at the end. Raises OSError for a file that cannot be read."""
        return next(self._zipping, None)

    def close(self) -> None:
        """Let go of what is open."""
        self._zipping.close()
        os.close(self._root)

    def _zip(self) -> Generator[bytes, None, None]:
        pipe = _Pipe()
        with zipfile.ZipFile(cast(BinaryIO, pipe), "w", compresslevel=1) as packed, closing(self._files()) as files:
            for path, file in files:
                about = os.fstat(file)
                left = about.st_size if stat.S_ISREG(about.st_mode) else 0
                with packed.open(_header(path, about), "w", force_zip64=left > _LARGE_BYTES) as entry:
                    while left and (data := os.read(file, min(left, CHUNK_BYTES))):
                        left -= len(data)
                        entry.write(data)
                        if pipe.size >= CHUNK_BYTES:
                            yield pipe.take()
                yield b""  # a moment at which the caller can stop
        yield pipe.take()

    def _files(self) -> Generator[tuple[str, int], None, None]:
        """Path and descriptor of each file and each folder below the root, the root's own only where it is a file."""
        if stat.S_ISREG(os.fstat(self._root).st_mode):
            yield self.name, self._root
            return
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            parts = waiting.pop()
            with suppress(FileNotFoundError, NotADirectoryError), opened(self._root, parts) as folder:
                if parts:
                    yield "/".join(parts) + "/", folder
                for name in sorted(os.listdir(folder)):
                    with suppress(FileNotFoundError):
                        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                        if stat.S_ISDIR(mode):
                            waiting.append((*parts, name))
                        elif stat.S_ISREG(mode):
                            with opened_file(folder, name) as file:
                                yield "/".join((*parts, name)), file


class _Pipe:
    """Takes what a ZipFile writes, which it never reads again, until it is taken away."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self.size = 0

    def write(self, data: bytes) -> int:
        self._held.append(bytes(data))
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """A ZipFile wants one."""

    def take(self) -> bytes:
        taken = b"".join(self._held)
        self._held.clear()
        self.size = 0
        return taken


def list_folder(path: str) -> list[str]:
    """What is in a folder: first folders, which end in `/`, then files, each without regard to case.

    Empty where there is no such folder, or none that may be read.
    """
    folders, files = [], []
    with suppress(OSError, ValueError), os.scandir(path) as found:
        for entry in found:
            name = _sayable(entry.name)
            if entry.is_dir():
                folders.append(name + "/")
            elif os.path.exists(entry.path):  # V0 leaves out links that lead nowhere
                files.append(name)
    return sorted(folders, key=str.lower) + sorted(files, key=str.lower)


def _header(path: str, about: os.stat_result) -> zipfile.ZipInfo:
    at = time.localtime(about.st_mtime)[:6]
    header = zipfile.ZipInfo(_sayable(path), at if _FIRST_YEAR <= at[0] <= _LAST_YEAR else (_FIRST_YEAR, 1, 1, 0, 0, 0))
    header.compress_type = zipfile.ZIP_STORED if stat.S_ISDIR(about.st_mode) else zipfile.ZIP_DEFLATED
    header.external_attr = (about.st_mode & 0xFFFF) << 16
    return header


def _sayable(name: str) -> str:
    """A name of the file system, which may hold any bytes, as text that JSON and zip can carry."""
    return os.fsencode(name).decode("utf-8", "replace")
