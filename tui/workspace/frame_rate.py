"""Pace: how often the panes are drawn, so that there is always time for keys.

A screen that is flooded could draw without an end, and a key would wait behind each frame. So frames come at most
`FRAMES_PER_S` times a second, fewer while they leave the loop little time for anything else, and fewer still
while the user types, where they cost much: what is typed is drawn at once, what streams by can wait for a blink. Pure.
"""

from __future__ import annotations

FRAMES_PER_S = 30
PERIOD_S = 1 / FRAMES_PER_S
SLOWEST_S = 0.25
BUSY = 0.8
"""The share of the time that drawing, and what came with it, may take."""
TYPING_S = 0.2
"""Between two frames while the user types, at most."""
TYPING_BUSY = 0.25
"""The share of the time that drawing may take while the user types."""
TYPED_WITHIN_S = 0.4
"""After a key the user counts as typing."""


class Pace:
    """When the next frame is due. All times are seconds of one clock, but for the processor's."""

    def __init__(self) -> None:
        self._period_s = PERIOD_S
        self._frame_s = 0.0
        """Processor time of the last frame, and of what came with it."""
        self._drawn_at = float("-inf")
        self._used_s = 0.0

    def drawn(self, now: float, processor_s: float) -> None:
        """A frame begins; `processor_s` is the processor time of this thread so far."""
        passed, used = now - self._drawn_at, processor_s - self._used_s
        self._drawn_at, self._used_s = now, processor_s
        if passed <= 0:
            return
        self._frame_s = used
        if used / passed > BUSY:
            self._period_s = min(SLOWEST_S, self._period_s * 1.5)
        else:
            self._period_s = max(PERIOD_S, self._period_s / 1.5)

    def period_s(self, now: float, typed_at: float) -> float:
        """The time between two frames, at `now`; the last key came at `typed_at`."""
        if now - typed_at >= TYPED_WITHIN_S:
            return self._period_s
        return max(self._period_s, min(TYPING_S, self._frame_s / TYPING_BUSY))

    def wait_s(self, now: float, typed_at: float) -> float:
        """How long to wait for the next frame."""
        return max(0.0, self._drawn_at + self.period_s(now, typed_at) - now)
