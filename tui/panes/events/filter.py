"""The filter of the event log: a line of text in, a test for rows out.

`str(parse(line))` is the line in its plainest form, and is parsed to the same filter. Text is found by its characters,
never by a pattern: a pattern can be made that takes for ever, and this runs beside the keys. Pure, standard library
only; costs nothing that a longer event would make more than linear.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tui.panes.events.language import (
    COMPARE,
    FIND,
    FLAGS,
    NUMBERS,
    All,
    Either,
    Flag,
    Line,
    Node,
    Not,
    Term,
    moment,
)
from tui.panes.events.reader import read

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
