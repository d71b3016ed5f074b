"""A zip archive as the writers of formats make it: the same members make the same bytes, wherever and whenever.

Members have one fixed time and say nothing of the system. A member that grows while others are written waits in a file
without a name.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from contextlib import ExitStack, suppress
from typing import BinaryIO

TIME = (1980, 1, 1, 0, 0, 0)
"""The first that a zip can say; ours are in the events."""


class Part:
    """A member of lines that grows while others are written."""

    def __init__(self, scratch: ExitStack) -> None:
        self.file = scratch.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 -- the stack closes it
        self.digest = hashlib.sha256()
        self.count = 0

    def add(self, line: str) -> None:
        """One more line, which has no line break in it."""
        data = f"{line}\n".encode()
        self.file.write(data)
        self.digest.update(data)
        self.count += 1


class Zipped:
    """An archive that is written member by member. `scratch` lets go of the output where the export fails."""

    def __init__(self, out: BinaryIO, scratch: ExitStack) -> None:
        self._zip = zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED)
        scratch.callback(self._abandon)

    @property
    def count(self) -> int:
        """How many members it has."""
        return len(self._zip.filelist)

    def add(self, name: str, data: bytes | str, method: int = zipfile.ZIP_DEFLATED) -> None:
        """Write a whole member."""
        self._zip.writestr(_member(name, method), data)

    def add_part(self, name: str, part: Part) -> None:
        """Write a member that has grown by now."""
        part.file.seek(0)
        with self._zip.open(_member(name, zipfile.ZIP_DEFLATED), "w", force_zip64=True) as copy:
            shutil.copyfileobj(part.file, copy, 1 << 20)

    def end(self) -> None:
        """Write the table of the members; the output stays open."""
        self._zip.close()

    def _abandon(self) -> None:
        """Or a zip would write its end into the output whenever it is collected."""
        with suppress(OSError, ValueError):
            self._zip.close()


def _member(name: str, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, TIME)
    info.compress_type = method
    info.external_attr = 0o600 << 16
    info.create_system = 3  # or the bytes would tell on which system it was made
    return info
