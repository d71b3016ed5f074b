"""Redaction of known secrets, in the forms of `encodings`, and of values that look like secrets.

Redactor replaces secrets in texts, bytes and JSON values at any depth. StreamRedactor redacts a stream that arrives in
pieces: bytes that may be the beginning of a secret are held back until the next piece arrives. Up to three such bytes
are shown at once, because they reveal nothing and a prompt needs its last letter; the rest of the secret is redacted.

Detector finds unknown values in everything that comes into a conversation. A value that was found is known from then
on, so it is redacted in streams and in other encodings, too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from core.secrets.byte_dumps import Dump, may_go_on
from core.secrets.byte_search import Finder, Span, merged
from core.secrets.encodings import forms, last_wrapped, lines, quickly_without_codes, spread, without_codes
from core.secrets.token_patterns import certain

PLACEHOLDER = "<secret_hidden>"
PROTECTED = frozenset({"action", "observation", "agent_state", "confirmation_state", "recall_type", "impl_source"})
"""Fields of events with fixed values, which are not redacted."""
_OUR_DEPTH = 1
"""Their maximum depth: beside the kind of an event, or in its `args` or `extras`."""
_ERRORS = "surrogatepass"
"""For lone surrogates."""
_SPREAD, _SPREAD_MORE = 6, 512
"""Bytes of a dump or of coloured letters for each byte of a value, and of an incomplete line."""


class Redactor:
    """Replaces known secrets. Without any it returns everything unchanged. Values can be added, not removed."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self.finder = Finder(())
        self.add(values)

    def __bool__(self) -> bool:
        return bool(self.finder)

    def add(self, values: Iterable[str]) -> None:
        """Add secrets."""
        if fresh := set(values) - self._values:
            self._values |= fresh
            self.finder.add(
                (form for value in fresh for form in forms(value)),
                breakable=(line for value in fresh for line in lines(value)),
            )

    def knows(self, value: str) -> bool:
        """Whether this is exactly one of the secrets."""
        return value in self._values

    @property
    def reach(self) -> int:
        """The maximum number of bytes that a secret takes in a text, in any form and layout."""
        return self.finder.longest * _SPREAD + _SPREAD_MORE

    def may_redact(self, text: str) -> bool:
        """Whether `redact` would change the value of this JSON text, as `core.events.to_json` writes it."""
        if self.finder.is_in(text.encode("utf-8", _ERRORS)):
            return True
        return ("\\n" in text or "\\u00" in text) and self.redact(value := json.loads(text)) is not value

    def redact_text(self, text: str) -> str:
        """The text without secrets; the same object if there are none."""
        if not self.finder:
            return text
        data = text.encode("utf-8", _ERRORS)
        if not (found := self._found(data)):
            return text
        parts, place = [], 0
        for begin, end in merged((_char_begin(data, pieces[0][0]), _char_end(data, pieces[-1][1])) for pieces in found):
            parts += [data[place:begin], PLACEHOLDER.encode()]
            place = end
        return b"".join([*parts, data[place:]]).decode("utf-8", _ERRORS)

    def redact_bytes(self, data: bytes) -> bytes:
        """Replace secrets by stars, without changing the length. Escape codes between their letters stay."""
        return starred(data, self.spans(data)) if self.finder else data

    def spans(self, data: bytes) -> list[Span]:
        """The spans of secrets in order; those that overlap or touch are merged."""
        return merged(piece for pieces in self._found(data) for piece in pieces)

    def open_end(self, data: bytes) -> int:
        """Where the longest incomplete secret at the end of the data begins; its length if there is none."""
        start = max(len(data) - self.reach, 0)
        return start + min(_open_ends(self.finder, data[start:]))

    def _found(self, data: bytes) -> list[list[Span]]:
        """The spans of each secret that is found."""
        found = [[span] for span in self.finder.spans(data)]
        bare = quickly_without_codes(data)
        layouts = list(spread(bare))
        is_bare = bare is not data and self.finder.is_in(bare)
        hidden = [layout for layout in layouts if self.finder.is_in(layout.data)]
        if not is_bare and not hidden:
            return found
        plain = without_codes(data)
        if plain is not None:
            found += [plain.pieces(*span) for span in self.finder.spans(bare)]
        for layout in hidden:
            for span in self.finder.spans(layout.data):
                pieces = layout.pieces(*span)
                if plain is not None:
                    pieces = [piece for begin, end in pieces for piece in plain.pieces(begin, end)]
                found += [[piece] for piece in pieces] if isinstance(layout, Dump) else [pieces]
        return found

    def redact(self, value: Any, *, is_field: Callable[[str], bool] = lambda name: False) -> Any:
        """A JSON value without secrets; the same object if there are none. Keys for which `is_field` is true stay."""
        return redact_leaves(value, self.redact_text, is_field)


def _open_ends(finder: Finder, data: bytes) -> Iterator[int]:
    """Where a secret may begin that continues after the end, in each layout."""
    yield finder.open_end(data)
    plain = without_codes(data, is_cut=True)
    bare = data if plain is None else plain.data

    def place(number: int) -> int:
        return len(data) if number == len(bare) else number if plain is None else plain.place(number)

    if plain is not None:
        yield place(finder.open_end(bare))
    if (wrapped := last_wrapped(bare)) is not None and (begin := finder.open_end(wrapped.data)) < len(wrapped.data):
        yield place(wrapped.place(begin))
    for layout in spread(bare):
        if isinstance(layout, Dump) and may_go_on(bare, layout):
            is_cut = layout.lines[-1][1] == len(bare)
            for known in {len(layout.data), layout.begins[-1] if is_cut else len(layout.data)}:
                if (begin := finder.open_end(layout.data[:known])) < known:
                    yield place(layout.place(begin))
            if is_cut:
                yield place(layout.lines[-1][0])


def _char_begin(data: bytes, place: int) -> int:
    """The begin of the UTF-8 character that contains this byte."""
    while place > 0 and 0x80 <= data[place] < 0xC0:
        place -= 1
    return place


def _char_end(data: bytes, place: int) -> int:
    while place < len(data) and 0x80 <= data[place] < 0xC0:
        place += 1
    return place


def redact_leaves(value: Any, redact: Callable[[str], str], is_field: Callable[[str], bool], depth: int = 0) -> Any:
    """Redact every text of a JSON value except PROTECTED fields; the same object if nothing changes."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        redacted = {
            key if is_field(key) else redact(key): (
                item if is_ours(key, item, depth) else redact_leaves(item, redact, is_field, depth + 1)
            )
            for key, item in value.items()
        }
        same = all(redacted.get(key, redacted) is item for key, item in value.items())
        return value if same else redacted
    if isinstance(value, list | tuple):
        items = [redact_leaves(item, redact, is_field, depth + 1) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def is_ours(key: str, item: Any, depth: int) -> bool:
    """Whether this is a PROTECTED field of an event, and not a key of some other object."""
    return depth <= _OUR_DEPTH and key in PROTECTED and isinstance(item, str)


def starred(data: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Replace spans by stars; the same object if there are none."""
    covered: bytearray | None = None
    for begin, end in spans:
        covered = bytearray(data) if covered is None else covered
        covered[begin:end] = b"*" * (end - begin)
    return data if covered is None else bytes(covered)


SHOWN = 3
"""Bytes of an incomplete secret that are not held back."""
LINE_BYTES = 512
"""Bytes of two lines of a dump or of base64."""


class StreamRedactor:
    """Redacts one stream. `feed` and `flush` together return as many bytes as were fed."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._seen = b""
        """The last two lines that were returned, which are needed to recognise layouts."""
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Add data, and return what can be shown now, with stars in place of secrets."""
        if not self._redactor:
            shown = self.flush() + data
            self._seen = shown[_two_lines(shown) :]
            return shown
        known = len(self._seen)
        whole = self._seen + self._held + data
        begin = self._redactor.open_end(whole)
        is_little = len(quickly_without_codes(whole[begin:])) <= SHOWN
        shown_until = len(whole) if is_little else max(begin, known)
        self._held = whole[shown_until:]
        self._seen = whole[min(begin, _two_lines(whole)) : shown_until]
        return starred(whole, self._redactor.spans(whole))[known:shown_until]

    def flush(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        whole, known = self._seen + self._held, len(self._seen)
        self._seen = self._held = b""
        return self._redactor.redact_bytes(whole)[known:]


def _two_lines(data: bytes) -> int:
    """The begin of the line before the last one, at most LINE_BYTES back."""
    start = max(len(data) - LINE_BYTES, 0)
    last = data.rfind(b"\n", start)
    return max(data.rfind(b"\n", start, last) + 1, start) if last >= 0 else start


def without_secrets(text: str, redactor: Redactor) -> str:
    """The text without known secrets and what looks like one; the same object if there are none."""
    for span in reversed(certain(text)):
        text = text[: span.start] + PLACEHOLDER + text[span.end :]
    return redactor.redact_text(text)


# -- values that look like secrets -----------------------------------------------------------------------------------

_BY_NAME = "a value called"
"""How `token_patterns` begins the kind of a value that was found by the name beside it."""


def category_of(kind: str) -> str:
    """The category of a kind of secret, as the user can allow it: values found by a name beside them are one."""
    return "a value beside a name" if kind.startswith(_BY_NAME) else kind


def notice(category: str, count: int) -> str:
    """Tell the user that so many different values of a category were redacted."""
    often = f" ({count} of them)" if count > 1 else ""
    allow = f"handloom secrets allow '{category}'"
    return f"This looks like {category} and was redacted{often}. If it is not a secret, run: {allow}"


class ReportedSecrets:
    """The values that were reported in one conversation, so that each is reported once."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, found: Mapping[str, str]) -> Counter[str]:
        """Count the new ones among values that were found, by category. `found` has the category of each value."""
        new = {value: category for value, category in found.items() if value not in self._values}
        self._values.update(new)
        return Counter(new.values())


class Detector:
    """Redacts what looks like a secret, and teaches it to the redactor. One per process.

    `allowed` returns the categories that the user wants to see.
    """

    def __init__(self, redactor: Redactor, allowed: Callable[[], Collection[str]]) -> None:
        self._redactor = redactor
        self._allowed = allowed
        self._found: set[str] = set()
        """The values that the redactor knows from here."""

    def redact(self, value: Any, is_field: Callable[[str], bool] = lambda name: False) -> tuple[Any, Mapping[str, str]]:
        """Redact a JSON value, and return the category of each value that was found.

        The same object is returned if nothing was found. Secrets that are known from elsewhere are not among the found.
        """
        categories: dict[str, str] = {}
        allowed = self._allowed()

        def redact_text(text: str) -> str:
            for span in reversed(certain(text)):
                if (category := category_of(span.kind)) not in allowed:
                    categories[text[span.start : span.end]] = category
                    text = text[: span.start] + PLACEHOLDER + text[span.end :]
            return text

        result = redact_leaves(value, redact_text, is_field)
        found = {
            value: category
            for value, category in categories.items()
            if value in self._found or not self._redactor.knows(value)
        }
        self._found.update(found)
        self._redactor.add(found)
        return result, found
