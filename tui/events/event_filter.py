"""The filter of the event log: a line of text in, a test for rows out. Pure, standard library only.

    query := and ("or" and)*        and  := unary (["and"] unary)*
    unary := ("not" | "-") unary | "(" query ")" | term
    term  := FIELD OPERATOR VALUE | FLAG | WORD | "quoted text"

A word that is no flag is searched for in the text, by its characters and never as a pattern: some patterns take for
ever, and this runs beside the keys. `str(parse(line))` is the line in its simplest form and parses to the same filter.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tui.i18n import _

if TYPE_CHECKING:
    from tui.events.model import Row

MAX_CHARS = 2_000
"""Longer than anybody types."""
MAX_NESTING = 50
"""Deeper than people write, and far from Python's own limit."""
COMPARE = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip
"""The operators of numbers and times."""
EQUAL = ("=", "!=")
FIND = ("~", "!~")
ALIASES = {"kind": "type", "message": "text"}
SOURCES = ("agent", "user", "environment")
SOURCE_ALIASES = {"env": "environment"}
NUMBERS = ("id", "cause", "exit")
FLAGS: dict[str, Callable[[Row], bool]] = {
    "failed": lambda row: row.failed,
    "action": lambda row: row.is_action,
    "observation": lambda row: not row.is_action,
}

_NAME = re.compile(r'[^\s()"!=<>:~]+')
_OPERATOR = re.compile(r"!=|!~|>=|<=|[=:<>~]")
_SPACE = re.compile(r"\s*")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_PLAIN = re.compile(r'[^\s()"]+')
"""A value that needs no quotation marks."""
_MOMENT = re.compile(r"(?:(\d{4})-(\d\d)-(\d\d))?(?:(?:^|(?<=\d)T)(\d{1,2}):(\d\d)(?::(\d\d))?)?")
_LIMITS = ((1970, 9999), (1, 12), (1, 31), (0, 23), (0, 59), (0, 59))
"""Of year, month, day, hour, minute and second."""


class Field(NamedTuple):
    """A property of events that a filter can test."""

    operators: tuple[str, ...]
    typed: str
    """What completion inserts."""
    meaning: str


FIELDS: dict[str, Field] = {
    "type": Field((*EQUAL, *FIND), "type:", _("kind of event, such as run or message")),
    "source": Field((*EQUAL, *FIND), "source:", _("agent, user or environment")),
    "text": Field(FIND, "text~", _("text anywhere in the event")),
    "exit": Field(tuple(COMPARE), "exit!=", _("exit code of a command")),
    "id": Field(tuple(COMPARE), "id>", _("number of the event")),
    "cause": Field(tuple(COMPARE), "cause:", _("number of the event that caused it")),
    "time": Field(tuple(COMPARE), "time>=", _("time of day 14:30, day 2026-01-31, or both with a T")),
}


class FilterError(ValueError):
    """A line that is no filter: where it goes wrong, and what is expected there."""

    def __init__(self, column: int, text: str) -> None:
        super().__init__(text)
        self.column = column
        """Counted from 0."""


# -- the syntax tree ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Term:
    """A test of one field; `value` is as it was typed."""

    field: str
    operator: str
    value: str

    def __str__(self) -> str:
        value = self.value
        if not _PLAIN.fullmatch(value):
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            value = f'"{escaped}"'
        return f"{self.field}{self.operator}{value}"


@dataclass(frozen=True, slots=True)
class Flag:
    """A word of FLAGS."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Not:
    """Matches what the inner node does not match."""

    inner: Node

    def __str__(self) -> str:
        return f"-{_inner(self.inner)}"


@dataclass(frozen=True, slots=True)
class All:
    """Matches what every part matches."""

    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return " ".join(_inner(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Either:
    """Matches what one of the parts matches."""

    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return " or ".join(_inner(part) for part in self.parts)


Node = Term | Flag | Not | All | Either


def _inner(node: Node) -> str:
    return f"({node})" if isinstance(node, All | Either) else str(node)


# -- parsing -----------------------------------------------------------------------------------------------------------


class _Parser:
    """A recursive descent parser of one line."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._nesting = 0

    def parse(self) -> Node:
        if len(self._line) > MAX_CHARS:
            raise FilterError(MAX_CHARS, _("A filter can have at most {n} characters.").format(n=MAX_CHARS))
        if not self._line.strip():
            raise FilterError(0, _("Enter a filter, such as type:run or failed."))
        node = self._either()
        if self._skip_space() < len(self._line):
            raise FilterError(self._at, _("Unmatched )."))
        return node

    def _skip_space(self) -> int:
        space = _SPACE.match(self._line, self._at)
        self._at = space.end() if space else self._at
        return self._at

    def _at_end(self) -> bool:
        return self._skip_space() >= len(self._line) or self._line[self._at] == ")"

    def _accept(self, word: str) -> bool:
        """Take a connecting word if it is next."""
        name = _NAME.match(self._line, self._skip_space())
        if name is None or name[0].lower() != word or _OPERATOR.match(self._line, name.end()):
            return False
        self._at = name.end()
        return True

    def _either(self) -> Node:
        parts = [self._all()]
        while self._accept("or"):
            parts.append(self._all())
        return _joined(Either, parts)

    def _all(self) -> Node:
        parts = [self._unary()]
        while not self._at_end():
            before = self._at
            if self._accept("or"):
                self._at = before
                break
            self._accept("and")
            parts.append(self._unary())
        return _joined(All, parts)

    def _unary(self) -> Node:
        if self._at_end():
            raise FilterError(self._at, _("Expected a condition here, such as type:run."))
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise FilterError(self._at, _("Parentheses can be nested at most {n} levels deep.").format(n=MAX_NESTING))
        try:
            return self._nested()
        finally:
            self._nesting -= 1

    def _nested(self) -> Node:
        start = self._at
        if self._line[start] == "-":
            self._at += 1
            return Not(self._unary())
        if self._accept("not"):
            return Not(self._unary())
        if self._line[start] == "(":
            self._at += 1
            node = self._either()
            if self._skip_space() >= len(self._line):
                raise FilterError(start, _("This ( is not closed."))
            self._at += 1
            return node
        return self._term()

    def _term(self) -> Node:
        start = self._at
        if self._line[start] == '"':
            return Term("text", "~", self._quoted())
        word = _NAME.match(self._line, start)
        if word is None:
            text = _("Expected a field before {sign}: {names}.")
            raise FilterError(start, text.format(sign=self._line[start], names=", ".join(FIELDS)))
        name = word[0].lower()
        self._at = word.end()
        sign = _OPERATOR.match(self._line, self._skip_space())
        if sign is None:
            self._at = word.end()
            if name in ("and", "or"):
                raise FilterError(start, _("Expected a condition before {word}.").format(word=name))
            return Flag(name) if name in FLAGS else Term("text", "~", word[0])
        field = ALIASES.get(name, name)
        if field not in FIELDS:
            text = _("Unknown field {field}. The fields are {names}. Put text in quotes.")
            raise FilterError(start, text.format(field=word[0], names=", ".join(FIELDS)))
        self._at = sign.end()
        value_at = self._skip_space()
        return _checked(field, sign[0], self._value(field), sign.start(), value_at)

    def _value(self, field: str) -> str:
        if self._at < len(self._line) and self._line[self._at] == '"':
            return self._quoted()
        value = _PLAIN.match(self._line, self._at)
        if value is None:
            text = _("Expected a value here: {meaning}.").format(meaning=FIELDS[field].meaning)
            raise FilterError(self._at, text)
        self._at = value.end()
        return value[0]

    def _quoted(self) -> str:
        start = self._at
        characters: list[str] = []
        at = start + 1
        while at < len(self._line) and self._line[at] != '"':
            if self._line[at] == "\\" and self._line[at + 1 : at + 2] in ("\\", '"'):
                at += 1
            characters.append(self._line[at])
            at += 1
        if at >= len(self._line):
            raise FilterError(start, _("This quotation mark is not closed."))
        self._at = at + 1
        return "".join(characters)


def _joined(kind: type[All | Either], parts: list[Node]) -> Node:
    """Join parts to one node, without nodes of the same kind inside."""
    flat: list[Node] = []
    for part in parts:
        flat += part.parts if isinstance(part, kind) else [part]
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _checked(field: str, sign: str, value: str, sign_at: int, value_at: int) -> Term:
    """Make a term. Raises FilterError if the field has no such operator or value."""
    if sign == ":":
        sign = FIELDS[field].operators[0]
    elif field == "text" and sign in EQUAL:
        sign = FIND[EQUAL.index(sign)]
    if sign not in FIELDS[field].operators:
        text = _("{field} accepts the operators {operators}.")
        raise FilterError(sign_at, text.format(field=field, operators=" ".join(FIELDS[field].operators)))
    if field in NUMBERS and not _INTEGER.fullmatch(value):
        text = _("{field} must be a number, such as {example}.")
        raise FilterError(value_at, text.format(field=field, example=f"{field}{sign}1"))
    if field == "time" and _moment(value) is None:
        raise FilterError(value_at, _("A time looks like 14:30, 14:30:05, 2026-01-31 or 2026-01-31T14:30."))
    if field == "source":
        value = SOURCE_ALIASES.get(value, value)
        if sign in EQUAL and value not in SOURCES:
            text = _("The source must be {others} or {last}.")
            raise FilterError(value_at, text.format(others=", ".join(SOURCES[:-1]), last=SOURCES[-1]))
    return Term(field, sign, value)


def _moment(value: str) -> tuple[slice, tuple[int, ...]] | None:
    """Return which of (year, month, day, hour, minute, second) a time has, and their values; None for no time."""
    match = _MOMENT.fullmatch(value)
    if match is None or not value or not value.isascii():
        return None
    parts = [int(part) if part is not None else None for part in match.groups()]
    named = [number for number, part in enumerate(parts) if part is not None]
    if any(not _LIMITS[n][0] <= (parts[n] or 0) <= _LIMITS[n][1] for n in named):
        return None
    return slice(named[0], named[-1] + 1), tuple(part for part in parts if part is not None)


# -- matching ----------------------------------------------------------------------------------------------------------

Texts = Callable[[], Iterable[str]]
"""All texts of an event; called only if a filter searches them."""
_Test = Callable[["Row", Texts], bool]


class Reach(NamedTuple):
    """What an event must be to match at all, so that the store can leave out the others."""

    kinds: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    lowest: int = 0
    highest: int = 2**62


class Filter:
    """A parsed line. Filters are equal if their simplest forms are."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self._test = _compile(root)
        self.needs_text = _needs_text(root)
        """Whether a row alone does not tell."""

    def matches(self, row: Row, texts: Texts) -> bool:
        """Whether an event matches. Calls `texts` at most once for each text that is searched for."""
        return self._test(row, texts)

    @property
    def reach(self) -> Reach:
        reach = Reach()
        for part in self.root.parts if isinstance(self.root, All) else (self.root,):
            if isinstance(part, Term):
                reach = _narrowed(reach, part)
        return reach

    def __str__(self) -> str:
        return str(self.root)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)


def parse(line: str) -> Filter:
    """Parse a line. Raises FilterError."""
    return Filter(_Parser(line).parse())


def _compile(node: Node) -> _Test:
    match node:
        case Flag(name):
            holds = FLAGS[name]
            return lambda row, texts: holds(row)
        case Not(inner):
            test = _compile(inner)
            return lambda row, texts: not test(row, texts)
        case All(parts):
            tests = [_compile(part) for part in sorted(parts, key=_needs_text)]
            return lambda row, texts: all(test(row, texts) for test in tests)
        case Either(parts):
            tests = [_compile(part) for part in sorted(parts, key=_needs_text)]
            return lambda row, texts: any(test(row, texts) for test in tests)
        case Term(field, sign, value):
            return _compile_term(field, sign, value)


def _compile_term(field: str, sign: str, value: str) -> _Test:
    if field == "text":
        contains, wanted = _contains(value), sign == "~"
        return lambda row, texts: any(contains(text) for text in texts()) is wanted
    if field == "time":
        return _compile_time(COMPARE[sign], value)
    if field in NUMBERS:
        compare, number = COMPARE[sign], int(value)

        def compares(row: Row, texts: Texts) -> bool:
            known = getattr(row, field)
            return known is not None and bool(compare(known, number))

        return compares
    attribute = "kind" if field == "type" else "source"
    if sign in FIND:
        contains, wanted = _contains(value), sign == "~"
        return lambda row, texts: contains(getattr(row, attribute)) is wanted
    names, wanted = frozenset(value.split(",")), sign == "="
    return lambda row, texts: (getattr(row, attribute) in names) is wanted


def _compile_time(compare: Callable[[tuple[int, ...], tuple[int, ...]], bool], value: str) -> _Test:
    moment = _moment(value)
    assert moment is not None  # checked when it was parsed
    named, wanted = moment
    return lambda row, texts: compare(tuple(time.localtime(row.at))[named], wanted)


def _contains(needle: str) -> Callable[[str], bool]:
    """Test for these characters; case counts if the needle has capitals."""
    if needle != needle.lower():
        return lambda text: needle in text
    folded = needle.casefold()
    return lambda text: folded in text.casefold()


def _needs_text(node: Node) -> bool:
    match node:
        case Term(field):
            return field == "text"
        case Not(inner):
            return _needs_text(inner)
        case All(parts) | Either(parts):
            return any(_needs_text(part) for part in parts)
        case Flag():
            return False


def _narrowed(reach: Reach, term: Term) -> Reach:
    """Narrow the reach by a term that must match."""
    if term.operator == "=" and term.field in ("type", "source"):
        names = frozenset(term.value.split(","))
        known = reach.kinds if term.field == "type" else reach.sources
        both = known & names if known else names
        if not both:  # contradictory: nothing matches, and one of the two terms finds that out
            return reach
        return reach._replace(kinds=both) if term.field == "type" else reach._replace(sources=both)
    if term.field == "id":
        number = int(term.value)
        low = {"=": number, ">": number + 1, ">=": number}.get(term.operator, 0)
        high = {"=": number, "<": number - 1, "<=": number}.get(term.operator, reach.highest)
        return reach._replace(lowest=max(reach.lowest, low), highest=min(reach.highest, high))
    return reach
