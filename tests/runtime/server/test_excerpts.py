"""Parts of texts as the model reads them, in OpenHands' words."""

from __future__ import annotations

import pytest

from runtime.server.editor import EditorError, excerpt, line_numbers_of, lines_of, numbered, snippet

HEAD = "Here's the result of running `cat -n` on f:\n"
TEXT = "a\nb\nc\n"


@pytest.mark.parametrize(
    ("view_range", "answer"),
    [
        (None, "     1\ta\n     2\tb\n     3\tc\n"),
        ([], "     1\ta\n     2\tb\n     3\tc\n"),
        ([1, 1], "     1\ta\n"),
        ([2, 3], "     2\tb\n     3\tc\n"),
        ([3, -1], "     3\tc\n"),
        ([2, 4], "     2\tb\n     3\tc\n\nNOTE: We only show up to 3 since there's only 3 lines in this file\n"),
        ([3, 3], "     3\tc\n"),
    ],
)
def test_lines_are_shown_with_their_numbers(view_range: list[int] | None, answer: str) -> None:
    assert excerpt(TEXT, "f", view_range) == HEAD + answer


@pytest.mark.parametrize(
    ("view_range", "hint"),
    [
        ([1], "two integers"),
        ([1, 2, 3], "two integers"),
        ([0, 2], "first element `0` should be within the range of lines of the file: [1, 3]."),
        ([4, -1], "first element `4`"),
        ([-1, 2], "first element `-1`"),
        ([3, 2], "second element `2` should be greater than or equal to the first element `3`."),
        ([2, -2], "second element `-2`"),
    ],
)
def test_invalid_range_is_refused(view_range: list[int], hint: str) -> None:
    with pytest.raises(EditorError) as refused:
        excerpt(TEXT, "f", view_range)
    assert hint in str(refused.value)


def test_a_long_text_is_cut() -> None:
    assert numbered("x" * 16_000, "f", 7) == f"{HEAD}     7\t{'x' * 16_000}\n"
    cut = numbered("x" * 16_001, "f")
    assert cut.startswith(f"{HEAD}     1\t{'x' * 16_000}<response clipped>")


@pytest.mark.parametrize(
    ("text", "lines"), [("", [""]), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"]), ("a\n\n", ["a", ""])]
)
def test_empty_last_line_is_not_counted(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines


@pytest.mark.parametrize(
    ("after", "last", "part"),
    [(0, 2, "a\nb"), (1, 3, "b\nc"), (-4, 1, "a"), (2, 9, "c"), (0, 3, "a\nb\nc"), (3, 9, "")],
)
def test_snippet_has_the_requested_lines(after: int, last: int, part: str) -> None:
    assert snippet(TEXT, after, last) == part


def test_lines_of_occurrences_are_listed_once() -> None:
    assert line_numbers_of("aa\nb aa aa\n\naa", "aa") == [1, 2, 4]
    assert line_numbers_of("a\nb\na\nb", "a\nb") == [1, 3]
    assert line_numbers_of("aaa", "aa") == [1]
    assert line_numbers_of("a", "x") == []
