"""Budget: what the model calls of several conversations may cost together, and the step of a call that keeps it.

A call first reserves the most that it can cost, and waits while others hold what is left. So the budget is never
exceeded, whatever runs at once. When even nothing reserved would not leave enough, the budget is spent: the call is
refused, and so are all others.
"""

from __future__ import annotations

import asyncio
import json

from core.errors import ModelError, ModelErrorKind
from core.llm.model_host_client import HostedLLM
from core.llm.scripted_model import ScriptedLLM
from core.protocols import LLM, Complete, FrameSink, LLMRequest, LLMResponse

ROUNDING = 1e-9
"""US dollars: sums of fractions are not exact."""


class BudgetSpentError(ModelError):
    """The call could cost more than what is left."""

    def __init__(self, total: float, spent: float) -> None:
        super().__init__(ModelErrorKind.BUDGET, f"The budget is ${total:,.2f}, of which ${spent:,.4f} are spent.")


class Budget:
    """A budget in US dollars; None for no limit."""

    def __init__(self, total: float | None, spent: float = 0.0) -> None:
        self.total, self.spent = total, spent
        self.is_spent = False
        """Whether a call was refused."""
        self._reserved, self._holders = 0.0, 0
        """What is reserved, and by how many calls: sums of fractions do not return to zero."""
        self._changed = asyncio.Condition()

    async def reserve(self, most: float) -> None:
        """Reserve what a call can cost. Waits for calls that run; raises BudgetSpentError if that cannot help."""
        if self.total is None:
            return
        async with self._changed:
            while self.is_spent or self.spent + self._reserved + most > self.total + ROUNDING:
                if self.is_spent or not self._holders:
                    self.is_spent = True
                    self._changed.notify_all()
                    raise BudgetSpentError(self.total, self.spent)
                await self._changed.wait()
            self._reserved, self._holders = self._reserved + most, self._holders + 1

    async def settle(self, most: float, cost: float | None) -> None:
        """Replace what a call reserved by what it cost; an unknown cost counts as all of it."""
        async with self._changed:
            if self.total is not None:
                self._holders -= 1
                self._reserved = self._reserved - most if self._holders else 0.0
            self.spent += most if cost is None else cost
            self._changed.notify_all()


class KeepBudget:
    """A step of a model call: it reserves what the call can cost at most."""

    def __init__(self, budget: Budget, model: LLM) -> None:
        self._budget, self._model = budget, model

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int, next: Complete) -> LLMResponse:
        """As `LLM.complete`. Raises BudgetSpentError; without a known price also ModelError."""
        if self._budget.total is None:
            response = await next(request, on_frame, cause)
            await self._budget.settle(0.0, response.cost or 0.0)
            return response
        most = await most_cost(self._model, request)
        await self._budget.reserve(most)
        cost: float | None = None  # what a broken call cost is not known
        try:
            response = await next(request, on_frame, cause)
            cost = response.cost
            return response
        finally:
            await self._budget.settle(most, cost)


async def most_cost(llm: LLM, request: LLMRequest) -> float:
    """US dollars that an answer can cost at most. A token has at least one character. Raises ModelError."""
    if isinstance(llm, ScriptedLLM):
        return llm.most_cost
    prompt = len(json.dumps([*request.messages, *request.tools], ensure_ascii=False))
    most = await llm.most_cost(prompt) if isinstance(llm, HostedLLM) else None
    if most is None:
        raise ModelError(
            ModelErrorKind.BUDGET,
            f"The price of {llm.name} is not known, so a budget cannot be kept. Set price_in and price_out for it "
            "under [models.NAME] in config.toml, and llm.max_tokens, or leave the budget out.",
        )
    return most
