"""The other choke point: what a terminal says by itself never becomes something that the user typed.

Textual takes what it does not understand for keys, so a broken report of the mouse (VS Code sends `<32;NaN;NaNM`) or an
answer to a question that nobody asked would stand in the prompt. `install` puts a filter where bytes become events. It
drops whole sequences that no key sends, also where they come in pieces, and holds nothing back that a key could be.
What is pasted passes without its Esc, of which Textual would make keys; for the rest the prompt sees to it. Whoever
asked the terminal something hears what was dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from textual._xterm_parser import XTermParser
from textual.message import Message

_PASTE = r"\x1b\[200~.*?\x1b\[201~"
_MOUSE = r"\x1b\[<(?:-?\d{1,6};-?\d{1,6};-?\d{1,6}[Mm])"
_FOREIGN = (
    r"\x1b\[<[^\x1bMmu]{0,64}[Mm]"  # a report of the mouse that is none
    r"|\x1b\[[?>=][\d;]*c|\x1b\[\??[\d;]*n"  # what the terminal is, and how it fares
    r"|\x1b\[[468];\d{1,5};\d{1,5}t"  # how large it and its cells are
    r"|\x1b\]\d[^\x07\x1b]*(?:\x07|\x1b\\)"  # colours, clipboard
    r"|\x1b[P_^X][^\x1b]{1,4096}\x1b\\"  # strings of all kinds
)
_WHOLE = re.compile(f"(?P<kept>{_PASTE}|{_MOUSE})|{_FOREIGN}", re.DOTALL)
_BEGUN = re.compile(
    r"\x1b\[20{0,2}\Z|\x1b\[<[^\x1bMmu]{0,64}\Z|\x1b\]\d[^\x07\x1b]*\x1b?\Z|\x1b[P_^X][>$+|!\d=][^\x1b]*\x1b?\Z"
    r"|\x1b_G(?:i[^\x1b]*\x1b?)?\Z|\x1b\[\?[\d;]*\$?\Z|\x1b\[[468];\d{0,5};?\d{0,5}\Z"
)
"""A foreign sequence whose end has yet to come, or the beginning of a paste's. None of these is a key."""
_TORN = re.compile(r"\x1b(?:[P_]?|\[[468]?|\])\Z")
"""What may be a key, and the beginning of a foreign sequence, too."""
_GOES_ON = re.compile(r"\x1b(?:_Gi=|P[>$+|!\d]|\[[?>=]\d|\[[468];\d|\]\d+;)")
"""What shows, with what stands before, that it is no key."""
_END_BEGUN = re.compile(r"\x1b(?:\[(?:20?1?)?)?\Z")
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
HELD = 4096
"""Characters that are held back at most; what is longer is dropped, because no end will make it a key."""
_MARK = "_handloom_filter"


class IncomingFilter:
    """Passes what the terminal sends, without what nobody typed. One for each terminal."""

    def __init__(self) -> None:
        self._held = ""
        self._is_pasting = False
        self._torn = ""
        self.takes_back = False
        """Whether what was passed last was no key, but the beginning of what a terminal says."""

    def passed(self, data: str) -> str:
        """What of this and of what was held back may be taken for input."""
        data, self._held = self._held + data, ""
        self.takes_back = False
        if self._is_pasting:
            return self._pasted(data)
        if self._torn and _GOES_ON.match(self._torn + data):
            data, self.takes_back = self._torn + data, True
        data = self._typed(data)
        torn = _TORN.search(data)
        self._torn = torn[0] if torn else ""
        return data

    def _typed(self, data: str) -> str:
        start = data.rfind(_PASTE_START)
        if start >= 0 and _PASTE_END not in data[start:]:
            self._is_pasting = True
            return _cleaned(data[:start]) + _PASTE_START + self._pasted(data[start + len(_PASTE_START) :])
        data = _cleaned(data)
        if begun := _BEGUN.search(data):
            self._held = begun[0] if len(begun[0]) <= HELD else ""
            data = data[: begun.start()]
        return data

    def _pasted(self, data: str) -> str:
        """What is pasted, up to its end, which may come in pieces; then what follows."""
        pasted, end, rest = data.partition(_PASTE_END)
        if not end:
            begun = _END_BEGUN.search(pasted)
            self._held = begun[0] if begun else ""
            return pasted.removesuffix(self._held).replace("\x1b", "")
        self._is_pasting = False
        return pasted.replace("\x1b", "") + end + (self.passed(rest) if rest else "")


class Ear:
    """Who hears what terminals say by themselves. One for the process, because one terminal is drawn on."""

    def __init__(self) -> None:
        self.listener: Callable[[str], None] | None = None
        """Called with each whole sequence, by the thread that reads the terminal. It must not raise."""


EAR = Ear()


def _cleaned(data: str) -> str:
    return _WHOLE.sub(_kept, data)


def _kept(match: re.Match[str]) -> str:
    kept = match["kept"] or ""
    if not kept and EAR.listener is not None:
        EAR.listener(match[0])
    if not kept.startswith(_PASTE_START):
        return kept
    return _PASTE_START + kept.removeprefix(_PASTE_START).removesuffix(_PASTE_END).replace("\x1b", "") + _PASTE_END


def _forget_begun(parser: XTermParser) -> None:
    """Have the parser wait for the beginning of a key."""
    parser._gen = parser.parse(parser._tokens.append)
    parser._awaiting, parser._timeout_time = next(parser._gen), None


def install() -> None:
    """Have every terminal's input pass the filter. May be called twice."""
    if getattr(XTermParser.feed, _MARK, False):
        return
    feed = XTermParser.feed

    def checked_feed(self: XTermParser, data: str) -> Iterable[Message]:
        if data:  # the empty string is the end of the input
            checked = self.__dict__.setdefault(_MARK, IncomingFilter())
            data = checked.passed(data)
            if checked.takes_back:
                _forget_begun(self)
            if not data:
                return ()
        return feed(self, data)

    setattr(checked_feed, _MARK, True)
    XTermParser.feed = checked_feed  # type: ignore[method-assign]
