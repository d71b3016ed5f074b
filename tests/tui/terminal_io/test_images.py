"""The steps of a long command: redrawn on a terminal, one line each elsewhere."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import pty
import re
import select
import struct
import termios
from collections.abc import Iterator

import pytest

from tui.cli import image

WITHIN_S = 60.0


class Terminal:
    """A terminal with this many columns, and its output."""

    def __init__(self, columns: int) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.screen = os.fdopen(slave, "w")

    async def reads(self, pattern: str) -> str:
        """Read on until the text matches."""
        shown = ""
        while not re.search(pattern, shown):
            shown += (await asyncio.to_thread(self._read)).decode()
        return shown

    def _read(self) -> bytes:
        assert select.select([self._master], [], [], WITHIN_S)[0], "nothing more is written"
        return os.read(self._master, 4096)

    def close(self) -> None:
        self.screen.close()
        os.close(self._master)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal(30)
    yield made
    made.close()


async def test_terminal_step_is_redrawn(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "TICK_S", 0.01)
    with image.Steps(terminal.screen) as steps:
        steps.begin("one")
        drawn = await terminal.reads(r"one.*one.*one")
        assert "\n" not in drawn
        steps.begin("two")
        await terminal.reads(r"one\r\n\r\x1b\[K +0\.\d s  two")
    await terminal.reads(r"two\r\n$")


async def test_step_fits_one_line(terminal: Terminal) -> None:
    with image.Steps(terminal.screen) as steps:
        steps.begin("x" * 100)
    shown = await terminal.reads(r"\r\n$")
    assert all(len(line) < 30 for line in re.split(r"\r\n|\r\x1b\[K", shown))


async def test_piped_steps_are_clean_lines() -> None:
    file = io.StringIO()
    with image.Steps(file) as steps:
        steps.begin("one")
        steps.begin("t\x1b[2Jwo\n")
    assert re.fullmatch(r" +0\.0 s  one\n +0\.\d s  .*\n", file.getvalue())
    assert "\x1b" not in file.getvalue()
