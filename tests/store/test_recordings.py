"""Frames of a terminal as rows: how they are cut, and that each comes back as it was."""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime, timedelta, timezone

import pytest

from core.events import TerminalOutput
from core.store.recordings import RecordedFrame, RecordedRow, frames_of, head_of, rows_of

AT = datetime(2026, 11, 22, 13, 0, tzinfo=UTC)
ROW_BYTES = 65536


def frame(after: int, ms: int = 0, data: bytes = b"printed", *, is_echo: bool = False) -> RecordedFrame:
    return RecordedFrame(after, AT + timedelta(milliseconds=ms), TerminalOutput(after, data, is_echo))


def test_frames_come_back_as_they_were() -> None:
    frames = [frame(3), frame(3, 1, b""), frame(3, 1500, b"\0\xff", is_echo=True), frame(4, 1500), frame(-1, 2000)]
    rows = rows_of(frames)
    assert [(row.after, row.at) for row in rows] == [(3, frames[0].at), (4, frames[3].at), (-1, frames[4].at)]
    assert [each for row in rows for each in frames_of(row)] == frames
    assert rows_of([]) == []


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        ([ROW_BYTES - 1, 1, 1], [2, 1]),
        ([ROW_BYTES, 1], [1, 1]),
        ([ROW_BYTES - 1, 0, 5], [3]),
        ([5, ROW_BYTES - 1, ROW_BYTES - 1, 1], [2, 2]),
    ],
)
def test_a_row_ends_when_it_is_long_enough(sizes: list[int], counts: list[int]) -> None:
    rows = rows_of([frame(3, 0, b"x" * size) for size in sizes])
    assert [len(list(frames_of(row))) for row in rows] == counts


def test_times_that_jump_are_kept_within_what_a_row_can_hold() -> None:
    (row,) = rows_of([frame(3), frame(3, -5000), frame(3, 2**32 + 7), frame(3, 2**32 - 1), frame(3, 1)])
    assert [each.at - AT for each in frames_of(row)] == [
        timedelta(milliseconds=ms) for ms in (0, 0, 2**32 - 1, 2**32 - 1, 1)
    ]


def test_times_are_converted_to_utc() -> None:
    (row,) = rows_of([frame(3)])
    elsewhere = RecordedRow(3, AT.astimezone(timezone(timedelta(hours=5))), row.frames)
    assert [each.at.utcoffset() for each in frames_of(elsewhere)] == [timedelta(0)]
    assert head_of(elsewhere).at.utcoffset() == timedelta(0)


def test_the_head_of_a_row_is_its_first_frame_without_bytes() -> None:
    (row,) = rows_of([frame(3, 0, bytes(range(256)) * 200, is_echo=True), frame(3, 9)])
    assert head_of(row) == frame(3, 0, b"", is_echo=True)
    assert head_of(RecordedRow(3, AT, row.frames[:1024])) == frame(3, 0, b"", is_echo=True)


def test_a_damaged_row_raises() -> None:
    with pytest.raises(struct.error):
        list(frames_of(RecordedRow(3, AT, zlib.compress(b"short"))))
    with pytest.raises(zlib.error):
        list(frames_of(RecordedRow(3, AT, b"no zlib")))
