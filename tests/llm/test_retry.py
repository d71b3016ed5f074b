"""When a failed call is made again, and how long that may take."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ModelError, ModelErrorKind
from core.events import Frame, Status
from core.llm.model_host_client import RETRYABLE, FailedCall, RetryPolicy, with_retries
from core.llm.provider_errors import MAX_RETRY_AFTER_S
from core.status_messages import BROKE_OFF, RETRY_STATUS
from tests.stopped_clock import stopped_clock

POLICY = RetryPolicy()


class Calls:
    """A call that fails as listed, then answers; and a sleep that only notes how long."""

    def __init__(self, *failures: FailedCall) -> None:
        self.failures = list(failures)
        self.made = 0
        self.slept: list[float] = []
        self.frames: list[Frame] = []

    async def call(self) -> str:
        self.made += 1
        if self.failures:
            raise self.failures.pop(0)
        return "answer"

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def run(self, policy: RetryPolicy = POLICY, seed: int = 1) -> str:
        return await with_retries(self.call, policy, self.frames.append, Random(seed), self.sleep)


def failed(kind: ModelErrorKind, *, wait_s: float | None = None, shown: bool = False) -> FailedCall:
    return FailedCall(kind, "It failed.", retry_after_s=wait_s, shown=shown)


async def test_successful_call_is_made_once_without_a_notice() -> None:
    calls = Calls()
    assert await calls.run() == "answer"
    assert (calls.made, calls.slept, calls.frames) == (1, [], [])


@pytest.mark.parametrize("kind", sorted(RETRYABLE))
async def test_temporary_error_is_retried_with_a_notice(kind: ModelErrorKind) -> None:
    calls = Calls(failed(kind), failed(kind))
    assert await calls.run() == "answer"
    assert calls.made == 3
    notices = [frame.message for frame in calls.frames if isinstance(frame, Status) and frame.id == RETRY_STATUS]
    assert len(notices) == len(calls.frames) == 3
    assert notices[0].startswith("Retrying LLM request, 2 / 5 in ")
    assert notices[1].startswith("Retrying LLM request, 3 / 5 in ")
    assert notices[2] == ""


@pytest.mark.parametrize("kind", sorted(set(ModelErrorKind) - set(RETRYABLE)))
async def test_permanent_error_is_not_retried(kind: ModelErrorKind) -> None:
    calls = Calls(failed(kind))
    with pytest.raises(ModelError) as caught:
        await calls.run()
    assert (caught.value.kind, calls.made, calls.frames) == (kind, 1, [])


async def test_partial_answer_is_withdrawn_and_retried() -> None:
    calls = Calls(failed(ModelErrorKind.CONNECTION, shown=True))
    assert await calls.run() == "answer"
    assert calls.made == 2
    announced, removed = [frame for frame in calls.frames if isinstance(frame, Status)]
    assert (announced.id, removed) == (RETRY_STATUS, Status("info", RETRY_STATUS, ""))
    assert BROKE_OFF in announced.message


async def test_partial_answer_that_timed_out_is_not_retried() -> None:
    calls = Calls(failed(ModelErrorKind.TIMEOUT, shown=True))
    with pytest.raises(ModelError):
        await calls.run()
    assert calls.made == 1


async def test_error_says_whether_a_partial_answer_was_shown() -> None:
    calls = Calls(*[failed(ModelErrorKind.CONNECTION, shown=n == 4) for n in range(5)])
    with pytest.raises(FailedCall) as caught:
        await calls.run()
    assert caught.value.shown


async def test_attempts_are_limited_and_counted_in_the_error() -> None:
    calls = Calls(*[failed(ModelErrorKind.SERVER) for _ in range(20)])
    with pytest.raises(ModelError, match=r"It failed\. Tried 5 times\.") as caught:
        await calls.run()
    assert (caught.value.kind, calls.made, len(calls.slept)) == (ModelErrorKind.SERVER, 5, 4)
    assert calls.frames[-1] == Status("info", RETRY_STATUS, "")


async def test_provider_may_request_a_longer_wait() -> None:
    calls = Calls(failed(ModelErrorKind.RATE_LIMIT, wait_s=37.0))
    await calls.run()
    assert calls.slept == [37.0]


async def test_cancelling_ends_the_wait_and_removes_the_notice() -> None:
    calls = Calls(failed(ModelErrorKind.RATE_LIMIT, wait_s=300.0))
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.sleep(seconds)

    task = asyncio.create_task(with_retries(calls.call, POLICY, calls.frames.append, Random(1), sleep))
    await waiting.wait()
    task.cancel()
    with stopped_clock(), pytest.raises(asyncio.CancelledError):
        await task
    assert calls.frames[-1] == Status("info", RETRY_STATUS, "")


@given(
    failures=st.lists(
        st.tuples(st.sampled_from(ModelErrorKind), st.none() | st.floats(0, MAX_RETRY_AFTER_S)), max_size=30
    ),
    seed=st.integers(0, 2**32),
)
def test_attempts_and_waits_are_limited_for_every_error(
    failures: list[tuple[ModelErrorKind, float | None]], seed: int
) -> None:
    calls = Calls(*[failed(kind, wait_s=wait_s) for kind, wait_s in failures])
    with suppress(ModelError):
        asyncio.run(calls.run(seed=seed))
    assert calls.made <= POLICY.attempts
    for attempt, slept in enumerate(calls.slept, start=1):
        asked = failures[attempt - 1][1] or 0.0
        assert slept <= max(min(2.0 ** (attempt - 1), POLICY.max_wait_s), asked)
        assert slept >= asked


async def test_random_sequences_of_failures_stay_within_the_limits(seed: int) -> None:
    random, longest = Random(seed), 0.0
    for _ in range(10_000):
        kinds = random.choices(sorted(RETRYABLE), k=random.randrange(8))
        asked = [random.choice([None, 0.0, random.uniform(0, MAX_RETRY_AFTER_S)]) for _ in kinds]
        calls = Calls(*(failed(kind, wait_s=wait_s) for kind, wait_s in zip(kinds, asked, strict=True)))
        with suppress(ModelError):
            await calls.run(seed=random.randrange(10**9))
        assert calls.made == min(len(kinds) + 1, POLICY.attempts)
        assert len(calls.slept) == calls.made - 1
        assert all(0 < wait <= MAX_RETRY_AFTER_S for wait in calls.slept)
        longest = max(longest, sum(calls.slept))
    assert longest <= MAX_RETRY_AFTER_S * (POLICY.attempts - 1)
