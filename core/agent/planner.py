"""Planner: makes a plan with tools that only read, and carries it out once the user has approved it.

Whether it plans or carries out is in the log: the last PlanAction that is not undone says it. So a restart, a replay
and an undo know it, and nothing is held here.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.agent.codeact import CodeActAgent
from core.agent.tool_agent import MoreTools, ToolAgent, no_more_tools, read_prompt
from core.agent.tools import PLANNING_TOOLS
from core.events import PLANNER, Envelope, Event, LLMMetrics, PlanAction
from core.plugins import PluginRequirement
from core.ports import LLM, FrameSink
from core.undone import without_undone


class Planner(ToolAgent):
    """The agent of the plan mode."""

    name = PLANNER
    description = "Makes a plan first, changing nothing; carries it out once you have approved it."
    prompt = read_prompt("planner")
    tools = PLANNING_TOOLS
    takes_more = False

    def __init__(
        self, llm: LLM, plugins: Sequence[PluginRequirement] = (), more_tools: MoreTools = no_more_tools
    ) -> None:
        super().__init__(llm, plugins)
        self._worker = _Worker(llm, plugins, more_tools)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """As every agent's step: one of planning until the plan is approved, one of working from then on."""
        if plans(history):
            return await super().step(history, metrics, on_frame)
        return await self._worker.step(history, metrics, on_frame)


class _Worker(CodeActAgent):
    """Who carries out the plan: CodeActAgent, with its own instructions in place of the planner's."""

    def _instructed(self, told: dict[str, str], own: dict[str, str]) -> dict[str, str]:
        return own


def plans(history: Sequence[Envelope]) -> bool:
    """Whether a plan is being made, as a history of the Planner has it."""
    said = [e.event.approved for e in without_undone(history) if isinstance(e.event, PlanAction)]
    return not (said and said[-1])
