"""Lines on a terminal that shows no screen: what is told, what was asked for, and a question with its answer.

Imports nothing of the system, because every command says something.
"""

from __future__ import annotations

import asyncio
import sys
import termios

from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize

YES = "yes"
"""The whole word: no single letter agrees to anything."""


def notice(text: str) -> None:
    """One line on standard error."""
    print(sanitize(text), file=sys.stderr, flush=True)  # noqa: T201


def say(text: str) -> None:
    """One line on standard output."""
    print(text, flush=True)  # noqa: T201


def can_ask() -> bool:
    """Whether somebody sits at a terminal and can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(question: str) -> None:
    """Write a question. What was typed before it appeared was meant for something else, and is dropped."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    sys.stderr.write(question)
    sys.stderr.flush()


def is_confirmed(question: str) -> bool:
    """Ask on the terminal. Only the whole word "yes", typed after the question appeared, agrees. Blocking."""
    _ask(f"{question} {_('Type yes and press Enter, or press Enter for no: ')}")
    return sys.stdin.readline().strip().lower() == YES


async def answer_to(question: str) -> str:
    """The line that is typed as the answer to a question, without blanks around it."""
    _ask(question)
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()

    def read_line() -> None:
        if not answer.done():
            answer.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read_line)
    try:
        return (await answer).strip()
    finally:
        loop.remove_reader(sys.stdin.fileno())
