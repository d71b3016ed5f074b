"""The language of the tables of programs: one row describes one program or subcommand, with all its known effects.

    ~ head | -qvz -# -n= -c= --lines= | r*
    names  | options               | operands | rules       (a line that begins with eight blanks continues a row)
    [name]                          the rows below are subcommands, for programs with the operand `@name`

An option is a cluster of flags (`-qv`), an option with a value (`-n=`, `--lines=`), with an optional one (`--color?`),
a number (`-#`), or a long option with one dash (`-:run=`). Behind `=` stands what the value is, one letter:

    (none) a word      t a free text            r a file that is read      w a file that is written
    u an address       x a file with code       k a package to install     C the folder to work in
    e a pattern, and then the first operand is none (`p`)                   2 two words

or a regular expression between slashes that all of it has to match (a blank in it is `\\s`, a slash `\\x2f`). A value
that a command or a file may have chosen is understood only as a free text or an address.

Operands are the same letters or expressions, each with `?` or `*` behind it where it is optional or repeated, and:

    l a file whose name or size is told     m a folder that is made           d a file that is removed
    p a pattern                             n a text for the function         y a word for code of the project
    v such words with options               $ the words of another command    @name a subcommand of the table `name`
    x a file with code, and its words       a words for the function, options too
    q all words for the function, without options of the row

Rules are named each time the program is called; `!name` calls a function of HANDLERS. With `run.project`, the words and
texts of the call name nothing outside the workspace.

An option that is not written here is not understood, and neither is a shortened one. Names that begin with `~` have
no option that could do harm, so that a glob may begin with a wildcard. Everything that a row says nothing of has no
effect, so a program with many options has only those that are used every day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from core.security.risk_rules import RULES
from core.security.shell.expansion import Value
from core.security.shell.program_call import Call

_OPTION = re.compile(r"(--[\w.-]+|-:[\w.-]+|-[\w])([=?])(\w?|/[^/]+/)|(--[\w.-]+|-:[\w.-]+)|-([\w.#]+)")
ENDS = ("x", "$", "@", "a", "q", "v")
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
    handler: str = ""
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


def sections(table: str) -> tuple[dict[str, Row], dict[str, dict[str, Row]]]:
    """The programs of a table by their names, and its tables of subcommands by theirs."""
    programs, *rest = re.split(r"^\[(.+)\]\n", table, flags=re.MULTILINE)
    return dict(_rows(programs)), {name: dict(_rows(text)) for name, text in zip(rest[::2], rest[1::2], strict=True)}


def _rows(table: str) -> Iterator[tuple[str, Row]]:
    for line in re.sub(r"\n {8}", " ", table).strip().splitlines():
        names, options, operands, rules, *_ = [*map(str.strip, re.split(r"\s\|(?=\s|$)", line)), "", "", ""]
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
    handler = next((name[1:] for name in named if name.startswith("!")), "")
    assert all(name in RULES for name in named if not name.startswith("!")), (operands, rules)
    plain_rules = tuple(name for name in named if not name.startswith("!"))
    return Row(found, tuple(operands.split()), plain_rules, handler, is_plain, "-#" in options.split())


Handler = Callable[[Call, Given], None]
"""What a row cannot say of a program."""


# -- matching a call ---------------------------------------------------------------------------------------------------


def matched(call: Call, row: Row, args: Sequence[Value]) -> Given:
    """The options and operands of a call as its row has them. Raises NotUnderstoodError."""
    given, operands, at, is_over = Given(), list[Value](), 0, False
    ends = bool(row.operands) and row.operands[-1][0] in ENDS
    before = len(row.operands) - 1 if ends else 0
    while at < len(args):
        value = args[at]
        at += 1
        if is_over or (ends and row.operands[-1] == "q") or not _may_be_option(call, row, value):
            if ends and row.operands[-1] != "q" and _may_be_none(value):
                raise call.fail(value, "the word may be empty")
            operands.append(value)
            if ends and len(operands) >= max(before, 1):
                operands += args[at:]
                break
        elif value.text == "--":
            is_over = True
        elif value.start.startswith("--") or _is_long(row, value):
            at = _long(call, row, value, args, at, given)
        else:
            at = _short(call, row, value, args, at, given)
    given.operands = _kinds(call, row, operands, given)
    for name, taken in given.options:
        if taken is not None and row.options[name].kind != "t":
            _checked(call, row.options[name].kind, taken)
    for kind, value in given.operands:
        _checked(call, kind, value)
    return given


def _is_long(row: Row, value: Value) -> bool:
    """Whether a word with one dash is a long option."""
    name = value.start.partition("=")[0]
    return len(name) > 2 and name in row.options


def _checked(call: Call, kind: str, value: Value) -> None:
    """A value is one that its kind may have. Raises NotUnderstoodError."""
    if kind.startswith("/"):
        if value.text is None or not re.fullmatch(kind.strip("/"), value.text):
            raise call.fail(value, f"an argument of {call.name}")
    elif value.text is None and value.is_foreign and kind not in ("u", "$", "@"):
        raise call.fail(value, "the value may come from a command or a file")


def _may_be_none(value: Value) -> bool:
    """Whether it can be no word at all, so that the next word takes its place."""
    return value.text is None and value.is_many and not value.start


def _may_be_option(call: Call, row: Row, value: Value) -> bool:
    if value.is_glob and value.start[:1] in ("", "*", "?", "[") and not row.is_plain:
        raise call.fail(value, "the pattern may expand to an option")
    return value.start.startswith("-") and value.text != "-"


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
    if at >= len(args) or args[at].is_glob or _may_be_none(args[at]) or (args[at].is_many and args[at].is_foreign):
        raise call.fail(value, f"an option of {call.name}")
    given.options.append((name, args[at]))
    return at + 1


def _short(call: Call, row: Row, value: Value, args: Sequence[Value], at: int, given: Given) -> int:  # noqa: PLR0917
    text = value.start
    if row.has_numbers and value.text is not None and text[1:].isdigit():
        return at
    if len(text) > 2 and any(len(name) > 2 and name[1] != "-" for name in row.options):
        raise call.fail(value, f"an option of {call.name}")  # it takes no clusters: -overlay is not -o
    for n, letter in enumerate(text[1:], 1):
        name = f"-{letter}"
        option = row.options.get(name)
        if option is None or text[n + 1 : n + 2] == "=":
            raise call.fail(value, f"an option of {call.name}")
        if option.value == "=" and value.text is None and n + 1 == len(text):
            raise call.fail(value, "the value may be empty")
        if option.value and (n + 1 < len(text) or value.text is None):
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
    if wanted[:1] == ["p"] and any(row.options[name].kind == "e" for name, _ in given.options):
        wanted = wanted[1:]
    found, operands = list[tuple[str, Value]](), list(operands)
    for kind in wanted:
        plain = kind.rstrip("?*") if kind.startswith("/") else kind[0]
        if kind[0] in ENDS or kind.endswith("*"):
            if kind in ("x", "$") and not operands:
                raise call.fail(None, f"an operand of {call.name} is missing")
            found += [(plain, value) for value in operands]
            operands = []
        elif operands and operands[0].is_glob:
            raise call.fail(operands[0], "the pattern may expand to several words")
        elif operands:
            found.append((plain, operands.pop(0)))
        elif not kind.endswith("?"):
            raise call.fail(None, f"an operand of {call.name} is missing")
    if operands:
        raise call.fail(operands[0], f"an operand of {call.name}")
    return found


# -- what a row says ---------------------------------------------------------------------------------------------------


def apply(call: Call, row: Row, given: Given) -> None:
    """Report the effects that a row names, without its handler's. Raises NotUnderstoodError."""
    for name, value in given.options:
        if value is not None and row.options[name].kind == "C":
            call.goes_to(value)
    effects = [(row.options[name].kind, value) for name, value in given.options if value is not None]
    for rule in row.rules:
        if rule == "run.project":
            call.project()
            for value in (value for kind, value in (*effects, *given.operands) if kind == "r"):
                if value.text == "-" or any(path.startswith("/dev/") for path in call.paths(value)):
                    raise call.fail(value, "input from a pipe")
                if any(map(call.shell.wrote, call.paths(value))):  # a list of packages or settings
                    call.rule("run.written", value.shown)
            for kind, value in [*((kind, value) for kind, value in effects if kind != "t"), *given.operands]:
                if kind in ("", "t") or (kind.startswith("/") and "://" not in value.start):
                    call.hands(value)
        else:
            call.rule(rule)
    acts: dict[str, Callable[[Value], object]] = {
        "r": call.reads, "l": call.lists, "w": call.writes, "m": call.makes_folder, "u": call.fetches,
        "k": call.installs, "d": lambda value: call.removes(value, recursive=False),
    }  # fmt: skip
    for kind, value in [*effects, *given.operands]:
        if act := acts.get(kind):
            act(value)
    call.mentions([*given.of("y"), *given.of("v")])
    if code := given.of("x") or given.values(*(name for name, one in row.options.items() if one.kind == "x")):
        call.runs(code[0])
        call.mentions(code[1:])
    if command := given.of("$"):
        call.command(command)
