"""Terminal recordings: the exact output with its times, in compressed rows beside the events.

A frame belongs after the event that was the newest when it arrived; a row holds several frames after one event. The
Recorder of an EventStream makes rows of live frames. Frames are stored with the next event, so that output is durable
no later than its result. Secrets are redacted, even if they arrive in pieces.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from core.events import TerminalOutput
from core.secrets import Redactor

ROW_BYTES = 64 * 1024
"""Raw bytes in one row: compresses in less than a millisecond."""
HEAD_BYTES = 1024
"""The part of a stored row that always contains the head of its first frame."""
_HEAD = struct.Struct("<IqBI")
"""Milliseconds since the row's time, cause, whether it is an echo, and the number of bytes that follow."""


@dataclass(frozen=True, slots=True)
class RecordedFrame:
    """A live frame with its time and position."""

    after: int
    """The newest event when it arrived; -1 before the first."""
    at: datetime
    """Aware, UTC, to the millisecond."""
    frame: TerminalOutput


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """Frames after one event, in their stored form."""

    after: int
    at: datetime
    """The time of the first frame."""
    frames: bytes

    def row(self, key: int) -> tuple[object, ...]:
        """The values of `core.store.writer.ADD_RECORDING` for the conversation with this key."""
        return key, self.after, self.at.isoformat(), self.frames


def pack_frames(frames: Sequence[RecordedFrame]) -> list[RecordedRow]:
    """Pack frames, in the order of their arrival, into rows."""
    rows: list[RecordedRow] = []
    start = size = 0
    for number in range(1, len(frames) + 1):
        size += len(frames[number - 1].frame.data)
        if number == len(frames) or frames[number].after != frames[start].after or size >= ROW_BYTES:
            rows.append(_row(frames[start:number]))
            start, size = number, 0
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


def unpack_frames(row: RecordedRow) -> Iterator[RecordedFrame]:
    """The frames of a row. Raises zlib.error or struct.error for a damaged row."""
    packed, place = zlib.decompress(row.frames), 0
    at = row.at.astimezone(UTC)
    while place < len(packed):
        ms, cause, is_echo, size = _HEAD.unpack_from(packed, place)
        place += _HEAD.size
        frame = TerminalOutput(cause, packed[place : place + size], bool(is_echo))
        place += size
        yield RecordedFrame(row.after, at + timedelta(milliseconds=ms), frame)


def unpack_head(row: RecordedRow) -> RecordedFrame:
    """The first frame of a row, without its bytes. Needs only `HEAD_BYTES` of the row. Raises as `unpack_frames`."""
    _ms, cause, is_echo, _size = _HEAD.unpack(zlib.decompressobj().decompress(row.frames, _HEAD.size))
    return RecordedFrame(row.after, row.at.astimezone(UTC), TerminalOutput(cause, b"", bool(is_echo)))


MAX_BYTES = 8 * 1024 * 1024
"""Recorded bytes of one action: hours of output that a person could read."""
CUT = b"\r\n[The recording ends here: the command printed more than 8 MB.]\r\n"


class Recorder:
    """Collects the frames of one conversation into rows. `clock` returns the time in UTC."""

    def __init__(self, redactor: Redactor, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._redactor = redactor
        self._clock = clock
        self._frames: list[RecordedFrame] = []
        self._size = 0
        self._rows: list[RecordedRow] = []
        self._cause = -1
        self._kept = 0
        """Recorded bytes of the last action."""

    def add(self, frame: TerminalOutput, after: int) -> None:
        """Add a frame that arrived when `after` was the newest event."""
        if frame.cause != self._cause:
            self._cause, self._kept = frame.cause, 0
        if self._kept > MAX_BYTES:
            return
        self._kept += len(frame.data)
        if self._kept > MAX_BYTES:
            frame = replace(frame, data=CUT)
        self._frames.append(RecordedFrame(after, self._clock(), frame))
        self._size += len(frame.data)
        if self._size >= ROW_BYTES + self._redactor.reach:
            self._close_row(self._redactor.reach)

    def take(self) -> tuple[RecordedRow, ...]:
        if self._frames:
            self._close_row(0)
        rows, self._rows = tuple(self._rows), []
        return rows

    def put_back(self, rows: Iterable[RecordedRow]) -> None:
        """Keep rows that could not be stored for the next event."""
        self._rows[:0] = rows

    def _close_row(self, held_bytes: int) -> None:
        """Make rows of all frames but the last `held_bytes` bytes, in which a secret may have begun."""
        redacted = self._redactor.redact_bytes(b"".join(each.frame.data for each in self._frames))
        frames, place = [], 0
        for each in self._frames:
            size = len(each.frame.data)
            frames.append(replace(each, frame=replace(each.frame, data=redacted[place : place + size])))
            place += size
        held_frames = 0
        while held_bytes > 0 and held_frames < len(frames):
            held_frames += 1
            held_bytes -= len(frames[-held_frames].frame.data)
        done, self._frames = frames[: len(frames) - held_frames], frames[len(frames) - held_frames :]
        self._size = sum(len(each.frame.data) for each in self._frames)
        self._rows += pack_frames(done)
