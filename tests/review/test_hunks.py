"""Hunks: each can be accepted or reverted, and together they give the exact bytes."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.review.hunks import MAX_LINES, Hunk, applied, hunks, split

LINES = st.lists(st.sampled_from([b"a", b"b", b"\r", b"\xff\xfe", b"\x0c", "é\u2028".encode()]), max_size=12)
CONTENTS = st.tuples(LINES, st.booleans()).map(lambda drawn: b"\n".join(drawn[0]) + (b"\n" if drawn[1] else b""))


@given(CONTENTS, CONTENTS)
def test_applying_all_hunks_gives_the_new_content_and_none_the_old(old: bytes, new: bytes) -> None:
    found = hunks(old, new)
    assert found is not None
    assert applied(old, new, range(len(found))) == new
    assert applied(old, new, ()) == old
    assert bool(found) == (old != new)


@given(CONTENTS, CONTENTS)
def test_remaining_hunks_are_those_not_applied(old: bytes, new: bytes) -> None:
    """Taking a hunk and then all others of what is left gives the new content, whichever comes first."""
    found = hunks(old, new) or []
    for number in range(len(found)):
        between = applied(old, new, {number})
        left = hunks(between, new)
        assert left is not None
        assert applied(between, new, range(len(left))) == new
        assert applied(old, new, set(range(len(found))) - {number}) != new


def test_each_selection_of_hunks_gives_the_expected_content() -> None:
    old = b"".join(b"%d\n" % n for n in range(30))
    new = old.replace(b"5\n", b"five\n", 1).replace(b"15\n", b"", 1).replace(b"25\n", b"25\n25b\n")
    found = hunks(old, new)
    assert found is not None
    assert len(found) == 3
    texts = {applied(old, new, chosen) for size in range(4) for chosen in combinations(range(3), size)}
    assert len(texts) == 8
    assert found[0].lines == ("@@ -3,7 +3,7 @@", " 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8")
    assert applied(old, new, {1}) == old.replace(b"15\n", b"", 1)


@pytest.mark.parametrize("content", [b"\0", b"x\n" * (MAX_LINES + 1)])
def test_binary_or_huge_content_has_no_hunks(content: bytes) -> None:
    assert hunks(b"x\n", content) is None


def test_lines_end_only_at_line_feeds() -> None:
    assert split(b"a\r\nb\x0cc\n\nd") == [b"a\r\n", b"b\x0cc\n", b"\n", b"d"]


@pytest.mark.parametrize(
    ("old", "new", "hunk"),
    [
        (b"a\nb\n", b"A\nb\n", Hunk(0, 1, 0, 1, ("@@ -1,2 +1,2 @@", "-a", "+A", " b"))),
        (b"a\n", b"a\nb\n", Hunk(1, 1, 1, 2, ("@@ -1,1 +1,2 @@", " a", "+b"))),
        (b"0\n1\n2\n3\n4\n5\n6\n", b"0\n1\n2\n3\n4\n5\nsix\n",
         Hunk(6, 7, 6, 7, ("@@ -4,4 +4,4 @@", " 3", " 4", " 5", "-6", "+six"))),
        (b"0\n1\n2\n3\n4\n5\n", b"1\n2\n3\n4\n5\n", Hunk(0, 1, 0, 0, ("@@ -1,4 +1,3 @@", "-0", " 1", " 2", " 3"))),
        (b"", b"\xff", Hunk(0, 0, 0, 1, ("@@ -1,0 +1,1 @@", "+\ufffd"))),
    ],
)  # fmt: skip
def test_context_is_limited_by_the_file(old: bytes, new: bytes, hunk: Hunk) -> None:
    assert hunks(old, new) == [hunk]


def test_size_limit_applies_to_both_sides() -> None:
    for content in (b"\0", b"x\n" * (MAX_LINES + 1)):
        assert hunks(content, b"x\n") is None
    assert len(hunks(b"", b"x\n" * MAX_LINES) or ()) == 1
    assert len(hunks(b"x\n" * MAX_LINES, b"") or ()) == 1
