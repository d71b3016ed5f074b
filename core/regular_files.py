"""Reading files that others may have put there: regular files of a bounded size, and nothing that blocks.

A FIFO, a device or a socket in a file's place would hold up whoever opens or reads it. Such a file is an OSError, so
that it is treated as a file that cannot be read. Blocks for the disk only.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 32 * 1024 * 1024
"""Where a reader names no bound: more than any file of settings, pins or permissions has."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_bytes(file: Path, *, follow: bool = True) -> BinaryIO:
    """Open a file for reading. `follow` says whether the file itself may be a symbolic link.

    Raises OSError for what is no regular file or cannot be opened.
    """
    fd = os.open(file, _FLAGS if follow else _FLAGS | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file", str(file))
    return open(fd, "rb")


def read_bytes(file: Path, max_bytes: int = MAX_BYTES, *, follow: bool = True) -> bytes:
    """A file's content. Raises OSError as `open_bytes`, and for what is longer than `max_bytes`."""
    with open_bytes(file, follow=follow) as opened:
        data = opened.read(max_bytes + 1)  # files of /proc have no size
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it is longer than {max_bytes} bytes", str(file))
    return data


def read_text(file: Path, max_bytes: int = MAX_BYTES, *, follow: bool = True) -> str:
    """The same as text, with `\\n` for every line's end. Raises OSError as `read_bytes`, and UnicodeDecodeError."""
    text = read_bytes(file, max_bytes, follow=follow).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")
