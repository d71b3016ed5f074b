"""Asciicast, version 2: terminal output with its times, for asciinema and its players.

One JSON object with size and start time, then a line `[seconds, "o", text]` for each piece of output. Times never
decrease, even if the machine's clock went back. Also the source of that text for the HTML export: the recording, or
the output of observations for commands that were not recorded.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

from core.events import CmdOutputObservation
from core.import_export.exporter import ExportContext, Page
from core.store.recordings import RecordedFrame

WIDTH, HEIGHT = 120, 30
"""The size of every recorded terminal: the sandbox opens its shells with it, and a recording does not store a size.
Programs that resize the terminal (`stty`) wrap lines elsewhere.
"""
NOT_RECORDED = "Some of the terminal was not recorded; the output of those commands is there without its timing."


@dataclass(frozen=True, slots=True)
class TerminalText:
    """A piece of text with its escape sequences, played after the event `after`."""

    after: int
    at: datetime
    text: str


class TerminalDecoder:
    """Makes text of the terminal output in the pages of a conversation, which come in order.

    A character may be split between two frames. Bytes that are not UTF-8 become U+FFFD.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cause: int | None = None
        self._recorded: set[int] = set()
        self.is_incomplete = False
        """Whether some output was not recorded and so has no timing."""

    def take(self, page: Page) -> Iterator[TerminalText]:
        """The text of the next events, in the order in which it is played."""
        frames = list(page.frames)
        for envelope in page.events:
            while frames and frames[0].after < envelope.id:
                yield from self._frame(frames.pop(0))
            event = envelope.event
            if isinstance(event, CmdOutputObservation) and not event.hidden and envelope.cause not in self._recorded:
                self.is_incomplete = True
                yield TerminalText(envelope.id, envelope.timestamp, _as_printed(event))
        for recorded in frames:
            yield from self._frame(recorded)

    def _frame(self, recorded: RecordedFrame) -> Iterator[TerminalText]:
        frame = recorded.frame
        text = ""
        if frame.cause != self._cause:
            text = self._decoder.decode(b"", final=True)
            self._cause = frame.cause
            self._recorded.add(frame.cause)
        text += self._decoder.decode(frame.data)
        if text:
            yield TerminalText(recorded.after, recorded.at, text)


def _as_printed(event: CmdOutputObservation) -> str:
    """A command and its output as a terminal would have shown them."""
    text = f"$ {event.command}\n{event.content}".rstrip("\n") + "\n"
    text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return text.encode("utf-8", "replace").decode()  # removes lone surrogates


class AsciicastWriter:
    def __init__(self, out: BinaryIO, context: ExportContext) -> None:
        self._out, self._context = out, context
        self._terminal = TerminalDecoder()
        self._began_at: datetime | None = None
        self._latest_s = 0.0

    def take(self, page: Page) -> None:
        for shown in self._terminal.take(page):
            if self._began_at is None:
                self._begin(shown.at)
            assert self._began_at is not None
            self._latest_s = max(self._latest_s, (shown.at - self._began_at).total_seconds())
            self._line([round(self._latest_s, 6), "o", shown.text])

    def end(self) -> None:
        """Write the first line of a cast without output, and note missing recordings."""
        if self._began_at is None:
            self._begin(self._context.info.created_at)
        if self._terminal.is_incomplete:
            self._context.note(NOT_RECORDED)

    def _begin(self, at: datetime) -> None:
        self._began_at = at
        header: dict[str, object] = {"version": 2, "width": WIDTH, "height": HEIGHT, "timestamp": int(at.timestamp())}
        if title := " ".join(self._context.info.title.split()):
            header["title"] = title
        self._line({**header, "env": {"TERM": "xterm-256color"}})

    def _line(self, value: object) -> None:
        self._out.write(json.dumps(value).encode() + b"\n")
