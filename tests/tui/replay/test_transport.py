"""The transport bar says where a replay is, as far as the width allows, and its line is a scale of events."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from core.replay.player import Position
from tui.replay.transport_bar import HEAD, Reel, cell_of, clock_time, length, pieces, scale

AT = Position(event=122, events=4567, turn=3, turns=12, at=1_767_323_045.0, offset_s=765.2, length_s=3723.0)


def words(reel: Reel, width: int = 160) -> str:
    return " · ".join(piece.text for piece in pieces(reel, width))


def line(reel: Reel, width: int) -> str:
    return "".join(text for text, style in scale(reel, width))


def test_it_says_where_it_is_and_how_it_goes() -> None:
    told = words(Reel(AT, playing=True, speed=4.0, skips_waiting=True))
    assert told.startswith("▶ plays · event 123 of 4,567 · turn 3 of 12 · ")
    assert told.endswith(" · 12:45 / 1:02:03 · 4x · skips waiting")


def test_standing_still_is_told_from_having_ended() -> None:
    assert words(Reel(AT)).startswith("‖ paused")
    assert words(Reel(AT._replace(event=4566))).startswith("‖ ended")


@pytest.mark.parametrize("width", range(1, 120))
def test_what_matters_least_gives_way_first(width: int) -> None:
    reel = Reel(AT, speed=0.25, skips_waiting=True, words="a fox", hits=(5,), hit=1)
    shown = words(reel, width)
    assert cell_len(shown) <= width or shown == "‖" or shown == "‖ paused"
    assert width < 40 or "event 123" in shown


def test_hits_are_counted() -> None:
    assert words(Reel(AT, words="fox", hits=(1, 2, 3), hit=2)).endswith("/fox 2/3")
    assert words(Reel(AT, words="fox", hits=(1, 2, 3))).endswith("/fox —/3")
    assert words(Reel(AT, words="fox")).endswith("/fox no hit")


def test_the_line_has_a_cell_for_every_part_and_signs_where_they_belong() -> None:
    reel = Reel(
        Position(50, 101, 1, 2, 0.0, 0.0, 0.0), turns=(0, 100), errors=(25,), questions=(75,), marks=(10,), hits=(90,)
    )
    assert line(reel, 101) == (
        "┃" + "━" * 9 + "◆" + "━" * 14 + "✕" + "━" * 24 + HEAD + "─" * 24 + "?" + "─" * 14 + "▼" + "─" * 9 + "┃"
    )


def test_a_mark_of_the_user_stands_over_what_the_log_says() -> None:
    at = Position(0, 10, 0, 0, 0.0, 0.0, 0.0)
    assert line(Reel(at, turns=(5,), errors=(5,), marks=(5,)), 10)[5] == "◆"


@pytest.mark.parametrize("events", [0, 1, 2])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_the_shortest_conversations_have_a_line(events: int, width: int) -> None:
    at = Position(events - 1, events, 0, 0, 0.0, 0.0, 0.0)
    assert len(line(Reel(at, turns=(0, 99)), width)) == width
    assert HEAD in line(Reel(at), width)


def test_ends_of_a_conversation_are_ends_of_the_line() -> None:
    assert (cell_of(0, 1000, 80), cell_of(999, 1000, 80), cell_of(-1, 1000, 80)) == (0, 79, 0)


def test_times_are_told_as_people_write_them() -> None:
    assert [length(s) for s in (0, 7.9, 65, 765, 3723)] == ["0:00", "0:07", "1:05", "12:45", "1:02:03"]
    assert clock_time(1e18) == "--:--:--"
    assert clock_time(float("nan")) == "--:--:--"
