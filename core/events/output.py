"""Command output for the model: bounded in memory, and as the plain text that the screen would show. No IO.

A command may print without end. Its head and tail are kept; the middle was shown live and is left out of the
observation, as in V0. Colours, cursor movements and overwritten progress lines are removed.
"""

from __future__ import annotations

import re

from core.events.observations import MAX_CMD_OUTPUT_CHARS, TRUNCATION_NOTICE, truncate_middle

KEPT_BYTES = 256 * 1024
"""Bytes kept of each end: several times what the model sees, because of escape sequences."""

_ERASE_LINE = re.compile(r"\x1b\[[02]?K")
_ERASED = "\x00"
"""Marks an erased rest of a line until progress lines are folded. NULs of programs are removed before."""
_ESCAPE = re.compile(
    r"""
      \x1b\[ [0-?]* [ -/]* [@-~]                      # CSI: colours, cursor
    | \x1b\] [^\x07\x1b]* (?: \x07 | \x1b\\ )         # OSC: titles, links
    | \x1b[PX^_] [^\x1b]* \x1b\\                      # DCS, SOS, PM, APC
    | \x1b [ -/]* [0-~]                               # a single one
    """,
    re.VERBOSE,
)
_OVERSTRUCK = re.compile(r"[^\n]\x08")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class OutputBuffer:
    """Collects output bytes, using at most three times KEPT_BYTES of memory."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept = kept_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = False
        self.was_cut = False
        """Whether the last `take` left something out."""

    def feed(self, data: bytes) -> None:
        room = self._kept - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._kept :]
        self._dropped = self._dropped or len(data) > self._kept
        if len(self._tail) > 2 * self._kept:
            self._dropped = True
            del self._tail[: -self._kept]

    def take(self, *, whole: bool = False) -> str:
        """Return and clear the text since the last call.

        Without `whole`, the middle is cut to what a model sees; with it, only to what fits in memory.
        """
        head, tail, dropped = bytes(self._head), bytes(self._tail), self._dropped
        self._head.clear()
        self._tail.clear()
        self._dropped = False
        if not dropped:
            text = plain_text(head + tail)
            self.was_cut = not whole and len(text) > MAX_CMD_OUTPUT_CHARS
            return truncate_middle(text) if self.was_cut else text
        self.was_cut = True
        first, last = plain_text(head), plain_text(tail)
        if not whole and len(first) + len(last) > MAX_CMD_OUTPUT_CHARS:
            return truncate_middle(first + last)
        return first + TRUNCATION_NOTICE + last


def plain_text(data: bytes) -> str:
    """Terminal output as the text on the screen, without trailing white space.

    Removes escape sequences, applies carriage returns, and replaces bytes that are not UTF-8.
    """
    text = data.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ERASE_LINE.sub(_ERASED, text.replace(_ERASED, ""))
        text = _ESCAPE.sub("", text)
    else:
        text = text.replace(_ERASED, "")
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(_apply_carriage_returns(line) if "\r" in line else line for line in text.split("\n"))
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    return _CONTROL.sub("", text).rstrip()


def _apply_carriage_returns(line: str) -> str:
    """A line after its carriage returns: each part overwrites the one before."""
    cells: list[str] = []
    for pass_ in line.split("\r"):
        column = 0
        for number, piece in enumerate(pass_.split(_ERASED)):
            if number:
                del cells[column:]
            cells[column : column + len(piece)] = piece
            column += len(piece)
    return "".join(cells)
