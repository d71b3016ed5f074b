"""`handloom keys`: every command with its keys, what is wrong with the user's own, and which cannot work here."""

from __future__ import annotations

import argparse
import sys

from rich.cells import cell_len

from core.errors import ExitStatus
from tui.commands import COMMANDS, KEYMAP, Command, Scope, all_keys
from tui.i18n import _
from tui.shortcuts.key_test import echo, speaks_protocol
from tui.shortcuts.shortcut_keys import needs_protocol, shown

MARK = "*"


def keys(options: argparse.Namespace) -> int:
    """Print the table, or show what keys send. Answers 1 where a row of the user's keys does not count."""
    if options.test:
        return _test()
    rows = [_row(command) for command in COMMANDS]
    widths = [max(cell_len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=False))
        print("  ".join([*cells, row[3]]))  # noqa: T201
    text = [_("{mark} marks shortcuts that you changed in config.toml or the environment.").format(mark=MARK)]
    for line in [*text * bool(KEYMAP.changed), *_not_here()]:
        print(f"\n{line}")  # noqa: T201
    sys.stdout.flush()
    for problem in KEYMAP.problems:
        print(f"handloom: {problem}", file=sys.stderr)  # noqa: T201
    return int(ExitStatus.ERROR if KEYMAP.problems else ExitStatus.FINISHED)


def _row(command: Command) -> tuple[str, str, str, str]:
    mark = MARK if command.id in KEYMAP.changed else " "
    where = "" if command.scope is Scope.GLOBAL else f"  ({command.scope.words})"
    given = " · ".join(all_keys(command)) or (f"/{command.slash}" if command.slash else "—")
    return mark, command.id, given, command.title + where


def _not_here() -> list[str]:
    """Which keys this terminal cannot send, as far as that can be known."""
    few = [(shown(key), c.id) for c in COMMANDS for key in c.keys if needs_protocol(key)]
    if not few or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return []
    if speaks_protocol(sys.stdin.fileno(), sys.stdout.fileno()):
        return []
    text = _("This terminal does not support the kitty keyboard protocol, so it cannot send these keys: {keys}.")
    return [text.format(keys=", ".join(f"{key} ({id})" for key, id in few))]


def _test() -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(f"handloom: {_('testing keys needs a terminal.')}", file=sys.stderr)  # noqa: T201
        return int(ExitStatus.USAGE)
    echo(sys.stdin.fileno(), sys.stdout.fileno())
    return 0
