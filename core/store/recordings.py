"""What terminals printed, byte for byte and with its times: rows beside the events, each some frames in a row.

A frame belongs after the event that was the newest when it came. A row holds frames after one event, compressed. Pure
functions; the recorder makes rows, EventReader reads them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from core.events import TerminalOutput

ROW_BYTES = 64 * 1024
"""Raw bytes in one row: less than a millisecond to compress, and what a reader has to take at once."""
HEAD_BYTES = 1024
"""Of a stored row, in which the head of its first frame is to be found."""
_HEAD = struct.Struct("<IqBI")
"""Milliseconds since the row's time, cause, whether it is an echo, and bytes that follow."""


@dataclass(frozen=True, slots=True)
class RecordedFrame:
    """A live frame as it came."""

    after: int
    """The event that was the newest then; -1 before the first."""
    at: datetime
    """Aware, UTC, to the millisecond."""
    frame: TerminalOutput


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """Frames that came after one event, as they are stored."""

    after: int
    at: datetime
    """Of the first frame."""
    frames: bytes


def rows_of(frames: Sequence[RecordedFrame]) -> list[RecordedRow]:
    """The rows that hold these frames, which are in the order of their coming."""
    rows: list[RecordedRow] = []
    begun = size = 0
    for number in range(1, len(frames) + 1):
        size += len(frames[number - 1].frame.data)
        if number == len(frames) or frames[number].after != frames[begun].after or size >= ROW_BYTES:
            rows.append(_row(frames[begun:number]))
            begun, size = number, 0
    return rows


def _row(frames: Sequence[RecordedFrame]) -> RecordedRow:
    first = frames[0]
    packed = b"".join(
        _HEAD.pack(
            min(2**32 - 1, max(0, round((each.at - first.at) / timedelta(milliseconds=1)))),
            each.frame.cause,
            each.frame.is_echo,
            len(each.frame.data),
        )
        + each.frame.data
        for each in frames
    )
    return RecordedRow(first.after, first.at, zlib.compress(packed, 1))


def frames_of(row: RecordedRow) -> Iterator[RecordedFrame]:
    """The frames of a row. Raises zlib.error or struct.error where it is damaged."""
    packed, place = zlib.decompress(row.frames), 0
    at = row.at.astimezone(UTC)
    while place < len(packed):
        ms, cause, is_echo, size = _HEAD.unpack_from(packed, place)
        place += _HEAD.size
        frame = TerminalOutput(cause, packed[place : place + size], bool(is_echo))
        place += size
        yield RecordedFrame(row.after, at + timedelta(milliseconds=ms), frame)


def head_of(row: RecordedRow) -> RecordedFrame:
    """The first frame of a row without its bytes; `HEAD_BYTES` of the row are enough. Raises as `frames_of`."""
    _ms, cause, is_echo, _size = _HEAD.unpack(zlib.decompressobj().decompress(row.frames, _HEAD.size))
    return RecordedFrame(row.after, row.at.astimezone(UTC), TerminalOutput(cause, b"", bool(is_echo)))
