"""Hundreds of steps with a small context, from the first message to the last, on real parts."""

from __future__ import annotations

from pathlib import Path

from core.events import AgentState
from tests.memory.long_run import run, torn_pairs


async def test_300_steps_in_16k_finish_within_the_window_and_mostly_cached(tmp_path: Path) -> None:
    counting, state, condensed = await run(tmp_path, 300, 16_000)
    assert state is AgentState.FINISHED
    assert counting.asked == 300
    assert counting.over == []
    assert counting.torn == []
    assert counting.summed_up == condensed >= 10  # so it did not simply fit
    assert counting.largest > 8_000
    assert counting.cached_share > 0.8


async def test_work_continues_without_summaries(tmp_path: Path) -> None:
    counting, state, condensed = await run(tmp_path, 60, 16_000, kind="amortized")
    assert (state, counting.over, counting.torn, counting.summed_up) == (AgentState.FINISHED, [], [], 0)
    assert condensed >= 2


def test_broken_prompt_would_be_noticed() -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]}
    begin = [{"role": "system"}, {"role": "user"}]
    assert torn_pairs([*begin, call, {"role": "tool", "tool_call_id": "a"}]) == []
    assert torn_pairs([*begin, call, {"role": "user"}])
    assert torn_pairs([*begin, {"role": "tool", "tool_call_id": "a"}])
