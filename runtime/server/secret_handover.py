"""SecretHandover: passes secrets from the server to a running shell or kernel through a named pipe.

The values are only in the kernel's memory: not on a disk, in an argument, in a readable environment or in a terminal's
echo. The reader gets the path and the names, and reads one value for each name, each followed by a zero byte. The
server holds both ends open, so that neither side ever waits.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress

SHARED_MEMORY = "/dev/shm"  # noqa: S108  # mkdtemp makes a private folder in it


class SecretHandover:
    """The secrets of one command, until closed. Raises OSError if no pipe can be made."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.names = tuple(values)
        memory = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        self._folder = tempfile.mkdtemp(prefix="handloom-lent-", dir=memory)
        self.path = os.path.join(self._folder, "pipe")
        self._fd = -1
        try:
            os.mkfifo(self.path, 0o600)
            self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(self._fd, b"".join(value.encode("utf-8", "surrogateescape") + b"\0" for value in values.values()))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove what was not read. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        with suppress(OSError):
            os.unlink(self.path)
        with suppress(OSError):
            os.rmdir(self._folder)
