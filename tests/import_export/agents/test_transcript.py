"""What all readers of other agents' sessions make their events with."""

from __future__ import annotations

import pytest

from core.import_export.agents.transcript import difference


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ("a\r\nb\r\n", "a\nb\n", ["-a\r", "-b\r", "+a", "+b"]),
        ("x = 'a\u2028b'\n", "x = 'a\u2028c'\n", ["-x = 'a\u2028b'", "+x = 'a\u2028c'"]),
        ("a\n", "a\n\n", [" a", "+"]),
        ("", "a", ["+a"]),
    ],
)
def test_only_line_feeds_end_the_lines_of_a_diff(before: str, after: str, changes: list[str]) -> None:
    assert (difference(before, after, "f") or "").split("\n")[3:] == changes
