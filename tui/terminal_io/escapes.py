"""All control sequences that Handloom writes itself: title, notification, clipboard, bell, images.

The text in a sequence comes from conversations and is hostile: it is sanitised here once more, so that it can neither
end its sequence nor begin another. Inside tmux, what is meant for the outer terminal uses tmux's passthrough.
"""

from __future__ import annotations

import base64
import os
import re
import termios
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from textual.driver import Driver

BELL = "\a"
SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""XTWINOPS: push and pop the title. Terminals that do not know it ignore it."""
_MOUSE_MODES = (1000, 1003, 1015, 1006)
"""The modes that Textual turns on when it starts."""
MOUSE_OFF = "".join(f"\x1b[?{mode}l" for mode in _MOUSE_MODES)
MOUSE_ON = "".join(f"\x1b[?{mode}h" for mode in _MOUSE_MODES)
RESET = "\x1b[<u" + "".join(f"\x1b[?{mode}l" for mode in (*_MOUSE_MODES, 1004, 2004, 2048, 1049)) + "\x1b[?7h\x1b[?25h"
"""Undoes what a killed workspace turned on."""
FOCUS_ON = "\x1b[?1004h"
"""What Textual writes last but one when it starts, after its screen is up."""
START = "\x1b[?1049h\x1b[2J" + MOUSE_ON + "\x1b[?25l" + FOCUS_ON + "\x1b[?2004h"
"""Turns on, in a fresh terminal, what Textual turns on when it starts."""
QUERY_ABILITIES = "\x1b[?2026$p\x1b[?u\x1b[c"
"""Queries synchronised output, the keyboard protocol and, last, device attributes, which every terminal reports."""
QUERY_KEYS = "\x1b[?u\x1b[c"
"""Queries the keyboard protocol and device attributes; a reply to the latter alone means no protocol."""
KITTY_KEYS_ON, KITTY_KEYS_OFF = "\x1b[>1u", "\x1b[<u"
"""Turn kitty's keyboard protocol on, as the workspace does, and off."""
QUERY_IMAGES = "\x1b[>q\x1b[16t\x1b[c"
"""Queries the terminal's name, the size of a cell, and device attributes, which also report sixel."""
CLIPBOARD_BYTES = 74_994
"""Bytes of base64; xterm and others silently drop more."""
TITLE_CELLS, NOTIFICATION_CELLS = 80, 160
_ESC, _END = "\x1b", "\x1b\\"
_GRAPHICS = re.compile(r"\x1b_G[^\x1b]*\x1b\\")
_OSC_9 = frozenset({"iTerm.app", "WezTerm", "ghostty", "WarpTerminal", "rio"})
_IFLAG, _LFLAG = 0, 3
_SANE_INPUT = termios.ICRNL | termios.IXON
_SANE_LINES = termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN


def write(driver: Driver | None, sequence: str) -> None:
    """Write a sequence to the terminal now."""
    if driver is not None and not driver.is_headless:
        driver.write(sequence)
        driver.flush()


def title(text: str) -> str:
    """Set the title of the terminal's window or tab; inside tmux, of its pane."""
    return f"{_ESC}]2;{sanitize_line(text, TITLE_CELLS)}{_END}"


def notification(text: str, environ: Mapping[str, str]) -> str:
    """Show a desktop notification in the way of this terminal; ring the bell if it has none.

    OSC 99 is kitty's, OSC 777 that of urxvt, foot and VTE, OSC 9 that of the others. tmux may drop the sequence, so it
    also gets the bell, which it shows in its status line.
    """
    text = sanitize_line(text, NOTIFICATION_CELLS)
    program, term = environ.get("TERM_PROGRAM", ""), environ.get("TERM", "")
    if "KITTY_WINDOW_ID" in environ or "kitty" in term:
        sequence = f"{_ESC}]99;;{text}{_END}"
    elif term.startswith(("rxvt", "foot")) or "VTE_VERSION" in environ:
        sequence = f"{_ESC}]777;notify;Handloom;{text.replace(';', ',')}{_END}"
    elif program in _OSC_9 or environ.get("LC_TERMINAL") == "iTerm2" or "ghostty" in term or "WT_SESSION" in environ:
        sequence = f"{_ESC}]9;Handloom: {text}{_END}"  # the name comes first: a number would mean progress
    else:
        return BELL
    return through_tmux(sequence) + BELL if "TMUX" in environ else sequence


def clipboard(text: str, environ: Mapping[str, str]) -> str | None:
    """Set the clipboard of the machine that the terminal is on (OSC 52); None if the text is too long.

    Inside tmux it is written twice: for tmux itself, which needs `set-clipboard on`, and for the outer terminal, which
    it reaches with `allow-passthrough on`.
    """
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    if len(encoded) > CLIPBOARD_BYTES:
        return None
    sequence = f"{_ESC}]52;c;{encoded}\a"
    return sequence + through_tmux(sequence) if "TMUX" in environ else sequence


def through_tmux(sequence: str) -> str:
    """Wrap a sequence so that tmux passes it on to the outer terminal."""
    return f"{_ESC}Ptmux;{sequence.replace(_ESC, _ESC + _ESC)}{_END}"


def graphics(command: str, data: str = "") -> str:
    """Return a command of kitty's graphics protocol with its base64 data."""
    return f"{_ESC}_G{command}{';' if data else ''}{data}{_END}"


def graphics_commands(sequences: str) -> list[str]:
    """Return the single commands of kitty's graphics protocol in a string of them."""
    return _GRAPHICS.findall(sequences)


def sixel(data: str) -> str:
    """Draw an image in sixels; transparent pixels keep what was there."""
    return f"{_ESC}P0;1;0q{data}{_END}"


def inline_image(data: str, columns: int, rows: int) -> str:
    """Return iTerm2's inline image of so many cells, from a file in base64."""
    fits = f"width={columns};height={rows};preserveAspectRatio=0;doNotMoveCursor=1"
    return f"{_ESC}]1337;File=inline=1;{fits}:{data}\a"


def at_cell(sequence: str, column: int, row: int) -> str:
    """Write a sequence at a cell of the screen, counted from 0; the cursor returns to its place."""
    return f"{_ESC}7{_ESC}[{row + 1};{column + 1}H{sequence}{_ESC}8"


def reset_terminal(fd: int) -> bool:
    """Repair a terminal that a killed program left in raw mode. Returns whether it was repaired.

    Shells start programs in a terminal with line input and echo, so one without was left so by a program.
    """
    try:
        settings = termios.tcgetattr(fd)
        if settings[_LFLAG] & termios.ICANON:
            return False
        settings[_IFLAG] |= _SANE_INPUT
        settings[_LFLAG] |= _SANE_LINES
        termios.tcsetattr(fd, termios.TCSANOW, settings)
        os.write(fd, RESET.encode())
    except (termios.error, OSError):
        return False  # no terminal, or not ours to write to
    return True
