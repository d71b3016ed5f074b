"""What a view needs of an emulator, and how the faster one is had. No Textual in here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from tui.terminal_io.emulator.cell_screen import Run

log = logging.getLogger(__name__)


class Terminal(Protocol):
    """Bytes in, rows of runs out, within a budget of time. One is pyte's, the other libghostty's."""

    def __init__(self, columns: int = 100, lines: int = 30, clock: Callable[[], float] = ...) -> None: ...

    @property
    def pending(self) -> bool:
        """Whether bytes wait to be emulated."""
        ...

    @property
    def height(self) -> int:
        """Lines that there are: the scrollback, and the screen down to its last used line."""
        ...

    @property
    def alternate(self) -> bool:
        """Whether a full-screen program shows itself."""
        ...

    @property
    def cursor(self) -> tuple[int, int] | None:
        """Line and column of the cursor, counted as `line` counts; None while a program hides it."""
        ...

    @property
    def application_keys(self) -> bool:
        """Whether the program wants the other form of the cursor keys."""
        ...

    @property
    def brackets_pastes(self) -> bool:
        """Whether the program wants to tell a paste from keys."""
        ...

    def take_replies(self) -> bytes:
        """What the terminal answers to the program's questions since the last call."""
        ...

    def line(self, y: int) -> tuple[Run, ...]:
        """Line `y` from the oldest in the scrollback on; empty beyond the end."""
        ...

    def write(self, data: bytes) -> None:
        """Queue bytes. Costs nothing now."""
        ...

    def work(self, budget_s: float = ...) -> bool:
        """Emulate what waits for at most about `budget_s` seconds. Answers whether anything was done."""
        ...

    def resize(self, columns: int, lines: int) -> None:
        """Another size; what there is, is laid out anew."""
        ...


def load_faster() -> type[Terminal] | None:
    """libghostty's emulator where its package is installed and works here; else None. Takes a second: use a thread."""
    if find_spec("pyghostty") is None:
        return None
    try:
        kind = cast("type[Terminal]", import_module("tui.terminal_io.emulator.ghostty_emulator").GhosttyEmulator)
        first = kind()
        first.write(b"ready")
        first.work()
        return kind if first.line(0) else None
    except Exception:  # the boundary to a native library: of another machine, or of another version
        log.warning("pyghostty is installed and does not work here; the terminal does without", exc_info=True)
        return None
