"""The footer: what it tells, and what gives way first."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from core.controller.halts import HaltKind
from tui.footer import Facts, duration, elide_path, pieces, tokens
from tui.marks import Mark, mark_of

FACTS = Facts(
    mark=Mark.RUNNING,
    state="running",
    elapsed_s=75,
    model="anthropic/claude-test",
    context_used=24_000,
    context_window=200_000,
    cost=0.0123,
    tokens_in=98_000,
    tokens_out=2_000,
    iteration=3,
    max_iterations=100,
    workspace="/home/me/projects/handloom",
    confirm_mode="risky",
    isolated=False,
)


def told(facts: Facts, width: int) -> list[str]:
    left, right = pieces(facts, width)
    return [piece.text for piece in (*left, *right)]


def test_a_wide_line_tells_everything() -> None:
    assert told(FACTS, 170) == [
        "▶ running",
        "1m15s",
        "esc to stop",
        "anthropic/claude-test",
        "ctx 12% of 200k",
        "$0.0123",
        "98k in 2k out",
        "3/100",
        "/home/me/projects/handloom",
        "asks if risky",
        "NO ISOLATION",
    ]


@pytest.mark.parametrize("width", range(16, 161))
def test_every_width_is_kept_and_state_and_warning_stay(width: int) -> None:
    texts = told(FACTS, width)
    assert sum(map(cell_len, texts)) + 2 * (len(texts) - 1) <= width
    assert texts[0].startswith("▶")
    assert texts[-1] == "NO ISOLATION"


def test_what_is_not_known_is_a_dash() -> None:
    facts = Facts(model="demo", context_window=0, cost=None)
    assert "ctx —" in told(facts, 160)
    assert "—" in told(facts, 160)


def test_without_a_known_window_the_tokens_of_the_context_are_told() -> None:
    assert "ctx 24k" in told(Facts(model="local", context_used=24_000), 160)


def test_numbers_are_for_people() -> None:
    assert [tokens(n) for n in (0, 999, 12_345, 200_000, 999_600, 1_500_000)] == [
        "0", "999", "12k", "200k", "1M", "1.5M",
    ]  # fmt: skip
    assert [duration(n) for n in (0, 59, 60, 3599, 3600, 7_800)] == ["0s", "59s", "1m00s", "59m59s", "1h00m", "2h10m"]
    assert elide_path("/home/me/projects/handloom", 12) == "/hom…andloom"


def test_a_reached_limit_is_a_question_whatever_the_state() -> None:
    assert mark_of("paused", "limit") == (Mark.ASKING, "reached a limit")
    assert {mark_of("paused", str(kind))[0] for kind in HaltKind} == {Mark.ASKING, Mark.ERROR}
    assert mark_of("running", None) == (Mark.RUNNING, "running")
    assert mark_of("something new", None) == (Mark.IDLE, "something new")
