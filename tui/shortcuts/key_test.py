"""What each key sends: its bytes, its name, and the command that it gives. The terminal is left as it was found.

Bytes become keys here as they do in the workspace, by Textual's parser with what
`tui.terminal_io.textual_patches` corrects of it; so what is shown is what a command would get. Draws
nothing but lines.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from textual import events
from textual._xterm_parser import XTermParser

from tui.commands import COMMANDS, by_leader
from tui.i18n import _
from tui.shortcuts.shortcut_keys import PUNCTUATION, is_typed, shown
from tui.terminal_io.escapes import KITTY_KEYS_OFF, KITTY_KEYS_ON, QUERY_KEYS
from tui.terminal_io.textual_patches import patch_escapes

ANSWER_S = 1.0
"""How long a terminal has to say what it is; a link over half the world takes a third of that."""
PENDING_S = 0.05
"""Between two looks whether an Esc stays alone; nothing is looked for while none waits."""
ENDS = ("ctrl+c", "escape")
_PROTOCOL, _DEVICE = re.compile(rb"\x1b\[\?\d+u"), re.compile(rb"\x1b\[\?[\d;]+c")


class Keys:
    """Keys made of what the terminal sends, each with its own bytes."""

    def __init__(self) -> None:
        patch_escapes()
        self._parser = XTermParser()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._sent = ""

    @property
    def is_pending(self) -> bool:
        """Whether something was sent of which no key has come yet."""
        return bool(self._sent)

    def feed(self, data: bytes) -> Iterator[tuple[bytes, events.Key]]:
        """Take what was sent."""
        for character in self._decoder.decode(data):
            self._sent += character
            yield from self._told(list(self._parser.feed(character)))

    def wait(self) -> Iterator[tuple[bytes, events.Key]]:
        """Treat the input as complete for now."""
        yield from self._told(list(self._parser.tick()))

    def _told(self, messages: list[object]) -> Iterator[tuple[bytes, events.Key]]:
        for message in messages:
            sent, self._sent = self._sent.encode(), ""
            if isinstance(message, events.Key):
                yield sent, message


def echo(source: int, target: int) -> None:
    """Show each key until ctrl+c or Esc is pressed twice, or the process is terminated."""

    def show(line: str) -> None:
        os.write(target, (line + "\r\n").encode())

    show(_("Press keys. ctrl+c twice, or Esc twice, ends this."))
    found, before, is_second = Keys(), "", False
    with _raw(source, target):
        while True:
            ready, _none, _none = select.select([source], [], [], PENDING_S if found.is_pending else None)
            data = os.read(source, 1024) if ready else b""
            if ready and not data:
                return
            for sent, key in [*found.feed(data), *([] if ready else found.wait())]:
                show(line_of(sent, key, is_second=is_second))
                if key.key in ENDS and key.key == before:
                    return
                is_second = not is_second and key.key in _leader()
                before = key.key


def line_of(sent: bytes, key: events.Key, *, is_second: bool = False) -> str:
    """What one key sent and does; `is_second` says that the leader came before it."""
    what = _second(key) if is_second else _first(key)
    return f"{shown(key.key):<16} {sent.hex(' '):<24} {key.key:<24} {what}"


def _leader() -> tuple[str, ...]:
    return next(command.keys for command in COMMANDS if command.id == "app.leader")


def _second(key: events.Key) -> str:
    found = by_leader(key.character or key.key)
    return f"{found[0].id} ({found[0].title})" if found else _("no command behind the leader")


def _first(key: events.Key) -> str:
    given = [f"{c.id} ({c.title}; {c.scope.words})" for c in COMMANDS if key.key in c.keys]
    if is_typed(key.key) and (len(key.key) == 1 or key.key in PUNCTUATION or key.key == "space"):
        given.append(_("is typed into the prompt"))
    return ", ".join(given) or _("no command")


@contextmanager
def _raw(source: int, target: int) -> Iterator[None]:
    """The terminal as the workspace has it, and afterwards as it was, also when the process is terminated."""
    before = termios.tcgetattr(source)

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    kept = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setraw(source)
        os.write(target, KITTY_KEYS_ON.encode())
        yield
    finally:
        os.write(target, KITTY_KEYS_OFF.encode())
        termios.tcsetattr(source, termios.TCSAFLUSH, before)
        for number, handler in kept.items():
            signal.signal(number, handler)


def speaks_protocol(source: int, target: int) -> bool | None:
    """Whether the terminal has the kitty keyboard protocol; None where it answers nothing. Blocks for a second then."""
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
