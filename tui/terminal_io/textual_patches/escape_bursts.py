"""Esc and a key that come in one burst are the two bytes that they are, for whoever wants bytes.

A terminal without the kitty protocol sends Esc and then `:` as it sends alt+`:`. Textual waits whether more comes, then
drops the Esc where it knows no such key, and makes a caret of it in a long burst, so that `Esc:wq` typed at speed never
left vim's insert mode. `install` has each such pair told at once, as the key that Textual takes it for, with the pair
itself in `typed`. Sequences that terminals send for keys stay Textual's.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser

_ESC = "\x1b"
_BEGINS = frozenset("[O")
"""What stands second in the sequences of keys: CSI and SS3."""
_LONG = tuple(sequence for sequence in ANSI_SEQUENCES_KEYS if sequence.startswith("\x1bO"))
_MARK = "_handloom_bursts"


class Key(events.Key):
    """A key that followed on Esc. Its name is the base's, by which Textual finds who handles it."""

    def __init__(self, key: str, character: str | None, typed: str) -> None:
        super().__init__(key, character)
        self.typed = typed
        """What the terminal sent: Esc and one character."""


def typed(event: events.Key) -> bytes:
    """What the terminal sent, where that was Esc and a character in one burst; else nothing."""
    return event.typed.encode() if isinstance(event, Key) else b""


def install() -> None:
    """Have every terminal's parser tell such pairs. May be called twice."""
    if getattr(XTermParser._sequence_to_key_events, _MARK, False):
        return
    known = XTermParser._sequence_to_key_events

    def told(self: XTermParser, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if len(sequence) == 2 and sequence[0] == _ESC and sequence[1] not in _BEGINS:
            yield from _pair(sequence, list(known(self, sequence)) or list(known(self, sequence[1], True)))
        elif alt and len(sequence) == 1:
            yield from _pair(_ESC + sequence, list(known(self, sequence, alt)))
        elif sequence[:2] == "\x1bO" and not any(longer.startswith(sequence) for longer in _LONG):
            yield from _pair(sequence[:2], list(known(self, sequence[1], True)))
            for character in sequence[2:]:
                yield from known(self, character)
        else:
            yield from known(self, sequence, alt)

    setattr(told, _MARK, True)
    XTermParser._sequence_to_key_events = told  # type: ignore[method-assign]


def _pair(sequence: str, keys: list[events.Key]) -> Iterable[events.Key]:
    """The keys that Textual takes the pair for; the first of them carries what was sent."""
    for number, key in enumerate(keys):
        yield key if number else Key(key.key, key.character, sequence)
