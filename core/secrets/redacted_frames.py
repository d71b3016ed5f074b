"""Live frames without secrets, also when a secret is split between frames.

The recorder gets frames unchanged, because a recording is redacted as a whole. Others see stars in place of secrets; of
a known secret that is split between two frames, at most three bytes are visible before (see `core.secrets.redactor`).
Text that looks like a secret is recognized when it is complete: if it is split between two frames, its first part is
visible; if colour codes split it, all of it is, until its event is stored.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from core.events import Frame, PageShown, Status, TerminalOutput, TokenDelta
from core.secrets import Redactor
from core.secrets.redactor import Detector, StreamRedactor
from core.secrets.token_patterns import may_hold
from core.stream import Frames

TAIL_BYTES = 512
"""Of the data before, which is searched together with the next frame."""


@dataclass(slots=True)
class _Stream:
    """Frames that belong together."""

    last: TerminalOutput | TokenDelta
    redactor: StreamRedactor
    tail: bytes = b""
    decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))


class RedactedFrames(Frames):
    """The live frames of one conversation; `record` gets every frame unchanged, before the watchers."""

    def __init__(self, redactor: Redactor, record: Callable[[Frame], None], detector: Detector | None = None) -> None:
        super().__init__()
        self._redactor = redactor
        self._detector = detector
        self._record = record
        self._streams: dict[type[Frame], _Stream] = {}

    def publish(self, frame: Frame) -> None:
        """Record a frame, and publish it redacted. Never raises."""
        self._record(frame)
        if not self._redactor and self._detector is None:
            super().publish(frame)
            return
        for shown in self._shown(frame):
            super().publish(shown)

    def _shown(self, frame: Frame) -> Iterator[Frame]:
        match frame:
            case TerminalOutput() | TokenDelta():
                stream = self._streams.get(type(frame))
                if stream is None or not _belongs(frame, stream.last):
                    yield from self._rest(type(frame))
                    stream = self._streams[type(frame)] = _Stream(frame, StreamRedactor(self._redactor))
                stream.last = frame
                data = frame.data if isinstance(frame, TerminalOutput) else frame.text.encode("utf-8", "replace")
                self._detect(stream, data)
                yield from _with(stream, stream.redactor.feed(data))
            case Status():
                yield from self._rest(TerminalOutput)
                yield from self._rest(TokenDelta)
                yield replace(frame, message=self._redactor.redact_text(frame.message))
            case PageShown():
                redact = self._redactor.redact_text
                yield replace(frame, url=redact(frame.url), title=redact(frame.title))

    def _detect(self, stream: _Stream, data: bytes) -> None:
        """Add text that looks like a secret to the known ones before it is shown."""
        if self._detector is not None:
            seen = stream.tail + data
            if may_hold(text := seen.decode("utf-8", "replace")):
                self._detector.redact(text)
            stream.tail = seen[-TAIL_BYTES:]

    def _rest(self, kind: type[Frame]) -> Iterator[Frame]:
        """The data that was held back of a stream that has ended."""
        if (stream := self._streams.pop(kind, None)) is not None:
            yield from _with(stream, stream.redactor.flush())


def _belongs(frame: Frame, last: Frame) -> bool:
    match frame, last:
        case TerminalOutput(), TerminalOutput():
            return frame.cause == last.cause and frame.is_echo == last.is_echo
        case TokenDelta(), TokenDelta():
            return frame.cause == last.cause and frame.channel == last.channel
    return False


def _with(stream: _Stream, data: bytes) -> Iterator[Frame]:
    if isinstance(stream.last, TerminalOutput):
        if data:
            yield replace(stream.last, data=data)
    elif text := stream.decoder.decode(data):
        yield replace(stream.last, text=text)
