"""What the terminal echoes of what was typed for the agent: it is no output, and is taken out again. No IO.

The terminal echoes as every terminal does, so that a program which turns that off (it asks for a password) is told
from one that does not, and a user at the keys sees what they type. What the server types by itself, the agent has
written and the live view has shown already.
"""

from __future__ import annotations

from collections import deque

MAX_EXPECTED = 8
"""Echoes that are waited for at once; one that never came makes room for the next."""


class Echoes:
    """Takes expected echoes out of a terminal's output, each once and in order."""

    def __init__(self) -> None:
        self._expected: deque[bytes] = deque(maxlen=MAX_EXPECTED)
        self._held = b""

    def expect(self, typed: bytes) -> None:
        """The terminal is about to echo these bytes."""
        self._expected.append(echo_of(typed))

    def feed(self, data: bytes) -> bytes:
        """The output without the echoes. What may be the beginning of one is held back until more comes."""
        if not self._expected:
            return data
        data, self._held = self._held + data, b""
        for echo in list(self._expected):
            if (at := data.find(echo)) >= 0:
                while self._expected.popleft() != echo:  # those before it never came
                    pass
                data = data[:at] + data[at + len(echo) :]
        return self._hold_back(data) if self._expected else data

    def give_up(self) -> bytes:
        """Expect nothing any more; the answer is what was held back."""
        self._expected.clear()
        held, self._held = self._held, b""
        return held

    def _hold_back(self, data: bytes) -> bytes:
        longest = min(max(map(len, self._expected)) - 1, len(data))
        for size in range(longest, 0, -1):
            if any(len(echo) > size and data.endswith(echo[:size]) for echo in self._expected):
                self._held = data[-size:]
                return data[:-size]
        return data


def echo_of(typed: bytes) -> bytes:
    """How a terminal in its usual modes shows what is typed: control characters as `^C`, a line's end as such."""
    shown = bytearray()
    for byte in typed:
        if byte in b"\r\n":
            shown += b"\r\n"
        elif byte == 0x7F or (byte < 0x20 and byte != 0x09):
            shown += b"^" + bytes([byte ^ 0x40])
        else:
            shown.append(byte)
    return bytes(shown)
