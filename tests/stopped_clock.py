"""A clock for the event loop that stands still, so that a test can prove that code does not wait for a timer.

The judge is the order of events and not their speed: the loop runs as usual, with real files, sockets and processes,
but no timer fires that is due later than a test allows. Code that waits for such a timer never gets on, on a fast
machine as on a slow one, and the test fails.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

HANG_GUARD_S = 30.0
"""Until code that has not returned counts as waiting for a timer."""


@contextmanager
def stopped_clock(after_s: float = 0.0, guard_s: float = HANG_GUARD_S) -> Iterator[None]:
    """In this block, no timer of the running loop fires that is due later than `after_s` from now.

    The clock counts only the time in which the loop has nothing to do, so work that is slow uses up none of it.
    Raises AssertionError where the block is not left within `guard_s`, a guard against hanging that measures nothing.
    """
    loop: Any = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    hangs = threading.Event()

    def give_up() -> None:
        hangs.set()
        task.cancel()

    guard = threading.Timer(guard_s, loop.call_soon_threadsafe, (give_up,))
    guard.daemon = True
    guard.start()
    try:
        with _idle_time(loop, after_s):
            yield
    except asyncio.CancelledError:
        if not hangs.is_set():
            raise
    finally:
        guard.cancel()
        if hangs.is_set():
            task.uncancel()
    assert not hangs.is_set(), f"the block waits for a timer that is due in more than {after_s:g} s"


@contextmanager
def _idle_time(loop: Any, most_s: float) -> Iterator[None]:
    """The loop's clock counts the time in which the loop waits, and stops after `most_s` of it."""
    now = loop.time()
    end, select = now + most_s, loop._selector.select

    def waits(timeout: float | None = None) -> Any:
        nonlocal now
        begun_at = time.monotonic()
        ready = select(timeout)
        waited_s = time.monotonic() - begun_at
        now = min(now + waited_s if timeout is None else now + min(waited_s, timeout), end)
        return ready

    vars(loop)["time"] = lambda: now
    vars(loop._selector)["select"] = waits
    try:
        yield
    finally:
        del vars(loop)["time"], vars(loop._selector)["select"]
