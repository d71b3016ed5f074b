"""What calls may cost together: never more, whatever runs at once, and nobody waits forever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ModelError, ModelErrorKind
from core.llm.budget import Budget, BudgetSpentError, KeepBudget, most_cost
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.registry import NoModel
from core.llm.scripted_model import ScriptedLLM
from core.llm.settings import LLMSettings, ModelFacts
from core.protocols import LLMRequest, LLMResponse
from tests.doubles import write_script

ASKED = LLMRequest([{"role": "user", "content": "Hi"}])
CENTS = st.integers(1, 50).map(lambda n: n / 100)


@settings(deadline=None)
@given(st.lists(st.tuples(CENTS, st.floats(0, 1), st.integers(0, 3)), max_size=30), st.integers(1, 300))
def test_budget_is_never_exceeded_and_every_call_ends(calls: list[tuple[float, float, int]], cents: int) -> None:
    async def run() -> None:
        budget, refused = Budget(cents / 100), 0

        async def call(most: float, share: float, steps: int) -> None:
            nonlocal refused
            try:
                await budget.reserve(most)
            except BudgetSpentError:
                refused += 1
                return
            for _ in range(steps):
                await asyncio.sleep(0)
            await budget.settle(most, most * share)
            assert budget.spent <= cents / 100 + 1e-9

        async with asyncio.timeout(5):
            await asyncio.gather(*(call(*one) for one in calls))
        assert budget.is_spent is bool(refused)
        if sum(most for most, _, _ in calls) <= cents / 100:
            assert not refused

    asyncio.run(run())


async def test_call_waits_for_others_that_may_leave_enough() -> None:
    budget = Budget(1.0)
    await budget.reserve(0.9)
    waiting = asyncio.create_task(budget.reserve(0.5))
    await asyncio.sleep(0)
    assert not waiting.done()
    await budget.settle(0.9, 0.1)
    await waiting
    assert not budget.is_spent


async def test_unknown_cost_counts_as_the_most_that_was_possible() -> None:
    budget = Budget(1.0)
    await budget.reserve(0.4)
    await budget.settle(0.4, None)
    assert budget.spent == 0.4


async def test_failed_call_releases_its_reservation(tmp_path: Path) -> None:
    llm = ScriptedLLM(Path(write_script(tmp_path, [{"text": "x", "usage": {"cost": 0.2}}]).partition(":")[2]), "/w")
    budget = Budget(1.0)

    async def next(request: object, on_frame: object, cause: int) -> LLMResponse:
        raise ModelError(ModelErrorKind.SERVER, "down")

    with pytest.raises(ModelError, match="down"):
        await KeepBudget(budget, llm).complete(ASKED, lambda frame: None, 0, next)
    await asyncio.wait_for(budget.reserve(0.8), 1)


async def test_most_that_a_call_costs_is_that_of_its_longest_answer() -> None:
    facts = ModelFacts(price_in=10.0, price_out=20.0)
    llm = HostedLLM(ModelHost(), "openai/x", LLMSettings(max_tokens=1_000), title="x", facts=facts)
    llm._host._capabilities = {}
    assert await most_cost(llm, ASKED) == pytest.approx(
        (len('[{"role": "user", "content": "Hi"}]') * 10 + 20_000) / 1e6
    )


async def test_model_without_a_known_price_is_refused() -> None:
    with pytest.raises(ModelError, match="price_in and price_out"):
        await most_cost(NoModel(), ASKED)
