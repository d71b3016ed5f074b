"""`handloom keys`: lists the commands and their keys, or shows what each key sends (`--test`).

The list also says what is wrong with the user's own keys, and which keys this terminal cannot send. The test parses
bytes as the workspace does, with Textual's parser and the patches of `tui.terminal_io.textual_patches`, and restores
the terminal at its end.
"""

from __future__ import annotations

import argparse
import codecs
import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from rich.cells import cell_len
from textual import events
from textual._xterm_parser import XTermParser

from core.errors import ExitStatus
from tui.commands import COMMANDS, KEYMAP, Command, Scope, all_keys, by_leader
from tui.i18n import _
from tui.shortcuts.command import keys_of
from tui.shortcuts.shortcut_keys import PUNCTUATION, is_typed, needs_protocol, shown
from tui.terminal_io.escapes import KITTY_KEYS_OFF, KITTY_KEYS_ON, QUERY_KEYS
from tui.terminal_io.textual_patches import patch_escapes

MARK = "*"
ANSWER_S = 1.0
"""How long a terminal may take to answer; three times what a link around half the world needs."""
PENDING_S = 0.05
"""How often a pending Esc is checked for further bytes."""
ENDS = ("ctrl+c", "escape")
_PROTOCOL, _DEVICE = re.compile(rb"\x1b\[\?\d+u"), re.compile(rb"\x1b\[\?[\d;]+c")

# -- the list ----------------------------------------------------------------------------------------------------------


def keys(options: argparse.Namespace) -> int:
    """Print the table, or show what keys send. Returns 1 if a row of the user's keys is ignored."""
    if options.test:
        return _test()
    rows = [_row(command) for command in COMMANDS]
    widths = [max(cell_len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=False))
        print("  ".join([*cells, row[3]]))  # noqa: T201
    text = [_("{mark} marks shortcuts that you changed in config.toml or the environment.").format(mark=MARK)]
    for line in [*text * bool(KEYMAP.changed), *_unsupported_keys()]:
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


def _unsupported_keys() -> list[str]:
    """A line about the keys that this terminal cannot send, if that is known."""
    special = [(shown(key), c.id) for c in COMMANDS for key in c.keys if needs_protocol(key)]
    if not special or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return []
    if speaks_protocol(sys.stdin.fileno(), sys.stdout.fileno()):
        return []
    text = _("This terminal does not support the kitty keyboard protocol, so it cannot send these keys: {keys}.")
    return [text.format(keys=", ".join(f"{key} ({id})" for key, id in special))]


def speaks_protocol(source: int, target: int) -> bool | None:
    """Whether the terminal has the kitty keyboard protocol; None if it does not answer. Blocks for up to a second."""
    before, reply = termios.tcgetattr(source), b""
    until = time.monotonic() + ANSWER_S
    try:
        tty.setcbreak(source)
        os.write(target, QUERY_KEYS.encode())
        while not _DEVICE.search(reply):
            left = until - time.monotonic()
            if left <= 0 or not select.select([source], [], [], left)[0]:
                return None
            reply += os.read(source, 1024)
        return _PROTOCOL.search(reply) is not None
    finally:
        termios.tcsetattr(source, termios.TCSAFLUSH, before)


# -- the test ----------------------------------------------------------------------------------------------------------


def _test() -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(f"handloom: {_('testing keys needs a terminal.')}", file=sys.stderr)  # noqa: T201
        return int(ExitStatus.USAGE)
    echo(sys.stdin.fileno(), sys.stdout.fileno())
    return 0


class KeyParser:
    """Parses bytes of the terminal into keys, each with its bytes."""

    def __init__(self) -> None:
        patch_escapes()
        self._parser = XTermParser()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._sent = ""

    @property
    def is_pending(self) -> bool:
        """Whether bytes wait for more that belong to the same key."""
        return bool(self._sent)

    def feed(self, data: bytes) -> Iterator[tuple[bytes, events.Key]]:
        for character in self._decoder.decode(data):
            self._sent += character
            yield from self._keys(list(self._parser.feed(character)))

    def flush(self) -> Iterator[tuple[bytes, events.Key]]:
        """Treat the pending bytes as complete."""
        yield from self._keys(list(self._parser.tick()))

    def _keys(self, messages: list[object]) -> Iterator[tuple[bytes, events.Key]]:
        for message in messages:
            sent, self._sent = self._sent.encode(), ""
            if isinstance(message, events.Key):
                yield sent, message


def echo(source: int, target: int) -> None:
    """Show each key until ctrl+c or Esc is pressed twice, or the process is terminated."""

    def show(line: str) -> None:
        os.write(target, (line + "\r\n").encode())

    show(_("Press keys. ctrl+c twice, or Esc twice, ends this."))
    parser, before, is_second = KeyParser(), "", False
    with _raw(source, target):
        while True:
            ready, _none, _none = select.select([source], [], [], PENDING_S if parser.is_pending else None)
            data = os.read(source, 1024) if ready else b""
            if ready and not data:
                return
            for sent, key in [*parser.feed(data), *([] if ready else parser.flush())]:
                show(line_of(sent, key, is_second=is_second))
                if key.key in ENDS and key.key == before:
                    return
                is_second = not is_second and key.key in keys_of("app.leader")
                before = key.key


def line_of(sent: bytes, key: events.Key, *, is_second: bool = False) -> str:
    """What one key sent and does; `is_second` if it follows the leader."""
    meaning = _meaning_after_leader(key) if is_second else _meaning(key)
    return f"{shown(key.key):<16} {sent.hex(' '):<24} {key.key:<24} {meaning}"


def _meaning_after_leader(key: events.Key) -> str:
    found = by_leader(key.character or key.key)
    return f"{found[0].id} ({found[0].title})" if found else _("no command after the leader")


def _meaning(key: events.Key) -> str:
    given = [f"{c.id} ({c.title}; {c.scope.words})" for c in COMMANDS if key.key in c.keys]
    if is_typed(key.key) and (len(key.key) == 1 or key.key in PUNCTUATION or key.key == "space"):
        given.append(_("is typed into the prompt"))
    return ", ".join(given) or _("no command")


@contextmanager
def _raw(source: int, target: int) -> Iterator[None]:
    """Raw mode, as in the workspace; restored at the end, also if the process is terminated."""
    before = termios.tcgetattr(source)

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    handlers = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setraw(source)
        os.write(target, KITTY_KEYS_ON.encode())
        yield
    finally:
        os.write(target, KITTY_KEYS_OFF.encode())
        termios.tcsetattr(source, termios.TCSAFLUSH, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
