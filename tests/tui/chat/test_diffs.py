"""Diffs: what is compared, how they are cut into pieces, and how they are drawn."""

from __future__ import annotations

import difflib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from core.events import FileEditAction, FileEditObservation
from tests.tui.chat.events import conversation, folded
from tests.tui.chat.test_renderer import STYLES
from tui.chat.diff_view import wrapped
from tui.chat.diffs import changed_words, paired, pieces, refined
from tui.chat.overlays import parts_of
from tui.chat.renderer import Renderer
from tui.chat.text_pieces import Piece, PieceKind
from tui.terminal_io.sanitizer import sanitize

lines = st.lists(st.sampled_from(["a", "b", "c", "", "  x = 1", "-- y", "++ z", "漢字"]), max_size=60)


def unified(old: list[str], new: list[str], context: int = 3) -> list[str]:
    """A diff without its header."""
    return list(difflib.unified_diff(old, new, n=context, lineterm=""))[2:]


def applied(diff: list[str], old: list[str]) -> list[str]:
    """The old lines after a diff."""
    found: list[str] = []
    at = 0
    for line in diff:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - 1 if count != "0" else int(start)
            found += old[at:begin]
            at = begin
        elif line.startswith("+"):
            found.append(line[1:])
        else:
            assert old[at] == line[1:]
            if line.startswith(" "):
                found.append(line[1:])
            at += 1
    return found + old[at:]


@given(lines, lines)
def test_refined_diff_still_applies(old: list[str], new: list[str]) -> None:
    coarse = [f"@@ -{1 if old else 0},{len(old)} +{1 if new else 0},{len(new)} @@"]
    coarse += ["-" + line for line in old] + ["+" + line for line in new]
    assert applied(refined(coarse), old) == new


def test_refined_diff_omits_unchanged_lines() -> None:
    old = [f"line {n}" for n in range(40)]
    new = ["first", *old[1:-1], "last"]
    coarse = ["@@ -1,40 +1,40 @@", *("-" + line for line in old), *("+" + line for line in new)]
    assert refined(coarse) == unified(old, new)


def test_missing_final_newline_is_kept() -> None:
    text = ["@@ -1,3 +1,3 @@", "-a", "-b", "-c", "\\ No newline at end of file", "+x", "+b", "+c"]
    assert refined(text)[-3:] == ["-c", "\\ No newline at end of file", "+c"]


@given(lines, lines, st.booleans())
def test_pieces_keep_lines_and_numbers(old: list[str], new: list[str], split: bool) -> None:
    diff = unified(old, new)
    found = [piece for piece in pieces(diff, "", split) if piece.kind is PieceKind.DIFF]
    for piece in found:
        assert piece.numbers is not None
        first, second, _ = piece.numbers
        for line in piece.text.split("\n"):
            if line[:1] in " -":
                assert old[first - 1] == line[1:]
                first += 1
            if line[:1] in " +":
                assert new[second - 1] == line[1:]
                second += 1
    shown = sorted(line for piece in found for line in piece.text.split("\n"))
    assert shown == sorted(line for line in diff if not line.startswith("@@"))


def test_long_change_is_cut_for_both_sides() -> None:
    diff = ["@@ -1,500 +1,500 @@", *(f"-old {n}" for n in range(500)), *(f"+new {n}" for n in range(500))]
    first = pieces(diff, "", split=True)[0].text.split("\n")
    assert {line[0] for line in first} == {"-", "+"}
    assert {line[0] for line in pieces(diff, "", split=False)[0].text.split("\n")} == {"-"}


def test_omitted_lines_are_counted() -> None:
    found = pieces(["@@ -11,2 +11,2 @@ def f():", "-a", "+b", "@@ -40,1 +40,1 @@", "-c", "+d"], "", split=False)
    gaps = [piece.text for piece in found if piece.kind is PieceKind.DIFF_GAP]
    assert gaps == ["⋯  10 unchanged lines  def f():", "⋯  28 unchanged lines"]


def test_similar_lines_are_paired() -> None:
    assert paired(["x = first(1)"], ["import os", "x = first(2)", "y = 3"]) == [(None, 0), (0, 1), (None, 2)]
    assert paired(["a", "b"], ["c", "d"]) == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    ("old", "new", "marks"),
    [
        ("speed = 12", "speed = 24", ([(8, 10)], [(8, 10)])),
        ("    call(x)", "        call(x)", ([], [(4, 8)])),
        ("call(one two)", "call(six ten)", ([(5, 12)], [(5, 12)])),
        ("entirely", "different words", None),
        ("w " * 200, "w " * 199, None),
    ],
)
def test_changed_words_are_marked(old: str, new: str, marks: object) -> None:
    assert changed_words(old, new) == marks


def shown(diff: list[str], width: int, split: bool = False, language: str = "") -> list[str]:
    """A drawn diff."""
    renderer = Renderer(width, STYLES, split=split)
    found = [strip.text.rstrip() for piece in pieces(diff, language, split) for strip in renderer.strips(piece)]
    return [row[1:] for row in found]


def test_one_column_shows_numbers_and_signs() -> None:
    assert shown(["@@ -9,2 +9,2 @@", " same", "-old", "+new"], 70) == [
        "  ⋯  8 unchanged lines",
        "   9  9   same",
        "  10    - old",
        "     10 + new",
    ]


def test_narrow_panes_show_fewer_numbers() -> None:
    diff = ["@@ -1,2 +1,2 @@", " same", "-old", "+new"]
    assert shown(diff, 40) == ["  1   same", "  2 - old", "  2 + new"]
    assert shown(diff, 20) == ["    same", "  - old", "  + new"]


def test_side_by_side_pairs_removed_and_added_lines() -> None:
    rows = shown(["@@ -1,2 +1,3 @@", " same", "-x = one(1)", "+new", "+x = one(2)"], 64, split=True)
    assert [" ".join(row.split()) for row in rows] == ["1 same 1 same", "2 + new", "2 - x = one(1) 3 + x = one(2)"]


def test_long_diff_line_wraps() -> None:
    text = "".join(chr(ord("a") + n % 26) for n in range(150))
    for split in (False, True):
        piece = pieces(["@@ -1,1 +1,1 @@", "-", f"+{text}"], "", split)[0]
        strips = Renderer(64, STYLES, split=split).strips(piece)
        taken = "".join(part for strip in strips for _, part, _ in parts_of(strip))
        assert taken == text


def test_diff_highlights_code_and_changed_words() -> None:
    (piece,) = pieces(["@@ -1,1 +1,1 @@", "-return 'one', 1", "+return 'two', 1"], "py", split=False)
    strips = Renderer(70, {**STYLES, "added-word": Style(bgcolor="red", bold=True)}).strips(piece)
    styles = {segment.text: segment.style for segment in strips[1] if segment.style is not None}
    assert styles["return"].color == STYLES["accent"].color
    assert styles["two"].bold
    assert styles["two"].bgcolor is not None
    assert not styles["return"].bold


def test_10_mb_diff_line_is_drawn_quickly() -> None:
    diff = ["@@ -1,1 +1,1 @@", "-a", "+" + "word " * 2_000_000]
    found = pieces(diff, "py", split=False)
    rows = [strip.text for piece in found for strip in Renderer(80, STYLES).strips(piece)]
    assert len(rows) < 100
    assert any("more characters" in row for row in rows)


texts = st.lists(st.tuples(st.sampled_from(" -+@\\"), st.text(max_size=40).map(sanitize)), max_size=20)


@given(texts, st.integers(1, 150), st.booleans(), st.sampled_from(["", "py", "nonsense"]))
def test_any_diff_like_text_is_drawn(diff: list[tuple[str, str]], width: int, split: bool, language: str) -> None:
    renderer = Renderer(width, STYLES, split=split)
    for piece in pieces([sign + text.replace("\n", " ") for sign, text in diff], language, split):
        for strip in renderer.strips(piece):
            assert strip.cell_length == sum(segment.cell_length for segment in strip) == width


def test_language_follows_file_extension() -> None:
    old, new = "\n".join(f"l{n}" for n in range(60)), "\n".join(f"l{n}" for n in range(60)).replace("l30", "thirty")
    observation = FileEditObservation(path="/w/a.py", old_content=old, new_content=new)
    (block,) = folded(conversation(FileEditAction(path="/w/a.py"), (observation, 0))).blocks
    body = [piece for piece in block.pieces() if piece.kind is PieceKind.DIFF]
    assert [piece.language for piece in body] == ["py"]
    assert block.meta == "+1 −1"
    assert body[0].text.split("\n")[3:5] == ["-l30", "+thirty"]


def test_long_path_is_cut_in_middle_and_command_at_end() -> None:
    renderer = Renderer(42, STYLES)
    path = Piece(PieceKind.TITLE_PATH, "edit /home/somebody/a/very/long/way/down/to/the/file.py", "ok", meta="+1 −1")
    command = Piece(PieceKind.TITLE, "$ " + "word " * 30, "ok")
    assert renderer.strips(path)[0].text.rstrip().endswith("file.py  +1 −1")
    assert "edit /home/" in renderer.strips(path)[0].text
    assert "…" in renderer.strips(path)[0].text
    assert renderer.strips(command)[0].text.rstrip().endswith("…")


@given(st.lists(st.text(st.sampled_from("ab 漢字é"), max_size=12), max_size=4), st.integers(2, 7))
def test_wrapped_text_loses_nothing(texts: list[str], room: int) -> None:
    styles = [Style(bold=at % 2 == 1) for at in range(len(texts))]
    rows = wrapped(list(zip(styles, texts, strict=True)), room)
    cells = [(character, segment.style) for row in rows for segment in row for character in segment.text]
    assert cells == [(character, style) for style, text in zip(styles, texts, strict=True) for character in text]
    widths = [sum(cell_len(segment.text) for segment in row) for row in rows]
    assert max(widths) <= room
    for row, (width, below) in zip(rows[1:], pairwise(widths), strict=True):
        assert below
        assert width + cell_len("".join(segment.text for segment in row)[0]) > room
