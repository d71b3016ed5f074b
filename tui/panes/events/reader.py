"""Reads a filter: recursive descent over one line, with an error that says where and what would be right there.

    query := and ("or" and)*        and  := unary (["and"] unary)*
    unary := ("not" | "-") unary | "(" query ")" | term
    term  := FIELD OPERATOR VALUE | FLAG | WORD | "quoted text"

A word that is no flag is looked for in the text. Pure, standard library only.
"""

from __future__ import annotations

import re

from tui.i18n import _
from tui.panes.events.language import (
    ALIASES,
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
    Node,
    Not,
    Term,
    moment,
)

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
        raise FilterError(MAX_CHARS, _("A filter has at most {n} characters.").format(n=MAX_CHARS))
    return _Parser(line).parse()


class _Parser:
    """Recursive descent over one line."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._nesting = 0

    def parse(self) -> Node:
        if not self._line.strip():
            raise FilterError(0, _("Say what to look for, such as type:run or failed."))
        node = self._either()
        if self._skip() < len(self._line):
            raise FilterError(self._at, _("There is a ) too many."))
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
            raise FilterError(self._at, _("Here something to look for is missing, such as type:run."))
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise FilterError(self._at, _("This is nested more than {n} times.").format(n=MAX_NESTING))
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
                raise FilterError(start, _("This ( is never closed."))
            self._at += 1
            return node
        return self._term()

    def _term(self) -> Node:
        start = self._at
        if self._line[start] == '"':
            return Term("text", "~", self._quoted())
        found = _NAME.match(self._line, start)
        if found is None:
            told = _("A field belongs before {sign}: {names}.")
            raise FilterError(start, told.format(sign=self._line[start], names=_names()))
        name = found[0].lower()
        self._at = found.end()
        sign = _OPERATOR.match(self._line, self._skip())
        if sign is None:
            self._at = found.end()
            if name in ("and", "or"):
                raise FilterError(start, _("Before {word} something to look for is missing.").format(word=name))
            return Flag(name) if name in FLAGS else Term("text", "~", found[0])
        field = ALIASES.get(name, name)
        if field not in FIELDS:
            told = _("There is no field {field}. There are {names}; text goes in quotes.")
            raise FilterError(start, told.format(field=found[0], names=_names()))
        self._at = sign.end()
        return _checked(field, sign[0], self._value(field), sign.start(), self._value_at)

    def _value(self, field: str) -> str:
        self._value_at = self._skip()
        if self._at < len(self._line) and self._line[self._at] == '"':
            return self._quoted()
        found = PLAIN.match(self._line, self._at)
        if found is None:
            told = _("Here a value is missing: {meaning}.").format(meaning=FIELDS[field].meaning)
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
            raise FilterError(start, _("This quotation mark is never closed."))
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
        told = _("{field} goes with {operators}.")
        raise FilterError(sign_at, told.format(field=field, operators=" ".join(FIELDS[field].operators)))
    if field in NUMBERS and not _INTEGER.fullmatch(value):
        told = _("{field} is a number, such as {example}.")
        raise FilterError(value_at, told.format(field=field, example=f"{field}{sign}1"))
    if field == "time" and moment(value) is None:
        raise FilterError(value_at, _("A time is 14:30, 14:30:05, 2026-01-31 or 2026-01-31T14:30."))
    if field == "source":
        value = SOURCE_ALIASES.get(value, value)
        if sign in EQUAL and value not in SOURCES:
            told = _("A source is {others} or {last}.")
            raise FilterError(value_at, told.format(others=", ".join(SOURCES[:-1]), last=SOURCES[-1]))
    return Term(field, sign, value)
