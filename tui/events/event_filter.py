"""The filter of the event log: a line of text in, a test for rows out.

`str(parse(line))` is the line in its plainest form, and is parsed to the same filter. Text is found by its characters,
never by a pattern: a pattern can be made that takes for ever, and this runs beside the keys. Pure, standard library
only; costs nothing that a longer event would make more than linear.

Reads a filter: recursive descent over one line, with an error that says where and what would be right there.

    query := and ("or" and)*        and  := unary (["and"] unary)*
    unary := ("not" | "-") unary | "(" query ")" | term
    term  := FIELD OPERATOR VALUE | FLAG | WORD | "quoted text"

A word that is no flag is looked for in the text. Pure, standard library only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tui.events.filter_language import (
    ALIASES,
    COMPARE,
    EQUAL,
    FIELDS,
    FIND,
    FLAGS,
    NUMBERS,
    PLAIN,
    SOURCE_ALIASES,
    SOURCES,
    All,
    Either,
    FilterError,
    Flag,
    Line,
    Node,
    Not,
    Term,
    moment,
)
from tui.i18n import _

MAX_CHARS = 2_000
"""Nobody types more into one line."""
MAX_NESTING = 50
"""Deeper than people write, and far from Python's own limit."""

_NAME = re.compile(r'[^\s()"!=<>:~]+')
_OPERATOR = re.compile(r"!=|!~|>=|<=|[=:<>~]")
_SPACE = re.compile(r"\s*")
_INTEGER = re.compile(r"-?[0-9]{1,18}")


def read(line: str) -> Node:
    """What a line says. Raises FilterError."""
    if len(line) > MAX_CHARS:
        raise FilterError(MAX_CHARS, _("A filter can have at most {n} characters.").format(n=MAX_CHARS))
    return _Parser(line).parse()


class _Parser:
    """Recursive descent over one line."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._nesting = 0

    def parse(self) -> Node:
        if not self._line.strip():
            raise FilterError(0, _("Enter a filter, such as type:run or failed."))
        node = self._either()
        if self._skip() < len(self._line):
            raise FilterError(self._at, _("Unmatched )."))
        return node

    def _skip(self) -> int:
        found = _SPACE.match(self._line, self._at)
        self._at = found.end() if found else self._at
        return self._at

    def _ends(self) -> bool:
        return self._skip() >= len(self._line) or self._line[self._at] == ")"

    def _takes(self, word: str) -> bool:
        """Take a connecting word, where it stands alone."""
        found = _NAME.match(self._line, self._skip())
        if found is None or found[0].lower() != word or _OPERATOR.match(self._line, found.end()):
            return False
        self._at = found.end()
        return True

    def _either(self) -> Node:
        parts = [self._all()]
        while self._takes("or"):
            parts.append(self._all())
        return _joined(Either, parts)

    def _all(self) -> Node:
        parts = [self._unary()]
        while not self._ends():
            before = self._at
            if self._takes("or"):
                self._at = before
                break
            self._takes("and")
            parts.append(self._unary())
        return _joined(All, parts)

    def _unary(self) -> Node:
        if self._ends():
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
        if self._takes("not"):
            return Not(self._unary())
        if self._line[start] == "(":
            self._at += 1
            node = self._either()
            if self._skip() >= len(self._line):
                raise FilterError(start, _("This ( is not closed."))
            self._at += 1
            return node
        return self._term()

    def _term(self) -> Node:
        start = self._at
        if self._line[start] == '"':
            return Term("text", "~", self._quoted())
        found = _NAME.match(self._line, start)
        if found is None:
            told = _("Expected a field before {sign}: {names}.")
            raise FilterError(start, told.format(sign=self._line[start], names=_names()))
        name = found[0].lower()
        self._at = found.end()
        sign = _OPERATOR.match(self._line, self._skip())
        if sign is None:
            self._at = found.end()
            if name in ("and", "or"):
                raise FilterError(start, _("Expected a condition before {word}.").format(word=name))
            return Flag(name) if name in FLAGS else Term("text", "~", found[0])
        field = ALIASES.get(name, name)
        if field not in FIELDS:
            told = _("Unknown field {field}. The fields are {names}. Put text in quotes.")
            raise FilterError(start, told.format(field=found[0], names=_names()))
        self._at = sign.end()
        return _checked(field, sign[0], self._value(field), sign.start(), self._value_at)

    def _value(self, field: str) -> str:
        self._value_at = self._skip()
        if self._at < len(self._line) and self._line[self._at] == '"':
            return self._quoted()
        found = PLAIN.match(self._line, self._at)
        if found is None:
            told = _("Expected a value here: {meaning}.").format(meaning=FIELDS[field].meaning)
            raise FilterError(self._at, told)
        self._at = found.end()
        return found[0]

    def _quoted(self) -> str:
        start = self._at
        taken: list[str] = []
        at = start + 1
        while at < len(self._line) and self._line[at] != '"':
            if self._line[at] == "\\" and self._line[at + 1 : at + 2] in ("\\", '"'):
                at += 1
            taken.append(self._line[at])
            at += 1
        if at >= len(self._line):
            raise FilterError(start, _("This quotation mark is not closed."))
        self._at = at + 1
        return "".join(taken)


def _joined(kind: type[All | Either], parts: list[Node]) -> Node:
    """The parts as one node; those of a part of the same kind become its own."""
    flat: list[Node] = []
    for part in parts:
        if isinstance(part, kind):
            flat += part.parts
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _names() -> str:
    return ", ".join(FIELDS)


def _checked(field: str, sign: str, value: str, sign_at: int, value_at: int) -> Term:
    """The term that was typed. Raises FilterError where the field cannot be asked like that."""
    if sign == ":":
        sign = FIELDS[field].operators[0]
    elif field == "text" and sign in EQUAL:
        sign = FIND[EQUAL.index(sign)]
    if sign not in FIELDS[field].operators:
        told = _("{field} accepts the operators {operators}.")
        raise FilterError(sign_at, told.format(field=field, operators=" ".join(FIELDS[field].operators)))
    if field in NUMBERS and not _INTEGER.fullmatch(value):
        told = _("{field} must be a number, such as {example}.")
        raise FilterError(value_at, told.format(field=field, example=f"{field}{sign}1"))
    if field == "time" and moment(value) is None:
        raise FilterError(value_at, _("A time looks like 14:30, 14:30:05, 2026-01-31 or 2026-01-31T14:30."))
    if field == "source":
        value = SOURCE_ALIASES.get(value, value)
        if sign in EQUAL and value not in SOURCES:
            told = _("The source must be {others} or {last}.")
            raise FilterError(value_at, told.format(others=", ".join(SOURCES[:-1]), last=SOURCES[-1]))
    return Term(field, sign, value)


Strings = Callable[[], Iterable[str]]
"""Everything that an event says; asked for only where a filter looks at text."""
_Test = Callable[[Line, Strings], bool]


class Reach(NamedTuple):
    """What an event must be to match at all: what the store can leave out by itself."""

    kinds: frozenset[str] = frozenset()
    """Empty for any."""
    sources: frozenset[str] = frozenset()
    lowest: int = 0
    highest: int = 2**62


class Filter:
    """A parsed line. Equal where the plainest form is."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self._test = _compile(root)
        self.needs_text = _needs_text(root)
        """Whether a row is not enough to tell."""

    def matches(self, line: Line, strings: Strings) -> bool:
        """Whether an event matches. The strings are asked for at most once for each text that is looked for."""
        return self._test(line, strings)

    @property
    def reach(self) -> Reach:
        """Where matches can be."""
        parts = self.root.parts if isinstance(self.root, All) else (self.root,)
        reach = Reach()
        for part in parts:
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
    """The filter that a line means. Raises FilterError."""
    return Filter(read(line))


def _compile(node: Node) -> _Test:
    match node:
        case Flag(name):
            holds = FLAGS[name][1]
            return lambda line, strings: holds(line)
        case Not(inner):
            test = _compile(inner)
            return lambda line, strings: not test(line, strings)
        case All(parts):
            tests = [_compile(part) for part in _cheap_first(parts)]
            return lambda line, strings: all(test(line, strings) for test in tests)
        case Either(parts):
            tests = [_compile(part) for part in _cheap_first(parts)]
            return lambda line, strings: any(test(line, strings) for test in tests)
        case Term(field, sign, value):
            return _compile_term(field, sign, value)


def _cheap_first(parts: tuple[Node, ...]) -> list[Node]:
    return sorted(parts, key=_needs_text)


def _compile_term(field: str, sign: str, value: str) -> _Test:
    if field == "text":
        said, wanted = contains(value), sign == "~"
        return lambda line, strings: any(said(text) for text in strings()) is wanted
    if field == "time":
        return _compile_time(COMPARE[sign], value)
    if field in NUMBERS:
        compare, number = COMPARE[sign], int(value)

        def compares(line: Line, strings: Strings) -> bool:
            known = getattr(line, field)
            return known is not None and bool(compare(known, number))

        return compares
    attribute = "kind" if field == "type" else "source"
    if sign in FIND:
        holds, wanted = contains(value), sign == "~"
        return lambda line, strings: holds(getattr(line, attribute)) is wanted
    names, wanted = frozenset(value.split(",")), sign == "="
    return lambda line, strings: (getattr(line, attribute) in names) is wanted


def _compile_time(compare: Callable[[tuple[int, ...], tuple[int, ...]], bool], value: str) -> _Test:
    found = moment(value)
    assert found is not None  # checked when it was read
    named, wanted = found

    def compares(line: Line, strings: Strings) -> bool:
        now: tuple[int, ...] = tuple(time.localtime(line.at))
        return compare(now[named], wanted)

    return compares


def contains(needle: str) -> Callable[[str], bool]:
    """Whether a text has these characters; capitals count where the needle has some."""
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
    """The reach, with what a term that must hold takes away."""
    if term.operator == "=" and term.field in ("type", "source"):
        names = frozenset(term.value.split(","))
        known = reach.kinds if term.field == "type" else reach.sources
        both = known & names if known else names
        if not both:  # contradictory: nothing matches, and one of the two finds that out
            return reach
        return reach._replace(kinds=both) if term.field == "type" else reach._replace(sources=both)
    if term.field == "id":
        number = int(term.value)
        low = {"=": number, ">": number + 1, ">=": number}.get(term.operator, 0)
        high = {"=": number, "<": number - 1, "<=": number}.get(term.operator, reach.highest)
        return reach._replace(lowest=max(reach.lowest, low), highest=min(reach.highest, high))
    return reach
