"""Pictures for a message: recognised as a pasted path, read from a file, checked before anybody decodes them.

Only the first bytes are looked at, for kind and size; what is refused is refused with the reason. The functions that
read files block: they are for a thread.
"""

from __future__ import annotations

import base64
import os
import re
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tui.i18n import _
from tui.prompt.chips import Picture

MAX_BYTES = 10 * 1024 * 1024
MAX_PIXELS = 25_000_000
"""Larger ones are refused or scaled down by every provider."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")
_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WebP": "image/webp"}
_PATH_CHARS = 4096


class RefusedError(Exception):
    """A picture that cannot go with a message; the text says why."""


def picture_path(text: str, folder: str) -> Path | None:
    """The path that a pasted text is, in one of the forms that terminals give; None where it names no picture."""
    text = text.strip()
    if not text or "\n" in text or len(text) > _PATH_CHARS or "\0" in text:
        return None
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    elif text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    else:
        text = re.sub(r"\\(.)", r"\1", text)
    if not text.lower().endswith(SUFFIXES):
        return None
    try:
        return Path(folder, Path(text).expanduser())
    except RuntimeError:  # the home of a user that is not known
        return None


def read_picture(path: Path) -> Picture:
    """The picture in a file. Raises FileNotFoundError, RefusedError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(str(path)) from error
    except OSError as error:
        raise RefusedError(_unreadable(path, error)) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RefusedError(_("{name} is not a file.").format(name=path.name))
        with open(descriptor, "rb", closefd=False) as file:
            return picture_of(file.read(MAX_BYTES + 1), path.name)
    except OSError as error:
        raise RefusedError(_unreadable(path, error)) from error
    finally:
        os.close(descriptor)


def _unreadable(path: Path, error: OSError) -> str:
    return _("Cannot read {name}: {why}.").format(name=path.name, why=error.strerror or error)


def picture_of(data: bytes, name: str) -> Picture:
    """The picture that these bytes are. Raises RefusedError."""
    from core.image_types import HEAD_BYTES, measured  # not before the first frame

    if len(data) > MAX_BYTES:
        told = _("{name} is larger than {n} MB. Reduce its size and attach it again.")
        raise RefusedError(told.format(name=name, n=MAX_BYTES // 2**20))
    found = measured(data[:HEAD_BYTES])
    if found is None or found[0] not in _TYPES:
        told = _("{name} was not attached: it is not a PNG, JPEG, WebP or GIF image.")
        raise RefusedError(told.format(name=name))
    kind, width, height = found
    if not 0 < width * height <= MAX_PIXELS:
        told = _("{name} has {width} x {height} pixels; the limit is {n} million.")
        raise RefusedError(told.format(name=name, width=width, height=height, n=MAX_PIXELS // 10**6))
    return Picture(f"data:{_TYPES[kind]};base64,{base64.b64encode(data).decode('ascii')}", width, height)
