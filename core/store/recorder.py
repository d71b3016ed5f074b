"""Recorder: what a conversation's terminal prints, on its way from live frames to rows beside the events.

Invariants: a frame is stored with the event that comes next, so that what was printed is durable no later than what
came of it; secrets are masked byte by byte, also where they come in pieces; of one action no more than `MAX_BYTES` are
kept. Used by EventStream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from core.events import TerminalOutput
from core.secrets import Masker
from core.store.recordings import ROW_BYTES, RecordedFrame, RecordedRow, rows_of

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
