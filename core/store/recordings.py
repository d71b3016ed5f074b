"""What terminals printed, byte for byte and with its times: rows beside the events, each some frames in a row.

A frame belongs after the event that was the newest when it came. A row holds frames after one event, compressed. Pure
functions; the recorder makes rows, EventReader reads them.

Recorder: what a conversation's terminal prints, on its way from live frames to rows beside the events.

Invariants: a frame is stored with the event that comes next, so that what was printed is durable no later than what
came of it; secrets are masked byte by byte, also where they come in pieces; of one action no more than `MAX_BYTES` are
kept. Used by EventStream.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from core.events import TerminalOutput
from core.secrets import Masker

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


MAX_BYTES = 8 * 1024 * 1024
"""Of one action: hours of what a person could watch."""
CUT = b"\r\n[The recording ends here: the command printed more than 8 MB.]\r\n"


class Recorder:
    """Of one conversation. `clock` gives the time of day, in UTC."""

    def __init__(self, masker: Masker, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._masker = masker
        self._clock = clock
        self._frames: list[RecordedFrame] = []
        self._size = 0
        self._rows: list[RecordedRow] = []
        self._cause = -1
        self._kept = 0
        """Bytes of the action that printed last."""

    def add(self, frame: TerminalOutput, after: int) -> None:
        """Take in a frame that came when `after` was the newest event."""
        if frame.cause != self._cause:
            self._cause, self._kept = frame.cause, 0
        if self._kept > MAX_BYTES:
            return
        self._kept += len(frame.data)
        if self._kept > MAX_BYTES:
            frame = replace(frame, data=CUT)
        self._frames.append(RecordedFrame(after, self._clock(), frame))
        self._size += len(frame.data)
        if self._size >= ROW_BYTES + self._masker.reach:
            self._close_row(self._masker.reach)

    def take(self) -> tuple[RecordedRow, ...]:
        """What was printed and not taken yet."""
        if self._frames:
            self._close_row(0)
        rows, self._rows = tuple(self._rows), []
        return rows

    def give_back(self, rows: Iterable[RecordedRow]) -> None:
        """These could not be stored; they go with the event that comes next."""
        self._rows[:0] = rows

    def _close_row(self, held: int) -> None:
        """Make rows of the frames, but for the last `held` bytes: a secret may have begun there."""
        masked = self._masker.mask_bytes(b"".join(each.frame.data for each in self._frames))
        frames, place = [], 0
        for each in self._frames:
            size = len(each.frame.data)
            frames.append(replace(each, frame=replace(each.frame, data=masked[place : place + size])))
            place += size
        kept = 0
        while held > 0 and kept < len(frames):
            kept += 1
            held -= len(frames[-kept].frame.data)
        done, self._frames = frames[: len(frames) - kept], frames[len(frames) - kept :]
        self._size = sum(len(each.frame.data) for each in self._frames)
        self._rows += rows_of(done)
