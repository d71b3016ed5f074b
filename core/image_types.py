"""The type and size of an image, from its first bytes and without decoding it. Pure."""

from __future__ import annotations

import struct

HEAD_BYTES = 64 * 1024
"""Enough bytes to find the size; a JPEG may begin with a preview."""

_JPEG_SIZES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
"""Markers of JPEG segments that contain the size."""


def described(head: bytes) -> str | None:
    """A description such as `a PNG image, 640 x 480 pixels`; None for an unknown format."""
    found = measured(head)
    if found is None:
        return None
    kind, width, height = found
    return f"a {kind} image, {width} x {height} pixels"


def measured(head: bytes) -> tuple[str, int, int] | None:
    """Type (`PNG`, `JPEG`, `GIF`, `WebP`, `BMP`), width and height in pixels; None for an unknown format."""
    try:
        return _measured(head)
    except struct.error:  # cut off
        return None


def _measured(head: bytes) -> tuple[str, int, int] | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack_from(">II", head, 16)
        return "PNG", width, height
    if head.startswith((b"GIF87a", b"GIF89a")):
        width, height = struct.unpack_from("<HH", head, 6)
        return "GIF", width, height
    if head.startswith(b"BM"):
        width, height = struct.unpack_from("<ii", head, 18)
        return "BMP", width, abs(height)
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _webp(head)
    return _jpeg(head) if head.startswith(b"\xff\xd8\xff") else None


def _webp(head: bytes) -> tuple[str, int, int] | None:
    match head[12:16]:
        case b"VP8X" if len(head) >= 30:
            width, height = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
            return "WebP", width, height
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", head, 21)
            return "WebP", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return "WebP", width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg(head: bytes) -> tuple[str, int, int] | None:
    at = 2
    while head[at : at + 1] == b"\xff":
        marker, size = struct.unpack_from(">xBH", head, at)
        if marker in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", head, at + 5)
            return "JPEG", width, height
        at += 2 + size
    return None
