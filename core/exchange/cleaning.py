"""What leaves is looked through first (`look_through`), and masked on the way where that is wanted (`Cleaner`).

The two use the same patterns, so what was shown is what is masked. Pictures are not looked into, and counted. A
terminal prints a secret in pieces, as it comes; pieces are joined before they are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.events import Envelope, envelope_from_dict, envelope_to_dict
from core.exchange.findings import Findings, Patterns, mask_in
from core.exchange.formats import Format
from core.exchange.pages import Page, found, in_thread, pages
from core.secrets.masker import is_ours
from core.store.reader import EventReader
from core.store.recordings import RecordedFrame

HELD_BYTES = 4096
"""The longest word that is waited for to its end: longer than any key, shorter than what anybody waits for."""
_BETWEEN = re.compile(rb"[\s\x00-\x06\x08\x10-\x1a\x1c-\x1f]")
"""What ends a word: blanks and control characters, but for those of escape codes, which may stand within one."""


async def look_through(reader: EventReader, conversation_id: str, patterns: Patterns, wanted: Format) -> Findings:
    """What should be looked at before a conversation leaves in a format. Raises UsageError and StoreError."""
    findings = Findings(patterns)
    info = await found(reader, conversation_id)
    findings.look(info.title, None, "title")
    findings.look(info.workspace, None, "workspace")
    joined = Joined()
    async for page in pages(reader, conversation_id, replace(wanted, has_pictures=False)):
        await in_thread(_look, findings, page, joined, wanted)
    await in_thread(_look_at_frames, findings, joined.rest())
    return findings


def _look(findings: Findings, page: Page, joined: Joined, wanted: Format) -> None:
    for envelope in page.events:
        findings.take(envelope, wanted)
    _look_at_frames(findings, joined.take(page.frames))


def _look_at_frames(findings: Findings, frames: Iterable[RecordedFrame]) -> None:
    for recorded in frames:
        findings.look(recorded.frame.data.decode("utf-8", "replace"), max(recorded.after, 0), "terminal")


@dataclass(slots=True)
class Joined:
    """Frames of a terminal such that no word is split between two of them."""

    _held: RecordedFrame | None = field(default=None)

    def take(self, frames: Sequence[RecordedFrame]) -> list[RecordedFrame]:
        """The frames that are whole by now. A word that is not at its end waits for the next ones."""
        whole: list[RecordedFrame] = []
        for recorded in frames:
            data = recorded.frame.data
            if self._held is not None:
                if (
                    self._held.frame.cause == recorded.frame.cause
                    and self._held.frame.is_echo == recorded.frame.is_echo
                ):
                    data = self._held.frame.data + data
                else:
                    whole.append(self._held)
                self._held = None
            cut = len(data) - len(_BETWEEN.split(data[-HELD_BYTES:])[-1])
            if len(data) - cut < HELD_BYTES and cut < len(data):
                self._held = _with(recorded, data[cut:])
                data = data[:cut]
            if data:
                whole.append(_with(recorded, data))
        return whole

    def rest(self) -> list[RecordedFrame]:
        """The word that still waits, at the end of everything."""
        held, self._held = self._held, None
        return [held] if held is not None else []


def _with(recorded: RecordedFrame, data: bytes) -> RecordedFrame:
    return replace(recorded, frame=replace(recorded.frame, data=data))


class Cleaner:
    """Masks on the way out what `look_through` would find: secrets as `<secret_hidden>`, the home folder as `~`."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self._joined = Joined()

    def text(self, text: str, name: str = "") -> str:
        """One text without its secrets; the same object where there are none."""
        return mask_in(text, self._patterns, name, place=lambda path: "~")

    def page(self, page: Page) -> Page:
        """A page without secrets, of which the last word that a terminal printed may come with the next one."""
        return replace(
            page,
            events=[self._event(event) for event in page.events],
            frames=self._frames(page.frames, self._joined.take),
        )

    def rest(self) -> list[RecordedFrame]:
        """What is left when every page has been cleaned."""
        return self._frames((), lambda frames: self._joined.rest())

    def _event(self, envelope: Envelope) -> Envelope:
        data = envelope_to_dict(envelope, derived=False)
        clean = self._value(data)
        return envelope if clean == data else envelope_from_dict(clean, envelope.conversation_id)

    def _value(self, value: Any, name: str = "", depth: int = 0) -> Any:
        if isinstance(value, str):
            return self.text(value, name)
        if isinstance(value, Mapping):
            return {
                self.text(key): item if is_ours(key, item, depth) else self._value(item, key, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._value(item, name, depth + 1) for item in value]
        return value

    def _frames(
        self, frames: Sequence[RecordedFrame], joined: Callable[[Sequence[RecordedFrame]], list[RecordedFrame]]
    ) -> list[RecordedFrame]:
        return [self._frame(recorded) for recorded in joined(frames)]

    def _frame(self, recorded: RecordedFrame) -> RecordedFrame:
        data = recorded.frame.data
        text = data.decode("utf-8", "surrogateescape")
        clean = self.text(text)
        return recorded if clean == text else _with(recorded, clean.encode("utf-8", "surrogateescape"))
