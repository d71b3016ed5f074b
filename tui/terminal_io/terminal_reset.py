"""A terminal that a killed program left raw is mended before it is used, so that it is whole when we end.

Shells start programs in a terminal that hands over lines and echoes; one that does neither was left so by somebody who
could not tidy up any more.
"""

from __future__ import annotations

import os
import termios

from tui.terminal_io.escapes import MENDED

_IFLAG, _LFLAG = 0, 3
_SANE_INPUT = termios.ICRNL | termios.IXON
_SANE_LINES = termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN


def mend(fd: int) -> bool:
    """Make the terminal usable again, if it is not. Answers whether it was mended."""
    try:
        settings = termios.tcgetattr(fd)
        if settings[_LFLAG] & termios.ICANON:
            return False
        settings[_IFLAG] |= _SANE_INPUT
        settings[_LFLAG] |= _SANE_LINES
        termios.tcsetattr(fd, termios.TCSANOW, settings)
        os.write(fd, MENDED.encode())
    except (termios.error, OSError):
        return False  # no terminal, or not ours to write to
    return True
