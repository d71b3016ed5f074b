"""CodeActAgent: works by shell commands and file edits, one model call a step.

Named as in OpenHands V0. A step is a function of the history: what a call needs is built from it anew each
time, so that a conversation opened again goes on as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from pydantic import JsonValue

from core.agent.answers import events_of, used_ids
from core.agent.tools import CODEACT_TOOLS
from core.events import Envelope, Event, LLMMetrics, SystemMessageAction
from core.llm.metrics import add_response
from core.memory.prompt import build_messages
from core.memory.texts import last_observation_text
from core.memory.view import View, condense_window
from core.plugins import PluginRequirement, load
from core.ports import LLM, FrameSink, LLMRequest
from core.undone import without_undone

_PROMPT = resources.files("core.agent").joinpath("prompts/codeact.md").read_text(encoding="utf-8").strip()
"""Read with the module, so that no step waits for the disk."""


def system_prompt() -> str:
    """The agent's instructions, as they stand in `prompts/codeact.md`."""
    return _PROMPT


def _forgotten(history: Sequence[Envelope], view: View) -> int:
    """How many answers of the model the view leaves out."""
    if view.events is history:
        return 0
    whole, seen = ([m for m in build_messages(e) if m["role"] == "assistant"] for e in (history, view.events))
    return len(whole) - len(seen)


class CodeActAgent:
    """The agent for work with code. Its tools are those that the sandbox's plugins can carry out."""

    name = "CodeActAgent"

    def __init__(self, llm: LLM, plugins: Sequence[PluginRequirement] = ()) -> None:
        names = {plugin.name for plugin in plugins}
        ours = [tool.with_plugins(names) for tool in CODEACT_TOOLS if not tool.plugin or tool.plugin in names]
        tools = [*ours, *(tool for plugin in plugins if plugin.tools for tool in load(plugin, plugin.tools))]
        self._llm = llm
        self._tools = {tool.name: tool for tool in tools}
        self._schemas = [tool.schema() for tool in tools]

    def system_message(self) -> SystemMessageAction:
        """What a conversation begins with: instructions, and the tools as the model is told of them."""
        tools: list[JsonValue] = list(self._schemas)
        return SystemMessageAction(content=system_prompt(), tools=tools, agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Ask the model once; one or more events come back. Where a shorter history is wanted, that is the step.

        Raises ModelError; cancelling cancels the call.
        """
        view = View.of(history)
        if view.wants_condensation:
            return [condense_window(view)]
        messages = build_messages(view.events)
        if not messages or messages[0]["role"] != "system":
            # A trajectory from elsewhere may begin without instructions; the model cannot.
            messages.insert(0, {"role": "system", "content": system_prompt()})
        request = LLMRequest(
            messages, self._schemas, last_observation_text(without_undone(history)), _forgotten(history, view)
        )
        cause = history[-1].id if history else 0
        response = await self._llm.complete(request, on_frame, cause)
        spent = add_response(metrics, response)
        return events_of(response, self._tools, used_ids(history), step=cause, metrics=spent)
