"""The control sequences that we write ourselves: title, notification, clipboard, bell, pictures. Nobody else has any.

What stands in a sequence comes from conversations and is hostile: it is sanitised here, once more, and no text can end
its sequence or begin another. Inside tmux, what is meant for the terminal outside goes through tmux's passthrough.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from textual.driver import Driver

BELL = "\a"
SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""XTWINOPS: the terminal keeps the title that it had, and takes it back. Those that do not know it ignore it."""
_MOUSE_MODES = (1000, 1003, 1015, 1006)
"""Those that Textual asks for at its start."""
MOUSE_OFF = "".join(f"\x1b[?{mode}l" for mode in _MOUSE_MODES)
MOUSE_ON = "".join(f"\x1b[?{mode}h" for mode in _MOUSE_MODES)
MENDED = "\x1b[<u" + "".join(f"\x1b[?{mode}l" for mode in (*_MOUSE_MODES, 1004, 2004, 2048, 1049)) + "\x1b[?7h\x1b[?25h"
"""Takes back what a killed workspace asked its terminal for."""
FOCUS_ON = "\x1b[?1004h"
"""What Textual asks for last but one at its start, once its screen stands."""
BEGUN = "\x1b[?1049h\x1b[2J" + MOUSE_ON + "\x1b[?25l" + FOCUS_ON + "\x1b[?2004h"
"""Asks a terminal that knows nothing of us for what Textual asks for at its start."""
ABILITIES = "\x1b[?2026$p\x1b[?u\x1b[c"
"""Asks for synchronised output, for the keyboard protocol, and for what every terminal answers, which comes last."""
ABOUT_KEYS = "\x1b[?u\x1b[c"
"""Asks for the keyboard protocol in use, and for what every terminal answers; alone, it says that there is none."""
KEYS_APART, KEYS_AS_BEFORE = "\x1b[>1u", "\x1b[<u"
"""Keys told apart, as in the workspace; and no more."""
ABOUT_PICTURES = "\x1b[>q\x1b[16t\x1b[c"
"""Asks for the terminal's name, the size of a cell, and what every terminal answers, which tells of sixel, too."""
CLIPBOARD_BYTES = 74_994
"""Of base64, more of which xterm and others drop without a word."""
TITLE_CELLS, NOTIFICATION_CELLS = 80, 160
_ESC, _END = "\x1b", "\x1b\\"


def write(driver: Driver | None, sequence: str) -> None:
    """Have the terminal act on a sequence of this module."""
    if driver is not None and not driver.is_headless:
        driver.write(sequence)
        driver.flush()


def title(text: str) -> str:
    """Names the terminal's window or tab; inside tmux, its pane."""
    return f"{_ESC}]2;{sanitize_line(text, TITLE_CELLS)}{_END}"


def notification(text: str, environ: Mapping[str, str]) -> str:
    """Tells the user's desktop, in the dialect of this terminal; the bell where it has none.

    OSC 99 is kitty's, OSC 777 that of urxvt, foot and VTE, OSC 9 that of the others. A tmux may keep the sequence to
    itself, so it gets the bell, too, which it shows in its status line.
    """
    said = sanitize_line(text, NOTIFICATION_CELLS)
    program, term = environ.get("TERM_PROGRAM", ""), environ.get("TERM", "")
    if "KITTY_WINDOW_ID" in environ or "kitty" in term:
        sequence = f"{_ESC}]99;;{said}{_END}"
    elif term.startswith(("rxvt", "foot")) or "VTE_VERSION" in environ:
        sequence = f"{_ESC}]777;notify;Handloom;{said.replace(';', ',')}{_END}"
    elif program in _OSC_9 or environ.get("LC_TERMINAL") == "iTerm2" or "ghostty" in term or "WT_SESSION" in environ:
        sequence = f"{_ESC}]9;Handloom: {said}{_END}"  # the name stands first, because a number would mean progress
    else:
        return BELL
    return through_tmux(sequence) + BELL if "TMUX" in environ else sequence


_OSC_9 = frozenset({"iTerm.app", "WezTerm", "ghostty", "WarpTerminal", "rio"})


def clipboard(text: str, environ: Mapping[str, str]) -> str | None:
    """Puts a text into the clipboard of the machine that the terminal is on (OSC 52); None where it is too long.

    Inside tmux it is written for both: tmux itself, which wants `set-clipboard on`, and the terminal outside, to which
    it comes with `allow-passthrough on`.
    """
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    if len(encoded) > CLIPBOARD_BYTES:
        return None
    sequence = f"{_ESC}]52;c;{encoded}\a"
    return sequence + through_tmux(sequence) if "TMUX" in environ else sequence


def through_tmux(sequence: str) -> str:
    """The sequence wrapped so that tmux hands it on to the terminal that it runs in."""
    return f"{_ESC}Ptmux;{sequence.replace(_ESC, _ESC + _ESC)}{_END}"


def graphics(told: str, data: str = "") -> str:
    """A command of kitty's graphics protocol, and its data: our own numbers and base64."""
    return f"{_ESC}_G{told}{';' if data else ''}{data}{_END}"


def sixel(drawn: str) -> str:
    """A picture in sixels, whose clear pixels stay as they are."""
    return f"{_ESC}P0;1;0q{drawn}{_END}"


def placed(sequence: str, column: int, row: int) -> str:
    """What a sequence draws, at a cell of the screen counted from 0; the cursor stays where it is."""
    return f"{_ESC}7{_ESC}[{row + 1};{column + 1}H{sequence}{_ESC}8"
