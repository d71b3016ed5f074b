"""The parts of an event: each value in one line, and the parts that it consists of.

Pure and lazy: no list has more than `MANY` parts, so that an event of many megabytes opens as fast as a small one.
Previews are clean; the values themselves are not.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from tui.i18n import _, counted
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.events import Envelope


MANY = 200
"""Parts of one value that are shown; more are put into groups of so many."""
PREVIEW_CELLS = 160
"""What the widest screens show beside a key."""
SHORT_CHARS = 80
"""A text up to this length is shown whole and does not open."""

MAX_JSON_CHARS = 200_000
"""More than anybody scrolls through; the export has the rest."""
_BASE64 = re.compile(r"(?:data:([a-z0-9.+/-]{1,60})[a-z0-9=;.-]{0,60};base64,)?([A-Za-z0-9+/_-]{100})", re.IGNORECASE)
_REFERENCE = re.compile(r"blob:(image/[a-z]+);(\d+)x(\d+);(\d+);([0-9a-f]{64})")


class Part(NamedTuple):
    """One value of an event, and its key."""

    key: str
    value: object
    first: int = 0
    """In a group: the index of its first element, or the offset of its first character."""
    end: int = -1
    """In a group: the index after its last; -1 if this is no group."""


class PartLine(NamedTuple):
    """A part in one line. All of it is clean."""

    key: str
    preview: str
    note: str
    """What kind of value it is, and how large."""
    can_open: bool


def describe(part: Part) -> PartLine:
    key, value = sanitize_line(part.key, 40), part.value
    if part.end >= 0:
        shown = value[part.first : part.first + 200] if isinstance(value, str) else ""
        return PartLine(key, sanitize_line(shown, PREVIEW_CELLS), "", True)
    match value:
        case dict():
            return PartLine(key, "", counted(len(value), "{n} key", "{n} keys"), bool(value))
        case list():
            return PartLine(key, "", counted(len(value), "{n} element", "{n} elements"), bool(value))
        case str():
            return _describe_text(key, value)
        case None:
            return PartLine(key, "null", "", False)
    return PartLine(key, sanitize_line(json.dumps(value, default=str), PREVIEW_CELLS), "", False)


def _describe_text(key: str, text: str) -> PartLine:
    picture = _REFERENCE.fullmatch(text[:200])
    if picture is not None:
        kind, width, height, size, digest = picture.groups()
        note = _("image stored with the event: {kind}, {width}×{height}, {bytes} bytes").format(
            kind=kind, width=width, height=height, bytes=f"{int(size):,}"
        )
        return PartLine(key, f"{digest[:12]}…", note, False)
    encoded = _BASE64.match(text[:400])
    if encoded is not None and " " not in text[:400]:
        return PartLine(key, f"{sanitize_line(text[:40], 40)}…", f"{encoded[1] or 'base64'}, {_characters(text)}", True)
    if len(text) <= SHORT_CHARS and "\n" not in text:
        return PartLine(key, sanitize_line(text, PREVIEW_CELLS) if text else '""', "", False)
    lines = text.count("\n") + 1
    first = text[:2_000].lstrip().split("\n", 1)[0]
    note = _characters(text)
    if lines > 1:
        note = _("{lines} lines, {characters}").format(lines=f"{lines:,}", characters=note)
    return PartLine(key, sanitize_line(first, PREVIEW_CELLS), note, True)


def _characters(text: str) -> str:
    return _("{n} characters").format(n=f"{len(text):,}")


def parts_of(part: Part, width: int = SHORT_CHARS) -> list[Part]:
    """Return the values of a part, or the lines of a text, none longer than `width` characters."""
    value = part.value
    match value:
        case dict():
            return [Part(str(key), inner) for key, inner in value.items()]
        case list():
            return _grouped(value, *((0, len(value)) if part.end < 0 else (part.first, part.end)))
        case str():
            return _text_parts(part, value, max(16, width))
    return []


def _grouped(values: list[object], first: int, end: int) -> list[Part]:
    if end - first <= MANY:
        return [Part(str(index), values[index]) for index in range(first, end)]
    size = MANY
    while (end - first) > size * MANY:
        size *= MANY
    starts = range(first, end, size)
    groups = [(at, min(at + size, end)) for at in starts]
    return [Part(_("{first} to {last}").format(first=at, last=to - 1), values, at, to) for at, to in groups]


def _text_parts(part: Part, text: str, width: int) -> list[Part]:
    """Return the lines of a text or of a range of it; what does not fit is one more part at the end."""
    start, end = (0, len(text)) if part.end < 0 else (part.first, part.end)
    found: list[Part] = []
    at = start
    while at < end and len(found) < MANY:
        stop = text.find("\n", at, min(end, at + width))
        line_end = min(end, at + width) if stop < 0 else stop
        found.append(Part("", text[at:line_end], 0))
        at = line_end + (line_end < end and text[line_end] == "\n")
    if at < end:
        found.append(Part(_("{n} more characters").format(n=f"{end - at:,}"), text, at, end))
    return found


def copy_text(part: Part) -> str:
    """Return a part for the clipboard: a text as it is, anything else as JSON."""
    value = part.value
    if part.end >= 0 and isinstance(value, str | list):
        value = value[part.first : part.end]
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)


def line_of(part: Part) -> str:
    return sanitize(part.value) if isinstance(part.value, str) else ""


def stored_json(envelope: Envelope) -> str:
    """Return an event as it is stored. Not clean: for the clipboard, not for the screen."""
    from core.events import envelope_to_dict  # not with the first frame

    return json.dumps(envelope_to_dict(envelope), indent=2, ensure_ascii=False, default=str)


def shown_json(envelope: Envelope) -> str:
    """Return the stored JSON of an event for the screen, clean and bounded."""
    text = stored_json(envelope)
    if len(text) > MAX_JSON_CHARS:
        more = _("[... {n} more characters; use `handloom export` to see all ...]")
        more = more.format(n=f"{len(text) - MAX_JSON_CHARS:,}")
        text = f"{text[:MAX_JSON_CHARS]}\n{more}"
    return sanitize(text)
