"""The language of the table of programs: one line is one program, or one subcommand, with all that is known of it.

    ~ head | -qvz -# -n= -c= --lines= | r*
    names  | options               | operands | rules       (a line that begins with eight blanks carries one on)

Names that begin with `~` have no option that could do harm, so that an unknown word may stand for one. An option is
a cluster of flags (`-qv`), an option with a value (`-n=`, `--lines=`), with an optional one (`--color?`), a number
(`-#`), or a long option with one dash (`-:run=`). Behind `=` stands what the value is, one letter:

    (none) a text      r a file that is read    w a file that is written   d a file that is removed
    u an address       x a file with code       s commands of a shell      C the folder to work in
    e a text, and then the first operand is no pattern (`p`)         z a text behind which all words are operands

Operands are letters, each with `?` or `*` behind it where it is optional or repeated; what stands behind a repeated one
is matched from the end. `p` is a pattern, `t` a text, `$` the words of another command, `@name` a subcommand of the
table `name`. `x` is a file with code and whatever it takes, and `a` is words that a function looks at, options too.
Rules are named each time the program is called; `!name` is a function of `special`. An
option that is not written here is not understood, and neither is a shortened one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from core.security.command.call import Call
from core.security.command.expansion import Value
from core.security.rules import RULES

_OPTION = re.compile(r"(--[\w.-]+|-:[\w.-]+|-[\w])([=?])(\w?)|(--[\w.-]+|-:[\w.-]+)|-([\w@.#]+)")
ENDS = ("x", "$", "@", "a")
"""Kinds of operands behind which options are those of somebody else."""


@dataclass(frozen=True, slots=True)
class Option:
    """What an option takes."""

    kind: str = ""
    value: str = ""
    """`=`, `?`, or empty for a flag."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    options: dict[str, Option]
    operands: tuple[str, ...]
    rules: tuple[str, ...] = ()
    special: str = ""
    is_plain: bool = False
    has_numbers: bool = False


@dataclass(slots=True)
class Given:
    """What a call says: its options in order, and its operands with their kinds."""

    options: list[tuple[str, Value | None]] = field(default_factory=list)
    operands: list[tuple[str, Value]] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[Value]:
        """The values of these options."""
        return [value for name, value in self.options if name in names and value is not None]

    def of(self, kind: str) -> list[Value]:
        """The operands of a kind."""
        return [value for given, value in self.operands if given == kind]


def rows(table: str) -> Iterator[tuple[str, Row]]:
    """The rows of a table, by their names."""
    for line in re.sub(r"\n {8}", " ", table).strip().splitlines():
        names, options, operands, rules, *_ = [*map(str.strip, line.split("|")), "", "", ""]
        made = _row(options, operands, rules, is_plain=names.startswith("~"))
        for name in names.lstrip("~ ").split():
            yield name, made


def _row(options: str, operands: str, rules: str, *, is_plain: bool) -> Row:
    found, named = dict[str, Option](), rules.split()
    for token in options.split():
        match = _OPTION.fullmatch(token)
        assert match is not None, token
        if match[1]:
            found[match[1].replace("-:", "-")] = Option(match[3], match[2])
        elif match[4]:
            found[match[4].replace("-:", "-")] = Option()
        else:
            found |= {f"-{letter}": Option() for letter in match[5]}
    special = next((name[1:] for name in named if name.startswith("!")), "")
    assert all(name in RULES for name in named if not name.startswith("!")), (operands, rules)
    plain_rules = tuple(name for name in named if not name.startswith("!"))
    return Row(found, tuple(operands.split()), plain_rules, special, is_plain, "-#" in options.split())


@lru_cache(maxsize=64)
def table_of(text: str) -> dict[str, Row]:
    """A table, read once."""
    return dict(rows(text))


# -- matching a call ---------------------------------------------------------------------------------------------------


def matched(call: Call, row: Row, args: Sequence[Value]) -> Given:
    """The options and operands of a call as its row has them. Raises NotUnderstoodError."""
    given, operands, at, is_over = Given(), list[Value](), 0, False
    ends = (row.operands and row.operands[-1][0] in ENDS) or (row.operands and row.operands[0][0] in ENDS)
    before = len(row.operands) - 1 if ends and row.operands[-1][0] in ENDS else 0
    while at < len(args):
        value = args[at]
        at += 1
        if is_over or not _may_be_option(call, row, value):
            operands.append(value)
            if ends and len(operands) > before:
                operands += args[at:]
                break
        elif value.text == "--":
            is_over = True
        elif value.start.startswith("--") or (value.start.partition("=")[0] in row.options and len(value.start) > 2):
            at = _long(call, row, value, args, at, given)
        else:
            at = _short(call, row, value, args, at, given)
        if given.options and given.options[-1][1] is not None and row.options[given.options[-1][0]].kind == "z":
            operands += args[at:]
            break
    given.operands = _kinds(call, row, operands, given)
    return given


def _may_be_option(call: Call, row: Row, value: Value) -> bool:
    if value.start:
        if value.is_glob and value.start[0] in "*?[" and not row.is_plain:
            raise call.fail(value, "a glob that may be an option")
        return value.start.startswith("-") and value.text != "-"
    if value.text is None and value.is_foreign and not row.is_plain:
        raise call.fail(value, "a word that may be an option")
    return False


def _long(call: Call, row: Row, value: Value, args: Sequence[Value], at: int, given: Given) -> int:  # noqa: PLR0917
    name, has_value, _ = value.start.partition("=")
    option = row.options.get(name)
    if option is None or (value.text is None and not has_value):
        raise call.fail(value, f"an option of {call.name}")
    if not option.value:
        if has_value:
            raise call.fail(value, f"an option of {call.name}")
        given.options.append((name, None))
    elif has_value:
        given.options.append((name, value.behind(len(name) + 1)))
    elif option.value == "?":
        given.options.append((name, None))
    elif option.kind == "2":
        return _next(call, name, value, args, _next(call, name, value, args, at, given), given)
    else:
        return _next(call, name, value, args, at, given)
    return at


def _next(call: Call, name: str, value: Value, args: Sequence[Value], at: int, given: Given) -> int:  # noqa: PLR0917
    if at >= len(args) or (args[at].is_many and args[at].is_foreign):
        raise call.fail(value, f"an option of {call.name}")
    given.options.append((name, args[at]))
    return at + 1


def _short(call: Call, row: Row, value: Value, args: Sequence[Value], at: int, given: Given) -> int:  # noqa: PLR0917
    text = value.start
    if row.has_numbers and value.text is not None and text[1:].isdigit():
        return at
    for n, letter in enumerate(text[1:], 1):
        name = f"-{letter}"
        option = row.options.get(name)
        if option is None:
            raise call.fail(value, f"an option of {call.name}")
        if option.value and (n + 1 < len(text) or (value.text is None and n + 1 == len(text))):
            given.options.append((name, value.behind(n + 1)))
            return at
        if option.value == "=":
            return _next(call, name, value, args, at, given)
        given.options.append((name, None))
    if value.text is None:
        raise call.fail(value, f"an option of {call.name}")
    return at


def _kinds(call: Call, row: Row, operands: list[Value], given: Given) -> list[tuple[str, Value]]:
    wanted = list(row.operands)
    if wanted[:1] == ["p"] and any(row.options[name].kind in ("e", "f") for name, _ in given.options):
        wanted = wanted[1:]
    found, tail = list[tuple[str, Value]](), list[tuple[str, Value]]()
    operands = list(operands)
    repeated = next((n for n, kind in enumerate(wanted) if kind.endswith("*") or kind[0] in ENDS), len(wanted))
    if repeated < len(wanted) and wanted[repeated][0] not in ENDS:
        for kind in reversed(wanted[repeated + 1 :]):
            if not operands:
                raise call.fail(None, f"an operand of {call.name} is missing")
            tail.insert(0, (kind[0], operands.pop()))
    for kind in wanted[: repeated + 1]:
        if kind[0] in ENDS or kind.endswith("*"):
            if kind in ("x", "$") and not operands:
                raise call.fail(None, f"an operand of {call.name} is missing")
            found += [(kind[0], value) for value in operands]
            operands = []
        elif operands:
            found.append((kind[0], operands.pop(0)))
        elif not kind.endswith("?"):
            raise call.fail(None, f"an operand of {call.name} is missing")
    if operands:
        raise call.fail(operands[0], f"an operand of {call.name}")
    return [*found, *tail]


# -- what a row says ---------------------------------------------------------------------------------------------------


def apply(call: Call, row: Row, given: Given) -> None:
    """Say what a row says of a call, except what a special function does. Raises NotUnderstoodError."""
    for name, value in given.options:
        if value is not None and row.options[name].kind == "C":
            call.goes_to(value)
    for rule in row.rules:
        if rule == "run.project":
            call.project()
            call.mentions(given.of("t"))
        else:
            call.rule(rule)
            if rule in ("net.fetch", "package.install", "git.fetch", "git.push"):
                call.findings.unclear.setdefault("net", call.source)
    effects = [(row.options[name].kind, value) for name, value in given.options if value is not None]
    for kind, value in [*effects, *given.operands]:
        match kind:
            case "r" | "f":
                call.reads(value)
            case "w":
                call.writes(value)
            case "d":
                call.removes(value, recursive=False)
            case "u":
                call.fetches(value)
            case "s":
                call.script(value)
    if code := given.of("x") or given.values(*(name for name, one in row.options.items() if one.kind == "x")):
        call.runs(code[0])
        call.mentions(code[1:])
    if command := given.of("$"):
        call.command(command)
