"""Whether a key is an answer, or was meant for something else: typed before its question came, or still held down.

Pure. A terminal does not say that a key is held; it sends it again, after a first pause and then quickly. So a card
listens only once nobody has pressed a key for a moment, and for longer where the same key comes again.
"""

from __future__ import annotations

from dataclasses import dataclass

GUARD_S = 0.4
"""Longer than the time between two keys of one who types, shorter than it takes to read a question."""
REPEAT_S = 0.8
"""Longer than a held key takes until it comes for the second time: 660 ms in X11, less elsewhere."""


@dataclass(frozen=True, slots=True)
class LastKey:
    """The key that was pressed last, and when, in seconds of any clock."""

    key: str = ""
    at: float = float("-inf")


def is_meant(appeared_at: float, before: LastKey, at: float) -> bool:
    """Whether a key, pressed at a moment behind another one, answers a dialog: it could be seen, and nobody types."""
    return at - appeared_at >= GUARD_S and at - before.at >= GUARD_S


@dataclass(slots=True)
class Listening:
    """Whether a card that appeared at a moment listens by now. It hears every key that is pressed, for it or not."""

    appeared_at: float
    last: LastKey = LastKey()
    listens: bool = False

    def hear(self, key: str, at: float) -> None:
        """A key was pressed."""
        pause = REPEAT_S if key == self.last.key else GUARD_S
        if at - self.appeared_at >= GUARD_S and at - self.last.at >= pause:
            self.listens = True
        self.last = LastKey(key, at)
