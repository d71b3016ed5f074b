"""Pictures as cells: the right size before their bytes are there, the right colours after, else a reason."""

from __future__ import annotations

import asyncio
import io
import itertools
import struct
import unicodedata
import zlib
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from core.store.blobs import Blob, BlobRef, parse_data_url
from tests.store.test_blobs import png, url
from tui.terminal_io.glyphs import GLYPHS, Shapes
from tui.terminal_io.graphics.picture_cells import (
    KEPT,
    PictureError,
    Pictures,
    Pixels,
    cells,
    decoded,
    drawn,
    shapes,
    size_in_cells,
)

FLAG = Pixels(2, 4, bytes([255, 0, 0] * 4 + [0, 0, 255] * 4))
"""Red above blue."""


def blob(colour: str) -> Blob:
    found = parse_data_url(url(png(colour=colour)))
    assert found is not None
    return found


def test_cell_shows_four_pixels_in_two_colours() -> None:
    (line,) = drawn(FLAG, 1, 1)
    (segment,) = line
    assert segment.text == "▀"
    assert segment.style is not None
    assert segment.style.color is not None
    assert segment.style.bgcolor is not None
    assert (segment.style.color.name, segment.style.bgcolor.name) == ("#ff0000", "#0000ff")
    corner = Pixels(2, 2, bytes([0, 0, 0] * 3 + [255, 255, 255]))
    assert drawn(corner, 1, 1)[0][0].text == "▗"


@pytest.mark.parametrize("name", get_args(Shapes))
def test_shapes_have_a_glyph_of_their_own_for_each_choice_of_pixels(name: Shapes) -> None:
    down, glyphs = shapes(name)
    assert len(glyphs) == len(set(glyphs)) == 4**down
    assert (glyphs[0], glyphs[-1]) == (" ", "█")
    assert glyphs[-2] in ("▟", "\N{BLOCK SEXTANT-23456}", "\U0001cde5")  # the last octant of Unicode 16
    left = sum(1 << part for part in range(0, 2 * down, 2))
    assert (glyphs[left], glyphs[left << 1]) == ("▌", "▐")


def test_sextants_are_named_after_their_pixels() -> None:
    _, glyphs = shapes("sextants")
    for bits, glyph in enumerate(glyphs):
        parts = "".join(str(part + 1) for part in range(6) if bits >> part & 1)
        assert glyph in " ▌▐█" or unicodedata.name(glyph) == f"BLOCK SEXTANT-{parts}"


@pytest.mark.parametrize(("name", "rows"), [("sextants", 3), ("octants", 4)])
def test_cell_shows_each_of_its_rows(name: Shapes, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GLYPHS, "shapes", name)
    for row in range(rows):
        lines = [[255] * 6 if at == row else [0] * 6 for at in range(rows)]
        glyph = cells(Pixels(2, rows, bytes(itertools.chain(*lines))), 1, 1)[0][0][0]
        assert glyph == shapes(name)[1][0b11 << 2 * row]


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 120), st.integers(1, 60), st.booleans())
def test_picture_fits_its_place_and_fills_its_cells(
    width: int, height: int, columns: int, rows: int, enlarge: bool
) -> None:
    wide, high = size_in_cells(width, height, columns, rows, enlarge=enlarge)
    assert 1 <= wide <= columns
    assert 1 <= high <= rows
    lines = drawn(Pixels(width, height, bytes(width * height * 3)), wide, high)
    assert len(lines) == high
    assert all(sum(segment.cell_length for segment in line) == wide for line in lines)


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
