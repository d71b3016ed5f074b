"""Archives as strangers make them: good ones by `zipfile`, bad ones by changing bytes of good ones."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections.abc import Callable, Mapping

CENTRAL, END = b"PK\1\2", b"PK\5\6"
PLAIN = stat.S_IFREG | 0o644


def packed(files: Mapping[str, bytes], *, mode: int = PLAIN, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of these files; a name that ends in `/` is a folder."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            _add(archive, name, data, mode, method)
    return made.getvalue()


def repeated(*names: str) -> bytes:
    """A zip with an entry for each name, including duplicates."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for number, name in enumerate(names):
            archive.NameToInfo.clear()  # zipfile warns about the duplicates
            _add(archive, name, b"" if name.endswith("/") else b"%d" % number, PLAIN, zipfile.ZIP_STORED)
    return made.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes, mode: int, method: int) -> None:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.compress_type = method
    archive.writestr(info, data)


def changed(archive: bytes, signature: bytes, offset: int, form: str, change: Callable[[int], int]) -> bytes:
    """The archive with one number changed: the one at `offset` behind the last such signature."""
    at = archive.rindex(signature) + offset
    (number,) = struct.unpack_from(form, archive, at)
    made = bytearray(archive)
    struct.pack_into(form, made, at, change(number))
    return bytes(made)


GOOD = packed({"good": b"good", "bad": b"bad" * 100})

BAD_NAMES = [
    *("../x", "a/../../x", "/x", "//x", "/etc/passwd", "..", "a/..", ".", "./x", "a//x", "a/./x"),
    *("..\\x", "a\\x", "C:/x", "c:/x", "x" * 256, "x" * 254 + "ü", "/".join("d" * 101), "/".join(["x" * 200] * 21)),
]
"""Names that lead out, are not in their plain form, or that no file system takes."""

SPECIAL_MODES = {
    "link": stat.S_IFLNK,
    "fifo": stat.S_IFIFO,
    "character device": stat.S_IFCHR,
    "block device": stat.S_IFBLK,
    "socket": stat.S_IFSOCK,
    "no kind that there is": 0o130000,
}

CLASHES = {
    "twice": ("x", "x"),
    "by case": ("Makefile", "makefile"),
    "by case in a folder": ("a/X", "a/x"),
    "folders by case": ("A/x", "a/y"),
    "by the form of an accent": ("\u00e9", "e\u0301"),
    "by case in another script": ("\u03a3", "\u03c2"),
    "a file above a file": ("a", "a/x"),
    "a file where a folder is": ("a/x", "a"),
    "a folder where a file is": ("a", "a/"),
}


def _overlapping() -> bytes:
    """A second entry of the directory for the first one's data."""
    one = packed({"x": b"x" * 1000})
    at, end = one.index(CENTRAL), one.index(END)
    twice = one[:end] + one[at:end] + one[end:]
    size = 2 * (end - at)
    for offset, number in ((8, 2), (10, 2)):
        twice = changed(twice, END, offset, "<H", lambda _, number=number: number)  # type: ignore[misc]
    return changed(twice, END, 12, "<L", lambda _: size)


def _other_local_name() -> bytes:
    return GOOD.replace(b"bad", b"bed", 1)


def _nul() -> bytes:
    return packed({"aXb": b""}).replace(b"aXb", b"a\0b")


def _without_end() -> bytes:
    return GOOD[: GOOD.index(END)]


DAMAGED: dict[str, bytes] = {
    "nothing": b"",
    "no zip": b"PK is not enough",
    "cut off": GOOD[:-10],
    "without an end": _without_end(),
    "with something behind": GOOD + b"x",
    "with something before": b"#!/bin/sh\n" + GOOD,
    "an empty name": packed({"": b"x"}),
    "NUL in a name": _nul(),
    "no UTF-8": packed({"ü": b""}).replace("ü".encode(), b"\xfc\xfc"),
    "two names": _other_local_name(),
    "encrypted": changed(GOOD, CENTRAL, 8, "<H", lambda flags: flags | 1),
    "bzip2": packed({"x": b"x"}, method=zipfile.ZIP_BZIP2),
    "lzma": packed({"x": b"x"}, method=zipfile.ZIP_LZMA),
    "another checksum": changed(GOOD, CENTRAL, 16, "<L", lambda crc: crc ^ 1),
    "more than announced": changed(GOOD, CENTRAL, 24, "<L", lambda size: size - 1),
    "less than announced": changed(GOOD, CENTRAL, 24, "<L", lambda size: size + 1),
    "packed into too little": changed(GOOD, CENTRAL, 20, "<L", lambda size: size - 2),
    "packed beyond the directory": changed(GOOD, CENTRAL, 20, "<L", lambda size: size + 200),
    "a header elsewhere": changed(GOOD, CENTRAL, 42, "<L", lambda offset: offset + 1),
    "a header beyond the end": changed(GOOD, CENTRAL, 42, "<L", lambda offset: 0xFFFFFFFE),
    "fewer entries than there are": changed(GOOD, END, 10, "<H", lambda count: count - 1),
    "more entries than there are": changed(GOOD, END, 10, "<H", lambda count: count + 1),
    "a directory elsewhere": changed(GOOD, END, 16, "<L", lambda offset: offset - 1),
    "a smaller directory": changed(GOOD, END, 12, "<L", lambda size: size - 1),
    "two disks": changed(GOOD, END, 4, "<H", lambda disk: 1),
    "entries that overlap": _overlapping(),
    "a folder with content": packed({"a/": b"x"}, mode=stat.S_IFDIR | 0o755),
    "not deflated": changed(packed({"x": b"\xff" * 10}, method=zipfile.ZIP_STORED), CENTRAL, 10, "<H", lambda _: 8),
}


def _zip64() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", allowZip64=True) as archive:
        for number in range(0x10000):
            archive.writestr(zipfile.ZipInfo(f"{number}"), b"")
    return made.getvalue()


def _uncounted(entries: int) -> bytes:
    """A directory of many entries that announces none of them."""
    one = packed({"x": b""})
    at, end = one.index(CENTRAL), one.index(END)
    size = entries * (end - at)
    return changed(one[:at] + one[at:end] * entries + one[end:], END, 12, "<L", lambda _: size)


def bombs() -> dict[str, Callable[[], bytes]]:
    """Archives that are small and ask for much."""
    return {
        "1,000 times its size": lambda: packed({"x": bytes(20_000_000)}),
        "gigabytes announced": lambda: changed(GOOD, CENTRAL, 24, "<L", lambda _: 0xF0000000),
        "10,001 entries": lambda: repeated(*map(str, range(10_001))),
        "65,536 entries in the form of ZIP64": _zip64,
        "1,000,000 entries that are not counted": lambda: _uncounted(1_000_000),
    }
