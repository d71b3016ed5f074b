"""`handloom image build`: builds the sandbox's image, with progress on standard error and its name on standard output.

A terminal shows the current step with its seconds, redrawn every second; elsewhere each step is one line when it
begins. The engine's text is sanitised.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from types import TracebackType
from typing import Self, TextIO

from core.environment import home_folder
from core.errors import ExitStatus, RuntimeUnavailableError
from core.settings.config import load
from runtime import image
from runtime.docker.engine import connect
from tui.cli.output import notice, say
from tui.terminal_io.sanitizer import sanitize_line

TICK_S = 1.0
LINE_WIDTH = 400
"""Cells of a step's name."""


async def build(options: argparse.Namespace) -> int:
    """Build the image unless it exists. Raises ConfigurationError for invalid settings or an unknown base.

    The exit status is 1 if the engine, the network, the disk or a step failed. Cancelling ends the build.
    """
    settings = load(home_folder(os.environ), os.environ).docker
    extras = tuple(name for name in image.EXTRAS if name in options.extras)
    recipe = image.Recipe(image.User.of_host(), extras=extras)
    try:
        client = await asyncio.to_thread(connect, settings.engine)
        try:
            base = options.base or settings.base or await image.usual_base(client)
            with Steps(sys.stderr) as steps:
                tag = await image.build(client, base, steps.begin, recipe=recipe, force=options.force)
        finally:
            await asyncio.to_thread(client.close)
    except RuntimeUnavailableError as error:
        notice(f"handloom: {error}")
        return ExitStatus.ERROR
    say(tag)
    return ExitStatus.FINISHED


class Steps:
    """Shows the steps of a build, each ended by the next one or by leaving the context. For use on the event loop."""

    def __init__(self, screen: TextIO) -> None:
        self._screen = screen
        self._is_terminal = screen.isatty()
        self._text = ""
        self._begun_at = self._first_at = time.monotonic()
        self._tick: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def begin(self, text: str) -> None:
        """End the previous step, and show this one."""
        self._end()
        self._text, self._begun_at = sanitize_line(text, LINE_WIDTH), time.monotonic()
        if self._is_terminal:
            self._draw()
        else:
            self._write(f"{self._begun_at - self._first_at:6.1f} s  {self._text}\n")

    def _draw(self) -> None:
        width = os.get_terminal_size(self._screen.fileno()).columns
        line = f"{time.monotonic() - self._begun_at:6.1f} s  {self._text}"
        self._write(f"\r\x1b[K{line[: width - 1]}")
        self._tick = asyncio.get_running_loop().call_later(TICK_S, self._draw)

    def _end(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._draw()
            self._tick.cancel()
            self._tick = None
            self._write("\n")

    def _write(self, text: str) -> None:
        self._screen.write(text)
        self._screen.flush()
