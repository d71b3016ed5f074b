"""What the terminal showed, as text in time: the recording where there is one, else what the observations hold.

A recording is bytes as they came, so a character may be split between two frames; it is put together again. What was
never UTF-8 becomes U+FFFD.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from core.events import CmdOutputObservation
from core.import_export.export_pages import Page
from core.store.recordings import RecordedFrame

WIDTH, HEIGHT = 120, 30
"""The size of every terminal that Handloom records: the sandbox opens its shells in it, and nothing here asks for
another one. A recording knows no size; who sets one by hand, with `stty` or with another client of the action server,
has lines that break elsewhere.
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """A piece of text with its escape sequences, played after the event `after`."""

    after: int
    at: datetime
    text: str


class Terminal:
    """Takes the pages of a conversation in order."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cause: int | None = None
        self._recorded: set[int] = set()
        self.is_guessed = False
        """Whether some of it was not recorded: the output is there, but not its pace."""

    def take(self, page: Page) -> Iterator[Shown]:
        """The terminal's text of the next events, in the order in which it is played."""
        frames = list(page.frames)
        for envelope in page.events:
            while frames and frames[0].after < envelope.id:
                yield from self._frame(frames.pop(0))
            event = envelope.event
            if isinstance(event, CmdOutputObservation) and not event.hidden and envelope.cause not in self._recorded:
                self.is_guessed = True
                yield Shown(envelope.id, envelope.timestamp, _as_printed(event))
        for recorded in frames:
            yield from self._frame(recorded)

    def _frame(self, recorded: RecordedFrame) -> Iterator[Shown]:
        frame = recorded.frame
        text = ""
        if frame.cause != self._cause:
            text = self._decoder.decode(b"", final=True)
            self._cause = frame.cause
            self._recorded.add(frame.cause)
        text += self._decoder.decode(frame.data)
        if text:
            yield Shown(recorded.after, recorded.at, text)


def _as_printed(event: CmdOutputObservation) -> str:
    """A command and its output as a terminal would have shown them."""
    text = f"$ {event.command}\n{event.content}".rstrip("\n") + "\n"
    text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return text.encode("utf-8", "replace").decode()  # lone surrogates are no text for others
