"""When a failed model call is retried, and after which wait.

Only temporary errors are retried: a rate limit, a timeout, a broken connection, a server error; and only if no part of
the answer was shown, because the user would read two answers as one. Waits double with each retry, are shortened at
random so that many clients do not return together, and follow the provider's own request, up to five minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from core import status_messages
from core.errors import ModelError, ModelErrorKind
from core.events import Status
from core.protocols import FrameSink

T = TypeVar("T")

RETRY_STATUS = "STATUS$LLM_RETRY"

RETRYABLE = frozenset(
    {ModelErrorKind.RATE_LIMIT, ModelErrorKind.TIMEOUT, ModelErrorKind.CONNECTION, ModelErrorKind.SERVER}
)

_REASONS = {
    ModelErrorKind.RATE_LIMIT: status_messages.SLOW_DOWN,
    ModelErrorKind.TIMEOUT: status_messages.NO_ANSWER,
    ModelErrorKind.CONNECTION: status_messages.NO_CONNECTION,
    ModelErrorKind.SERVER: status_messages.PROVIDER_FAILED,
}


class FailedCall(ModelError):
    """One try that failed, with what the decision about another one needs."""

    def __init__(
        self, kind: ModelErrorKind, message: str, *, retry_after_s: float | None = None, shown: bool = False
    ) -> None:
        super().__init__(kind, message)
        self.retry_after_s = retry_after_s
        self.shown = shown
        """Whether a part of the answer was streamed already."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how fast. Times in seconds."""

    attempts: int = 5
    """Tries in all."""
    min_wait_s: float = 1.0
    max_wait_s: float = 64.0

    def wait_s(self, attempt: int, retry_after_s: float | None, random: Random) -> float:
        """The wait after try number `attempt`, counted from 1."""
        longest = min(self.min_wait_s * 2.0 ** (attempt - 1), self.max_wait_s)
        return max(longest * random.uniform(0.5, 1.0), retry_after_s or 0.0)


async def with_retries(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    on_frame: FrameSink,
    random: Random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Make a call, again where that may help, and announce each wait as a Status.

    Raises ModelError for what is left. Cancelling ends a wait at once; the announcement is taken away in any
    case.
    """
    announced = False
    try:
        for attempt in range(1, policy.attempts + 1):
            try:
                return await call()
            except FailedCall as failure:
                if failure.kind not in RETRYABLE or failure.shown:
                    raise
                if attempt == policy.attempts:
                    raise ModelError(failure.kind, f"{failure} Tried {attempt} times.") from failure
                wait_s = policy.wait_s(attempt, failure.retry_after_s, random)
                reason = _REASONS[failure.kind]
            announced = True
            tries = f"{attempt + 1} / {policy.attempts}"
            notice = status_messages.RETRYING.format(tries=tries, seconds=f"{wait_s:.0f}", reason=reason)
            on_frame(Status("info", RETRY_STATUS, notice))
            await sleep(wait_s)
        raise AssertionError("the last try returns or raises")
    finally:
        if announced:
            on_frame(Status("info", RETRY_STATUS, ""))
