"""Frames of a terminal as rows: how they are cut, and that each comes back as it was."""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime, timedelta, timezone

import pytest

from core.events import TerminalOutput
from core.store.recordings import RecordedFrame, RecordedRow, pack_frames, unpack_frames, unpack_head

AT = datetime(2026, 11, 22, 13, 0, tzinfo=UTC)
ROW_BYTES = 65536


def frame(after: int, ms: int = 0, data: bytes = b"printed", *, is_echo: bool = False) -> RecordedFrame:
    return RecordedFrame(after, AT + timedelta(milliseconds=ms), TerminalOutput(after, data, is_echo))


def test_packed_frames_are_unpacked_unchanged() -> None:
    frames = [frame(3), frame(3, 1, b""), frame(3, 1500, b"\0\xff", is_echo=True), frame(4, 1500), frame(-1, 2000)]
    rows = pack_frames(frames)
    assert [(row.after, row.at) for row in rows] == [(3, frames[0].at), (4, frames[3].at), (-1, frames[4].at)]
    assert [each for row in rows for each in unpack_frames(row)] == frames
    assert pack_frames([]) == []


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
    rows = pack_frames([frame(3, 0, b"x" * size) for size in sizes])
    assert [len(list(unpack_frames(row))) for row in rows] == counts


def test_times_that_jump_are_kept_within_what_a_row_can_hold() -> None:
    (row,) = pack_frames([frame(3), frame(3, -5000), frame(3, 2**32 + 7), frame(3, 2**32 - 1), frame(3, 1)])
    assert [each.at - AT for each in unpack_frames(row)] == [
        timedelta(milliseconds=ms) for ms in (0, 0, 2**32 - 1, 2**32 - 1, 1)
    ]


def test_times_are_converted_to_utc() -> None:
    (row,) = pack_frames([frame(3)])
    elsewhere = RecordedRow(3, AT.astimezone(timezone(timedelta(hours=5))), row.frames)
    assert [each.at.utcoffset() for each in unpack_frames(elsewhere)] == [timedelta(0)]
    assert unpack_head(elsewhere).at.utcoffset() == timedelta(0)


def test_the_head_of_a_row_is_its_first_frame_without_bytes() -> None:
    (row,) = pack_frames([frame(3, 0, bytes(range(256)) * 200, is_echo=True), frame(3, 9)])
    assert unpack_head(row) == frame(3, 0, b"", is_echo=True)
    assert unpack_head(RecordedRow(3, AT, row.frames[:1024])) == frame(3, 0, b"", is_echo=True)


def test_a_damaged_row_raises() -> None:
    with pytest.raises(struct.error):
        list(unpack_frames(RecordedRow(3, AT, zlib.compress(b"short"))))
    with pytest.raises(zlib.error):
        list(unpack_frames(RecordedRow(3, AT, b"no zlib")))
