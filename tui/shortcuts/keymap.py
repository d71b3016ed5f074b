"""The user's own keys: rows `command id = key or keys` in the section [keys] of config.toml, checked against the table.

A row says all the keys that its command has, `leader n` the one behind the leader; an empty list takes them away. A row
that is wrong is reported in one message and ignored; the others apply, and nothing stops a start. `applied`
is pure: it takes the table with its default keys and knows none of the commands but by what must stay possible.
`use` is called before `tui.commands` is imported, because bindings and texts of modules are made once.

Only Handloom's home and its environment are asked, never a project: a hostile folder must not move the keys with which
its commands are refused. Standard library and Textual's names of keys only.

The rows of [keys]: read from config.toml and the environment as they are written, each with its line, and bounded.

What a row may say is `tui.shortcuts.keymap`'s to check. A file that cannot be read has no rows, and stops nothing here.
"""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from core.home import CONFIG
from tui.i18n import _
from tui.shortcuts import shortcut_keys
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from tui.commands import Command


SECTION = "keys"
PREFIX = "HANDLOOM__KEYS__"
MAX_ROWS = 500
MAX_BYTES = 1024 * 1024
"""Of the file. One that is larger is no settings, and its rows are not looked for."""
DEEP = 3
"""Sections within [keys]: `prompt.editor` without quotes is one of them to TOML."""
Rows = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user's places say."""

    rows: Rows
    """By command id, as it was written."""
    problems: tuple[str, ...] = ()
    """What is wrong with the section as a whole."""
    lines: Mapping[str, int] | None = None
    """By command id, the line of the row in the file."""


def read(home: Path, environ: Mapping[str, str]) -> Wanted:
    """The rows of the environment and the file, the former winning. Blocks for as long as it takes to read a file.

    A file that is no TOML has none: `core.settings.config.load` says what is wrong with it.
    """
    section, lines, problems = _section(home / CONFIG)
    rows = dict(islice(_flat(section), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        text = _("The section [keys] has more than {count} rows; those behind are not read.")
        problems = [*problems, text.format(count=MAX_ROWS)]
        rows = dict(islice(rows.items(), MAX_ROWS))
    for name, value in environ.items():
        if name.startswith(PREFIX):
            rows[name[len(PREFIX) :].lower().replace("__", ".")] = [part for part in value.split(", ") if part]
    return Wanted(rows, tuple(problems), lines)


def _section(file: Path) -> tuple[Mapping[str, object], Mapping[str, int], list[str]]:
    try:
        if file.stat().st_size > MAX_BYTES:
            message = _("{file} is larger than {n} MB, so no keys are taken from it.")
            return {}, {}, [message.format(file=CONFIG, n=MAX_BYTES // 2**20)]
        text = file.read_text("utf-8")
        found = tomllib.loads(text).get(SECTION, {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return {}, {}, []
    if not isinstance(found, Mapping):
        message = _('[keys] is a section, each row a command and its keys: "conv.new" = "ctrl+n". It is left out.')
        return {}, {}, [message]
    return found, dict(_places(text)), []


def _flat(section: Mapping[str, object], above: str = "", depth: int = DEEP) -> Iterator[tuple[str, object]]:
    """The rows of a section and of those within it, by their whole names."""
    for name, value in section.items():
        if isinstance(value, Mapping) and depth:
            yield from _flat(value, f"{above}{name}.", depth - 1)
        else:
            yield above + name, value


LOOKED_AT = 300
"""Characters of a line in which the name of a row is looked for."""
_HEADING = re.compile(r"\s*\[\s*([^\[\]]{1,200}?)\s*\]")
_ROW = re.compile(r"""\s*((?:"[^"]{0,200}"|'[^']{0,200}'|[\w.\s-]{1,200}?)+?)\s*=""")


def _places(text: str) -> Iterator[tuple[str, int]]:
    """Rows of the file by their names, with the numbers of their lines; one within braces has that of the brace."""
    above = ""
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _HEADING.match(line[:LOOKED_AT]):
            above = _bare(heading[1]) + "."
        elif row := _ROW.match(line[:LOOKED_AT]):
            name = above + _bare(row[1])
            if name.startswith(SECTION + "."):
                yield name.removeprefix(SECTION + "."), number


def _bare(name: str) -> str:
    return "".join(part for part in name if part not in "\"' \t")


TABS = "conv.goto"
DIGITS = "1-9"
"""Stands for the digits behind the leader, each for a tab."""
MAX_KEYS = 8
SHOWN = 40
QUITS = ("app.quit", "app.interrupt", "prompt.quit")
"""One of them keeps a key."""
NEEDED = frozenset({"app.back", "prompt.send"})
"""Commands that are never without a key: what answers a question, and the way out of whatever is open."""
TYPED = frozenset({"prompt.file", "prompt.reference", "prompt.command", "prompt.shell", "prompt.help"})
"""Characters that begin something where a text begins: they are text, and no key."""
PART_OF_ITS_PLACE = frozenset({"replay.part", "find.next", "question.move", "question.take"})


@dataclass(frozen=True, slots=True)
class Keymap:
    """The table with the user's keys."""

    commands: tuple[Command, ...]
    problems: tuple[str, ...] = ()
    """One message for each row that does not count."""
    changed: frozenset[str] = frozenset()
    """The ids of the commands that have other keys than the table gives them."""


_chosen = [Wanted({})]


def use(wanted: Wanted) -> None:
    """Have the table made with these keys from its import on."""
    _chosen[0] = wanted


def chosen() -> Wanted:
    """What `use` was given last."""
    return _chosen[0]


# -- checking ----------------------------------------------------------------------------------------------------------


class _WrongError(Exception):
    """A row cannot be used; says why, for the user."""


def applied(table: Sequence[Command], wanted: Wanted) -> Keymap:
    """The table with the rows that can be taken. Never raises."""
    known = {command.id: command for command in table}
    problems: list[str] = list(wanted.problems)
    taken: dict[str, Command] = {}

    def report(id: str, why: str) -> None:
        remedy = _("It keeps its default keys.") if id in known else _("The row is left out.")
        problems.append(f"{_row(id, wanted)} {why} {remedy}")

    for id, value in wanted.rows.items():
        if id not in known:
            report(id, _unknown(id, known))
            continue
        try:
            taken[id] = _given(known[id], value)
        except _WrongError as wrong:
            report(id, str(wrong))
    while found := next(_conflicts([taken.get(id, command) for id, command in known.items()], taken), None):
        id, why = found
        del taken[id]
        report(id, why)
    commands = tuple(taken.get(command.id, command) for command in table)
    changed = frozenset(c.id for c in taken.values() if (c.keys, c.leader) != (known[c.id].keys, known[c.id].leader))
    return Keymap(commands, tuple(problems), changed)


def _row(id: str, wanted: Wanted) -> str:
    """Which row a message is about, with its line."""
    line, name = (wanted.lines or {}).get(id), sanitize_line(id, SHOWN)
    if line is None:
        return _("Keys: {name}:").format(name=name)
    return _("Keys: {name} (line {n} of {file}):").format(name=name, n=line, file=CONFIG)


def _unknown(id: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # only where something is wrong

    near = get_close_matches(id[:SHOWN], known, 1, 0.5)
    if near:
        return _("there is no such command. Is {near} meant? handloom keys lists them.").format(near=near[0])
    return _("there is no such command. handloom keys lists them.")


def _given(command: Command, value: object) -> Command:
    """The command with the keys of a row. Raises _WrongError."""
    if command.id in TYPED:
        raise _WrongError(_("this is a character that is typed, and no key; it cannot be changed."))
    if command.id in PART_OF_ITS_PLACE:
        raise _WrongError(_("its keys belong to the place where they answer; they cannot be changed."))
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise _WrongError(_('write a key, such as "ctrl+e", or a list of keys in brackets.'))
    if len(parts) > MAX_KEYS:
        raise _WrongError(_("a command has at most {count} keys; write fewer.").format(count=MAX_KEYS))
    found, leader = list[str](), ""
    for text in parts:
        if (second := _behind_leader(text)) is None:
            found.append(_key(command, text))
        elif leader:
            raise _WrongError(_("a command has at most one key behind the leader; write one of them."))
        else:
            leader = _second(command, second)
    given = replace(command, keys=tuple(dict.fromkeys(found)), leader=leader)
    if not given.keys and command.id in NEEDED:
        raise _WrongError(_("it needs a key, or there would be no way to give this answer; write one."))
    only = given.keys and all(map(shortcut_keys.needs_protocol, given.keys))
    if only and not (leader or given.slash):
        message = _("few terminals send {key} (it needs the kitty keyboard protocol); write another key beside it.")
        raise _WrongError(message.format(key=shortcut_keys.shown(given.keys[0])))
    return given


def _behind_leader(text: str) -> str | None:
    """What follows the word `leader`; None if the text does not begin with it."""
    first, _space, second = text.strip().partition(" ")
    return second.strip() if first.lower() == "leader" else None


def _second(command: Command, text: str) -> str:
    """A key behind the leader. Raises _WrongError."""
    if command.id == TABS:
        if text == DIGITS:
            return text
        raise _WrongError(_('the tabs have the digits: write "leader 1-9", or [] for none.'))
    if command.native or command.scope != "everywhere":
        raise _WrongError(_("the leader reaches commands that answer everywhere; this one answers in its place only."))
    if len(text) != 1 or not text.isprintable() or text.isspace():
        message = _('behind the leader comes one character, such as "leader n", not {text}.')
        raise _WrongError(message.format(text=_quoted(text)))
    return text


def _key(command: Command, text: str) -> str:
    """A key by itself. Raises _WrongError."""
    key = shortcut_keys.named(text)
    if key is None:
        message = _('there is no key {text}. Write it as "ctrl+e", "f5", "alt+n", "pageup", "leader n" or "?".')
        raise _WrongError(message.format(text=_quoted(text)))
    if why := shortcut_keys.refused(key):
        raise _WrongError(_("{why}; write another key.").format(why=why))
    if command.id == TABS:
        raise _WrongError(_('the tabs have the digits: write "leader 1-9", or [] for none.'))
    if key in command.keys:
        return key
    if command.scope.is_text and shortcut_keys.is_for_writing(key, outside=command.scope == "everywhere"):
        message = _("{key} is needed to write in the prompt; write one with ctrl or alt, or an F key.")
        raise _WrongError(message.format(key=shortcut_keys.shown(key)))
    return key


def _quoted(text: str) -> str:
    return f"“{sanitize_line(text, SHOWN)}”"


def _conflicts(commands: Sequence[Command], taken: Collection[str]) -> Iterator[tuple[str, str]]:
    """Conflicts between the commands, each with the id of the row to drop (the last one involved) and the reason."""
    order = list(taken)
    if not any(command.keys for command in commands if command.id in QUITS):
        id = max((id for id in QUITS if id in taken), key=order.index)
        yield id, _("no key would be left to quit with; leave one to {ids}.").format(ids=", ".join(QUITS))
    for one, other, key in clashes(commands):
        row, first = (one, other) if one.id in taken else (other, one)
        if one.id in taken and other.id in taken and order.index(other.id) > order.index(one.id):
            row, first = other, one
        text = _("{key} is {id} already ({title}); give that another key, or write another one here.")
        yield row.id, text.format(key=key, id=first.id, title=first.title)


def clashes(commands: Sequence[Command]) -> Iterator[tuple[Command, Command, str]]:
    """Each two commands that have the same key in the same place, and the key as it is shown."""
    by_key: dict[str, list[Command]] = {}
    for command in commands:
        for key in command.keys:
            for other in by_key.get(key, ()):
                if other.scope.meets(command.scope):
                    yield other, command, shortcut_keys.shown(key)
            by_key.setdefault(key, []).append(command)
    seconds: dict[str, Command] = {}
    for command in commands:
        for second in _seconds(command):
            if second in seconds:
                yield seconds[second], command, f"leader {second}"
            seconds.setdefault(second, command)


def _seconds(command: Command) -> Iterable[str]:
    if command.leader == DIGITS:
        return string.digits[1:]
    return [command.leader] if command.leader else []
