"""A diff says what changed, and the change can be made again from it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.server.editor import split_lines, unified_diff

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
def test_a_hunk_has_three_lines_around_it(old: str, new: str, hunk: str) -> None:
    assert unified_diff(old, new, "f") == f"--- f\n+++ f\n{hunk}"
