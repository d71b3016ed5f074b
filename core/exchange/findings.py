"""What in a text should not leave by accident: keys, tokens and passwords by their shapes, and whose machine it was.

Shapes are those that their issuers document. A value without a shape of its own counts only beside a word that says
what it is (`token = ...`) and only if it looks random, so that digests, ids and pictures raise no alarm. Pure, but for
the environment that is handed in.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from core.events import Envelope, envelope_to_dict
from core.exchange.formats import Format
from core.secrets import MIN_LENGTH, PLACEHOLDER, is_secret_name
from core.store.blobs import BlobRef, blob_of

MOST = 1000
"""Different findings that are kept apart; who has more needs no longer list."""
EXCERPT = 32
"""Characters that an excerpt shows before the secret."""
LONGEST = 400
"""A random value beside a word is no longer than this; what is longer is a document."""


@dataclass(frozen=True, slots=True)
class Span:
    """A place in one text."""

    kind: str
    """What it is, in words."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that should be looked at before a conversation leaves."""

    kind: str
    event_id: int | None
    """The first event that it stands in; None for the conversation's name and folder."""
    where: str
    """The field: `args.command`, or `terminal` for what was recorded."""
    excerpt: str
    """Its surroundings; the secret itself but for a few characters is masked."""
    is_secret: bool = True
    """Whether it must not leave unasked; what only tells whose machine it was is mentioned."""
    count: int = 1
    """How often the same stands in the conversation."""

    def __str__(self) -> str:
        place = "about the conversation" if self.event_id is None else f"event {self.event_id}"
        often = f" ({self.count} times)" if self.count > 1 else ""
        return f"{place}, {self.where}: {self.kind}{often}: {self.excerpt}"


_NOT_BEFORE, _NOT_AFTER = r"(?<![A-Za-z0-9_])", r"(?![A-Za-z0-9_])"
_SHAPES = {
    "an Anthropic key": r"sk-ant-[A-Za-z0-9_-]{16,}",
    "an OpenAI key": r"sk-(?:proj-|svcacct-|admin-)[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{32,64}",
    "an OpenRouter key": r"sk-or-v1-[0-9a-f]{32,}",
    "a Google key": r"AIza[A-Za-z0-9_-]{35}",
    "a Groq key": r"gsk_[A-Za-z0-9]{40,}",
    "an xAI key": r"xai-[A-Za-z0-9]{40,}",
    "a Hugging Face token": r"hf_[A-Za-z0-9]{30,}",
    "a Replicate token": r"r8_[A-Za-z0-9]{30,}",
    "an AWS key id": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    "a GitHub token": r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}",
    "a GitLab token": r"gl(?:pat|dt|rt|cbt)-[A-Za-z0-9_-]{20,}",
    "a Slack token": r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}",
    "a Slack address that takes messages": r"https://hooks\.slack\.com/services/[A-Za-z0-9/_-]{20,}",
    "a Stripe key": r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "a SendGrid key": r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "an npm token": r"npm_[A-Za-z0-9]{36}",
    "a PyPI token": r"pypi-AgE[A-Za-z0-9_-]{40,}",
    "a JSON web token": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
}
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----BEGIN )[\s\S]){0,20000}?(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
_SHAPED = re.compile(_NOT_BEFORE + "(?:" + "|".join(f"({shape})" for shape in _SHAPES.values()) + ")" + _NOT_AFTER)
_KINDS = tuple(_SHAPES)
_HEADER = re.compile(r"(?i)\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+([A-Za-z0-9._~+/=-]{8,})")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"'<>]{0,64}:([^\s/@\"'<>]{4,128})@[\w\[]")
_PASSWORD = re.compile(
    r"(?i)(?<![A-Za-z])(?:pass(?:word|wd|phrase)|pwd)[\"']?\s{0,3}[:=]{1,2}\s{0,3}"
    r"(?:\"([^\"\n]{4,128})\"|'([^'\n]{4,128})'|([^\s\"',;&|)}\]<>]{4,128}))"
)
_BESIDE = re.compile(
    r"(?P<word>(?<![A-Za-z])(?i:api_?key|access_?key|secret_?key|private_?key|key|token|secret|credentials?|auth)"
    r"|(?<=[a-z])(?:Key|Token|Secret|Credentials?|Auth))"
    r"[\"']?\s{0,3}(?:[:=]{1,2}|\bis\b)\s{0,3}[\"']?(?P<value>[A-Za-z0-9+/_.~=-]{20,})"
)
_BEFORE = re.compile(r"[\w.-]*\Z")
_PICTURE = re.compile(r"data:[a-z0-9.+/-]{1,80}(?:;[a-z0-9=.-]{1,40}){0,4};base64,[A-Za-z0-9+/=_-]+", re.IGNORECASE)
_ESCAPE = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]")
_MAY_HOLD = re.compile(
    r"(?i)sk-|aiza|gsk_|xai-|hf_|r8_|a[ksbc][icb]a|gh[pousr]_|github_pat|gl(?:pat|dt|rt|cbt)-|xox|xapp|slack|k_live|k_test"
    r"|sg\.|npm_|pypi-|eyj|private key|authorization|://|pass|pwd|key|token|secret|credential|auth"
)
"""One of these stands in every text that can hold a secret: most texts are done with at once."""
_STANDS_FOR = re.compile(
    r"(?i)^(?:[$%<{\[(*]|x{3,}|\.{3}|•|your|example|changeme|change_me|placeholder|redacted|dummy|none|null|true|false"
    r"|undefined|password|passwd|secret|token|string|str\b|os\.|self\.|env\b|process\.|getpass|input\b|\\)"
)
"""What stands in place of a secret in examples and programs."""
_DIGEST = re.compile(
    r"(?i)(?:[a-z0-9]{3,8}[:=-])?(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{128})"
)
_UUID = re.compile(r"(?i)(?:[a-z]{2,12}[_-])?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBERED = re.compile(r"(?i)(?:call|toolu|chatcmpl|msg|req|resp|run|gen)[_-][A-Za-z0-9_-]+")
"""Ids of answers and calls, which models make at random."""


class Patterns:
    """Finds secrets in texts: by shape, by the word beside them, and those of the environment by value."""

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
        """What to look for on behalf of the user whose environment this is."""
        return cls(environ, environ.get("HOME", ""), environ.get("USER") or environ.get("LOGNAME") or "")

    def secrets(self, text: str, name: str = "") -> list[Span]:
        """The secrets in a text, which is the value of a field `name`; in order, none over another."""
        spans = []
        if self._known is not None:
            for known in self._known.finditer(text):
                spans.append(Span(f"the value of {self._names[known[0]]}", *known.span()))
        if _MAY_HOLD.search(text) is not None:
            bare = _PICTURE.sub(_blank, text) if "base64," in text else text
            spans += _by_shape(_ESCAPE.sub(_blank, bare) if "\x1b" in bare else bare)
        if name and is_secret_name(name) and _looks_random(name, text):
            spans.append(Span(f"a value called {name[:40]}", 0, len(text)))
        return list(_apart(spans))

    def places(self, text: str) -> list[Span]:
        """The paths in a text that tell who worked on which machine."""
        if self._place is None:
            return []
        return [Span("your home folder", *found.span()) for found in self._place.finditer(text)]


def _by_shape(text: str) -> Iterator[Span]:
    for found in _PRIVATE_KEY.finditer(text):
        yield Span("a private key", *found.span())
    for found in _SHAPED.finditer(text):
        assert found.lastindex is not None
        if _entropy(found[0]) > 2.5:  # `sk-ant-xxxxxxxxxxxxxxxx` in a manual is no key
            yield Span(_KINDS[found.lastindex - 1], *found.span())
    for kind, pattern in (("an Authorization header", _HEADER), ("a password in an address", _ADDRESS)):
        for found in pattern.finditer(text):
            if not _STANDS_FOR.match(found[1]):
                yield Span(kind, *found.span(1))
    for found in _PASSWORD.finditer(text):
        group = found.lastindex or 3
        if not _STANDS_FOR.match(found[group]) and (group < 3 or _no_word(found[group])):
            yield Span("a password", *found.span(group))
    for found in _BESIDE.finditer(text):
        name = _whole_name(text, *found.span("word"))
        if _looks_random(name, found["value"]):
            yield Span(f"a value called {name}", *found.span("value"))


def _whole_name(text: str, start: int, end: int) -> str:
    """The name of which the word between `start` and `end` is the last part."""
    before = _BEFORE.search(text[max(0, start - 30) : start])
    return (before[0] if before else "") + text[start:end]


def _no_word(value: str) -> bool:
    """Whether it is no name or call of a program, such as `get_password()` or `self.password`."""
    return "(" not in value and re.search(r"[0-9!@#%^*?~]", value) is not None


def _looks_random(name: str, value: str) -> bool:
    """Whether a value beside a word looks like one that nobody chose, and like no digest or id."""
    if not 20 <= len(value) <= LONGEST or _STANDS_FOR.match(value) or " " in value:
        return False
    if _UUID.fullmatch(value) or _NUMBERED.fullmatch(value):
        return False
    if _DIGEST.fullmatch(value):
        return re.search(r"(?i)secret|token|api_?key", name) is not None
    classes = sum(re.search(kind, value) is not None for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return classes == 3 and value.count("/") < 3 and value.count(".") < 3 and _entropy(value) >= 3.5


def _entropy(text: str) -> float:
    """Bits for each character, by how often each occurs."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _apart(spans: list[Span]) -> Iterator[Span]:
    """Those that begin first, the longest of them, without what lies in another."""
    end = -1
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start >= end:
            yield span
            end = span.end
        elif span.end > end:
            yield replace(span, start=end)
            end = span.end


def leaves(value: Any, path: str = "", name: str = "") -> Iterator[tuple[str, str, str]]:
    """(path, name of the field, text) for each text in a JSON value; keys of objects are texts, too."""
    if isinstance(value, str):
        yield path, name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            inner = f"{path}.{key}" if path else key
            yield inner, "", key
            yield from leaves(item, inner, key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}.{index}", name)


class Findings:
    """Gathers what is found, the same thing once. Takes texts in a thread, page by page."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self._found: dict[tuple[str, bytes], Finding] = {}
        self.left_out = 0
        """Findings beyond MOST, which are counted only."""
        self.pictures: set[str] = set()
        """Digests of the pictures among the texts. Nobody looks into them."""

    @property
    def all(self) -> list[Finding]:
        """Secrets first, then in the order of events."""
        return sorted(self._found.values(), key=lambda finding: (not finding.is_secret, finding.event_id or 0))

    @property
    def secrets(self) -> list[Finding]:
        """Those that must not leave unasked."""
        return [finding for finding in self.all if finding.is_secret]

    def take(self, envelope: Envelope, wanted: Format) -> None:
        """Look through one event, whatever it carries included, on its way into a format."""
        for path, name, text in leaves(envelope_to_dict(envelope, derived=False)):
            self.look(text, envelope.id, path, name)
            if wanted.has_pictures and name not in wanted.leaves_out:
                self._note_pictures(text)

    def look(self, text: str, event_id: int | None, where: str, name: str = "") -> None:
        """Look through one text."""
        for span in self._patterns.secrets(text, name):
            self._add(span, text, event_id, where, is_secret=True)
        for span in self._patterns.places(text):
            self._add(span, text, event_id, where, is_secret=False)

    def _note_pictures(self, text: str) -> None:
        if (ref := BlobRef.parse(text)) is not None:
            self.pictures.add(ref.digest)
        elif "base64," in text:
            for found in _PICTURE.finditer(text):
                blob = blob_of(found[0])
                self.pictures.add(blob.ref.digest if blob else hashlib.sha256(found[0].encode()).hexdigest())

    def _add(self, span: Span, text: str, event_id: int | None, where: str, *, is_secret: bool) -> None:
        value = text[span.start : span.end]
        key = (span.kind if is_secret else "", hashlib.sha256(value.encode("utf-8", "replace")).digest())
        if (known := self._found.get(key)) is not None:
            self._found[key] = replace(known, count=known.count + 1)
        elif len(self._found) < MOST:
            before = " ".join(text[max(0, span.start - EXCERPT) : span.start].split())
            before = mask_in(before, self._patterns) if is_secret else before
            excerpt = f"{before} {masked(value) if is_secret else value}".strip()
            self._found[key] = Finding(span.kind, event_id, where, excerpt, is_secret)
        else:
            self.left_out += 1


def masked(value: str) -> str:
    """The beginning of a secret, enough to know it again, and how long it is."""
    shown = value[:4] if len(value) >= 16 and value.isprintable() else ""
    return f"{shown}•••• ({len(value)} characters)"


def mask_in(text: str, patterns: Patterns, name: str = "", place: Callable[[str], str] | None = None) -> str:
    """The text without its secrets, and with `place` in place of paths of the home folder where one is given."""
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
