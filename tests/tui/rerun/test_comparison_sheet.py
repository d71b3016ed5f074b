"""Two results as rows: beside each other or in one column, wrapped, clean, and the first difference found."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from rich.cells import cell_len

from core.events import CmdOutputMetadata, CmdOutputObservation, CmdRunAction, Envelope, EventSource
from core.rerun.alignment import Pair
from core.rerun.comparison import RULES, Origin, compare
from core.rerun.recipe import Step
from tui.rerun.comparison_sheet import RULES as RULE_WORDS
from tui.rerun.comparison_sheet import Sheet, head


def pair_of(recorded: str, new: str, command: str = "make") -> Pair:
    def ran(content: str) -> CmdOutputObservation:
        return CmdOutputObservation(command=command, content=content, metadata=CmdOutputMetadata(exit_code=0))

    at = datetime(2026, 1, 1, tzinfo=UTC)
    action = Envelope(
        conversation_id="c", id=0, timestamp=at, source=EventSource.AGENT, event=CmdRunAction(command=command)
    )
    return Pair(Step(action), comparison=compare(ran(recorded), ran(new), Origin(), Origin()))


def text_of(sheet: Sheet) -> list[str]:
    return ["".join(text for _, text in sheet.row(y)).rstrip() for y in range(sheet.height)]


def test_recorded_result_is_left_of_the_new_one() -> None:
    sheet = Sheet(pair_of("same\nold\ntook 1 ms", "same\nnew\ntook 2 ms"), 43, is_split=True)
    assert text_of(sheet) == [
        "  [exit code 0]      │   [exit code 0]",
        "  same               │   same",
        "- old                │ + new",
        "≈ took 1 ms          │ ≈ took 2 ms",
    ]
    assert sheet.first_difference == 2


def test_new_result_is_below_the_recorded_one_in_one_column() -> None:
    sheet = Sheet(pair_of("same\nold\ntook 1 ms", "same\nnew\ntook 2 ms"), 40, is_split=False)
    assert text_of(sheet) == ["  [exit code 0]", "  same", "- old", "+ new", "≈ took 2 ms"]


def test_differences_within_a_line_are_marked() -> None:
    sheet = Sheet(pair_of("the old word", "the new word"), 40, is_split=False)
    assert sheet.row(1) == [("old", "- "), ("old", "the "), ("old-word", "old"), ("old", " word")]


@pytest.mark.parametrize("text", ["x" * 95, "语" * 40, "e\N{COMBINING ACUTE ACCENT}" * 60, ""])
@pytest.mark.parametrize("is_split", [True, False])
def test_long_lines_wrap_completely(text: str, is_split: bool) -> None:
    sheet = Sheet(pair_of(text, text + "!"), 50, is_split=is_split)
    rows = [sheet.row(y) for y in range(sheet.height)]
    assert all(cell_len("".join(text for _, text in row)) <= 50 for row in rows)
    assert "".join(text for row in rows for role, text in row if role.startswith("new")).count("!") == 1


def test_hostile_output_is_made_visible() -> None:
    sheet = Sheet(pair_of("\x1b[31mred\x1b[0m \x07\u202e", "x"), 60, is_split=False)
    shown = "\n".join(text_of(sheet))
    assert "red" in shown
    assert not set("\x1b\x07\u202e") & set(shown)


def test_header_shows_action_and_outcome() -> None:
    rows = head(pair_of("took 1 ms", "took 2 ms", command="make\x1b all"), 60, is_split=False)
    assert ["".join(text for _, text in row) for row in rows] == [
        "Running command: make␛ all",
        "same except for expected differences · except for: durations",
        "",
    ]


def test_every_rule_has_a_description() -> None:
    assert set(RULE_WORDS) == {rule.name for rule in RULES} | {"workspace", "host"}


def test_only_visible_lines_of_a_huge_result_are_laid_out() -> None:
    many = "\n".join(map(str, range(200_000)))
    assert Sheet(pair_of(many, many), 100, is_split=True).height == 10_000
