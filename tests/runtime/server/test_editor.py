"""Parts of texts as the model reads them, in OpenHands' words."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.server.editor import (
    MAX_CHARS,
    EditorError,
    _snippet_around,
    excerpt,
    line_numbers_of,
    lines_of,
    listing,
    numbered,
    snippet,
    split_lines,
    unified_diff,
)
from runtime.server.safe_paths import Roots

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
        ([1], "It should be a list of two integers."),
        ([1, 2, 3], "It should be a list of two integers."),
        ([0, 2], "Its first element `0` should be within the range of lines of the file: [1, 3]."),
        ([4, -1], "Its first element `4` should be within the range of lines of the file: [1, 3]."),
        ([-1, 2], "Its first element `-1` should be within the range of lines of the file: [1, 3]."),
        ([3, 2], "Its second element `2` should be greater than or equal to the first element `3`."),
        ([2, -2], "Its second element `-2` should be greater than or equal to the first element `2`."),
    ],
)
def test_invalid_range_is_refused(view_range: list[int], hint: str) -> None:
    with pytest.raises(EditorError) as refused:
        excerpt(TEXT, "f", view_range)
    assert str(refused.value) == f"Invalid `view_range` parameter: {view_range}. {hint}"


def test_long_text_is_truncated() -> None:
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


@pytest.mark.parametrize(("changed", "first"), [(0, 1), (3, 1), (4, 1), (5, 2), (9, 6)])
def test_snippet_around_a_change_is_numbered_as_the_file(changed: int, first: int) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 20))
    shown = _snippet_around(text, changed, changed, "a file").split("\n")
    assert shown[1].split() == [str(first), "line", str(first)]


def test_lines_of_occurrences_are_listed_once() -> None:
    assert line_numbers_of("aa\nb aa aa\n\naa", "aa") == [1, 2, 4]
    assert line_numbers_of("a\nb\na\nb", "a\nb") == [1, 3]
    assert line_numbers_of("aaa", "aa") == [1]
    assert line_numbers_of("a", "x") == []


texts = st.text(alphabet="ab\n", max_size=24)


def applied(old: str, diff: str) -> str:
    """The text that a diff makes of another."""
    header = re.search(r"^@@ -(\d+),(\d+) \+(\d+),(\d+) @@\n", diff, re.MULTILINE)
    assert header is not None
    at, old_count, _, new_count = map(int, header.groups())
    lines = split_lines(old)
    before: list[str] = []
    after: list[str] = []
    body = diff[header.end() :].replace("\n\\ No newline at end of file\n", "\0")
    for line in re.findall(r"[ +-][^\n\0]*[\n\0]", body):
        text = line[1:].replace("\0", "")
        before += [text] * (line[0] in " -")
        after += [text] * (line[0] in " +")
    assert (len(before), len(after)) == (old_count, new_count)
    first = max(0, at - 1)
    assert lines[first : first + old_count] == before
    return "".join(lines[:first] + after + lines[first + old_count :])


def least(old: str, new: str) -> tuple[int, int]:
    """How many lines a hunk removes and adds, counted line by line."""
    before, after = split_lines(old), split_lines(new)
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    return len(before), len(after)


@given(texts, texts)
def test_diff_can_be_applied_and_is_minimal(old: str, new: str) -> None:
    diff = unified_diff(old, new, "f")
    if old == new:
        assert diff == ""
        return
    assert applied(old, diff) == new
    body = diff.split("\n")[2:]
    assert (sum(x.startswith("-") for x in body), sum(x.startswith("+") for x in body)) == least(old, new)


@pytest.mark.parametrize(
    ("old", "new", "hunk"),
    [
        ("a\n", "b\n", "@@ -1,1 +1,1 @@\n-a\n+b\n"),
        ("", "a", "@@ -0,0 +1,1 @@\n+a\n\\ No newline at end of file\n"),
        ("a", "", "@@ -1,1 +0,0 @@\n-a\n\\ No newline at end of file\n"),
        ("a\n", "a", "@@ -1,1 +1,1 @@\n-a\n+a\n\\ No newline at end of file\n"),
        (
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n",
        ),
        ("1\n2\n2\n3\n", "1\n2\n3\n", "@@ -1,4 +1,3 @@\n 1\n 2\n-2\n 3\n"),
    ],
)
def test_hunk_has_three_context_lines(old: str, new: str, hunk: str) -> None:
    assert unified_diff(old, new, "f") == f"--- f\n+++ f\n{hunk}"


def listed(folder: Path, *roots: Path) -> tuple[list[str], str]:
    """The listed paths, and the text after them."""
    beneath = Roots(roots or (folder,))
    with beneath.locate(str(folder)) as place:
        head, *lines = listing(beneath, place).split("\n")
    assert head == f"Here's the files and directories up to 2 levels deep in {folder}, excluding hidden items:"
    text = "\n".join(lines)
    paths, _, note = text.partition("\n\n")
    return [path.removeprefix(f"{folder}/") for path in paths.split("\n")], note


def test_two_levels_are_listed_without_hidden_entries(tmp_path: Path) -> None:
    (tmp_path / "b" / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for name in ("a", "b/two", "b/.hidden", ".secret", ".other", "b/deep/three"):
        (tmp_path / name).touch()
    paths, note = listed(tmp_path)
    assert paths == ["", "a", "b/", "b/deep/", "b/two", "empty/"]
    assert note == (
        f"2 hidden files/directories in this directory are excluded. You can use 'ls -la {tmp_path}' to see them."
    )


def test_hidden_files_are_not_mentioned_if_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert listed(tmp_path) == (["", "a"], "")


def test_link_to_a_folder_is_followed_only_below_the_roots(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "real").mkdir(parents=True)
    outside.mkdir()
    (inside / "real" / "f").touch()
    (inside / "real" / "out").symlink_to(outside)
    (inside / "real" / "up").symlink_to(inside)
    (outside / "private").touch()
    (inside / "link").symlink_to(inside / "real")
    (inside / "out").symlink_to(outside)
    (inside / "nowhere").symlink_to(inside / "gone")
    shown = ["", "link/", "link/f", "link/out", "link/up/", "nowhere", "out", "real/", "real/f", "real/out", "real/up/"]
    assert listed(inside) == (shown, "")


def test_long_list_is_truncated_and_all_hidden_entries_counted(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"{number:03}{'x' * 100}").touch()
    (tmp_path / ".hidden").touch()
    with Roots((tmp_path,)).locate(str(tmp_path)) as place:
        text = listing(Roots((tmp_path,)), place)
    _, _, shown = text.partition("excluding hidden items:\n")
    paths, clipped, _ = shown.partition("<response clipped>")
    assert (len(paths), clipped) == (MAX_CHARS, "<response clipped>")
    assert text.endswith("to see them.")


def test_descriptors_are_closed(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").touch()
    before = len(os.listdir("/proc/self/fd"))
    listed(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
