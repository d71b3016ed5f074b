"""CodeActAgent: works by shell commands and file edits. Named as in OpenHands V0.

BrowsingAgent: works in the browser and nowhere else. Named as in OpenHands V0.

ReadOnlyAgent: looks at the workspace and changes nothing. Named as in OpenHands V0.

Planner: makes a plan with tools that only read, and carries it out once the user has approved it.

Whether it plans or carries out is in the log: the last PlanAction that is not undone says it. So a restart, a replay
and an undo know it, and nothing is held here.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.agent.tool_agent import MoreTools, ToolAgent, no_more_tools, read_prompt
from core.agent.tools import BROWSING_TOOLS, CODEACT_TOOLS, PLANNING_TOOLS, READING_TOOLS
from core.events import PLANNER, Envelope, Event, LLMMetrics, PlanAction
from core.plugin_requirements import PluginRequirement
from core.protocols import LLM, FrameSink
from core.undo.reverted import without_undone

__all__ = ["CodeActAgent", "MoreTools", "no_more_tools"]


class CodeActAgent(ToolAgent):
    """The agent for work with code. Its tools are those that the sandbox's plugins can carry out."""

    name = "CodeActAgent"
    description = "Works with the shell, files, Python and the browser."
    prompt = read_prompt("codeact")
    tools = CODEACT_TOOLS


class BrowsingAgent(ToolAgent):
    """The agent for pages: it reads them and acts on them. Without the browser's plugin it can only talk."""

    name = "BrowsingAgent"
    description = "Reads web pages and acts on them; has no shell and no files."
    prompt = read_prompt("browsing")
    tools = BROWSING_TOOLS
    takes_more = False


class ReadOnlyAgent(ToolAgent):
    """The agent for questions: grep, glob, view, think and finish are all that it has."""

    name = "ReadOnlyAgent"
    description = "Searches and reads, answers questions, changes nothing."
    prompt = read_prompt("readonly")
    tools = READING_TOOLS
    takes_more = False


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
