"""Patches of Textual, each for a defect of it. `install` applies them all, once, before the app runs.

- Terminal replies: Textual takes what it does not understand for keys, so a broken mouse report (VS Code sends
  `<32;NaN;NaNM`) or a reply to a query that nobody made would appear in the prompt. `ReplyFilter` drops whole sequences
  that no key sends, even when they arrive in pieces, and never holds back what could be a key.
- Escape bursts: a terminal without kitty's keyboard protocol sends Esc and `:` as it sends alt+`:`. Textual waits for
  more, drops the Esc if it knows no such key, and makes a caret of it in a long burst, so `Esc:wq` typed fast never
  left vim's insert mode. Such a pair becomes a key at once, and `typed_bytes` returns both bytes.
- Closed terminals: Textual's writer thread ends with the first failed write, and later writes wait for room in its
  queue for ever. The patched thread drops what it cannot write, so that conversations are closed and the program ends.
  A program that lost its terminal also gets SIGCONT; only one that was stopped draws again.
- Render cache: Textual caches two colours for each widget that was ever drawn, by a key that holds all of the widget's
  strips: hundreds of megabytes in a day of opening dialogs. The patched cache has the colours as its key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache, partial
from typing import Any

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._styles_cache import StylesCache
from textual._xterm_parser import XTermParser
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

_ESC = "\x1b"

# -- terminal replies --------------------------------------------------------------------------------------------------

_PASTE = r"\x1b\[200~.*?\x1b\[201~"
_MOUSE = r"\x1b\[<(?:-?\d{1,6};-?\d{1,6};-?\d{1,6}[Mm])"
_REPLY = (
    r"\x1b\[<[^\x1bMmu]{0,64}[Mm]"  # broken mouse reports
    r"|\x1b\[[?>=][\d;]*c|\x1b\[\??[\d;]*n"  # device attributes and status
    r"|\x1b\[[468];\d{1,5};\d{1,5}t"  # size of the window and of cells
    r"|\x1b\]\d[^\x07\x1b]*(?:\x07|\x1b\\)"  # colours, clipboard
    r"|\x1b[P_^X][^\x1b]{1,4096}\x1b\\"  # strings of all kinds
)
_WHOLE = re.compile(f"(?P<kept>{_PASTE}|{_MOUSE})|{_REPLY}", re.DOTALL)
_BEGUN = re.compile(
    r"\x1b\[20{0,2}\Z|\x1b\[<[^\x1bMmu]{0,64}\Z|\x1b\]\d[^\x07\x1b]*\x1b?\Z|\x1b[P_^X][>$+|!\d=][^\x1b]*\x1b?\Z"
    r"|\x1b_G(?:i[^\x1b]*\x1b?)?\Z|\x1b\[\?[\d;]*\$?\Z|\x1b\[[468];\d{0,5};?\d{0,5}\Z"
)
"""The beginning of a reply or of a paste. None of these is a key."""
_MAYBE_KEY = re.compile(r"\x1b(?:[P_]?|\[[468]?|\])\Z")
"""What may be a key, and also the beginning of a reply."""
_NO_KEY = re.compile(r"\x1b(?:_Gi=|P[>$+|!\d]|\[[?>=]\d|\[[468];\d|\]\d+;)")
"""Shows that what `_MAYBE_KEY` matched was no key."""
_PASTE_END_BEGUN = re.compile(r"\x1b(?:\[(?:20?1?)?)?\Z")
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
MAX_HELD = 4096
"""Characters that are held back at most; longer input is dropped, because no end will make it a key."""


class ReplyFilter:
    """Removes replies from one terminal's input. Pastes pass without Esc, of which Textual would make keys."""

    def __init__(self) -> None:
        self._held = ""
        self._is_pasting = False
        self._maybe_key = ""
        self.retracts = False
        """Whether what the last call but one passed as a key was the beginning of a reply."""

    def feed(self, data: str) -> str:
        """Return what of the input, and of what was held back, is typed or pasted."""
        data, self._held = self._held + data, ""
        self.retracts = False
        if self._is_pasting:
            return self._feed_paste(data)
        if self._maybe_key and _NO_KEY.match(self._maybe_key + data):
            data, self.retracts = self._maybe_key + data, True
        data = self._feed_keys(data)
        maybe_key = _MAYBE_KEY.search(data)
        self._maybe_key = maybe_key[0] if maybe_key else ""
        return data

    def _feed_keys(self, data: str) -> str:
        start = data.rfind(_PASTE_START)
        if start >= 0 and _PASTE_END not in data[start:]:
            self._is_pasting = True
            return _without_replies(data[:start]) + _PASTE_START + self._feed_paste(data[start + len(_PASTE_START) :])
        data = _without_replies(data)
        if begun := _BEGUN.search(data):
            self._held = begun[0] if len(begun[0]) <= MAX_HELD else ""
            data = data[: begun.start()]
        return data

    def _feed_paste(self, data: str) -> str:
        pasted, end, rest = data.partition(_PASTE_END)
        if not end:
            begun = _PASTE_END_BEGUN.search(pasted)
            self._held = begun[0] if begun else ""
            return pasted.removesuffix(self._held).replace(_ESC, "")
        self._is_pasting = False
        return pasted.replace(_ESC, "") + end + (self.feed(rest) if rest else "")


class ReplyListener:
    """Receives the terminal's replies. One for the process, because it draws on one terminal."""

    def __init__(self) -> None:
        self.on_reply: Callable[[str], None] | None = None
        """Called with each reply in the thread that reads the terminal. It must not raise."""


REPLY_LISTENER = ReplyListener()


def _without_replies(data: str) -> str:
    return _WHOLE.sub(_kept, data)


def _kept(match: re.Match[str]) -> str:
    kept = match["kept"] or ""
    if not kept and REPLY_LISTENER.on_reply is not None:
        REPLY_LISTENER.on_reply(match[0])
    if not kept.startswith(_PASTE_START):
        return kept
    return _PASTE_START + kept.removeprefix(_PASTE_START).removesuffix(_PASTE_END).replace(_ESC, "") + _PASTE_END


def _reset_parser(parser: XTermParser) -> None:
    """Drop the beginning of a sequence that the parser waits to go on."""
    parser._gen = parser.parse(parser._tokens.append)
    parser._awaiting, parser._timeout_time = next(parser._gen), None


@cache
def patch_replies() -> None:
    feed = XTermParser.feed

    def filtered_feed(self: XTermParser, data: str) -> Iterable[Message]:
        if data:  # the empty string is the end of the input
            reply_filter = self.__dict__.setdefault("_handloom_filter", ReplyFilter())
            data = reply_filter.feed(data)
            if reply_filter.retracts:
                _reset_parser(self)
            if not data:
                return ()
        return feed(self, data)

    XTermParser.feed = filtered_feed  # type: ignore[method-assign]


# -- escape bursts -----------------------------------------------------------------------------------------------------

_SEQUENCE_STARTS = frozenset("[O")
"""The second character of key sequences: CSI and SS3."""
_SS3 = tuple(sequence for sequence in ANSI_SEQUENCES_KEYS if sequence.startswith("\x1bO"))


class Key(events.Key):
    """A key that came right after Esc. Named as its base, because Textual finds handlers by the name."""

    def __init__(self, key: str, character: str | None, typed: str) -> None:
        super().__init__(key, character)
        self.typed = typed
        """What the terminal sent: Esc and one character."""


def typed_bytes(event: events.Key) -> bytes:
    """Return what the terminal sent if that was Esc and a character in one burst; else nothing."""
    return event.typed.encode() if isinstance(event, Key) else b""


@cache
def patch_escapes() -> None:
    parse = XTermParser._sequence_to_key_events

    def parse_pairs(self: XTermParser, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if len(sequence) == 2 and sequence[0] == _ESC and sequence[1] not in _SEQUENCE_STARTS:
            yield from _pair(sequence, list(parse(self, sequence)) or list(parse(self, sequence[1], True)))
        elif alt and len(sequence) == 1:
            yield from _pair(_ESC + sequence, list(parse(self, sequence, alt)))
        elif sequence[:2] == "\x1bO" and not any(longer.startswith(sequence) for longer in _SS3):
            yield from _pair(sequence[:2], list(parse(self, sequence[1], True)))
            for character in sequence[2:]:
                yield from parse(self, character)
        else:
            yield from parse(self, sequence, alt)

    XTermParser._sequence_to_key_events = parse_pairs  # type: ignore[method-assign]


def _pair(sequence: str, keys: list[events.Key]) -> Iterable[events.Key]:
    """Yield the keys that Textual takes the pair for; the first one carries what was sent."""
    for number, key in enumerate(keys):
        yield key if number else Key(key.key, key.character, sequence)


# -- closed terminals --------------------------------------------------------------------------------------------------


@cache
def patch_closed_terminals() -> None:
    run, resume = WriterThread.run, LinuxDriver._sigcont_application

    def run_until_stopped(self: WriterThread) -> None:
        try:
            run(self)
        except OSError:
            while self._queue.get() is not None:
                pass

    def resume_if_stopped(self: LinuxDriver, *arguments: object) -> None:
        draws = self._key_thread is not None and self._key_thread.is_alive()
        if not draws and not self._app._exit and os.isatty(self.fileno):
            resume(self, *arguments)

    WriterThread.run = run_until_stopped  # type: ignore[method-assign]
    LinuxDriver._sigcont_application = resume_if_stopped  # type: ignore[method-assign]


# -- render cache ------------------------------------------------------------------------------------------------------


@cache
def patch_render_cache() -> None:
    cached: Any = StylesCache.get_inner_outer
    by_colours = lru_cache(1024)(partial(cached.__wrapped__, StylesCache))
    StylesCache.get_inner_outer = staticmethod(by_colours)  # type: ignore[assignment]


def install() -> None:
    patch_replies()
    patch_escapes()
    patch_closed_terminals()
    patch_render_cache()
