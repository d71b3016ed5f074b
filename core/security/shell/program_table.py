"""The language of the tables of programs: one row describes one program or subcommand and its effects.

    ~ head | -qvz -# -n= -c= --lines= | r*
    names  | options               | operands | rules       (a line that begins with eight blanks continues a row)
    [name]                          the rows below are subcommands, for programs with the operand `@name`

An option is a cluster of flags (`-qv`), an option with a value (`-n=`, `--lines=`), with an optional one (`--color?`),
a number (`-#`), or a long option with one dash (`-:run=`). A letter after `=` says what the value is:

    (none) a word      t a free text            r a file that is read      w a file that is written
    u an address       x a file with code       k a package to install     C the folder to work in
    e a pattern, and then the first operand is none (`p`)                   2 two words

or a regular expression between slashes that all of it has to match (a blank in it is `\\s`, a slash `\\x2f`). A value
that a command or a file may have chosen is understood only as a free text or an address.

Operands are the same letters or expressions, each with `?` or `*` behind it where it is optional or repeated, and:

    l a file that is listed                 m a folder that is created        d a file that is deleted
    p a pattern                             n a text for the handler          y a word for code of the project
    v such words with options               $ the words of another command    @name a subcommand of the table `name`
    x a file with code, and its words       a words for the handler, with options
    q all words for the handler, if the row has no options

Rules are reported each time the program is called; `!name` calls a function of HANDLERS. With `run.project`, words and
texts of the call may not name anything outside the workspace.

An option that is not in the row is not understood, and neither is an abbreviated one. No option of a name that begins
with `~` can do harm, so its globs may begin with a wildcard. A row has only the options that are in common use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from core.security.risk_rules import RULES
from core.security.shell.expansion import Value
from core.security.shell.program_call import Call
from core.security.shell.syntax import NotUnderstoodError

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
class Arguments:
    """The arguments of a call: its options in order, and its operands with their kinds."""

    options: list[tuple[str, Value | None]] = field(default_factory=list)
    operands: list[tuple[str, Value]] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[Value]:
        """The values of these options."""
        return [value for name, value in self.options if name in names and value is not None]

    def operands_of(self, kind: str) -> list[Value]:
        """The operands of a kind."""
        return [value for one, value in self.operands if one == kind]


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


Handler = Callable[[Call, Arguments], None]
"""What a row cannot say of a program."""


# -- matching a call ---------------------------------------------------------------------------------------------------


class _Matcher:
    """Matches the words of one call with a row. Every method raises NotUnderstoodError."""

    def __init__(self, call: Call, row: Row, args: Sequence[Value]) -> None:
        self.call, self.row, self.args = call, row, args
        self.at = 0
        self.arguments = Arguments()

    def match(self) -> Arguments:
        """The options and operands of the call."""
        row, operands, is_over = self.row, list[Value](), False
        last = row.operands[-1] if row.operands else ""
        ends, all_words = last[:1] in ENDS, last == "q"
        while self.at < len(self.args):
            value = self.args[self.at]
            self.at += 1
            if is_over or all_words or not self._may_be_option(value):
                if ends and not all_words and _may_be_none(value):
                    raise self.call.fail(value, "the word may be empty")
                operands.append(value)
                if ends and len(operands) >= max(len(row.operands) - 1, 1):
                    operands += self.args[self.at :]
                    break
            elif value.text == "--":
                is_over = True
            elif value.start.startswith("--") or self._is_long(value):
                self._long_option(value)
            else:
                self._short_options(value)
        self.arguments.operands = self._kinds(operands)
        for name, taken in self.arguments.options:
            if taken is not None and (row.options[name].kind != "t" or taken.is_many):
                self._check(row.options[name].kind, taken)
        for kind, value in self.arguments.operands:
            self._check(kind, value)
        return self.arguments

    def _fail_option(self, value: Value) -> NotUnderstoodError:
        return self.call.fail(value, f"an option of {self.call.name}")

    def _add(self, name: str, value: Value | None = None) -> None:
        self.arguments.options.append((name, value))

    def _may_be_option(self, value: Value) -> bool:
        if value.is_glob and value.start[:1] in ("", "*", "?", "[") and not self.row.is_plain:
            raise self.call.fail(value, "the pattern may expand to an option")
        return value.start.startswith("-") and value.text != "-"

    def _is_long(self, value: Value) -> bool:
        """Whether a word with one dash is a long option."""
        name = value.start.partition("=")[0]
        return len(name) > 2 and name in self.row.options

    def _long_option(self, value: Value) -> None:
        name, has_value, _ = value.start.partition("=")
        option = self.row.options.get(name)
        if option is None or (value.text is None and not has_value) or (has_value and not option.value):
            raise self._fail_option(value)
        if has_value:
            self._add(name, value.without_prefix(len(name) + 1))
        elif option.value in ("", "?"):
            self._add(name)
        else:
            for _ in range(2 if option.kind == "2" else 1):
                self._add(name, self._next(value, name))

    def _next(self, option: Value, name: str) -> Value:
        """The word after an option, which is its value."""
        value = self.args[self.at] if self.at < len(self.args) else None
        if value is None or value.is_glob or _may_be_none(value) or (value.is_many and value.is_foreign):
            raise self._fail_option(option)
        if re.match(r"-(?!$|\d+$)", value.start) and self.row.options[name].kind not in ("e", "t"):
            raise self._fail_option(option)  # where the program takes no value here, it is an option
        self.at += 1
        return value

    def _short_options(self, value: Value) -> None:
        text, options = value.start, self.row.options
        if self.row.has_numbers and value.text is not None and text[1:].isdigit():
            return
        if len(text) > 2 and any(len(name) > 2 and name[1] != "-" for name in options):
            raise self._fail_option(value)  # it takes no clusters: -overlay is not -o
        for n, letter in enumerate(text[1:], 1):
            name, is_last = f"-{letter}", n + 1 == len(text)
            option = options.get(name)
            if option is None or text[n + 1 : n + 2] == "=":
                raise self._fail_option(value)
            if option.value == "=" and value.text is None and is_last:
                raise self.call.fail(value, "the value may be empty")
            if option.value and (not is_last or value.text is None):
                self._add(name, value.without_prefix(n + 1))
                return
            if option.value == "=":
                self._add(name, self._next(value, name))
                return
            self._add(name)
        if value.text is None:
            raise self._fail_option(value)

    def _kinds(self, operands: list[Value]) -> list[tuple[str, Value]]:
        """The operands with their kinds, in order."""
        wanted = list(self.row.operands)
        if wanted[:1] == ["p"] and any(self.row.options[name].kind == "e" for name, _ in self.arguments.options):
            wanted = wanted[1:]
        found, missing = list[tuple[str, Value]](), f"an operand of {self.call.name} is missing"
        for kind in wanted:
            plain = kind.rstrip("?*") if kind.startswith("/") else kind[0]
            if kind[0] in ENDS or kind.endswith("*"):
                if kind in ("x", "$") and not operands:
                    raise self.call.fail(None, missing)
                found += [(plain, value) for value in operands]
                operands = []
            elif operands and operands[0].is_glob:
                raise self.call.fail(operands[0], "the pattern may expand to several words")
            elif operands:
                found.append((plain, operands[0]))
                operands = operands[1:]
            elif not kind.endswith("?"):
                raise self.call.fail(None, missing)
        if operands:
            raise self.call.fail(operands[0], f"an operand of {self.call.name}")
        return found

    def _check(self, kind: str, value: Value) -> None:
        if kind.startswith("/"):
            if value.text is None or not re.fullmatch(kind.strip("/"), value.text):
                raise self.call.fail(value, f"an argument of {self.call.name}")
        elif value.text is None and value.is_foreign and kind not in ("u", "$", "@"):
            raise self.call.fail(value, "the value may come from a command or a file")


def match_arguments(call: Call, row: Row, args: Sequence[Value]) -> Arguments:
    """The options and operands of a call as its row has them. Raises NotUnderstoodError."""
    return _Matcher(call, row, args).match()


def _may_be_none(value: Value) -> bool:
    """Whether it can be no word at all, so that the next word takes its place."""
    return value.text is None and value.is_many and not value.start


# -- the effects of a row ----------------------------------------------------------------------------------------------


def apply(call: Call, row: Row, arguments: Arguments) -> None:
    """Report the effects that a row names, without its handler's. Raises NotUnderstoodError."""
    options = [(row.options[name].kind, value) for name, value in arguments.options if value is not None]
    for kind, value in options:
        if kind == "C":
            call.works_in(value)
    effects = [*options, *arguments.operands]
    for rule in row.rules:
        if rule == "run.project":
            _runs_project(call, options, arguments.operands)
        else:
            call.report(rule)
    acts: dict[str, Callable[[Value], object]] = {
        "r": call.reads, "l": call.lists, "w": call.writes, "m": call.creates_folder, "u": call.fetches,
        "k": call.installs, "d": lambda value: call.removes(value, recursive=False),
    }  # fmt: skip
    for kind, value in effects:
        if act := acts.get(kind):
            act(value)
    call.passes_arguments([value for kind, value in arguments.operands if kind in ("y", "v")])
    code = [name for name, option in row.options.items() if option.kind == "x"]
    if words := arguments.operands_of("x") or arguments.values(*code):
        call.runs(words[0])
        call.passes_arguments(words[1:])
    if command := arguments.operands_of("$"):
        call.command(command)


def _runs_project(call: Call, options: list[tuple[str, Value]], operands: list[tuple[str, Value]]) -> None:
    call.runs_project()
    for kind, value in (*options, *operands):
        if kind == "r":
            if value.text == "-" or any(path.startswith("/dev/") for path in call.paths(value)):
                raise call.fail(value, "input from a pipe")
            if any(map(call.shell.wrote, call.paths(value))):  # a list of packages or settings
                call.report("run.written", value.shown)
    for kind, value in [*((kind, value) for kind, value in options if kind != "t"), *operands]:
        if kind in ("", "t") or (kind.startswith("/") and "://" not in value.start):
            call.passes_path(value)
