"""Handloom's own agents. All but the Planner are named as in OpenHands V0.

Each is a subclass of ToolAgent that states its name, prompt and tools. Nothing about a plan is kept in the Planner:
the newest PlanAction that is not undone says whether it plans or works, also after a restart, a replay or an undo.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.agent.tool_agent import MoreTools, ToolAgent, no_more_tools, read_prompt
from core.agent.tools import BROWSING_TOOLS, CODEACT_TOOLS, PLANNING_TOOLS, READING_TOOLS
from core.errors import ModelError, ModelErrorKind
from core.events import PLANNER, Envelope, Event, LLMMetrics, PlanAction, SystemMessageAction
from core.plugin_requirements import PluginRequirement
from core.protocols import LLM, FrameSink
from core.undo.reverted import without_undone

__all__ = ["CodeActAgent", "MoreTools", "no_more_tools"]


class CodeActAgent(ToolAgent):
    """Writes and runs code. Has the tools that the sandbox's plugins can execute."""

    name = "CodeActAgent"
    description = "Works with the shell, files, Python and the browser."
    prompt = read_prompt("codeact")
    tools = CODEACT_TOOLS


class BrowsingAgent(ToolAgent):
    """Works in the browser only. Without the browser plugin it can only answer in text."""

    name = "BrowsingAgent"
    description = "Reads web pages and acts on them; has no shell and no files."
    prompt = read_prompt("browsing")
    tools = BROWSING_TOOLS
    takes_more = False


class ReadOnlyAgent(ToolAgent):
    """Answers questions about the workspace and changes nothing."""

    name = "ReadOnlyAgent"
    description = "Searches and reads, answers questions, changes nothing."
    prompt = read_prompt("readonly")
    tools = READING_TOOLS
    takes_more = False


class Planner(ToolAgent):
    """Makes a plan with tools that only read, and executes it after the user has approved it."""

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
        """Plan until the user approves the plan, then work on it."""
        if is_planning(history):
            return await super().step(history, metrics, on_frame)
        return await self._worker.step(history, metrics, on_frame)


class _Worker(CodeActAgent):
    """CodeActAgent with its own instructions in place of the Planner's, with which the conversation began."""

    def _instructions(self, logged: dict[str, str], own: dict[str, str]) -> dict[str, str]:
        return own


class MissingAgent:
    """The agent of a conversation whose own agent is missing or not allowed; every step raises ModelError.

    The conversation can be read, and each step says what to do. No other agent replaces the missing one, because it may
    have more tools than the one that the user chose.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    def system_message(self) -> SystemMessageAction:
        """Return an empty message."""
        return SystemMessageAction(content="", agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Raise ModelError that says what is missing."""
        raise ModelError(ModelErrorKind.NOT_FOUND, f"{self._reason} Then open this conversation again.")


def is_planning(history: Sequence[Envelope]) -> bool:
    """Return whether the plan in a Planner's history is not approved yet."""
    decisions = [e.event.approved for e in without_undone(history) if isinstance(e.event, PlanAction)]
    return not (decisions and decisions[-1])
