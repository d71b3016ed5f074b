"""Patterns of keys, tokens and passwords, for redaction and for the search before an export.

The patterns are those that issuers document. Other values count only next to a word such as `token =` and only if they
look random, unlike digests and ids. `possible` finds what a person should review; `certain` finds less, because it is
redacted without asking. Pure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from core.secrets.encodings import CODES

LONGEST = 400
"""Maximum length of a random value next to a word."""

PRIVATE_KEY = "a private key"
CERTAIN_BITS = 3.2
"""Minimum entropy per character; examples have less."""
CERTAIN_CHARS = 14
"""Minimum length of a value without a documented pattern."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span of a text."""

    kind: str
    """A description such as `a GitHub token`."""
    start: int
    end: int


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
_KEY_LINE = re.compile(r"(?m)^[ \t>|]*[A-Za-z0-9+/]{40,}={0,2}(?=\r?$)")
_KEY_IN_ONE = re.compile(r"[A-Za-z0-9+/]{40,}\\n[A-Za-z0-9+/]{16,}")
_CODE = re.compile(r"[\\{}()<>\[\]]")
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
_LOGIN = re.compile(r"\bmachine\s{1,20}\S{1,255}\s{1,20}(?:login\s{1,20}\S{1,128}\s{1,20})?password\s{1,20}(\S{4,400})")
"""Logins in .netrc."""
_BEFORE = re.compile(r"[\w.-]*\Z")
PICTURE = re.compile(r"data:[a-z0-9.+/-]{1,80}(?:;[a-z0-9=.-]{1,40}){0,4};base64,[A-Za-z0-9+/=_-]+", re.IGNORECASE)
_ESCAPE = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
"""Text around a colour code belongs together; other codes move the cursor."""
_CODE_OF_TERMINALS = re.compile(CODES.pattern.decode("ascii"))
_BEGINNINGS = (
    *("sk-", "AIza", "gsk_", "xai-", "hf_", "r8_", "AKIA", "ASIA", "ABIA", "ACCA", "ghp_", "gho_", "ghu_", "ghs_"),
    *("ghr_", "github_pat_", "glpat-", "gldt-", "glrt-", "glcbt-", "xox", "xapp-", "hooks.slack.com", "k_live_"),
    *("k_test_", "SG.", "npm_", "pypi-AgE", "eyJ"),
)
"""Every match of `_SHAPES` contains one of these, and a search for them is ten times faster."""
_WORDS = ("key", "token", "secret", "credential", "auth")
"""Every match of `_BESIDE` contains one of these, ignoring case."""
_SIGNS = (*_WORDS, "://", "pass", "pwd")
"""Every other match contains one of these, ignoring case."""
_STANDS_FOR = re.compile(
    r"(?i)^(?:[$%<{\[(*]|x{3,}|\.{3}|•|your|example|changeme|change_me|placeholder|redacted|dummy|none|null|true|false"
    r"|undefined|password|passwd|secret|token|string|str\b|os\.|self\.|env\b|process\.|getpass|input\b|\\)"
)
"""Placeholders in examples and programs."""
_DIGEST = re.compile(
    r"(?i)(?:[a-z0-9]{3,8}[:=-])?(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{128})"
)
_UUID = re.compile(r"(?i)(?:[a-z]{2,12}[_-])?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBERED = re.compile(r"(?i)(?:call|toolu|chatcmpl|msg|req|resp|run|gen)[_-][A-Za-z0-9_-]+")
"""Random ids of model responses and tool calls."""


def possible(text: str) -> Iterator[Span]:
    """What may be a secret, unordered; spans may overlap."""
    for span, _ in _found(text):
        yield span


def may_hold(text: str) -> bool:
    """Whether a text may contain secrets. Several times faster; misses secrets that are split by colours."""
    if any(beginning in text for beginning in _BEGINNINGS):
        return True
    lower = text.lower()
    return any(sign in lower for sign in _SIGNS)


def certain(text: str) -> list[Span]:
    """What is almost certainly a secret, in order, without overlaps.

    Without passwords that somebody chose, and without what looks like words, digests, ids or code.
    """
    return list(apart([span for span, value in _found(text) if _is_certain(span.kind, value)]))


def without_codes(text: str, codes: re.Pattern[str] | None = None) -> tuple[str, list[int]]:
    """The text without escape codes, and the position of each of its characters in the text."""
    parts, places, place = list[str](), list[int](), 0
    for code in (codes or _CODE_OF_TERMINALS).finditer(text):
        parts.append(text[place : code.start()])
        places += range(place, code.start())
        place = code.end()
    return "".join([*parts, text[place:]]), [*places, *range(place, len(text))]


def _found(text: str) -> Iterator[tuple[Span, str]]:
    """Spans with their texts, also of values that are split by colours."""
    bare = _bare(text)
    for span in _by_shape(bare):
        yield span, bare[span.start : span.end]
    if _COLOUR.search(text):
        text = PICTURE.sub(_blank, text) if "base64," in text else text
        joined, places = without_codes(text, _COLOUR)
        for span in _by_shape(_ESCAPE.sub(_blank, joined)):
            yield in_text(span, places), joined[span.start : span.end]


def in_text(span: Span, places: list[int]) -> Span:
    """Map a span of the text without codes to the text."""
    return replace(span, start=places[span.start], end=places[span.end - 1] + 1)


def _is_certain(kind: str, value: str) -> bool:
    if kind == PRIVATE_KEY:
        return len(_KEY_LINE.findall(value)) > 1 or _KEY_IN_ONE.search(value) is not None
    if kind in _SHAPES:
        return entropy(value) >= CERTAIN_BITS
    return len(value) >= CERTAIN_CHARS and looks_random("", value.ljust(20, value[-1])) and not _CODE.search(value)


def _bare(text: str) -> str:
    """The text with spaces in place of pictures and escape codes."""
    text = PICTURE.sub(_blank, text) if "base64," in text else text
    return _ESCAPE.sub(_blank, text) if "\x1b" in text else text


def _by_shape(text: str) -> Iterator[Span]:
    if "PRIVATE KEY" in text:
        for found in _PRIVATE_KEY.finditer(text):
            yield Span(PRIVATE_KEY, *found.span())
    if any(beginning in text for beginning in _BEGINNINGS):
        for found in _SHAPED.finditer(text):
            assert found.lastindex is not None
            if entropy(found[0]) > 2.5:  # `sk-ant-xxxxxxxxxxxxxxxx` in a manual is no key
                yield Span(_KINDS[found.lastindex - 1], *found.span())
    yield from _beside_words(text, text.lower())


def _beside_words(text: str, lower: str) -> Iterator[Span]:
    for kind, word, pattern in (
        ("an Authorization header", "authorization", _HEADER),
        ("a password in an address", "://", _ADDRESS),
    ):
        for found in pattern.finditer(text) if word in lower else ():
            if not _STANDS_FOR.match(found[1]):
                yield Span(kind, *found.span(1))
    if "pass" in lower or "pwd" in lower:
        for found in _PASSWORD.finditer(text):
            group = found.lastindex or 3
            if not _STANDS_FOR.match(found[group]) and (group < 3 or _no_word(found[group])):
                yield Span("a password", *found.span(group))
    if "machine" in lower and "password" in lower:
        for found in _LOGIN.finditer(text):
            yield Span("a password", *found.span(1))
    if any(word in lower for word in _WORDS):
        for found in _BESIDE.finditer(text):
            name = _whole_name(text, *found.span("word"))
            if looks_random(name, found["value"]):
                yield Span(f"a value called {name}", *found.span("value"))


def _whole_name(text: str, start: int, end: int) -> str:
    """The name that ends with the word between `start` and `end`."""
    before = _BEFORE.search(text[max(0, start - 30) : start])
    return (before[0] if before else "") + text[start:end]


def _no_word(value: str) -> bool:
    """Whether it is not code, such as `get_password()` or `self.password`."""
    return "(" not in value and re.search(r"[0-9!@#%^*?~]", value) is not None


def looks_random(name: str, value: str) -> bool:
    """Whether a value next to a word looks random, and not like a digest or an id."""
    if not 20 <= len(value) <= LONGEST or _STANDS_FOR.match(value) or " " in value:
        return False
    if _UUID.fullmatch(value) or _NUMBERED.fullmatch(value):
        return False
    if _DIGEST.fullmatch(value):
        return re.search(r"(?i)secret|token|api_?key", name) is not None
    classes = sum(re.search(kind, value) is not None for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return classes == 3 and value.count("/") < 3 and value.count(".") < 3 and entropy(value) >= 3.5


def entropy(text: str) -> float:
    """Shannon entropy in bits per character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def apart(spans: list[Span]) -> Iterator[Span]:
    """Remove overlaps: the span that begins first wins, then the longest."""
    end = -1
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start >= end:
            yield span
            end = span.end
        elif span.end > end:
            yield replace(span, start=end)
            end = span.end
