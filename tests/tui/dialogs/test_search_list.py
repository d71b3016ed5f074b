"""Lists that are searched by typing: matches, their order, and what is dropped in a narrow one."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tests.tui.workspace.running_app import running
from tui.approval.commands import MODE_MESSAGES, ModeScreen
from tui.dialogs.search_list import Clickable, Row, elided, line, ranked

ROWS = [
    Row("a", "Close tab", "Close this conversation", "ctrl+x w"),
    Row("b", "Theme", "Choose the colours", "ctrl+x t", "Workspace"),
    Row("c", "New conversation", "Begin one in a new tab", "ctrl+n"),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [("", "abc"), ("conv", "ca"), ("tab", "ac"), ("NEW", "c"), ("ctrl+n", "c"), ("workspace", "b"), ("tab new", "c")],
)
def test_matches_in_titles_come_first(query: str, found: str) -> None:
    assert "".join(row.key for row in ranked(query, ROWS)) == found


@pytest.mark.parametrize("width", range(1, 120, 3))
@pytest.mark.parametrize("row", [*ROWS, Row("d", "日本語のモデル" * 3, "注釈" * 10, "ctrl+x 日"), Row("", "Heading")])
def test_line_is_never_wider_than_the_list(row: Row, width: int) -> None:
    assert cell_len(line(row, width, 24).plain.rstrip()) <= width or not row.key


def test_note_is_dropped_before_the_keys() -> None:
    assert line(ROWS[0], 60, 20).plain.split("  ")[0] == "Close tab"
    assert "ctrl+x w" in line(ROWS[0], 24).plain
    assert "this" not in line(ROWS[0], 24).plain
    assert line(ROWS[0], 12).plain.strip() == "Close tab"


def test_cut_text_ends_with_an_ellipsis() -> None:
    assert [elided("abcdef", width) for width in (6, 5, 1, 0)] == ["abcdef", "abcd…", "…", ""]
    assert elided("日本語", 4) == "日…"


async def test_second_choice_before_the_list_is_gone_leaves_nothing_else() -> None:
    async with running() as it:
        left = list[str | None]()
        for _screen in range(2):
            it.app.push_screen(ModeScreen("risky", MODE_MESSAGES), left.append)
        await it.settle()
        found = it.app.screen.query_one(Clickable)
        found.action_select()
        found.action_select()
        await it.settle()
        assert isinstance(it.app.screen, ModeScreen)
        assert len(left) == 1
