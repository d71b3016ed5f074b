"""Properties of all drawn pieces, and what distinguishes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.chat.renderer import CACHED_STRIPS, COLUMN, MARKS, RECENT_STRIPS, ROLES, Renderer, StripCache
from tui.chat.text_pieces import Piece, PieceKind, markdown
from tui.terminal_io.sanitizer import sanitize
from tui.terminal_io.strip_filter import clean

STYLES = {role: Style(color=Color.from_ansi(number)) for number, role in enumerate(ROLES, start=16)}
"""Each role has a colour of its own, so that a test can tell roles apart."""
NUMBERS = dict(enumerate(ROLES, start=16))
texts = st.text(alphabet=st.characters() | st.sampled_from("ab |`*#-_[]()<>\n漢é😀\u0301"), max_size=120).map(sanitize)


def drawn(piece: Piece, width: int = 60) -> list[list[tuple[str, str]]]:
    """The rows of a piece as (role, text) parts, without margins."""
    rows = []
    for strip in Renderer(width, STYLES).strips(piece):
        parts = [
            (NUMBERS[segment.style.color.number or 0], segment.text)
            for segment in strip
            if segment.style is not None and segment.style.color is not None and segment.text.strip()
        ]
        rows.append(parts)
    return rows


@given(
    piece=st.builds(
        Piece,
        st.sampled_from(PieceKind),
        texts,
        st.sampled_from(["", *MARKS, "user"]),
        st.booleans(),
        st.sampled_from(["", "python"]),
        texts,
        st.none() | st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 7)),
    ),
    width=st.integers(1, 130),
)
def test_rows_are_as_wide_as_view(piece: Piece, width: int) -> None:
    for strip in Renderer(width, STYLES).strips(piece):
        assert sum(segment.cell_length for segment in strip) == width
        assert clean(strip.text) == strip.text


@given(texts, st.integers(1, 130))
def test_documents_are_drawn_at_any_width(text: str, width: int) -> None:
    renderer = Renderer(width, STYLES)
    for piece in markdown(text):
        strips = renderer.strips(piece)
        assert {sum(segment.cell_length for segment in strip) for strip in strips} == {width}
        assert all(clean(strip.text) == strip.text for strip in strips)


def test_code_is_highlighted_and_keeps_text() -> None:
    (row,) = drawn(Piece(PieceKind.CODE, "return 'x'  # why", language="python"))
    assert [(role, text.strip()) for role, text in row] == [
        ("accent", "return"),
        ("string", "'x'"),
        ("muted", "# why"),
    ]


def test_streamed_code_is_highlighted_like_stored_code() -> None:
    text = "def f(x):\n    return x + 1"
    assert drawn(Piece(PieceKind.CODE_OPEN, text, language="python")) == drawn(
        Piece(PieceKind.CODE, text, language="python")
    )


def test_unknown_language_is_plain() -> None:
    assert drawn(Piece(PieceKind.CODE, "x = 1", language="klingon")) == [[("code", "x = 1")]]


def test_title_is_cut_before_meta() -> None:
    (row,) = drawn(Piece(PieceKind.TITLE, "$ " + "word " * 50, "failed", meta="exit 1"), width=42)
    assert row[0] == ("failed", "✕ ")
    assert row[1][1].endswith("…")
    assert row[2] == ("failed", "  exit 1")


def test_html_and_reference_definitions_are_shown() -> None:
    assert drawn(Piece(PieceKind.MARKDOWN, "a <b>x</b> <!-- c -->"))[0][0][1].strip() == "a <b>x</b> <!-- c -->"
    assert "[a]: http://x" in drawn(Piece(PieceKind.MARKDOWN, "[a]: http://x"))[0][0][1]


def test_character_reference_is_sanitised() -> None:
    (row,) = drawn(Piece(PieceKind.MARKDOWN, "&#x202e;a &#8203; &amp; [b](http://x/&#x202e;)"))
    assert "".join(text for _, text in row).strip() == "⟦U+202E⟧a ⟦U+200B⟧ & b (http://x/%E2%80%AE)"


def test_link_shows_target() -> None:
    (row,) = drawn(Piece(PieceKind.MARKDOWN, "[bank](http://evil.example)"))
    assert "".join(text for _, text in row).strip() == "bank (http://evil.example)"
    assert row[0] == ("link", "bank")


def test_column_and_cache_are_limited() -> None:
    renderer = Renderer(300, STYLES)
    assert renderer.column == COLUMN
    pieces = [Piece(PieceKind.OUTPUT, "\n".join(f"{i} {line}" for line in range(32))) for i in range(200)]
    for piece in pieces:
        renderer.strips(piece)
    assert renderer.renders == 200
    assert len(renderer._cache) <= CACHED_STRIPS
    renderer.strips(pieces[-1])
    assert renderer.renders == 200, "the newest is remembered"
    renderer.strips(pieces[0])
    assert renderer.renders == 201, "the oldest is not"


def test_derived_strips_are_kept_for_recent_pieces() -> None:
    cache = StripCache()
    for number in range(100):
        strips = [Strip([Segment(f"{number} {row} " + "x" * 60)]) for row in range(10)]
        cache.put(Piece(PieceKind.OUTPUT, str(number)), strips)
        for strip in strips:  # as if other widgets were over it
            for place in range(1, 9):
                strip.crop_extend(place, 60, None).divide([10, 20, 40])
    assert len(cache) == 1000
    made = sum(len(strip._crop_extend_cache) for strips in cache._all.values() for strip in strips)
    assert 0 < made <= RECENT_STRIPS * 8
    first = cache.get(Piece(PieceKind.OUTPUT, "0"))
    assert first is not None
    assert [strip.text[:4] for strip in first] == [f"0 {row} " for row in range(10)]
