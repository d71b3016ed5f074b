"""StreamMasker: known values out of a stream that comes in pieces, wherever it is cut.

What could be the beginning of a secret is held back until the next piece tells, so nothing of a secret is let through.
But one, two or three bytes are shown at once: they say nothing, and a prompt must not lack its last letter. They are
remembered, and the rest of the secret is masked. Pure.
"""

from __future__ import annotations

from core.secrets.layouts import quickly_without_codes
from core.secrets.masker import Masker, starred

SHOWN = 3
"""Bytes of a beginning that are not held back."""
LINE_BYTES = 512
"""Of two lines, a dump's or of base64."""


class StreamMasker:
    """Of one stream. What `feed` and `flush` give together has the length of what was fed."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._seen = b""
        """What was shown already: the last two lines, which tell what follows, and what may be a secret's beginning."""
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What can be shown by now, with stars where secrets were."""
        if not self._masker:
            shown = self.flush() + data
            self._seen = shown[_two_lines(shown) :]
            return shown
        known = len(self._seen)
        whole = self._seen + self._held + data
        begin = self._masker.open_end(whole)
        is_little = len(quickly_without_codes(whole[begin:])) <= SHOWN
        shown_until = len(whole) if is_little else max(begin, known)
        self._held = whole[shown_until:]
        self._seen = whole[min(begin, _two_lines(whole)) : shown_until]
        return starred(whole, self._masker.spans(whole))[known:shown_until]

    def flush(self) -> bytes:
        """What was held back, at the end of the stream or of what belongs together."""
        whole, known = self._seen + self._held, len(self._seen)
        self._seen = self._held = b""
        return self._masker.mask_bytes(whole)[known:]


def _two_lines(data: bytes) -> int:
    """Where the line before the last one begins, but no further back than lines are long."""
    start = max(len(data) - LINE_BYTES, 0)
    last = data.rfind(b"\n", start)
    return max(data.rfind(b"\n", start, last) + 1, start) if last >= 0 else start
