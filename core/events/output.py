"""What the model gets to see of a command's output: bounded while it is read, plain text when it is told.
No IO.

A command may print without end. What is kept of it is its head and its tail; what stands between was shown
live and is left out of the observation, as V0 leaves it out. Colours, cursor movements and progress lines
are for eyes; the text that the model reads is what would stand on the screen.
"""

from __future__ import annotations

import re

from core.events.observations import MAX_CMD_OUTPUT_CHARS, TRUNCATION_NOTICE, truncate_middle

KEPT_BYTES = 256 * 1024
"""Kept of each end: several times what the model sees, since escape sequences take most of a colourful
output."""

_ERASE_LINE = re.compile(r"\x1b\[[02]?K")
_ERASED = "\x00"
"""Stands for an erased rest of a line until progress lines are folded; programs' own NULs are taken out
before."""
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
    """Bytes as they come; memory is bounded at three times KEPT_BYTES, however many there are."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept = kept_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = False
        self.was_cut = False
        """Whether the last `take` left something out."""

    def feed(self, data: bytes) -> None:
        """Take more."""
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
        """The text of what came since the last call, and begin anew.

        Cut in the middle to what a model is shown, but for `whole`: then only what memory's bound took is
        missing.
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
    """Terminal bytes as the text that would be read on the screen, without trailing white space.

    Escape sequences are gone, a line that was drawn over is as it was drawn last, what is no UTF-8 is
    replaced.
    """
    text = data.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ERASE_LINE.sub(_ERASED, text.replace(_ERASED, ""))
        text = _ESCAPE.sub("", text)
    else:
        text = text.replace(_ERASED, "")
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(_drawn_over(line) if "\r" in line else line for line in text.split("\n"))
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    return _CONTROL.sub("", text).rstrip()


def _drawn_over(line: str) -> str:
    """A line as it stands after its carriage returns: each begins anew over what was there."""
    cells: list[str] = []
    for pass_ in line.split("\r"):
        column = 0
        for number, piece in enumerate(pass_.split(_ERASED)):
            if number:
                del cells[column:]
            cells[column : column + len(piece)] = piece
            column += len(piece)
    return "".join(cells)
