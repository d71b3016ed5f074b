"""Reads untrusted zip archives.

`zipfile` is not used, because it loads a directory of any size and accepts entries that overlap, repeat or lie. Here
the directory is counted first, each entry must be a regular file or a folder below the destination, and data is counted
while it is decompressed. Callers read the whole directory (`entries`) before they write anything; ArchiveError means
that nothing of the archive may be used.

Format: APPNOTE.TXT of PKWARE, without ZIP64 (beyond the limits), encryption, or methods other than stored and deflated.
"""

from __future__ import annotations

import re
import stat
import struct
import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO, TypeAlias

MAX_ENTRIES = 10_000
MAX_TOTAL_BYTES = 500 * 1024 * 1024
"""All files together, unpacked."""
MAX_RATIO = 100
"""All files together, unpacked, compared to the archive. Deflate reaches 1,032 : 1, overlapping entries anything."""
MAX_DIRECTORY_BYTES = 8 * 1024 * 1024
"""Enough for the maximum number of entries with paths of 750 bytes."""
MAX_PATH_BYTES = 4096
"""The limit of kernels."""
MAX_DEPTH = 100
CHUNK_BYTES = 256 * 1024

_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_MAX_COMMENT_BYTES = 0xFFFF
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_UTF8 = 0x800
_STORED, _DEFLATED = 0, 8
_DRIVE = re.compile(r"[A-Za-z]:/")

_Names: TypeAlias = "dict[str, tuple[str, _Names | None]]"
"""A folder's content by case-folded name: the original spelling, and the content below; None is a file."""


class ArchiveError(Exception):
    """An archive that is refused; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or folder of an archive. Offsets and sizes are in bytes."""

    path: tuple[str, ...]
    """Names from the top; none is empty, `.`, `..` or has a separator."""
    is_folder: bool
    is_executable: bool
    size: int
    packed_size: int
    crc: int
    is_deflated: bool
    header_at: int
    data_at: int

    @property
    def name(self) -> str:
        return "/".join(self.path)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folder itself, or the folders around a file."""
        return self.path if self.is_folder else self.path[:-1]


def entries(file: BinaryIO) -> list[Entry]:
    """Return all entries, checked. Raises ArchiveError if any must not be unpacked."""
    archive_bytes = file.seek(0, 2)
    count, directory_at, directory = _directory(file, archive_bytes)
    found, position = [], 0
    for _ in range(count):
        entry, position = _entry(file, directory, position)
        found.append(entry)
    if position != len(directory):
        raise ArchiveError("The archive is damaged: its number of entries is wrong.")
    _check_sizes(found, archive_bytes)
    _check_ranges(found, directory_at)
    names: _Names = {}
    for entry in found:
        _check_name(entry, names)
    return found


def content(file: BinaryIO, entry: Entry) -> Iterator[bytes]:
    """Yield the content of one file in chunks of at most CHUNK_BYTES.

    Raises ArchiveError, at the latest at the end, if it is not what the archive announced.
    """
    size = crc = 0
    try:
        for piece in _inflated(file, entry) if entry.is_deflated else _packed(file, entry):
            size += len(piece)
            if size > entry.size:
                break
            crc = zlib.crc32(piece, crc)
            yield piece
    except zlib.error as error:
        raise ArchiveError(f"The archive is damaged at {entry.name}: {error}.") from error
    if (size, crc) != (entry.size, entry.crc):
        raise ArchiveError(f"The archive is damaged at {entry.name}: its content does not match its header.")


def _directory(file: BinaryIO, archive_bytes: int) -> tuple[int, int, bytes]:
    """Return the number of entries, where their directory begins, and its bytes."""
    tail_bytes = min(archive_bytes, _END.size + _MAX_COMMENT_BYTES)
    tail_at = file.seek(archive_bytes - tail_bytes)
    tail = file.read(tail_bytes)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise ArchiveError("Recursive uploads must be zip files")  # V0's words
    _, disk, first_disk, on_disk, count, size, offset, comment = _END.unpack_from(tail, at)
    if count > MAX_ENTRIES or size > MAX_DIRECTORY_BYTES:
        raise ArchiveError(f"The archive holds more than {MAX_ENTRIES:,} entries. Send it in parts.")
    is_whole = (disk, first_disk, on_disk) == (0, 0, count) and at + _END.size + comment == len(tail)
    if not is_whole or offset + size != tail_at + at:
        raise ArchiveError("The archive is damaged: its directory is not where it should be. Create it again.")
    file.seek(offset)
    return count, offset, file.read(size)


def _entry(file: BinaryIO, directory: bytes, at: int) -> tuple[Entry, int]:
    """Return the directory entry at a position, and the position of the next one."""
    try:
        fields = _CENTRAL.unpack_from(directory, at)
    except struct.error as error:
        raise ArchiveError("The archive is damaged: it has fewer entries than it says.") from error
    signature, _, _, flags, method, _, _, crc, packed_size, size, *rest = fields
    name_bytes, extra_bytes, comment_bytes, _, _, attributes, header_at = rest
    name_at = at + _CENTRAL.size
    raw = directory[name_at : name_at + name_bytes]
    if signature != b"PK\1\2" or len(raw) != name_bytes:
        raise ArchiveError("The archive is damaged: its directory is cut off.")
    name = _decoded(raw, flags)
    if flags & _ENCRYPTED or method not in (_STORED, _DEFLATED):
        raise ArchiveError(f"{quoted(name)} is encrypted or not compressed with deflate. Create the archive again.")
    mode = attributes >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ArchiveError(f"{quoted(name)} is neither a regular file nor a folder. Leave links and devices out.")
    is_folder = name.endswith("/") or stat.S_ISDIR(mode)
    if is_folder and size:
        raise ArchiveError(f"{quoted(name)} is a folder with content. Create the archive again.")
    entry = Entry(
        path=_path(name, is_folder),
        is_folder=is_folder,
        is_executable=bool(mode & stat.S_IXUSR),
        size=size,
        packed_size=packed_size,
        crc=crc,
        is_deflated=method == _DEFLATED,
        header_at=header_at,
        data_at=_data_at(file, header_at, raw),
    )
    return entry, name_at + name_bytes + extra_bytes + comment_bytes


def _data_at(file: BinaryIO, header_at: int, name: bytes) -> int:
    """Return where an entry's data begins. Its local header must have the same name, because readers differ in which
    they use.
    """
    file.seek(header_at)
    header = file.read(_LOCAL.size)
    if len(header) == _LOCAL.size:
        signature, *_, name_bytes, extra_bytes = _LOCAL.unpack(header)
        if signature == b"PK\3\4" and file.read(name_bytes) == name:
            return header_at + _LOCAL.size + int(name_bytes) + int(extra_bytes)
    raise ArchiveError(f"The archive is damaged: {quoted(name.decode('utf-8', 'replace'))} has two names or no header.")


def _decoded(name: bytes, flags: int) -> str:
    try:
        return name.decode("utf-8" if flags & _UTF8 else "cp437")
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{quoted(name.decode('utf-8', 'replace'))} is not a name in UTF-8. Rename it.") from error


def _path(name: str, is_folder: bool) -> tuple[str, ...]:
    path = tuple((name.removesuffix("/") if is_folder else name).split("/"))
    is_foreign = name.startswith("/") or "\\" in name or "\0" in name or _DRIVE.match(name)
    if is_foreign or any(part in ("", ".", "..") for part in path):
        raise ArchiveError(f"{quoted(name)} is outside of the destination. Create the archive with relative paths.")
    longest = max(len(part.encode()) for part in path)
    if longest > 255 or len(name.encode()) > MAX_PATH_BYTES or len(path) > MAX_DEPTH:
        raise ArchiveError(f"{quoted(name)} is too long or too deep. Shorten it.")
    return path


def _check_sizes(found: list[Entry], archive_bytes: int) -> None:
    total = sum(entry.size for entry in found)
    if total > MAX_TOTAL_BYTES:
        raise ArchiveError(f"The archive unpacks to more than {MAX_TOTAL_BYTES >> 20} MB. Send it in parts.")
    if total > MAX_RATIO * archive_bytes:
        raise ArchiveError(f"The archive unpacks to more than {MAX_RATIO} times its size. Send its files singly.")


def _check_ranges(found: list[Entry], directory_at: int) -> None:
    """Check that entries do not overlap: otherwise a small archive could unpack to a large one many times."""
    ordered = sorted(found, key=lambda entry: entry.header_at)
    ends = [entry.data_at + entry.packed_size for entry in ordered]
    overlaps = any(end > after.header_at for end, (_, after) in zip(ends, pairwise(ordered), strict=False))
    if overlaps or any(end > directory_at for end in ends):
        raise ArchiveError("The archive is damaged: its entries overlap. Create it again.")


def _check_name(entry: Entry, names: _Names) -> None:
    """Check that no two entries are one file, even if case or Unicode normalisation is ignored."""
    *folders, last = entry.path
    for folder in folders:
        spelled, below = names.setdefault(_folded(folder), (folder, {}))
        if spelled != folder or below is None:
            raise ArchiveError(f"{quoted(entry.name)} and another entry are one file. Rename one of them.")
        names = below
    known = names.get(_folded(last))
    if known is not None and not (entry.is_folder and known[0] == last and known[1] is not None):
        raise ArchiveError(f"{quoted(entry.name)} and another entry are one file. Rename one of them.")
    names.setdefault(_folded(last), (last, {} if entry.is_folder else None))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _packed(file: BinaryIO, entry: Entry) -> Iterator[bytes]:
    file.seek(entry.data_at)
    left = entry.packed_size
    while left and (piece := file.read(min(left, CHUNK_BYTES))):
        left -= len(piece)
        yield piece


def _inflated(file: BinaryIO, entry: Entry) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for packed in _packed(file, entry):
        rest = packed
        while rest:
            yield inflater.decompress(rest, CHUNK_BYTES)
            rest = inflater.unconsumed_tail
    yield inflater.flush()


def quoted(name: str) -> str:
    """Return a name for a message: short, and without terminal control characters."""
    return repr(name if len(name) <= 200 else name[:200] + "…")
