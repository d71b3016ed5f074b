"""Reproducible zip archives: the same members make the same bytes on every machine.

Members have one fixed time. A member that grows while others are written waits in an unnamed temporary file.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from contextlib import ExitStack, suppress
from typing import BinaryIO

TIME = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip can store; event times are in the events."""


class ZipPart:
    """A member of text lines that grows while others are written."""

    def __init__(self, scratch: ExitStack) -> None:
        self.file = scratch.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 -- the stack closes it
        self.digest = hashlib.sha256()
        self.count = 0

    def add(self, line: str) -> None:
        """Append one line, which must not contain a line break."""
        data = f"{line}\n".encode()
        self.file.write(data)
        self.digest.update(data)
        self.count += 1


class ZipWriter:
    """An archive written member by member. `scratch` closes it if the export fails."""

    def __init__(self, out: BinaryIO, scratch: ExitStack) -> None:
        self._zip = zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED)
        scratch.callback(self._abandon)

    @property
    def count(self) -> int:
        """The number of members."""
        return len(self._zip.filelist)

    def add(self, name: str, data: bytes | str, method: int = zipfile.ZIP_DEFLATED) -> None:
        """Write a whole member."""
        self._zip.writestr(_member(name, method), data)

    def add_part(self, name: str, part: ZipPart) -> None:
        """Write a part that is complete."""
        part.file.seek(0)
        with self._zip.open(_member(name, zipfile.ZIP_DEFLATED), "w", force_zip64=True) as copy:
            shutil.copyfileobj(part.file, copy, 1 << 20)

    def end(self) -> None:
        """Write the table of members. The output stays open."""
        self._zip.close()

    def _abandon(self) -> None:
        """Close early: otherwise the garbage collector would write the archive's end into the output later."""
        with suppress(OSError, ValueError):
            self._zip.close()


def _member(name: str, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, TIME)
    info.compress_type = method
    info.external_attr = 0o600 << 16
    info.create_system = 3  # the default depends on the operating system
    return info
