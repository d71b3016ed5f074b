"""Putting a whole new content in the place of a file, in one step.

The content goes to a new file in the same folder, which is flushed to the disk and takes the old one's name: whoever
looks, also after a crash, finds the old file or the new, and a hard link elsewhere keeps the old. Mode, owner, access
list and extended attributes go along. What is done is done from the folder's descriptor (see `beneath`).
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress

from runtime.server.beneath import Location, sync_folder

NEW_FILE_MODE = 0o664
"""As V0; the user's umask takes away from it."""
PREFIX = ".handloom-"
"""Begins the name of a file that is not whole yet."""
_NOT_KEPT = ("security.capability", "trusted.")
"""Capabilities were given to the old content alone; what is trusted is the system's own business."""
_ATTRIBUTES = hasattr(os, "listxattr")


class Replacement:
    """A new content for a Location, in steps: written beside it when made, then `flush`, `commit`, `close`.

    Raises IsADirectoryError, FileError for what is no regular file, OSError. Closed without `commit`, it leaves
    everything as it was. `umask` is for a file that is new.
    """

    def __init__(self, place: Location, data: bytes, umask: int) -> None:
        self._place = place
        self._name = PREFIX + secrets.token_hex(8)
        self.is_visible = False
        before = place.status()
        if before is not None:
            place.refuse_unless(stat.S_IFREG, before)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        new = os.open(self._name, flags, 0o600, dir_fd=place.folder)
        self._fds = [new]
        try:
            with open(new, "wb", closefd=False) as file:
                file.write(data)
            if before is None:
                os.fchmod(new, NEW_FILE_MODE & ~umask)
            else:
                old = _opened(place)
                if old is not None:
                    self._fds.append(old)
                _take_over(before, old, new)
        except BaseException:
            self.close()
            raise

    def flush(self) -> None:
        """Wait until the content is on the disk."""
        os.fsync(self._fds[0])

    def commit(self) -> None:
        """Let it take the place, once it was flushed. It lasts when this has returned."""
        folder = self._place.folder
        os.replace(self._name, self._place.name, src_dir_fd=folder, dst_dir_fd=folder)
        self.is_visible = True
        sync_folder(folder)

    def close(self) -> None:
        """Let go of it; what was not committed is removed, while its Location is valid. May be called twice.

        The old content is held open until then, so that freeing its blocks is not waited for in `commit`: who has
        committed may close in another thread, and later.
        """
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)
        if fds and not self.is_visible:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._place.folder)


def replace(place: Location, data: bytes, umask: int) -> None:
    """Put `data` in the place of a file, or make a new one; it lasts once this has returned.

    Raises FileError, OSError.
    """
    replacement = Replacement(place, data, umask)
    try:
        replacement.flush()
        replacement.commit()
    finally:
        replacement.close()


def _opened(place: Location) -> int | None:
    """The old file; None for one that may be written, but not read."""
    try:
        return place.open_file()
    except PermissionError:
        return None


def _take_over(before: os.stat_result, old: int | None, fd: int) -> None:
    """Give a new file what the old one has beside its content."""
    mode = stat.S_IMODE(before.st_mode)
    try:
        os.fchown(fd, before.st_uid, before.st_gid)
    except PermissionError:
        mode &= ~(stat.S_ISUID | stat.S_ISGID)  # it is ours: nobody shall become us by running it
    os.fchmod(fd, mode)
    if _ATTRIBUTES and old is not None:
        _copy_attributes(old, fd)


def _copy_attributes(old: int, new: int) -> None:
    """Extended attributes, access lists among them; those that the folder gave to the new file alone are removed."""
    wanted, given = _attributes(old), _attributes(new)
    for name in wanted:
        with suppress(OSError):  # one that the system does not let us set is no reason not to write
            os.setxattr(new, name, os.getxattr(old, name))
    for name in given - wanted:
        with suppress(OSError):
            os.removexattr(new, name)


def _attributes(fd: int) -> set[str]:
    try:
        return {name for name in os.listxattr(fd) if not name.startswith(_NOT_KEPT)}
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM, errno.ENOSYS):
            return set()
        raise
