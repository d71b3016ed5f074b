"""Lines printed by commands without the full screen, and questions on the terminal.

Imports little, because every command prints something.
"""

from __future__ import annotations

import asyncio
import sys
import termios

from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize

YES = "yes"
"""A single letter is no confirmation."""


def notice(text: str) -> None:
    """Print a line on standard error."""
    print(sanitize(text), file=sys.stderr, flush=True)  # noqa: T201


def say(text: str) -> None:
    """Print a line on standard output."""
    print(text, flush=True)  # noqa: T201


def can_ask() -> bool:
    """Whether a user at a terminal can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(question: str) -> None:
    """Write a question, and drop what was typed before it appeared."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    sys.stderr.write(question)
    sys.stderr.flush()


def is_confirmed(question: str) -> bool:
    """Ask on the terminal; only "yes", typed after the question appeared, confirms. Blocks."""
    _ask(f"{question} {_('Type yes and press Enter, or press Enter for no: ')}")
    return sys.stdin.readline().strip().lower() == YES


async def answer_to(question: str) -> str:
    """Ask on the terminal and return the line that is typed, stripped."""
    _ask(question)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def read_line() -> None:
        if not answer.done():
            answer.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read_line)
    try:
        return (await answer).strip()
    finally:
        loop.remove_reader(sys.stdin.fileno())
