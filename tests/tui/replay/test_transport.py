"""The transport bar shows the position of a replay, as far as the width allows, and a timeline of events."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from core.replay.player import Position
from tui.replay.transport_bar import (
    HEAD,
    TransportState,
    cell_of,
    clock_time,
    format_duration,
    status_pieces,
    timeline_cells,
)

AT = Position(event=122, events=4567, turn=3, turns=12, at=1_767_323_045.0, offset_s=765.2, length_s=3723.0)


def words(transport_state: TransportState, width: int = 160) -> str:
    return " · ".join(piece.text for piece in status_pieces(transport_state, width))


def line(transport_state: TransportState, width: int) -> str:
    return "".join(text for text, style in timeline_cells(transport_state, width))


def test_status_shows_position_and_speed() -> None:
    told = words(TransportState(AT, playing=True, speed=4.0, skips_waiting=True))
    assert told.startswith("▶ playing · event 123 of 4,567 · turn 3 of 12 · ")
    assert told.endswith(" · 12:45 / 1:02:03 · 4x · skipping waits")


def test_events_that_are_still_read_are_told() -> None:
    count = f"of {AT.events:,}"
    assert f"{count}+ ·" in words(TransportState(AT, playing=True, has_more=True))
    assert f"{count} ·" in words(TransportState(AT, playing=True))


def test_paused_and_ended_are_distinguished() -> None:
    assert words(TransportState(AT)).startswith("‖ paused")
    assert words(TransportState(AT._replace(event=4566))).startswith("‖ ended")


@pytest.mark.parametrize("width", range(1, 120))
def test_least_important_parts_are_left_out_first(width: int) -> None:
    transport_state = TransportState(AT, speed=0.25, skips_waiting=True, query="a fox", hits=(5,), hit_number=1)
    shown = words(transport_state, width)
    assert cell_len(shown) <= width or shown == "‖" or shown == "‖ paused"
    assert width < 40 or "event 123" in shown


def test_hits_are_counted() -> None:
    assert words(TransportState(AT, query="fox", hits=(1, 2, 3), hit_number=2)).endswith("/fox 2/3")
    assert words(TransportState(AT, query="fox", hits=(1, 2, 3))).endswith("/fox —/3")
    assert words(TransportState(AT, query="fox")).endswith("/fox no match")


def test_timeline_has_marks_at_their_positions() -> None:
    transport_state = TransportState(
        Position(50, 101, 1, 2, 0.0, 0.0, 0.0),
        turns=(0, 100),
        errors=(25,),
        questions=(75,),
        bookmarks=(10,),
        hits=(90,),
    )
    assert line(transport_state, 101) == (
        "┃" + "━" * 9 + "◆" + "━" * 14 + "✕" + "━" * 24 + HEAD + "─" * 24 + "?" + "─" * 14 + "▼" + "─" * 9 + "┃"
    )


def test_bookmark_covers_other_marks() -> None:
    at = Position(0, 10, 0, 0, 0.0, 0.0, 0.0)
    assert line(TransportState(at, turns=(5,), errors=(5,), bookmarks=(5,)), 10)[5] == "◆"


@pytest.mark.parametrize("events", [0, 1, 2])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_shortest_conversations_have_a_timeline(events: int, width: int) -> None:
    at = Position(events - 1, events, 0, 0, 0.0, 0.0, 0.0)
    assert len(line(TransportState(at, turns=(0, 99)), width)) == width
    assert HEAD in line(TransportState(at), width)


def test_ends_of_a_conversation_are_ends_of_the_line() -> None:
    assert (cell_of(0, 1000, 80), cell_of(999, 1000, 80), cell_of(-1, 1000, 80)) == (0, 79, 0)


def test_durations_are_formatted() -> None:
    assert [format_duration(s) for s in (0, 7.9, 65, 765, 3723)] == ["0:00", "0:07", "1:05", "12:45", "1:02:03"]
    assert clock_time(1e18) == "--:--:--"
    assert clock_time(float("nan")) == "--:--:--"
