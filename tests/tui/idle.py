"""Lets Textual's Pilot wait for the event loop to be idle, instead of guessing from processor time.

Textual sleeps for at least 20 ms after every key and asks whether the process used little processor time meanwhile.
`wait_for_idle` looks at the event loop itself: nothing is ready to run, no call in a thread is pending, and no timer
is due within 20 ms. Most keys then need no sleep at all. Threads and timers get no more than those 20 ms, so a thread
that never ends, or a timer that always repeats, does not hold a test up. `install` puts it in the place of Textual's
function; `tests/tui/conftest.py` calls it.
"""

from __future__ import annotations

import asyncio
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable
from typing import Any, cast

import aiosqlite
import textual.app
import textual.pilot

PATIENCE_S = 0.02
"""How long threads and timers are waited for: Textual's own shortest wait."""
THREAD_POLL_S = 0.001


class _Threads:
    """Counts the calls in threads that the loop waits for."""

    pending = 0

    def began(self) -> None:
        self.pending += 1

    def ended(self, _: object = None) -> None:
        self.pending -= 1


THREADS = _Threads()


async def wait_for_idle(min_sleep: float = PATIENCE_S, max_sleep: float = 1) -> None:
    """Return when the running loop has nothing to do, after `max_sleep` seconds at the latest."""
    loop = cast("Any", asyncio.get_running_loop())
    start = loop.time()
    quiet_rounds = 0
    while loop.time() - start < max_sleep:
        await asyncio.sleep(0)
        if loop._ready:
            quiet_rounds = 0
            continue
        quiet_rounds += 1
        left = start + PATIENCE_S - loop.time()
        if left > 0 and (pause := _until_more(loop, left)) is not None:
            quiet_rounds = 0
            await asyncio.sleep(pause)
        elif quiet_rounds > 1:  # the second round has polled the selector for new events
            return


def _until_more(loop: Any, left: float) -> float | None:
    """Seconds until a thread may have answered or a timer is due within the next `left` seconds. None: neither."""
    if THREADS.pending:
        return THREAD_POLL_S
    due = [handle.when() for handle in loop._scheduled if not handle.cancelled()]
    wait = min(due) - loop.time() if due else left
    return max(wait, 0.0) if wait < left else None


def install() -> None:
    """Let Pilot and `App.run_test` use `wait_for_idle`, and count calls in threads."""
    for module in (textual.app, textual.pilot):
        setattr(module, "wait_for_idle", wait_for_idle)  # noqa: B010  # a module's global, which mypy knows as final
    _count_executor_calls()
    _count_database_calls()


def _count_executor_calls() -> None:
    original = BaseEventLoop.run_in_executor

    def run_in_executor(self: BaseEventLoop, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        future = original(self, executor, func, *args)
        THREADS.began()
        future.add_done_callback(THREADS.ended)
        return future

    setattr(BaseEventLoop, "run_in_executor", run_in_executor)  # noqa: B010


def _count_database_calls() -> None:
    original: Any = aiosqlite.Connection._execute

    async def execute(self: aiosqlite.Connection, *args: Any, **kwargs: Any) -> Any:
        THREADS.began()
        try:
            return await original(self, *args, **kwargs)
        finally:
            THREADS.ended()

    setattr(aiosqlite.Connection, "_execute", execute)  # noqa: B010
