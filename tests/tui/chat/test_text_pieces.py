"""Text is cut in the same way while streaming and when stored, into pieces that are fast to draw."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.chat.text_pieces import (
    CODE_LINES,
    HIGHLIGHT_LIMIT,
    LINE_LIMIT,
    LIST_LINES,
    LITERAL_LIMIT,
    PROSE_LIMIT,
    TABLE_LINES,
    MarkdownSplitter,
    Piece,
    PieceKind,
    literal,
    markdown,
)

LINES = (
    "",
    "word and word",
    "- item",
    "  continued",
    "1. one",
    "```python",
    "```",
    "    ````",
    "~~~",
    "| a | b |",
    "|---|---|",
    "# head",
    "> quote",
    "x" * 3000,
    "tab\there\r",
)
documents = st.lists(st.sampled_from(LINES), max_size=60).map("\n".join)


def brief(pieces: list[Piece]) -> list[tuple[str, str]]:
    return [(piece.kind.value, piece.text) for piece in pieces]


@given(documents, st.lists(st.integers(0, 4000), max_size=20))
def test_streamed_text_is_cut_like_stored_text(text: str, cuts: list[int]) -> None:
    splitter = MarkdownSplitter()
    at = 0
    for cut in sorted(cuts):
        splitter.feed(text[at:cut])
        splitter.pieces()
        at = max(at, cut)
    splitter.feed(text[at:])
    assert splitter.finish() == markdown(text)
    assert splitter.text == text


@given(documents, st.integers(1, 50))
def test_finished_pieces_never_change(text: str, step: int) -> None:
    splitter = MarkdownSplitter()
    settled: list[Piece] = []
    for at in range(0, len(text), step):
        splitter.feed(text[at : at + step])
        pieces = splitter.pieces()
        assert pieces[: len(settled)] == settled
        settled = pieces[:-1]


@given(documents)
def test_pieces_are_bounded(text: str) -> None:
    for piece in markdown(text * 20):
        lines = piece.text.count("\n") + 1
        if piece.kind is PieceKind.CODE:
            assert lines <= CODE_LINES
            assert len(piece.text) <= LITERAL_LIMIT + PROSE_LIMIT + CODE_LINES
        else:
            assert len(piece.text) <= PROSE_LIMIT + LIST_LINES


@given(documents)
def test_no_word_is_lost(text: str) -> None:
    kept = "".join(piece.text for piece in markdown(text))
    for word in ("word", "item", "continued", "head", "quote"):
        assert kept.count(word) == text.count(word)


def test_blank_line_ends_paragraph_but_not_fence() -> None:
    assert brief(markdown("one\n\ntwo\n```py\na\n\nb\n```\nthree")) == [
        ("markdown", "one"),
        ("markdown", "two"),
        ("code", "a\n\nb"),
        ("markdown", "three"),
    ]


def test_list_item_keeps_its_paragraphs() -> None:
    assert brief(markdown("- one\n\n  more of one\n\nafter")) == [
        ("markdown", "- one\n\n  more of one"),
        ("markdown", "after"),
    ]


def test_fence_in_list_loses_list_indent() -> None:
    assert brief(markdown("1. do\n   ```sh\n   ls\n     -l\n   ```")) == [
        ("markdown", "1. do"),
        ("code", "ls\n  -l"),
    ]


def test_long_list_is_cut_between_items() -> None:
    first, second, *_ = markdown("- item\n" * (LIST_LINES + 1))
    assert first.text.count("item") == LIST_LINES
    assert (second.text, second.gap) == ("- item", False)


def test_long_table_repeats_header() -> None:
    first, second = markdown("| a |\n|---|\n" + "| 1 |\n" * TABLE_LINES)
    assert first.text.startswith("| a |\n|---|\n| 1 |")
    assert second.text.startswith("| a |\n|---|\n| 1 |")
    assert (first.text + second.text).count("| 1 |") == TABLE_LINES


def test_streamed_code_is_open_until_fence_closes() -> None:
    splitter = MarkdownSplitter()
    splitter.feed("```py\nx = 1")
    assert [piece.kind for piece in splitter.pieces()] == [PieceKind.CODE_OPEN]
    splitter.feed("\n``")
    assert brief(splitter.pieces()) == [("code_open", "x = 1")]
    splitter.feed("`\n")
    assert brief(splitter.pieces()) == [("code", "x = 1")]


def test_unfinished_fence_is_not_shown_as_text() -> None:
    splitter = MarkdownSplitter()
    splitter.feed("one\n\n``")
    assert brief(splitter.pieces()) == [("markdown", "one")]


def test_long_fence_is_not_fully_highlighted() -> None:
    pieces = markdown("```py\n" + "x = 1\n" * HIGHLIGHT_LIMIT)
    assert pieces[0].language == "py"
    assert pieces[-1].language == ""


def test_10_mb_output_line_is_cut() -> None:
    (piece,) = literal(["A" * 10_000_000], PieceKind.OUTPUT)
    assert len(piece.text) < LINE_LIMIT + 100
    assert piece.text.endswith("… 9,995,904 more characters")


def test_text_lines_keep_every_word() -> None:
    pieces = literal(["word " * 10_000], PieceKind.TEXT)
    assert sum(piece.text.count("word") for piece in pieces) == 10_000
