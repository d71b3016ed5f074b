"""What can be said in a filter of the event log: fields, flags, operators, and what a line of them becomes.

Pure, standard library only. `tui.events.event_filter` makes nodes from text, `tui.events.event_filter` looks at events.

What may come next in a filter: names of fields, values of theirs, words. Pure, as the language is.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tui.i18n import _


class FilterError(ValueError):
    """A line that is no filter. Says where, and what would be right there."""

    def __init__(self, column: int, text: str) -> None:
        super().__init__(text)
        self.column = column
        """Where it goes wrong; the first character is 0."""


class Line(Protocol):
    """What a filter looks at in a row of the log."""

    @property
    def id(self) -> int: ...
    @property
    def at(self) -> float: ...
    @property
    def source(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def cause(self) -> int | None: ...
    @property
    def exit(self) -> int | None: ...
    @property
    def is_action(self) -> bool: ...
    @property
    def failed(self) -> bool: ...


FLAGS: dict[str, tuple[str, Callable[[Line], bool]]] = {
    "failed": ("failed", lambda line: line.failed),
    "action": ("an action", lambda line: line.is_action),
    "observation": ("the result of an action", lambda line: not line.is_action),
}
"""Words that stand alone, each with what it means."""

COMPARE = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip
"""Operators of numbers and times."""
EQUAL = ("=", "!=")
FIND = ("~", "!~")


class Field(NamedTuple):
    """Something of an event that can be asked for."""

    operators: tuple[str, ...]
    typed: str
    """What to put into the line to begin with."""
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
ALIASES = {"kind": "type", "message": "text"}
SOURCES = ("agent", "user", "environment")
SOURCE_ALIASES = {"env": "environment"}
NUMBERS = ("id", "cause", "exit")

PLAIN = re.compile(r'[^\s()"]+')
"""A value that needs no quotation marks."""
_MOMENT = re.compile(r"(?:(\d{4})-(\d\d)-(\d\d))?(?:(?:^|(?<=\d)T)(\d{1,2}):(\d\d)(?::(\d\d))?)?")
_LIMITS = ((1970, 9999), (1, 12), (1, 31), (0, 23), (0, 59), (0, 59))
"""Of year, month, day, hour, minute and second."""


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that is asked of an event; `value` is as it was typed."""

    field: str
    operator: str
    value: str

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{quoted(self.value)}"


@dataclass(frozen=True, slots=True)
class Flag:
    """A word that stands alone."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Not:
    """What the inner one does not match."""

    inner: Node

    def __str__(self) -> str:
        return f"-{_inner(self.inner)}"


@dataclass(frozen=True, slots=True)
class All:
    """What every part matches."""

    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return " ".join(_inner(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Either:
    """What one of the parts matches."""

    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return " or ".join(_inner(part) for part in self.parts)


Node = Term | Flag | Not | All | Either


def _inner(node: Node) -> str:
    return f"({node})" if isinstance(node, All | Either) else str(node)


def quoted(value: str) -> str:
    """A value as it has to be typed."""
    if PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def moment(value: str) -> tuple[slice, tuple[int, ...]] | None:
    """Which parts of (year, month, day, hour, minute, second) a time names, and their values; None for no time."""
    found = _MOMENT.fullmatch(value)
    if found is None or not value or not value.isascii():
        return None
    parts = [int(part) if part is not None else None for part in found.groups()]
    named = [number for number, part in enumerate(parts) if part is not None]
    if any(not _LIMITS[n][0] <= (parts[n] or 0) <= _LIMITS[n][1] for n in named):
        return None
    return slice(named[0], named[-1] + 1), tuple(part for part in parts if part is not None)


_LAST_WORD = re.compile(r"[^\s()]*\Z")
_ASKS = re.compile(r"-?(type|kind|source)(?:!=|[=:])(?:.*,)?")
"""A field whose values are known, up to the value that is being typed."""
MAX_OPTIONS = 40


class Completion(NamedTuple):
    """How a line may go on."""

    start: int
    """Where what is replaced begins."""
    options: tuple[str, ...]

    def applied(self, line: str, option: int = 0) -> str:
        """The line with one of the options taken."""
        return line[: self.start] + self.options[option] if self.options else line


def complete(line: str, kinds: Sequence[str]) -> Completion:
    """How a line may go on at its end; `kinds` are the kinds of events that there are. Nothing inside of quotes."""
    if line.replace('\\"', "").count('"') % 2:
        return Completion(len(line), ())
    found = _LAST_WORD.search(line)
    word = found[0] if found else ""
    start = len(line) - len(word)
    asked = _ASKS.match(word)
    if asked is not None:
        values = SOURCES if asked[1] == "source" else kinds
        return _fitting(start + asked.end(), word[asked.end() :], values)
    bare = word.removeprefix("-")
    if re.search(r"[!=<>:~\"]", bare):
        return Completion(len(line), ())
    words = [*(field.typed for field in FIELDS.values()), *FLAGS, *(["or"] if line[:start].strip() else []), "not"]
    return _fitting(len(line) - len(bare), bare, words)


def _fitting(start: int, typed: str, options: Sequence[str]) -> Completion:
    begun = typed.lower()
    fitting = [option for option in options if option.startswith(begun) and option != typed]
    return Completion(start, tuple(dict.fromkeys(fitting))[:MAX_OPTIONS])
