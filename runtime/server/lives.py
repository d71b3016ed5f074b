"""`--lives`: one life of the server after another, for conversations that use it one after another.

Each life is a process of its own, made by a fork of this one, which holds the key and the socket and does nothing else.
Invariant: a life begins after everything of the one before has ended, also where that was killed; so no conversation
finds a shell, a variable or a process of another. Who calls between two lives waits in the socket's queue.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from runtime.server import processes
from runtime.server.hardening import adopt_orphans

SHORT_S = 1.0
"""A life that was shorter, and failed, is not followed by another at once."""
REFUSED = 2
"""The exit status of a life that cannot begin; neither could the next."""


def one_after_another(live: Callable[[bool], int]) -> int:
    """Live until told to end; the answer is the exit status. `live` is told whether it is the first.

    In a life, standard input is its lifeline.
    """
    is_first, is_told_to_end = True, False
    lifeline = -1

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_told_to_end, lifeline
        is_told_to_end = True
        if lifeline >= 0:
            os.close(lifeline)
            lifeline = -1

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in numbers:
        signal.signal(number, end)
    while not is_told_to_end:
        begun_at = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # or one that comes here finds no lifeline to let go of
        held, lifeline = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(lifeline)
            _live(live, is_first, held, numbers)
        os.close(held)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        if lifeline >= 0:
            os.close(lifeline)
            lifeline = -1
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        _end_what_is_left()
        if status == REFUSED:
            return REFUSED
        if status != 0 and time.monotonic() - begun_at < SHORT_S and not is_told_to_end:
            time.sleep(SHORT_S)
        is_first = False
    return 0


def _live(live: Callable[[bool], int], is_first: bool, lifeline: int, numbers: tuple[signal.Signals, ...]) -> None:
    """Be a life, in the process that was made for it. Never returns."""
    status = 1
    try:
        os.dup2(lifeline, 0)
        os.close(lifeline)
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        adopt_orphans()
        status = live(is_first)
    finally:
        os._exit(status)


def _end_what_is_left() -> None:
    """Of a life that was killed: its processes are ours then."""
    processes.kill_descendants(os.getpid())
    with suppress(ChildProcessError):
        while os.waitpid(-1, 0)[0]:
            pass
