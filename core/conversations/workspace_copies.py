"""Copies: the folders in which saved sessions are run again, each gone with the conversation that works in it.

They lie below `again` in the home. The name of each begins with the mark of the process that made it, so that what a
process that was killed has left is known and taken away at the next start. Invariants: nothing outside that folder is
ever removed, and nothing of a process that lives. Used by the conversation manager.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from core.errors import UsageError
from core.store.locks import ProcessMark

log = logging.getLogger(__name__)

FOLDER = "again"
"""In the home of Handloom."""
_NAME = re.compile(r"(\d+-[0-9a-f]+)\.\w+")
"""A mark, and what tells the copies of one process apart."""


class WorkspaceCopies:
    """The copies of one home, as the process with this mark sees them."""

    def __init__(self, home: Path, mark: ProcessMark) -> None:
        self._folder = home.absolute() / FOLDER
        self._mark = mark

    async def make(self) -> str:
        """A new folder, empty, for its owner alone. Raises UsageError where there is no room for one."""
        return await asyncio.to_thread(self._make)

    def has(self, folder: str) -> bool:
        """Whether this is the name of a copy, of this process or another one, there or gone."""
        path = Path(folder)
        return path.parent == self._folder and _NAME.fullmatch(path.name) is not None

    async def remove(self, folder: str) -> None:
        """Remove a copy; what is none is left alone. Does not raise: what stays is tried again at the next start."""
        if self.has(folder):
            await asyncio.to_thread(_remove, Path(folder))

    async def sweep(self) -> None:
        """Remove what processes have left that are dead."""
        await asyncio.to_thread(self._sweep)

    def _make(self) -> str:
        try:
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            return tempfile.mkdtemp(prefix=f"{self._mark.name}.", dir=self._folder)
        except OSError as error:
            why = error.strerror or error
            raise UsageError(
                f"No copy of the workspace can be made in {self._folder}: {why}. Name a folder to run in instead."
            ) from error

    def _sweep(self) -> None:
        try:
            for name in os.listdir(self._folder):
                if (found := _NAME.fullmatch(name)) is not None and not self._mark.is_alive(found[1]):
                    _remove(self._folder / name)
        except FileNotFoundError:
            return  # there never was one
        except OSError as error:
            log.warning("copies that were left behind stay in %s: %s", self._folder, error)


def _remove(folder: Path) -> None:
    """Remove a folder; a program may have taken the right to write from folders in it. Blocks."""
    if folder.is_symlink() or not folder.is_dir():
        return
    try:
        shutil.rmtree(folder)
        return
    except OSError:
        _open_up(folder)
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass  # another process was here at the same time
    except OSError as error:
        log.warning("the copy %s stays: %s", folder, error)


def _open_up(folder: Path) -> None:
    """Have the right to remove what is in a folder; links are not followed. Blocks."""
    with suppress(OSError):
        folder.chmod(stat.S_IRWXU)
    for path, folders, _files in os.walk(folder):  # a folder is listed only after it was opened up here
        for inner in (Path(path, name) for name in folders):
            with suppress(OSError):
                if not inner.is_symlink():
                    inner.chmod(stat.S_IMODE(inner.stat().st_mode) | stat.S_IRWXU)
