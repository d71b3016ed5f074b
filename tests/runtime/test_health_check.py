"""Work with a health check: ended if there is no answer any more, with the reason from `why`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from core.errors import RuntimeUnavailableError
from runtime.health_check import UnresponsiveError, watch_health, with_health_check
from tests.stopped_clock import stopped_clock

EVERY_S, SILENT_S = 0.02, 0.2


async def beats() -> bool:
    return True


async def is_silent() -> bool:
    return False


async def hangs() -> bool:
    await asyncio.Event().wait()
    return True


async def endless() -> None:
    await asyncio.Event().wait()


async def test_result_of_the_work_is_returned() -> None:
    async def work() -> str:
        return "done"

    assert await with_health_check(work(), watch_health(is_silent, every_s=EVERY_S, silent_s=SILENT_S)) == "done"


async def test_exception_of_the_work_is_raised() -> None:
    async def fails() -> None:
        raise RuntimeUnavailableError("gone")

    with pytest.raises(RuntimeUnavailableError, match="gone"):
        await with_health_check(fails(), watch_health(beats, every_s=EVERY_S, silent_s=SILENT_S))


@pytest.mark.parametrize("beat", [is_silent, hangs])
async def test_silence_ends_the_work(beat: Callable[[], Awaitable[bool]]) -> None:
    begun_at = time.monotonic()
    with stopped_clock(after_s=2 * SILENT_S), pytest.raises(UnresponsiveError, match=r"has not answered for 0\.2 s"):
        await with_health_check(endless(), watch_health(beat, every_s=EVERY_S, silent_s=SILENT_S))
    assert time.monotonic() - begun_at >= SILENT_S


async def test_occasional_answers_keep_the_work_running() -> None:
    asked = 0

    async def now_and_then() -> bool:
        nonlocal asked
        asked += 1
        return asked % 3 == 0

    async def work() -> str:
        await asyncio.wait([asyncio.create_task(endless())], timeout=3 * SILENT_S)
        return "done"

    assert await with_health_check(work(), watch_health(now_and_then, every_s=EVERY_S, silent_s=SILENT_S)) == "done"


async def test_reason_of_the_silence_is_requested() -> None:
    async def paused() -> str:
        return "the container is paused"

    async def removed() -> str:
        raise RuntimeUnavailableError("The container was removed.")

    with pytest.raises(UnresponsiveError, match="the container is paused"):
        await watch_health(is_silent, every_s=EVERY_S, silent_s=SILENT_S, why=paused)
    with pytest.raises(RuntimeUnavailableError, match="was removed"):
        await watch_health(is_silent, every_s=EVERY_S, silent_s=SILENT_S, why=removed)


async def test_cancelling_ends_work_and_watch() -> None:
    ended = []

    async def work() -> None:
        try:
            await endless()
        finally:
            ended.append("work")

    async def watch() -> None:
        try:
            await endless()
        finally:
            ended.append("watch")

    running = asyncio.create_task(with_health_check(work(), watch()))
    await asyncio.wait([running], timeout=0.01)
    running.cancel()
    with stopped_clock(), pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(ended) == ["watch", "work"]
