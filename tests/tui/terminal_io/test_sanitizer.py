"""Properties of sanitised text."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.terminal_io.sanitizer import MAX_MARKS, sanitize, sanitize_line, without_colours
from tui.terminal_io.strip_filter import clean

HOSTILE = (
    "\x00\x07\x08\x09\x0a\x0d\x1b\x7f\x85\x9b\x9d\xad\u034f\u061c\u115f\u200b\u200c\u200d\u200e\u200f\u2028"
    "\u202a\u202e\u2060\u2066\u2069\u3164\ufeff\ufe0f\ud800\udfff\U000e0041\U000e0101\u0301\u0336ab漢😀é"
)
texts = st.text(alphabet=st.characters() | st.sampled_from(HOSTILE))
PREPENDED_MARKS = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
"""Format characters that have a glyph."""


def is_hidden(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and character not in PREPENDED_MARKS
        and character != "\n"
    )


@given(texts)
def test_clean_text_has_no_control_characters(text: str) -> None:
    assert [hex(ord(c)) for c in sanitize(text) if is_hidden(c)] == []


@given(texts)
def test_sanitize_is_idempotent(text: str) -> None:
    once = sanitize(text)
    assert sanitize(once) is once


@given(texts)
def test_width_is_sum_of_character_widths(text: str) -> None:
    for line in sanitize(text).split("\n"):
        assert cell_len(line) == sum(cell_len(character) for character in line)


@given(texts)
def test_clean_text_passes_strip_filter(text: str) -> None:
    for line in sanitize(text).split("\n"):
        assert clean(line) is line


@given(st.lists(texts.map(lambda text: text.replace("\n", "").replace("\r", ""))))
def test_sanitizing_by_line_equals_whole_text(lines: list[str]) -> None:
    assert sanitize("\n".join(lines)) == "\n".join(sanitize(line) for line in lines)


@given(texts, st.integers(0, 40))
def test_sanitized_line_fits(text: str, limit: int) -> None:
    line = sanitize_line(text, limit)
    assert "\n" not in line
    assert cell_len(line) <= limit


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;eA==\x07", "␛]52;c;eA==␇"),
        ("a\x00b\x7f", "a␀b␡"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("a\tb\n\tc", "a       b\n        c"),
        ("\x9b2J", "⟦U+009B⟧2J"),
        ("rm \u202efdp.exe", "rm ⟦U+202E⟧fdp.exe"),
        ("pay\u200b\u200bpal", "pay⟦U+200B+1⟧pal"),
        ("\ud800", "⟦U+D800⟧"),
        ("a\u2028b", "a⟦U+2028⟧b"),
        ("a\u200db", "a⟦U+200D⟧b"),
        ("👩\u200d👧 ⚠\ufe0f 👍\U0001f3fd", "👩👧 ⚠ 👍"),
        ("می\u200cخواهم", "میخواهم"),
        ("[red]漢字[/red]", "[red]漢字[/red]"),
    ],
)
def test_controls_become_visible(text: str, shown: str) -> None:
    assert sanitize(text) == shown


@pytest.mark.parametrize("mark", ["\u0301", "\u0336", "\u1161", "\U00011001"])
def test_flood_of_marks_is_cut(mark: str) -> None:
    assert sanitize("e" + mark * 1000 + "f") == "e" + mark * MAX_MARKS + "f"


def test_cut_line_ends_in_ellipsis() -> None:
    assert sanitize_line("abcdefgh", 5) == "abcd…"
    assert sanitize_line("漢字漢字", 5) == "漢字…"
    assert sanitize_line("a\nb", 5) == "a␊b"


def test_huge_line_is_cut_quickly() -> None:
    assert sanitize_line("A" * 10_000_000, 4) == "AAA…"


def test_without_colours_removes_only_colours() -> None:
    assert without_colours("\x1b[1;31mred\x1b[0m \x1b[2J") == "red \x1b[2J"
