"""ToolAgent: an agent that asks one model, once a step, and makes actions of its tool calls.

A step is a function of the history: what a call needs is built from it anew each time, so that a conversation opened
again goes on as if it had never stopped. Agents are subclasses that say their name, their prompt and their tools; one
of another package is registered by the entry point group `handloom.agents`, whose entries name such a class.

A model's signed thoughts in the history: attached to the answers that they led to, for that model alone. Pure.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar

from pydantic import JsonValue

from core.agent.function_calls import events_of
from core.agent.tools import Tool, delegate_to
from core.agent.tools.control import DELEGATE
from core.events import Envelope, Event, LLMMetrics, SystemMessageAction
from core.events.actions import answer_of
from core.llm.metrics import add_response
from core.llm.reasoning_blocks import BLOCKS
from core.memory.context_events import json_size
from core.memory.conversation_memory import build_messages
from core.memory.event_text import last_observation_text
from core.memory.history_condenser import HistoryCondenser
from core.memory.view import Watched
from core.plugin_requirements import PluginRequirement, load
from core.protocols import LLM, FrameSink, LLMRequest
from core.secrets import PLACEHOLDER

Message = dict[str, Any]


def with_thoughts(messages: list[Message], events: Iterable[Envelope], model: str) -> list[Message]:
    """The messages, those with tool calls of this model's with the blocks that came with them.

    Blocks out of which a secret was masked are left out: what was signed are others.
    """
    blocks = dict(filter(None, (_signed(envelope, model) for envelope in events)))
    return [_thinking(message, blocks) for message in messages] if blocks else messages


def _signed(envelope: Envelope, model: str) -> tuple[str, list[Message]] | None:
    """The id of an answer's first call, and its blocks; None where it has none, or another model made it."""
    metadata, message = envelope.event.tool_call_metadata, answer_of(envelope.event)
    blocks, calls = message.get(BLOCKS), message.get("tool_calls")
    if metadata is None or metadata.model_response.get("model") != model or not isinstance(blocks, list):
        return None
    if PLACEHOLDER in json.dumps(blocks):
        return None
    match calls:
        case [{"id": str() as id}, *_]:
            return id, blocks
        case _:
            return None


def _thinking(message: Message, blocks: dict[str, list[Message]]) -> Message:
    calls = message.get("tool_calls")
    found = blocks.get(str(calls[0].get("id"))) if calls else None
    return {**message, BLOCKS: found} if found else message


MoreTools = Callable[[], Awaitable[Sequence[Tool]]]
"""The tools of others as they are at this moment, sorted by name."""


async def no_more_tools() -> Sequence[Tool]:
    """For whoever has none."""
    return ()


def read_prompt(name: str, package: str = "core.agent") -> str:
    """The text of `prompts/NAME.md` of a package. To be read with a module, so that no step waits for the disk."""
    return resources.files(package).joinpath(f"prompts/{name}.md").read_text(encoding="utf-8").strip()


class ToolAgent:
    """What all agents with tools do. `plugins` are those of the sandbox, `more_tools` are tools of others.

    The others' stand behind its own, so that what a provider has cached of the request lasts as far as it can; none
    takes the name of one of its own.
    """

    name: str
    """As `--agent`, the settings and the log have it."""
    description: ClassVar[str] = ""
    """What it is for, in one line for the user."""
    prompt: str
    """Its instructions."""
    tools: tuple[Tool, ...]
    """Those that it has where the sandbox can carry them out."""
    takes_more: bool = True
    """Whether it gets the tools of plugins and from elsewhere besides its own."""

    def __init__(
        self, llm: LLM, plugins: Sequence[PluginRequirement] = (), more_tools: MoreTools = no_more_tools
    ) -> None:
        names = {plugin.name for plugin in plugins}
        tools = [tool.with_plugins(names) for tool in self.tools if not tool.plugin or tool.plugin in names]
        if self.takes_more:
            tools += [tool for plugin in plugins if plugin.tools for tool in load(plugin, plugin.tools)]
        self._llm = llm
        self._more_tools = more_tools if self.takes_more else no_more_tools
        self._tools = {tool.name: tool for tool in tools}
        self._schemas = [tool.schema() for tool in self._tools.values()]
        self._watched = Watched()
        """Saves looking at all events at each step; says nothing that the history does not say."""
        self.history_condenser = HistoryCondenser()
        """How a long history is shortened."""

    def know(self, others: Mapping[str, str]) -> None:
        """Tell the model of agents beside ours, by name with what each is for, where it may delegate."""
        if others and DELEGATE.name in self._tools:
            self._tools[DELEGATE.name] = delegate_to(others)
            self._schemas = [tool.schema() for tool in self._tools.values()]

    def system_message(self) -> SystemMessageAction:
        """What a conversation begins with: instructions, and the tools as the model is told of them."""
        tools: list[JsonValue] = list(self._schemas)
        return SystemMessageAction(content=self.prompt, tools=tools, agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Ask the model once; one or more events come back. Where a shorter history is wanted, that is the step.

        Raises ModelError; cancelling cancels the call.
        """
        view = self._watched.look(history)
        await asyncio.sleep(0)  # each of these parts takes its time with a long history; others have theirs between
        cause = history[-1].id if history else 0
        more = {tool.name: tool for tool in await self._more_tools() if tool.name not in self._tools}
        schemas = [*self._schemas, *(tool.schema() for tool in more.values())]
        if view.wants_condensation:
            overhead = json_size(schemas)
            return [await self.history_condenser.condense(view, metrics, on_frame, cause, overhead=overhead)]
        condenser = self.history_condenser
        messages = build_messages(condenser.visible_events(view), condenser.token_limit(metrics))
        await asyncio.sleep(0)
        instructions = {"role": "system", "content": self.prompt}
        if messages and messages[0]["role"] == "system":
            messages[0] = self._instructed(messages[0], instructions)
        else:  # a trajectory from elsewhere may begin without instructions; the model cannot
            messages.insert(0, instructions)
        messages = with_thoughts(messages, view.events, self._llm.name)
        await asyncio.sleep(0)
        request = LLMRequest(messages, schemas, last_observation_text(view.events), self._watched.forgotten(view))
        await asyncio.sleep(0)
        response = await self._llm.complete(request, on_frame, cause)
        spent = add_response(metrics, response)
        return events_of(response, {**more, **self._tools}, set(self._watched.ids), step=cause, metrics=spent)

    def _instructed(self, told: dict[str, str], own: dict[str, str]) -> dict[str, str]:
        """The instructions that the model gets: those that the conversation began with, of whichever version."""
        return told
