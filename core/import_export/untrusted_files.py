"""Untrusted files, folders and zip archives, read without unpacking them to disk.

Only regular files are opened, no link is followed below the path that the user named, nothing blocks on a pipe, and
every count and size is bounded before the bytes are read. All entries of a zip archive are checked before any is read;
one suspicious entry and the archive is refused.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import unicodedata
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from core.import_export.bounded_json import Fault

MAX_EVENTS_BYTES = 100_000_000
"""All events of a conversation: 100,000 with long outputs. Reading them takes several times as much memory."""
MAX_TOTAL_BYTES = 500_000_000
"""Everything in a folder or an archive, unpacked."""
MAX_ENTRIES = 10_000
MAX_FOLDER_FILES = 1_000_000
"""Files in a folder: one for each event, and they are on this disk already."""
MAX_RATIO = 100
"""Highest compression ratio: text hardly reaches 20, a zip bomb starts at 1,000."""
RATIO_FROM_BYTES = 10_000_000
"""Unpacked size below which the ratio is not checked."""
MAX_NAME_BYTES = 255
"""Length of each part of an entry's name; no file system allows more."""
SHOWN_CHARS = 100
"""Length of an error message of `zipfile`: it may quote content of the archive."""
MAX_LEVELS = 20
FOLDERS = frozenset({"events", "blobs"})
MAX_DIRECTORY_BYTES = 4 * 1024 * 1024
"""Size of an archive's table of entries, which is read before they can be counted."""
_CHUNK = 1024 * 1024
_END = struct.Struct("<4sHHHHIIH")
_LOCAL_HEAD_BYTES = 30
_NO_NAMES = ("", ".", "..")


class Tree(ABC):
    """Named files, such as `events/0.json`, in a folder or an archive."""

    def __init__(self) -> None:
        self._left = MAX_TOTAL_BYTES

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all files, in no order."""

    @abstractmethod
    def _open(self, name: str) -> BinaryIO: ...

    def read(self, name: str, limit: int) -> bytes:
        """The content of a file. Raises Fault if it is larger than `limit`, damaged, or exceeds the total limit."""
        with _file_errors(name), self._open(name) as file:
            data = _read_at_most(file, min(limit, self._left))
        self._left -= len(data)
        return data

    def lines(self, name: str, limit: int) -> Iterator[bytes]:
        """The lines of a file, none longer than `limit`, read one at a time. Raises Fault."""
        number = 0
        with _file_errors(name), self._open(name) as file:
            while line := file.readline(limit + 1):
                number += 1
                self._left -= len(line)
                if len(line) > limit or self._left < 0:
                    raise Fault("it is longer than the limit", f"{name}, line {number}")
                yield line


class Folder(Tree):
    """A folder on this machine, held open so that it cannot be replaced."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd

    def names(self) -> list[str]:
        """The files in the folder and in its folders of events and pictures; names of other folders end in `/`."""
        found: list[str] = []
        with _file_errors(""):
            for name, is_folder in _list_folder(self._fd):
                if name not in FOLDERS:
                    found.append(f"{name}/" if is_folder else name)
                    continue
                with _open_folder(name, os.O_DIRECTORY, self._fd) as fd:
                    found += [f"{name}/{below}{'/' * is_below}" for below, is_below in _list_folder(fd)]
        return found

    def _open(self, name: str) -> BinaryIO:
        with ExitStack() as stack:
            fd, *folders, last = self._fd, *name.split("/")
            for folder in folders:
                fd = stack.enter_context(_open_folder(folder, os.O_DIRECTORY, fd))
            return regular_file(last, fd)


class Archive(Tree):
    """A checked zip archive. Names are those of its entries, without a folder that contains them all."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises Fault if anything about the archive is suspicious."""
        super().__init__()
        size = file.seek(0, os.SEEK_END)
        _check_directory(file, size)
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, EOFError) as error:
            raise Fault(f"the archive is damaged ({str(error)[:SHOWN_CHARS]})", hint="copy it again") from error
        entries = self._zip.infolist()
        _check_entries(entries, size)
        for entry in entries:
            with _file_errors(_quoted_name(entry)):
                self._zip.open(entry).close()  # checks that the entry's header matches the table
        self._entries = {entry.filename: entry for entry in entries if not entry.is_dir()}
        self._prefix = _common_folder(self._entries)

    def names(self) -> list[str]:
        return [name.removeprefix(self._prefix) for name in self._entries]

    def read(self, name: str, limit: int) -> bytes:
        """As in every tree; an entry shorter than it claims is damaged, too."""
        data = super().read(name, limit)
        if len(data) != self._entries[self._prefix + name].file_size:
            raise Fault("it is damaged (shorter than it should be)", name, "copy the archive again")
        return data

    def _open(self, name: str) -> BinaryIO:
        return self._zip.open(self._entries[self._prefix + name])  # type: ignore[return-value]


@contextmanager
def _file_errors(name: str) -> Iterator[None]:
    """Turn errors of reading into Faults, and add the file's name to Faults."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error) as error:
        raise Fault(f"it is damaged ({str(error)[:SHOWN_CHARS]})", name, "copy the archive again") from error
    except OSError as error:
        raise Fault(f"it cannot be read ({error.strerror})", name, "check the disk that it is on") from error
    except Fault as fault:
        fault.where = fault.where or name
        raise


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO | Folder]:
    """The regular file or folder that the user named. The path itself may be a link. Raises Fault."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = error.strerror if isinstance(error, OSError) else "its name contains a NUL"
        raise Fault(f"it cannot be opened ({why})", hint="give a file or a folder that you can read") from error
    with ExitStack() as stack:
        stack.callback(os.close, fd)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            yield Folder(fd)
        else:
            file = _checked(fd)
            stack.pop_all()
            with file:
                yield file


def regular_file(name: str, folder: int) -> BinaryIO:
    """A regular file in a folder, opened for reading. Raises Fault for links, devices and pipes."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=folder)
    except OSError as error:
        raise _cannot_open(name, error) from error
    try:
        return _checked(fd)
    except BaseException:
        os.close(fd)
        raise


def _checked(fd: int) -> BinaryIO:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise Fault("it is not a regular file", hint="give a file or a folder of a conversation")
    return os.fdopen(fd, "rb")


@contextmanager
def _open_folder(name: str, flags: int, folder: int) -> Iterator[int]:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    except OSError as error:
        raise _cannot_open(name, error) from error
    try:
        yield fd
    finally:
        os.close(fd)


def _cannot_open(name: str, error: OSError) -> Fault:
    why = "it is a link, and links are not followed" if error.errno in (errno.ELOOP, errno.ENOTDIR) else error.strerror
    return Fault(f"it cannot be opened ({why})", name, "put the file itself there")


def _list_folder(fd: int) -> Iterator[tuple[str, bool]]:
    """The entries of a folder, and whether each is a folder; a link to a folder is not."""
    with os.scandir(fd) as entries:
        for number, entry in enumerate(entries):
            if number >= MAX_FOLDER_FILES:
                raise Fault(f"it has more than {MAX_FOLDER_FILES:,} files")
            yield entry.name, entry.is_dir(follow_symlinks=False)


def _read_at_most(file: BinaryIO, limit: int) -> bytes:
    parts, size = [], 0
    while part := file.read(min(_CHUNK, limit + 1 - size)):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise Fault(f"it is larger than {limit / 1e6:,.0f} MB, which is the limit")
    return b"".join(parts)


def read_file(file: BinaryIO) -> bytes:
    """The whole of a file that the user named. Raises Fault where that is too much."""
    return _read_at_most(file, MAX_EVENTS_BYTES)


# -- archives --------------------------------------------------------------------------------------------------------


def _check_directory(file: BinaryIO, size: int) -> None:
    """Check the archive's last record before its table is read: a table of a million entries takes too much memory.

    Nothing may precede the first entry or follow the last record, so that every reader sees the same archive.
    """
    if size > MAX_TOTAL_BYTES:
        raise Fault(f"it is larger than {MAX_TOTAL_BYTES / 1e6:.0f} MB, which is the limit")
    file.seek(max(0, size - _END.size))
    record = file.read(_END.size)
    if len(record) < _END.size or record[:4] != b"PK\x05\x06":
        raise Fault("the archive has no end record; it was cut off", hint="copy it again")
    _, disk, first_disk, here, count, length, start, comment = _END.unpack(record)
    if disk or first_disk or here != count or comment or start + length + _END.size != size:
        raise Fault("the archive's table is not where it should be", hint="pack the files again")
    if count > MAX_ENTRIES or length > MAX_DIRECTORY_BYTES:
        raise Fault(f"it has more than {MAX_ENTRIES:,} entries", hint="import the unpacked folder")


def _check_entries(entries: list[zipfile.ZipInfo], size: int) -> None:
    if len(entries) > MAX_ENTRIES:
        raise Fault(f"it has more than {MAX_ENTRIES:,} entries", hint="import the unpacked folder")
    names: dict[str, tuple[str, bool]] = {}
    total = 0
    for entry in entries:
        if wrong := _wrong_entry(entry):
            raise Fault(wrong, _quoted_name(entry), "do not trust where it comes from")
        if _clashes(entry, names):
            raise Fault("another entry has the same or an equivalent name", _quoted_name(entry), "pack the files again")
        total += entry.file_size
        if total > MAX_TOTAL_BYTES or total > max(RATIO_FROM_BYTES, MAX_RATIO * size):
            raise Fault(
                f"unpacked, it is larger than {MAX_TOTAL_BYTES / 1e6:.0f} MB or {MAX_RATIO} times its own size",
                hint="do not trust where it comes from",
            )
    _check_overlaps(entries, size)


def _wrong_entry(entry: zipfile.ZipInfo) -> str:
    """What is suspicious about an entry; empty if nothing is."""
    name = entry.filename
    parts = name.removesuffix("/").split("/")
    if any(part in _NO_NAMES for part in parts) or "\\" in name or ":" in name or entry.orig_filename != name:
        return "its name leads out of the archive"
    if len(parts) > MAX_LEVELS or any(len(part.encode("utf-8", "replace")) > MAX_NAME_BYTES for part in parts):
        return "its name is too long"
    if not name.isprintable():
        return "its name contains unprintable characters"
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or (kind == stat.S_IFDIR) > entry.is_dir():
        return "it is a link or a device"
    if entry.flag_bits & 0x1:
        return "it is encrypted"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "its compression method is not supported"
    if entry.is_dir() and entry.file_size:
        return "it is a folder with content"
    return ""


def _clashes(entry: zipfile.ZipInfo, names: dict[str, tuple[str, bool]]) -> bool:
    """Whether a file system could confuse an entry, or a folder in its path, with one of `names`.

    Adds the entry to `names`: the spelling and whether it is a folder, by the case-folded and normalised name.
    """
    parts = entry.filename.removesuffix("/").split("/")
    for count in range(1, len(parts) + 1):
        spelling, is_folder = "/".join(parts[:count]), count < len(parts) or entry.is_dir()
        folded = unicodedata.normalize("NFKC", spelling).casefold()
        known = names.get(folded)
        if known is not None and not (is_folder and known == (spelling, True)):
            return True
        names[folded] = spelling, is_folder
    return False


def _quoted_name(entry: zipfile.ZipInfo) -> str:
    return ascii(entry.filename[:80])


def _check_overlaps(entries: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse entries that share bytes: they make a zip bomb."""
    reached = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < reached:
            raise Fault("two entries share the same bytes", hint="do not trust where it comes from")
        reached = entry.header_offset + _LOCAL_HEAD_BYTES + entry.compress_size
    if reached > size:
        raise Fault("an entry ends after the archive does; it was cut off", hint="copy it again")


def _common_folder(names: dict[str, zipfile.ZipInfo]) -> str:
    """The one folder that contains every file, unless it is one of `FOLDERS`; empty if there is none."""
    tops = {name.partition("/")[0] for name in names}
    if len(tops) != 1 or not all("/" in name for name in names) or tops <= FOLDERS:
        return ""
    return f"{tops.pop()}/"
