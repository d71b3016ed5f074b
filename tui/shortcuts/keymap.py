"""Keymap: the user's own keys, rows `command id = key or keys` in the section [keys] of config.toml.

A row has all the keys of its command, `leader n` for the key after the leader; an empty list removes them. `read` reads
the rows from the file and the environment, bounded and with their lines. `applied` is pure: it checks them against the
table with its default keys. A wrong row is reported and ignored, and nothing stops the start. `use` is called before
`tui.commands` is imported, because bindings and texts of modules are made once.

Only Handloom's home and environment are read, never a project: a hostile folder must not move the keys with which its
commands are denied. Standard library and Textual's names of keys only.
"""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from core.environment import CONFIG
from tui.i18n import _
from tui.shortcuts import shortcut_keys
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from tui.commands import Command

SECTION = "keys"
PREFIX = "HANDLOOM__KEYS__"
MAX_ROWS = 500
MAX_BYTES = 1024 * 1024
"""Of the file. No keys are read from a larger one."""
MAX_DEPTH = 3
"""Of sections in [keys]: for TOML, `prompt.editor` without quotes is one."""
Rows = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows of the file and the environment."""

    rows: Rows
    """By command id, as written."""
    problems: tuple[str, ...] = ()
    """What is wrong with the whole section."""
    lines: Mapping[str, int] | None = None
    """The line of each row in the file, by command id."""


def read(home: Path, environ: Mapping[str, str]) -> Wanted:
    """The rows of the file and the environment, which has precedence. Blocks.

    A file that is no TOML has no rows: `core.settings.config.load` reports it.
    """
    section, lines, problems = _section(home / CONFIG)
    rows = dict(islice(_flat(section), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        text = _("The section [keys] has more than {count} entries; the rest are ignored.")
        problems = [*problems, text.format(count=MAX_ROWS)]
        rows = dict(islice(rows.items(), MAX_ROWS))
    for name, value in environ.items():
        if name.startswith(PREFIX):
            rows[name[len(PREFIX) :].lower().replace("__", ".")] = [part for part in value.split(", ") if part]
    return Wanted(rows, tuple(problems), lines)


def _section(file: Path) -> tuple[Mapping[str, object], Mapping[str, int], list[str]]:
    try:
        if file.stat().st_size > MAX_BYTES:
            message = _("{file} is larger than {n} MB, so its keys are ignored.")
            return {}, {}, [message.format(file=CONFIG, n=MAX_BYTES // 2**20)]
        text = file.read_text("utf-8")
        found = tomllib.loads(text).get(SECTION, {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return {}, {}, []
    if not isinstance(found, Mapping):
        message = _('[keys] is a section, each row a command and its keys: "conv.new" = "ctrl+n". It is left out.')
        return {}, {}, [message]
    return found, dict(_places(text)), []


def _flat(section: Mapping[str, object], prefix: str = "", depth: int = MAX_DEPTH) -> Iterator[tuple[str, object]]:
    """The rows of a section and its subsections, by their full names."""
    for name, value in section.items():
        if isinstance(value, Mapping) and depth:
            yield from _flat(value, f"{prefix}{name}.", depth - 1)
        else:
            yield prefix + name, value


LINE_CHARS = 300
"""The part of a line in which the name of a row is searched."""
_HEADING = re.compile(r"\s*\[\s*([^\[\]]{1,200}?)\s*\]")
_ROW = re.compile(r"""\s*((?:"[^"]{0,200}"|'[^']{0,200}'|[\w.\s-]{1,200}?)+?)\s*=""")


def _places(text: str) -> Iterator[tuple[str, int]]:
    """The names of the file's rows with their line numbers; a row in braces has the line of the brace."""
    prefix = ""
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _HEADING.match(line[:LINE_CHARS]):
            prefix = _unquoted(heading[1]) + "."
        elif row := _ROW.match(line[:LINE_CHARS]):
            name = prefix + _unquoted(row[1])
            if name.startswith(SECTION + "."):
                yield name.removeprefix(SECTION + "."), number


def _unquoted(name: str) -> str:
    return "".join(part for part in name if part not in "\"' \t")


TABS = "conv.goto"
DIGITS = "1-9"
"""All digits after the leader, each for a tab."""
MAX_KEYS = 8
SHOWN = 40
QUITS = ("app.quit", "app.interrupt", "prompt.quit")
"""At least one of them keeps a key."""
NEEDED = frozenset({"app.back", "prompt.send"})
"""Commands that always keep a key: to answer a question, and to close what is open."""
TYPED = frozenset({"prompt.file", "prompt.reference", "prompt.command", "prompt.shell", "prompt.help"})
"""Characters with a meaning at the start of a text: they are text, not keys."""
FIXED = frozenset({"replay.part", "find.next", "question.move", "question.take"})
"""Commands whose keys belong to their widget."""


@dataclass(frozen=True, slots=True)
class Keymap:
    """The table with the user's keys."""

    commands: tuple[Command, ...]
    problems: tuple[str, ...] = ()
    """One message for each ignored row."""
    changed: frozenset[str] = frozenset()
    """The ids of the commands whose keys differ from the defaults."""


_chosen = [Wanted({})]


def use(wanted: Wanted) -> None:
    """Set the keys for the table, before it is imported."""
    _chosen[0] = wanted


def chosen() -> Wanted:
    return _chosen[0]


# -- checking ----------------------------------------------------------------------------------------------------------


class _WrongError(Exception):
    """A row cannot be used; the message says why."""


def applied(table: Sequence[Command], wanted: Wanted) -> Keymap:
    """The table with the valid rows applied. Never raises."""
    known = {command.id: command for command in table}
    problems: list[str] = list(wanted.problems)
    accepted: dict[str, Command] = {}

    def report(id: str, why: str) -> None:
        remedy = _("It keeps its default keys.") if id in known else _("The entry is ignored.")
        problems.append(f"{_row(id, wanted)} {why} {remedy}")

    for id, value in wanted.rows.items():
        if id not in known:
            report(id, _unknown(id, known))
            continue
        try:
            accepted[id] = _with_keys(known[id], value)
        except _WrongError as wrong:
            report(id, str(wrong))
    while found := next(_conflicts([accepted.get(id, command) for id, command in known.items()], accepted), None):
        id, why = found
        del accepted[id]
        report(id, why)
    commands = tuple(accepted.get(command.id, command) for command in table)
    changed = frozenset(c.id for c in accepted.values() if (c.keys, c.leader) != (known[c.id].keys, known[c.id].leader))
    return Keymap(commands, tuple(problems), changed)


def _row(id: str, wanted: Wanted) -> str:
    """The start of a message: which row it is about."""
    line, name = (wanted.lines or {}).get(id), sanitize_line(id, SHOWN)
    if line is None:
        return _("Keys: {name}:").format(name=name)
    return _("Keys: {name} (line {n} of {file}):").format(name=name, n=line, file=CONFIG)


def _unknown(id: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # only for wrong rows

    near = get_close_matches(id[:SHOWN], known, 1, 0.5)
    if near:
        return _("unknown command. Did you mean {near}? handloom keys lists all commands.").format(near=near[0])
    return _("unknown command. handloom keys lists all commands.")


def _with_keys(command: Command, value: object) -> Command:
    """The command with the keys of a row. Raises _WrongError."""
    if command.id in TYPED:
        raise _WrongError(_("this is a typed character, not a key. It cannot be changed."))
    if command.id in FIXED:
        raise _WrongError(_("its keys are fixed and cannot be changed."))
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise _WrongError(_('write a key, such as "ctrl+e", or a list of keys in brackets.'))
    if len(parts) > MAX_KEYS:
        raise _WrongError(_("a command can have at most {count} keys. Remove some.").format(count=MAX_KEYS))
    keys, leader = list[str](), ""
    for text in parts:
        if (second := _after_leader(text)) is None:
            keys.append(_key(command, text))
        elif leader:
            raise _WrongError(_("a command can have only one key after the leader. Keep one of them."))
        else:
            leader = _second(command, second)
    changed = replace(command, keys=tuple(dict.fromkeys(keys)), leader=leader)
    if not keys and command.id in NEEDED:
        raise _WrongError(_("it needs a key, or this answer could not be given. Set one."))
    if keys and all(map(shortcut_keys.needs_protocol, keys)) and not (leader or command.slash):
        message = _("few terminals send {key} (it needs the kitty keyboard protocol). Add another key.")
        raise _WrongError(message.format(key=shortcut_keys.shown(keys[0])))
    return changed


def _after_leader(text: str) -> str | None:
    """The text after the word `leader`; None without it."""
    first, _space, second = text.strip().partition(" ")
    return second.strip() if first.lower() == "leader" else None


def _second(command: Command, text: str) -> str:
    """A key after the leader. Raises _WrongError."""
    if command.id == TABS:
        if text == DIGITS:
            return text
        raise _WrongError(_('the tabs have the digits: write "leader 1-9", or [] for none.'))
    if command.native or command.scope != "everywhere":
        raise _WrongError(_("only commands that work everywhere can have a key after the leader."))
    if len(text) != 1 or not text.isprintable() or text.isspace():
        message = _('behind the leader comes one character, such as "leader n", not {text}.')
        raise _WrongError(message.format(text=_quoted(text)))
    return text


def _key(command: Command, text: str) -> str:
    """A key without the leader. Raises _WrongError."""
    key = shortcut_keys.named(text)
    if key is None:
        message = _('there is no key {text}. Write it as "ctrl+e", "f5", "alt+n", "pageup", "leader n" or "?".')
        raise _WrongError(message.format(text=_quoted(text)))
    if why := shortcut_keys.refused(key):
        raise _WrongError(_("{why}. Use another key.").format(why=why))
    if command.id == TABS:
        raise _WrongError(_('the tabs have the digits: write "leader 1-9", or [] for none.'))
    if key in command.keys:
        return key
    if command.scope.is_text and shortcut_keys.is_for_writing(key, outside=command.scope == "everywhere"):
        message = _("{key} is needed for typing. Use a key with ctrl or alt, or a function key.")
        raise _WrongError(message.format(key=shortcut_keys.shown(key)))
    return key


def _quoted(text: str) -> str:
    return f"“{sanitize_line(text, SHOWN)}”"


def _conflicts(commands: Sequence[Command], accepted: Collection[str]) -> Iterator[tuple[str, str]]:
    """Conflicts between commands: the id of the row to drop, which is the last one involved, and the reason."""
    order = list(accepted)
    if not any(command.keys for command in commands if command.id in QUITS):
        id = max((id for id in QUITS if id in accepted), key=order.index)
        yield id, _("no key would be left to quit with. Leave a key for {ids}.").format(ids=", ".join(QUITS))
    for one, other, key in clashes(commands):
        row, first = (one, other) if one.id in accepted else (other, one)
        if one.id in accepted and other.id in accepted and order.index(other.id) > order.index(one.id):
            row, first = other, one
        text = _("{key} is already used by {id} ({title}). Change one of the two.")
        yield row.id, text.format(key=key, id=first.id, title=first.title)


def clashes(commands: Sequence[Command]) -> Iterator[tuple[Command, Command, str]]:
    """Pairs of commands with the same key in the same scope, and the key as it is shown."""
    by_key: dict[str, list[Command]] = {}
    for command in commands:
        for key in command.keys:
            for other in by_key.get(key, ()):
                if other.scope.meets(command.scope):
                    yield other, command, shortcut_keys.shown(key)
            by_key.setdefault(key, []).append(command)
    seconds: dict[str, Command] = {}
    for command in commands:
        for second in string.digits[1:] if command.leader == DIGITS else command.leader:
            if second in seconds:
                yield seconds[second], command, f"leader {second}"
            seconds.setdefault(second, command)
