"""The folders in which saved sessions are run again; each is removed with its conversation.

They are below `again` in the home. The name of each begins with the mark of its process, so that copies of a killed
process are found and removed at the next start. Invariants: nothing outside of that folder is removed, and nothing of a
living process.
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
"""The folder in Handloom's home."""
_NAME = re.compile(r"(\d+-[0-9a-f]+)\.\w+")
"""The mark of a process, and the rest of the name."""


class WorkspaceCopies:
    """The copies in one home, seen by the process with this mark."""

    def __init__(self, home: Path, mark: ProcessMark) -> None:
        self._folder = home.absolute() / FOLDER
        self._mark = mark

    async def make(self) -> str:
        """Make an empty folder that only its owner can read. Raises UsageError if that fails."""
        return await asyncio.to_thread(self._make)

    def has(self, folder: str) -> bool:
        """Whether this is the name of a copy, of any process, existing or removed."""
        path = Path(folder)
        return path.parent == self._folder and _NAME.fullmatch(path.name) is not None

    async def remove(self, folder: str) -> None:
        """Remove a copy; other folders are left alone. Does not raise: the next start tries again."""
        if self.has(folder):
            await asyncio.to_thread(_remove, Path(folder))

    async def sweep(self) -> None:
        """Remove the copies of dead processes."""
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
            return  # there are no copies
        except OSError as error:
            log.warning("copies that were left behind stay in %s: %s", self._folder, error)


def _remove(folder: Path) -> None:
    """Remove a folder, also if a program removed the permission to write in it. Blocks."""
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
    """Restore the permission to remove what is in a folder; links are not followed. Blocks."""
    with suppress(OSError):
        folder.chmod(stat.S_IRWXU)
    for path, folders, _files in os.walk(folder):  # os.walk lists a folder after its permissions were restored here
        for inner in (Path(path, name) for name in folders):
            with suppress(OSError):
                if not inner.is_symlink():
                    inner.chmod(stat.S_IMODE(inner.stat().st_mode) | stat.S_IRWXU)


def usable_folder(path: str) -> str:
    """The folder in which the agent works, absolute. Raises UsageError if it cannot be used."""
    folder = Path(path).expanduser().absolute()
    if not folder.is_dir():
        raise UsageError(f"The workspace {folder} is not a folder. Create it, or choose another with --workspace.")
    try:
        next(folder.iterdir(), None)
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"The workspace {folder} cannot be read: {why}. Name another with --workspace.") from error
    return str(folder)
