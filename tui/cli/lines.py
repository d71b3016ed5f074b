"""Lines on a terminal that shows no screen: what is told, what was asked for, and a question with its answer.

Imports nothing of the system, because every command says something.
"""

from __future__ import annotations

import asyncio
import sys

from tui.display.text import sanitize


def notice(text: str) -> None:
    """One line on standard error."""
    print(sanitize(text), file=sys.stderr, flush=True)  # noqa: T201


def say(text: str) -> None:
    """One line on standard output."""
    print(text, flush=True)  # noqa: T201


def can_ask() -> bool:
    """Whether somebody sits at a terminal and can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def answer_to(question: str) -> str:
    """What is typed as the answer to a question, in small letters; empty for nothing."""
    sys.stderr.write(question)
    sys.stderr.flush()
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()

    def read_line() -> None:
        if not answer.done():
            answer.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read_line)
    try:
        return (await answer).strip().lower()
    finally:
        loop.remove_reader(sys.stdin.fileno())
