"""How many calls run at once when a provider is busy: fewer, then more again, and none fails."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from core.errors import ModelError, ModelErrorKind
from core.llm.permits import KeepPermits, Permits
from core.protocols import LLMRequest, LLMResponse

ASKED = LLMRequest([{"role": "user", "content": "Hi"}])


class Provider:
    """Answers at most so many calls at once, and refuses the others."""

    def __init__(self, most: int) -> None:
        self.most, self.at_once, self.highest, self.refused = most, 0, 0, 0

    async def complete(self, request: object, on_frame: object, cause: int) -> LLMResponse:
        self.at_once += 1
        self.highest = max(self.highest, self.at_once)
        try:
            await asyncio.sleep(0.001)
            if self.at_once > self.most:
                self.refused += 1
                raise ModelError(ModelErrorKind.RATE_LIMIT, "429")
            return LLMResponse("a", "yes")
        finally:
            self.at_once -= 1


async def soon(seconds: float) -> None:
    await asyncio.sleep(seconds / 1_000)


async def test_storm_of_refusals_fails_no_call() -> None:
    provider, permits = Provider(3), Permits(16)
    step = KeepPermits(permits, "a/x", random=Random(1), sleep=soon)
    async with asyncio.timeout(30):
        answers = await asyncio.gather(
            *(step.complete(ASKED, lambda frame: None, 0, provider.complete) for _ in range(200))
        )
    assert len(answers) == 200
    assert provider.highest == 16
    assert provider.refused > 0
    assert permits.rounds > 0


async def test_calls_of_one_round_halve_once_and_answers_add_one_each() -> None:
    permits = Permits(16)
    began_in = permits.rounds
    for _ in range(8):
        permits.limited(began_in)
    assert permits.limit == 8
    permits.limited(permits.rounds)
    assert permits.limit == 4
    for _ in range(3):
        permits.answered()
    assert permits.limit == 7
    for _ in range(20):
        permits.answered()
    assert permits.limit == 16
    for _ in range(9):
        permits.limited(permits.rounds)
    assert permits.limit == 1


async def test_other_errors_are_raised_and_release_the_permit() -> None:
    async def fails(request: object, on_frame: object, cause: int) -> LLMResponse:
        raise ModelError(ModelErrorKind.SERVER, "down")

    permits = Permits(1)
    for _ in range(3):
        with pytest.raises(ModelError, match="down"):
            await KeepPermits(permits, "a/x").complete(ASKED, lambda frame: None, 0, fails)


async def test_wait_is_announced_and_ends_when_it_is_cancelled() -> None:
    frames: list[object] = []
    step = KeepPermits(Permits(1), "a/x")
    running = asyncio.create_task(step.complete(ASKED, frames.append, 0, Provider(0).complete))
    while not frames:
        await asyncio.sleep(0.001)
    assert "The provider of a/x is busy" in str(frames[0])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(frames) == 2, "the announcement is taken back"
