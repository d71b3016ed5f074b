"""How large a cell of the terminal's window is, as the system has it: not every terminal answers that question."""

from __future__ import annotations

import fcntl
import struct
import termios
from collections.abc import Callable
from typing import IO

_SIZE = struct.Struct("HHHH")
"""Rows, columns, and pixels across and down."""


def cell_of(stream: IO[str] | None) -> Callable[[], tuple[int, int]]:
    """Asks for the pixels of a cell, wide and high; it says zeros where they are not known.

    xterm counts its inner border among the pixels, which is less than one for each row or column.
    """

    def asked() -> tuple[int, int]:
        if stream is None:
            return 0, 0
        try:
            told = fcntl.ioctl(stream.fileno(), termios.TIOCGWINSZ, bytes(_SIZE.size))
        except (OSError, ValueError):  # it is no terminal, or closed
            return 0, 0
        rows, columns, across, down = _SIZE.unpack(told)
        return (across // columns, down // rows) if rows and columns else (0, 0)

    return asked
