"""The footer: its content, and what is dropped first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from core.controller.exit_reasons import HaltKind
from tui.workspace.conversation_status import Mark, mark_of, wait_of
from tui.workspace.footer import Facts, context, dollars, duration, elide_path, pieces, tokens
from tui.workspace.mode_words import MODE_WORDS, SHORT_MODE_WORDS

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


def test_wide_footer_shows_everything() -> None:
    assert told(FACTS, 200) == [
        "▶ running",
        "1m15s",
        "esc to stop",
        "anthropic/claude-test",
        "context 12% of 200k",
        "$0.0123",
        "98k in / 2k out",
        "step 3/100",
        "/home/me/projects/handloom",
        "ask before risky actions",
        "NO SANDBOX",
    ]


def test_estimates_are_marked() -> None:
    shown = told(replace(FACTS, estimated=True), 180)
    assert {"~$0.0123", "~98k in / ~2k out"} <= set(shown)
    assert "cost —" in told(replace(FACTS, estimated=True, cost=None), 180)


@pytest.mark.parametrize("width", range(16, 161))
def test_every_width_is_kept_and_state_and_warning_stay(width: int) -> None:
    texts = told(FACTS, width)
    assert sum(map(cell_len, texts)) + 3 * (len(texts) - 1) <= width
    assert texts[0].startswith("▶")
    assert texts[-1] == "NO SANDBOX"


def test_folder_is_shown_whole_where_there_is_room() -> None:
    facts = Facts(
        Mark.WAITING, "waiting for you", model="a.yaml", cost=0.0, workspace="/tmp/work", confirm_mode="never"
    )
    line = " · ".join(["◆ waiting for you", "a.yaml", "context —", "/tmp/work", "full auto"])
    assert "/tmp/work" in told(facts, cell_len(line))
    assert "/tmp/work" not in told(facts, cell_len(line) - 1)


def test_cost_is_shown_from_the_first_call_on() -> None:
    facts = Facts(
        Mark.WAITING, "waiting for you", model="a.yaml", cost=0.0, workspace="/tmp/work", confirm_mode="never"
    )
    assert not [text for text in told(facts, 160) if "$" in text]
    assert "$0.00" in told(replace(facts, tokens_in=10), 160), "a model that costs nothing"


@pytest.mark.parametrize("mode", ["always", "risky", "auto-edit", "plan", "never"])
def test_mode_is_shown_at_40_columns(mode: str) -> None:
    facts = Facts(Mark.WAITING, "waiting for you", model="demo", workspace="/srv/work", confirm_mode=mode)
    assert told(facts, 38)[-1] == SHORT_MODE_WORDS.get(mode, MODE_WORDS[mode])


def test_unknown_values_are_dashes() -> None:
    facts = Facts(model="demo", context_window=0, cost=None)
    assert "context —" in told(facts, 160)
    assert "cost —" in told(facts, 160)


def test_unknown_window_shows_the_tokens_of_the_context() -> None:
    assert "context 24k" in told(Facts(model="local", context_used=24_000), 160)


def test_numbers_are_short() -> None:
    assert [tokens(n) for n in (0, 999, 12_345, 200_000, 999_600, 1_500_000)] == [
        "0", "999", "12k", "200k", "1M", "1.5M",
    ]  # fmt: skip
    assert [duration(n) for n in (0, 59, 60, 3599, 3600, 7_800)] == ["0s", "59s", "1m00s", "59m59s", "1h00m", "2h10m"]
    assert elide_path("/home/me/projects/handloom", 12) == "/hom…andloom"


def test_reached_limit_is_a_question_in_every_state() -> None:
    assert mark_of("paused", wait_of("paused", "limit")) == (Mark.WAITING, "reached a limit")
    assert {mark_of("paused", wait_of("paused", str(kind)))[0] for kind in HaltKind} == {Mark.WAITING}
    assert mark_of("running", wait_of("running")) == (Mark.RUNNING, "running")
    assert mark_of("something new", wait_of("something new")) == (Mark.IDLE, "something new")


@pytest.mark.parametrize(
    ("used", "window", "told"),
    [
        (0, 0, "—"),
        (0, 200_000, "—"),
        (76_000, 200_000, "38% of 200k"),
        (400, 200_000, "<1% of 200k"),
        (199_999, 200_000, "99% of 200k"),
        (200_000, 200_000, "100% of 200k"),
        (200_100, 200_000, "101% of 200k, too full"),
        (500_000, 200_000, "250% of 200k, too full"),
        (24_000, 0, "24k"),
    ],
)
def test_overfull_context_is_never_rounded_to_100_percent(used: int, window: int, told: str) -> None:
    assert context(used, window) == told


@pytest.mark.parametrize("width", range(40, 181))
def test_overfull_context_is_marked_at_every_width(width: int) -> None:
    texts = told(replace(FACTS, context_used=208_000), width)
    shown = [text for text in texts if text.startswith(("context", "ctx"))]
    assert all("104%" in text and "too full" in text for text in shown)
    assert shown or width < 90


def test_zero_cost_differs_from_unknown_cost() -> None:
    assert [dollars(cost) for cost in (None, 0.0, 0.0123, 2.04, 1234.5)] == [
        "cost —", "$0.00", "$0.0123", "$2.04", "$1,234.50",
    ]  # fmt: skip


def test_least_important_pieces_are_shortened_then_dropped_first() -> None:
    gone: list[str] = []
    before = told(FACTS, 180)
    for width in range(179, 16, -1):
        texts = told(FACTS, width)
        gone += [text for text in before if text not in texts and not text.startswith(("/", "…"))]
        before = texts
    assert gone == [
        "98k in / 2k out",
        "step 3/100",
        "3/100",
        "anthropic/claude-test",
        "claude-test",
        "esc to stop",
        "$0.0123",
        "context 12% of 200k",
        "ctx 12%",
        "1m15s",
        "ask before risky actions",
        "ask if risky",
        "▶ running",
    ]
