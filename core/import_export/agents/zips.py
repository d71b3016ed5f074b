"""Zip files of other agents: their list of members, and members read with a bound, also those packed with zstd.

`zipfile` reads those only from Python 3.14 on.
"""

from __future__ import annotations

import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping
from typing import BinaryIO, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from core.import_export.bounded_json import Fault

__all__ = ["member", "members", "zstd"]

_HEADER = struct.Struct("<4s22xHH")
_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, ValueError, OverflowError, NotImplementedError, EOFError,
    RuntimeError, IndexError,
)  # fmt: skip


MAX_LIST_BYTES = 16 * 1024 * 1024
"""Of the list of members, which takes ten times as much in memory."""


class _Listed:
    """A file whose list of members is read only if it is short: `zipfile` reads it at once."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable
        self._read = file.read

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_LIST_BYTES:
            size = MAX_LIST_BYTES + 1
        data = self._read(size)
        if len(data) > MAX_LIST_BYTES:
            raise Fault("the list in the zip file is too long")
        return data


def members(file: BinaryIO) -> Mapping[str, zipfile.ZipInfo]:
    """The members of a zip file by their names. Raises Fault."""
    try:
        with zipfile.ZipFile(cast("BinaryIO", _Listed(file))) as archive:
            return {info.filename: info for info in archive.infolist()}
    except _BROKEN as error:
        raise Fault(f"it is no zip file ({error})") from error


def member(file: BinaryIO, info: zipfile.ZipInfo, limit: int) -> bytes:
    """The bytes of one member. Raises Fault for more than `limit` bytes, and for what cannot be unpacked."""
    try:
        file.seek(info.header_offset)
        sign, name_size, extra_size = _HEADER.unpack(file.read(_HEADER.size))
        if sign != b"PK\x03\x04" or info.flag_bits & 1:
            raise Fault(f"{info.filename[:80]!r} in the zip file is damaged or encrypted")
        file.seek(name_size + extra_size, 1)
        data = file.read(min(info.compress_size, limit + 1))
        match info.compress_type:
            case 0:
                found = data
            case 8:
                found = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, limit + 1)
            case 93:
                found = _unpacked(data, limit + 1)
            case kind:
                raise Fault(f"{info.filename[:80]!r} is compressed in a way that is not known ({kind})")
    except _BROKEN as error:
        if isinstance(error, Fault):
            raise
        raise Fault(f"{info.filename[:80]!r} in the zip file is damaged ({error})") from error
    if len(found) > limit:
        raise Fault(f"{info.filename[:80]!r} is longer than {limit // 1_000_000} MB, which is the limit")
    return found


def _unpacked(data: bytes, limit: int) -> bytes:
    try:
        found: bytes = zstd.ZstdDecompressor().decompress(data, limit)
    except zstd.ZstdError as error:
        raise Fault(f"its data is damaged ({error})") from error
    return found
