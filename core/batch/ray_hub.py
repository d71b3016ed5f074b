"""Hub: the one place of a batch on a cluster that all its nodes reach, an actor of Ray.

It keeps what must be kept once for the whole batch, the budget and the permits of models, and hands to the driver what
the nodes send. An attempt that was given up is forgotten: what it reserved counts as spent, its permits are free, and
it gets nothing any more. Knows nothing of Ray.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from core.llm.budget import Budget, BudgetSpentError
from core.llm.permits import Permits

AttemptKey = tuple[str, int]
INBOX_MESSAGES = 64
"""Nodes that send faster than the driver stores wait."""


class Permit(NamedTuple):
    """A permit to call a model, as the node sees it."""

    round: int
    limit: int


@dataclass(slots=True)
class Taken:
    """What the driver takes from the hub."""

    messages: list[tuple[AttemptKey, Any]]
    spent: float
    is_spent: bool
    silent_s: dict[AttemptKey, float]
    """For how long each attempt that has begun has not been heard."""


@dataclass(slots=True)
class _Expected:
    """An attempt that the driver waits for, and what it holds."""

    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    stored: asyncio.Event = field(default_factory=asyncio.Event)
    heard_at: float | None = None
    reserved: list[float] = field(default_factory=list)
    permits: list[str] = field(default_factory=list)
    """The models whose permits it holds."""


class Hub:
    """The state of one batch. Each method may be called from any node."""

    def __init__(self, total: float | None, spent: float, workers: int) -> None:
        self._budget = Budget(total, spent)
        self._permits = defaultdict[str, Permits](lambda: Permits(workers))
        self._expected: dict[AttemptKey, _Expected] = {}
        self._inbox: asyncio.Queue[tuple[AttemptKey, Any]] = asyncio.Queue(INBOX_MESSAGES)

    # -- for the driver ------------------------------------------------------------------------------------------------

    async def begin(self, key: AttemptKey) -> None:
        """Expect an attempt."""
        self._expected[key] = _Expected()

    async def interrupt(self, key: AttemptKey) -> None:
        """Tell the node to stop the attempt. It is still waited for."""
        if (expected := self._expected.get(key)) is not None:
            expected.cancelled.set()

    async def stored(self, key: AttemptKey) -> None:
        """Everything that the attempt has sent is durable."""
        if (expected := self._expected.get(key)) is not None:
            expected.stored.set()

    async def forget(self, key: AttemptKey) -> None:
        """Give an attempt up, or take leave of one that has ended."""
        if (expected := self._expected.pop(key, None)) is None:
            return
        expected.cancelled.set()
        expected.stored.set()
        for most in expected.reserved:
            await self._budget.settle(most, None)
        for model in expected.permits:
            await self._permits[model].__aexit__(None, None, None)

    async def take(self, wait_s: float) -> Taken:
        """What the nodes have sent, after `wait_s` at most."""
        messages = []
        if self._inbox.empty():
            with suppress(TimeoutError):
                messages.append(await asyncio.wait_for(self._inbox.get(), wait_s))
        while not self._inbox.empty():
            messages.append(self._inbox.get_nowait())
        now = time.monotonic()
        silent = {key: now - one.heard_at for key, one in self._expected.items() if one.heard_at is not None}
        return Taken(messages, self._budget.spent, self._budget.is_spent, silent)

    # -- for the nodes -------------------------------------------------------------------------------------------------

    async def put(self, key: AttemptKey, message: Any) -> None:
        """Send something to the driver, in order. Waits while it has much to do."""
        await self._inbox.put((key, message))

    async def until_stored(self, key: AttemptKey) -> None:
        """Wait until the driver has stored everything, or has given the attempt up."""
        if (expected := self._expected.get(key)) is not None:
            await expected.stored.wait()

    async def heartbeat(self, key: AttemptKey) -> None:
        """Take note that an attempt lives."""
        if (expected := self._expected.get(key)) is not None:
            expected.heard_at = time.monotonic()

    async def until_cancelled(self, key: AttemptKey) -> None:
        """Wait until the attempt is to stop."""
        if (expected := self._expected.get(key)) is not None:
            await expected.cancelled.wait()

    async def reserve(self, key: AttemptKey, most: float) -> tuple[float, float] | None:
        """As `Budget.reserve`; returns the budget and what is spent if the call is refused."""
        if (expected := self._expected.get(key)) is None:
            return self._refusal()
        try:
            await self._budget.reserve(most)
        except BudgetSpentError:
            return self._refusal()
        if self._expected.get(key) is not expected:  # it was given up while it waited
            await self._budget.settle(most, 0.0)
            return self._refusal()
        expected.reserved.append(most)
        return None

    def _refusal(self) -> tuple[float, float]:
        return self._budget.total or 0.0, self._budget.spent

    async def settle(self, key: AttemptKey, most: float, cost: float | None) -> None:
        """As `Budget.settle`. What a forgotten attempt reserved was settled already."""
        expected = self._expected.get(key)
        if self._budget.total is None:
            await self._budget.settle(most, cost)
        elif expected is not None and most in expected.reserved:
            expected.reserved.remove(most)
            await self._budget.settle(most, cost)

    async def enter(self, key: AttemptKey, model: str) -> Permit | None:
        """Wait for a permit; None if the attempt was given up."""
        permits = self._permits[model]
        await permits.__aenter__()
        if (expected := self._expected.get(key)) is None:
            await permits.__aexit__(None, None, None)
            return None
        expected.permits.append(model)
        return Permit(permits.rounds, permits.limit)

    async def leave(self, key: AttemptKey, model: str, round: int, was_limited: bool | None) -> int:
        """Return a permit, and say whether the call met the rate limit (None: neither that nor an answer).

        Returns how many calls may run at once now.
        """
        permits, expected = self._permits[model], self._expected.get(key)
        if was_limited:
            permits.limited(round)
        elif was_limited is not None:
            permits.answered()
        if expected is not None and model in expected.permits:
            expected.permits.remove(model)
            await permits.__aexit__(None, None, None)
        return permits.limit
