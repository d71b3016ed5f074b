"""The search for secrets before an export: keys, tokens and passwords, and paths that name the user's machine.

`scan` finds them, and a `Cleaner` redacts them during the export. Both use the same patterns (those of
`core.secrets.token_patterns`, and the values of the environment), so what was shown is what is redacted. Pictures are
counted, not searched. Terminal output may split a secret, so it is joined before it is searched.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.events import Envelope, envelope_from_dict, envelope_to_dict
from core.import_export.exporter import Format, Page, in_thread, pages
from core.secrets import MIN_LENGTH, PLACEHOLDER, is_secret_name
from core.secrets.redactor import is_ours
from core.secrets.token_patterns import PICTURE, Span, apart, in_text, looks_random, possible, without_codes
from core.store.blobs import BlobRef, parse_data_url
from core.store.reader import EventReader
from core.store.recordings import RecordedFrame

MAX_FINDINGS = 1000
"""Different findings in the list; more are only counted."""
EXCERPT_CHARS = 32


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the user should check before an export."""

    kind: str
    event_id: int | None
    """The first event that contains it; None for the conversation's title and folder."""
    where: str
    """The field: `args.command`, or `terminal` for a recording."""
    excerpt: str
    """The text around it, with most of the secret redacted."""
    is_secret: bool = True
    """Whether the user must agree to its export; paths of the home folder are only mentioned."""
    count: int = 1

    def __str__(self) -> str:
        place = "about the conversation" if self.event_id is None else f"event {self.event_id}"
        often = f" ({self.count} times)" if self.count > 1 else ""
        return f"{place}, {self.where}: {self.kind}{often}: {self.excerpt}"


class Patterns:
    """Finds secrets in texts: by pattern, by the name of their field, and values of the environment."""

    def __init__(self, environ: Mapping[str, str], home: str = "", user: str = "") -> None:
        self._names = {
            value: name for name, value in environ.items() if is_secret_name(name) and len(value) >= MIN_LENGTH
        }
        longest_first = sorted(self._names, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        places = [re.escape(home.rstrip("/"))] if len(home) > 3 else []
        places += [rf"(?:/home|/Users|[A-Z]:\\Users)[/\\]{re.escape(user)}"] if user else []
        self._place = re.compile(rf"(?<![\w.])(?:{'|'.join(places)})(?![\w-])") if places else None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Patterns:
        """The patterns for the user of this environment."""
        return cls(environ, environ.get("HOME", ""), environ.get("USER") or environ.get("LOGNAME") or "")

    def secrets(self, text: str, name: str = "") -> list[Span]:
        """The secrets in the value of a field `name`, in order and without overlaps."""
        spans = []
        if self._known is not None:
            spans += self._values(text)
            if "\x1b" in text:
                bare, places = without_codes(text)
                spans += [in_text(span, places) for span in self._values(bare)]
        spans += possible(text)
        if name and is_secret_name(name) and looks_random(name, text):
            spans.append(Span(f"a value called {name[:40]}", 0, len(text)))
        return list(apart(spans))

    def _values(self, text: str) -> list[Span]:
        assert self._known is not None
        return [Span(f"the value of {self._names[known[0]]}", *known.span()) for known in self._known.finditer(text)]

    def places(self, text: str) -> list[Span]:
        """Paths of the user's home folder in a text."""
        if self._place is None:
            return []
        return [Span("your home folder", *found.span()) for found in self._place.finditer(text)]


def text_values(value: Any, path: str = "", name: str = "") -> Iterator[tuple[str, str, str]]:
    """(path, field name, text) for each text in a JSON value, including the keys of objects."""
    if isinstance(value, str):
        yield path, name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            inner = f"{path}.{key}" if path else key
            yield inner, "", key
            yield from text_values(item, inner, key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from text_values(item, f"{path}.{index}", name)


class Findings:
    """The findings of one conversation, each secret once."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self._found: dict[tuple[str, bytes], Finding] = {}
        self.left_out = 0
        """The number of findings beyond MAX_FINDINGS."""
        self.pictures: set[str] = set()
        """Digests of the pictures, which are not searched."""

    @property
    def all(self) -> list[Finding]:
        """Secrets first, each group in the order of events."""
        return sorted(self._found.values(), key=lambda finding: (not finding.is_secret, finding.event_id or 0))

    @property
    def secrets(self) -> list[Finding]:
        """Findings that need the user's agreement."""
        return [finding for finding in self.all if finding.is_secret]

    def take(self, envelope: Envelope, wanted: Format) -> None:
        """Search all of one event that the format would write."""
        for path, name, text in text_values(envelope_to_dict(envelope, derived=False)):
            self.search(text, envelope.id, path, name)
            if wanted.has_pictures and name not in wanted.leaves_out:
                self._note_pictures(text)

    def search(self, text: str, event_id: int | None, where: str, name: str = "") -> None:
        for span in self._patterns.secrets(text, name):
            self._add(span, text, event_id, where, is_secret=True)
        for span in self._patterns.places(text):
            self._add(span, text, event_id, where, is_secret=False)

    def _note_pictures(self, text: str) -> None:
        if (ref := BlobRef.parse(text)) is not None:
            self.pictures.add(ref.digest)
        elif "base64," in text:
            for found in PICTURE.finditer(text):
                blob = parse_data_url(found[0])
                self.pictures.add(blob.ref.digest if blob else hashlib.sha256(found[0].encode()).hexdigest())

    def _add(self, span: Span, text: str, event_id: int | None, where: str, *, is_secret: bool) -> None:
        value = text[span.start : span.end]
        key = (span.kind if is_secret else "", hashlib.sha256(value.encode("utf-8", "replace")).digest())
        if (known := self._found.get(key)) is not None:
            self._found[key] = replace(known, count=known.count + 1)
        elif len(self._found) < MAX_FINDINGS:
            before = " ".join(text[max(0, span.start - EXCERPT_CHARS) : span.start].split())
            before = redact_secrets(before, self._patterns) if is_secret else before
            excerpt = f"{before} {redact_partly(value) if is_secret else value}".strip()
            self._found[key] = Finding(span.kind, event_id, where, excerpt, is_secret)
        else:
            self.left_out += 1


def redact_partly(value: str) -> str:
    """The beginning of a secret, to recognise it, and its length."""
    shown = value[:4] if len(value) >= 16 and value.isprintable() else ""
    return f"{shown}•••• ({len(value)} characters)"


def redact_secrets(text: str, patterns: Patterns, name: str = "", place: Callable[[str], str] | None = None) -> str:
    """The text with its secrets redacted. `place`, if given, replaces paths of the home folder."""
    spans = [(span, PLACEHOLDER) for span in patterns.secrets(text, name)]
    if place is not None:
        ends = [(span.start, span.end) for span, _ in spans]
        spans += [
            (span, place(text[span.start : span.end]))
            for span in patterns.places(text)
            if not any(span.start < end and start < span.end for start, end in ends)
        ]
    for span, instead in sorted(spans, key=lambda found: found[0].start, reverse=True):
        text = text[: span.start] + instead + text[span.end :]
    return text


HELD_BYTES = 4096
"""The longest word that is held back until its end arrives: longer than any key."""
_BETWEEN = re.compile(rb"[\s\x00-\x06\x08\x10-\x1a\x1c-\x1f]")
"""What ends a word: blanks and control characters, except those of escape codes, which may be inside a word."""


async def scan(reader: EventReader, conversation_id: str, patterns: Patterns, wanted: Format) -> Findings:
    """What the user should check before an export. Raises UsageError and StoreError."""
    findings = Findings(patterns)
    info = await reader.conversation(conversation_id)
    findings.search(info.title, None, "title")
    findings.search(info.workspace, None, "workspace")
    joiner = FrameJoiner()
    async for page in pages(reader, conversation_id, replace(wanted, has_pictures=False)):
        await in_thread(_scan_page, findings, page, joiner, wanted)
    await in_thread(_scan_frames, findings, joiner.rest())
    return findings


def _scan_page(findings: Findings, page: Page, joiner: FrameJoiner, wanted: Format) -> None:
    for envelope in page.events:
        findings.take(envelope, wanted)
    _scan_frames(findings, joiner.take(page.frames))


def _scan_frames(findings: Findings, frames: Iterable[RecordedFrame]) -> None:
    for recorded in frames:
        findings.search(recorded.frame.data.decode("utf-8", "replace"), max(recorded.after, 0), "terminal")


@dataclass(slots=True)
class FrameJoiner:
    """Joins terminal frames so that no word is split between two of them."""

    _held: RecordedFrame | None = field(default=None)

    def take(self, frames: Sequence[RecordedFrame]) -> list[RecordedFrame]:
        """The frames that are complete. A word without an end is held back for the next call."""
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
        """The word that is still held back, at the end of the conversation."""
        held, self._held = self._held, None
        return [held] if held is not None else []


def _with(recorded: RecordedFrame, data: bytes) -> RecordedFrame:
    return replace(recorded, frame=replace(recorded.frame, data=data))


class Cleaner:
    """Redacts what `scan` finds: secrets become `<secret_hidden>`, the home folder becomes `~`."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self._joiner = FrameJoiner()

    def text(self, text: str, name: str = "") -> str:
        """One text without its secrets; the same object if there are none."""
        return redact_secrets(text, self._patterns, name, place=lambda path: "~")

    def page(self, page: Page) -> Page:
        """A page without secrets. The last word of its terminal output may come with the next page."""
        return replace(
            page,
            events=[self._event(event) for event in page.events],
            frames=[self._frame(recorded) for recorded in self._joiner.take(page.frames)],
        )

    def rest(self) -> list[RecordedFrame]:
        """The terminal output that is left after the last page."""
        return [self._frame(recorded) for recorded in self._joiner.rest()]

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

    def _frame(self, recorded: RecordedFrame) -> RecordedFrame:
        data = recorded.frame.data
        text = data.decode("utf-8", "surrogateescape")
        clean = self.text(text)
        return recorded if clean == text else _with(recorded, clean.encode("utf-8", "surrogateescape"))
