"""Pictures are recognised by their first bytes, and truncated or invalid ones are refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.image_types import described
from runtime.server.text_file import BinaryFileError, decode

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + struct.pack(">II", 640, 480)
PICTURES = {
    "a PNG image, 640 x 480 pixels": PNG,
    "a GIF image, 3 x 2 pixels": b"GIF89a" + struct.pack("<HH", 3, 2),
    "a BMP image, 7 x 5 pixels": b"BM" + bytes(16) + struct.pack("<ii", 7, -5),
    "a WebP image, 400 x 300 pixels": b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x8f\x01\0" + b"\x2b\x01\0",
    "a WebP image, 17 x 9 pixels": b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0/" + struct.pack("<I", 16 | 8 << 14),
    "a WebP image, 20 x 10 pixels": b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + struct.pack("<HH", 20, 10),
    "a JPEG image, 1920 x 1080 pixels": b"\xff\xd8\xff\xe0\0\x04xx\xff\xc2\0\x11\x08" + struct.pack(">HH", 1080, 1920),
}


@pytest.mark.parametrize("said", PICTURES)
def test_image_type_and_size_are_recognised(said: str) -> None:
    assert described(PICTURES[said]) == said
    for end in range(len(PICTURES[said])):
        assert described(PICTURES[said][:end]) is None


@given(st.sampled_from(sorted(PICTURES.values())), st.binary(max_size=64))
def test_bytes_after_a_signature_are_ignored(head: bytes, rest: bytes) -> None:
    described(head[:4] + rest)
    described(head + rest)


def test_unsupported_image_error_describes_the_image() -> None:
    with pytest.raises(BinaryFileError) as refused:
        decode("f.png", PNG)
    assert str(refused.value) == (
        "File validation failed for f.png: File appears to be binary and this file type cannot be read or edited by "
        "this tool. It is a PNG image, 640 x 480 pixels."
    )
