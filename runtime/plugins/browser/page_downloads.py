"""Downloads of pages: saved in one folder of the workspace, under a safe name and with a size limit.

Files are never opened and never overwrite an existing file.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from pathlib import Path

from playwright.async_api import Download, Error

FOLDER = ".downloads"
"""In the workspace; hidden, so that downloads are not mistaken for part of the project."""
MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_NAME_CHARS = 100
FINISHED_WITHIN_S = 60.0


class DownloadError(Exception):
    """A file was not saved; the text says why."""


async def keep(download: Download, workspace: Path) -> str:
    """Wait for the file, move it into the workspace and return its path. Raises DownloadError."""
    name = safe_name(download.suggested_filename)
    try:
        async with asyncio.timeout(FINISHED_WITHIN_S):
            arrived = await download.path()
    except TimeoutError:
        with suppress(Error):
            await download.cancel()
        raise DownloadError(f"{name} did not finish within {FINISHED_WITHIN_S:.0f} s and was cancelled") from None
    except Error as error:
        raise DownloadError(f"{name} could not be downloaded: {error.message}") from error
    try:
        return await asyncio.to_thread(_move, Path(arrived), workspace / FOLDER, name)
    except OSError as error:
        raise DownloadError(f"{name} could not be saved: {error.strerror or error}") from error


def safe_name(suggested: str) -> str:
    """Turn the name that a page suggests into a single path component, visible, printable and not too long. Pure."""
    name = re.sub(r"[^\w.+@ -]", "_", suggested.replace("\\", "/").rpartition("/")[2])
    stem, dot, ending = name.strip(" .").rpartition(".")
    if not stem:
        stem, dot, ending = ending, "", ""
    return f"{stem[:MAX_NAME_CHARS]}{dot}{ending[:20]}" or "file"


def _move(arrived: Path, folder: Path, name: str) -> str:
    size_bytes = arrived.stat().st_size
    if size_bytes > MAX_FILE_BYTES:
        arrived.unlink()
        raise DownloadError(f"{name} has {size_bytes} bytes, and the limit is {MAX_FILE_BYTES}")
    folder.mkdir(mode=0o700, exist_ok=True)
    stem, dot, ending = name.rpartition(".")
    for number in range(1, 1000):
        path = folder / (name if number == 1 else f"{stem or ending}-{number}{dot and dot + ending}")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        except FileExistsError:
            continue
        with arrived.open("rb") as source, path.open("wb") as kept:
            while piece := source.read(1024 * 1024):
                kept.write(piece)
        arrived.unlink()
        return str(path)
    raise DownloadError(f"there are 999 files called {name} already. Remove some from {folder}")
