"""Whether a key is an answer to a question, or was meant for something else: typed before it appeared, or held down.

Pure. A terminal does not say that a key is held down: it sends the key again, after a first pause and then quickly.
So a question takes no key in its first moments, and none that merely repeats a key which it has not taken.
"""

from __future__ import annotations

from dataclasses import dataclass

GUARD_S = 0.4
"""Longer than the time between two keys of a person who types, shorter than it takes to read a question. The setting
`screen.question_guard_ms` changes it."""
HELD_GUARDS = 2
"""A repeated key counts as held down for this many guards: 0.8 s, where X11 repeats a key for the first time after
0.66 s and others sooner."""


@dataclass(frozen=True, slots=True)
class LastKey:
    """The key that was pressed last, and when, in seconds of any clock."""

    key: str = ""
    at: float = float("-inf")


@dataclass(slots=True)
class KeyGuard:
    """Decides which keys a question takes."""

    guard_s: float = GUARD_S
    """How long it takes no key; 0 takes every one."""
    appeared_at: float = float("inf")
    """When the question was drawn; until then it takes nothing."""
    last: LastKey = LastKey()
    was_taken: bool = False
    """Whether the last key was an answer."""

    def restart(self, at: float) -> None:
        """Start again because the user sees something new: the keys that were pressed so far are no answer to it."""
        self.appeared_at, self.was_taken = at, False

    def takes(self, key: str, at: float) -> bool:
        """Whether a key that is pressed at this moment can be an answer. Call it once for each key."""
        is_early = at - self.appeared_at < self.guard_s
        is_repeat = key == self.last.key and at - self.last.at < self.guard_s * HELD_GUARDS
        self.was_taken = self.guard_s == 0 or (not is_early and (self.was_taken or not is_repeat))
        self.last = LastKey(key, at)
        return self.was_taken
