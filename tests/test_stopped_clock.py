"""The stopped clock: which timers fire, and what it blocks."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from tests.stopped_clock import stopped_clock


async def test_work_without_a_timer_continues() -> None:
    with stopped_clock():
        assert await asyncio.to_thread(lambda: "from a thread") == "from a thread"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "print('x')", stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
        assert printed == b"x\n"
        await asyncio.sleep(0)


async def test_due_timer_fires_even_after_slow_work() -> None:
    with stopped_clock(after_s=0.05):
        time.sleep(0.2)  # a machine that is busy
        await asyncio.sleep(0.04)


async def test_waiting_for_a_later_timer_fails() -> None:
    told = r"waits for a timer that is due in more than 0\.01 s"
    with pytest.raises(AssertionError, match=told), stopped_clock(after_s=0.01, guard_s=0.5):
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.02)


async def test_waiting_fails_even_if_the_test_swallows_the_cancellation() -> None:
    waiting = asyncio.create_task(asyncio.sleep(60))
    with (
        pytest.raises(AssertionError, match="waits for a timer"),
        stopped_clock(guard_s=0.5),
        pytest.raises(asyncio.CancelledError),
    ):
        await waiting


async def test_failure_in_the_block_is_raised_unchanged() -> None:
    with pytest.raises(ValueError, match="mine"), stopped_clock():
        raise ValueError("mine")
