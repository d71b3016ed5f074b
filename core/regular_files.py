"""Reading regular files of a bounded size, and replacing private ones atomically.

Opening or reading a FIFO, a device or a socket could block, so they raise OSError, like a file that cannot be read.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 32 * 1024 * 1024
"""The default limit: larger than any settings file."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_bytes(file: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading. `follow` says whether it may be a symbolic link.

    Raises OSError for anything else, and for a file that cannot be opened.
    """
    fd = os.open(file, _FLAGS if follow else _FLAGS | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", str(file))
    return open(fd, "rb")


def read_bytes(file: Path, max_bytes: int = MAX_BYTES, *, follow: bool = True) -> bytes:
    """The content of a file. Raises OSError as `open_bytes`, and for a file longer than `max_bytes`."""
    with open_bytes(file, follow=follow) as opened:
        data = opened.read(max_bytes + 1)  # files of /proc have no size
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it is longer than {max_bytes} bytes", str(file))
    return data


def read_text(file: Path, max_bytes: int = MAX_BYTES, *, follow: bool = True) -> str:
    """The content as text, with `\\n` line ends. Raises OSError as `read_bytes`, and UnicodeDecodeError."""
    text = read_bytes(file, max_bytes, follow=follow).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def write_private(file: Path, text: str) -> None:
    """Create or replace a file that only its owner can read, atomically, and its folder if needed. Raises OSError."""
    import tempfile  # slow to import, and not needed for the first frame

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as new:
        new.write(text)
    os.replace(new.name, file)
