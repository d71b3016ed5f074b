"""Pictures as cells: the right size before their bytes are there, the right colours after, else a reason."""

from __future__ import annotations

import asyncio
import io
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from core.store.blobs import Blob, BlobRef, parse_data_url
from tests.store.test_blobs import png, url
from tui.terminal_io.graphics.picture_cells import (
    KEPT,
    PictureError,
    Pictures,
    Pixels,
    decoded,
    quadrants,
    size_in_cells,
)

FLAG = Pixels(2, 4, bytes([255, 0, 0] * 4 + [0, 0, 255] * 4))
"""Red above blue."""


def blob(colour: str) -> Blob:
    found = parse_data_url(url(png(colour=colour)))
    assert found is not None
    return found


def test_cell_shows_four_pixels_in_two_colours() -> None:
    (line,) = quadrants(FLAG, 1, 1)
    (segment,) = line
    assert segment.text == "▀"
    assert segment.style is not None
    assert segment.style.color is not None
    assert segment.style.bgcolor is not None
    assert (segment.style.color.name, segment.style.bgcolor.name) == ("#ff0000", "#0000ff")
    corner = Pixels(2, 2, bytes([0, 0, 0] * 3 + [255, 255, 255]))
    assert quadrants(corner, 1, 1)[0][0].text == "▗"


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 120), st.integers(1, 60), st.booleans())
def test_picture_fits_its_place_and_fills_its_cells(
    width: int, height: int, columns: int, rows: int, enlarge: bool
) -> None:
    wide, high = size_in_cells(width, height, columns, rows, enlarge=enlarge)
    assert 1 <= wide <= columns
    assert 1 <= high <= rows
    drawn = quadrants(Pixels(width, height, bytes(width * height * 3)), wide, high)
    assert len(drawn) == high
    assert all(sum(segment.cell_length for segment in line) == wide for line in drawn)


def test_picture_keeps_aspect_ratio() -> None:
    assert size_in_cells(1280, 720, 100, 50) == (100, 28)
    assert size_in_cells(1280, 720, 100, 10) == (35, 10)
    assert size_in_cells(80, 80, 100, 50) == (10, 5), "a small one is not blown up"
    assert size_in_cells(80, 80, 100, 50, enlarge=True) == (100, 50)


def test_transparent_pixels_are_white() -> None:
    file = io.BytesIO()
    Image.new("RGBA", (2, 2), (0, 0, 0, 0)).save(file, "PNG")
    assert decoded(file.getvalue()).rgb == b"\xff" * 12


def bomb(width: int, height: int) -> bytes:
    """A PNG that says that it is large, and is not."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "unknown image format"),
        (b"<svg/>", "unknown image format"),
        (png()[:50], "broken"),
        (bomb(50_000, 50_000), "too many|broken"),
        (bomb(6_000, 6_000), "too large to show"),
    ],
)
def test_undecodable_picture_has_reason(data: bytes, why: str) -> None:
    with pytest.raises(PictureError, match=why):
        decoded(data)


@given(st.binary(max_size=300), st.integers(0, 100))
def test_broken_picture_raises_only_picture_error(noise: bytes, at: int) -> None:
    whole = png(20, 20)
    try:
        pixels = decoded(whole[:at] + noise + whole[at:])
    except PictureError:
        assert noise
        return
    assert len(pixels.rgb) == pixels.width * pixels.height * 3
    assert noise or pixels == decoded(png(20, 20))


async def test_picture_is_loaded_once_and_cached() -> None:
    reads: list[str] = []
    red = blob("red")

    async def read(ref: BlobRef) -> Blob | None:
        reads.append(ref.digest)
        return red if ref == red.ref else None

    pictures = Pictures(read)
    asked: list[bool] = []
    pictures.on_wanted = lambda: asked.append(True)
    assert pictures.get(red.ref) is None
    assert pictures.get(red.ref) is None
    assert await pictures.load()
    assert isinstance(pictures.get(red.ref), Pixels)
    assert not await pictures.load()
    assert (len(asked), reads) == (1, [red.ref.digest])
    for number in range(KEPT):
        pictures.get(BlobRef("image/png", 1, 1, 1, f"{number:064x}"))
    await pictures.load()
    assert pictures.get(red.ref) is None, "the one that was used longest ago gives way"


async def test_cancelled_load_keeps_picture_wanted() -> None:
    red, may = blob("red"), asyncio.Event()

    async def read(ref: BlobRef) -> Blob | None:
        await may.wait()
        return red

    pictures = Pictures(read)
    pictures.get(red.ref)
    loading = asyncio.create_task(pictures.load())
    await asyncio.sleep(0)
    loading.cancel()
    await asyncio.wait([loading])
    may.set()
    assert await pictures.load()
    assert isinstance(pictures.get(red.ref), Pixels)
