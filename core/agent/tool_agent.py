"""ToolAgent: an agent that calls one model per step and turns its tool calls into actions.

A step is a function of the history: the request is built from it each time, so that a reopened conversation continues
as if it had never stopped. An agent is a subclass that states its name, its prompt and its tools. Other packages
register theirs by the entry point group `handloom.agents`, whose entries name such a class.
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
from core.events import (
    AgentFinishAction,
    Envelope,
    Event,
    EventSource,
    LLMMetrics,
    MessageAction,
    SystemMessageAction,
)
from core.events.actions import answer_of
from core.llm.metrics import add_response
from core.memory.context_events import json_size, last_observation_text
from core.memory.conversation_memory import build_messages
from core.memory.history_condenser import HistoryCondenser
from core.memory.view import GrowingView
from core.plugin_requirements import PluginRequirement, load
from core.protocols import LLM, THINKING_BLOCKS, FrameSink, LLMRequest
from core.secrets import PLACEHOLDER

Message = dict[str, Any]


def with_reasoning_blocks(messages: list[Message], events: Iterable[Envelope], model: str) -> list[Message]:
    """Return the messages, with its signed reasoning blocks in each message with tool calls of this model.

    Blocks that contained a secret are left out, because their signature does not match the redacted text.
    """
    blocks = dict(filter(None, (_signed_blocks(envelope, model) for envelope in events)))
    return [_with_blocks(message, blocks) for message in messages] if blocks else messages


def _signed_blocks(envelope: Envelope, model: str) -> tuple[str, list[Message]] | None:
    """Return the id of a response's first call and its blocks; None if it has none, or is of another model."""
    metadata, message = envelope.event.tool_call_metadata, answer_of(envelope.event)
    blocks, calls = message.get(THINKING_BLOCKS), message.get("tool_calls")
    if metadata is None or metadata.model_response.get("model") != model or not isinstance(blocks, list):
        return None
    if PLACEHOLDER in json.dumps(blocks):
        return None
    match calls:
        case [{"id": str() as id}, *_]:
            return id, blocks
        case _:
            return None


def _with_blocks(message: Message, blocks: dict[str, list[Message]]) -> Message:
    calls = message.get("tool_calls")
    found = blocks.get(str(calls[0].get("id"))) if calls else None
    return {**message, THINKING_BLOCKS: found} if found else message


MoreTools = Callable[[], Awaitable[Sequence[Tool]]]
"""Returns the current tools of MCP servers and the session, sorted by name."""


MissingTools = Callable[[], str]
"""Returns a text for the model about tools that are not available now; empty if there is nothing to say."""


async def no_more_tools() -> Sequence[Tool]:
    """Return no tools."""
    return ()


def read_prompt(name: str, package: str = "core.agent") -> str:
    """Return the text of `prompts/NAME.md` of a package. Call it at import, so that no step waits for the disk."""
    return resources.files(package).joinpath(f"prompts/{name}.md").read_text(encoding="utf-8").strip()


EXIT = "/exit"
"""A message of the user that ends the task without a model call, as in OpenHands V0 (`codeact_agent.py`)."""


def _asks_to_exit(events: Sequence[Envelope]) -> bool:
    """Return whether the newest message is one of the user that says EXIT."""
    for envelope in reversed(events):
        if isinstance(envelope.event, MessageAction):
            return envelope.source is EventSource.USER and envelope.event.content.strip() == EXIT
    return False


class ToolAgent:
    """The base of agents with tools. `plugins` are those of the sandbox, `more_tools` are tools from elsewhere.

    Tools from elsewhere follow its own, so that providers can cache as much of the request as possible, and cannot
    replace one of its own with the same name.
    """

    name: str
    """The name in `--agent`, the settings and the log."""
    description: ClassVar[str] = ""
    """One line for the user."""
    prompt: str
    """The instructions for the model."""
    tools: tuple[Tool, ...]
    """Its own tools. Those of plugins that the sandbox does not have are left out."""
    takes_more: bool = True
    """Whether it gets tools of plugins and from elsewhere besides its own."""

    def __init__(
        self, llm: LLM, plugins: Sequence[PluginRequirement] = (), more_tools: MoreTools = no_more_tools
    ) -> None:
        names = {plugin.name for plugin in plugins}
        tools = [tool.with_plugins(names) for tool in self.tools if not tool.plugin or tool.plugin in names]
        if self.takes_more:
            tools += [tool for plugin in plugins if plugin.tools for tool in load(plugin, plugin.tools)]
        self._llm = llm
        self._more_tools = more_tools if self.takes_more else no_more_tools
        self.missing_tools: MissingTools = str
        self._tools = {tool.name: tool for tool in tools}
        self._schemas = [tool.schema() for tool in self._tools.values()]
        self._growing_view = GrowingView()
        """A cache: saves going over all events at each step."""
        self.history_condenser = HistoryCondenser()
        """Shortens a long history."""

    def offer_delegates(self, others: Mapping[str, str]) -> None:
        """Add agents, by name with their description, to those that the model can delegate to."""
        if others and DELEGATE.name in self._tools:
            self._tools[DELEGATE.name] = delegate_to(others)
            self._schemas = [tool.schema() for tool in self._tools.values()]

    def system_message(self) -> SystemMessageAction:
        """Return the first event of a conversation: the instructions and the schemas of the tools."""
        tools: list[JsonValue] = list(self._schemas)
        return SystemMessageAction(content=self.prompt, tools=tools, agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Call the model once and return one or more events, or condense the history if that was requested.

        Raises ModelError; cancelling cancels the call.
        """
        view = self._growing_view.update(history)
        if _asks_to_exit(view.events):
            return [AgentFinishAction()]
        await asyncio.sleep(0)  # each part takes long for a long history; other tasks run in between
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
            messages[0] = self._instructions(messages[0], instructions)
        else:  # imported trajectories may lack instructions
            messages.insert(0, instructions)
        if self.takes_more and (missing := self.missing_tools()):
            messages[0] = {**messages[0], "content": f"{messages[0]['content']}\n\n{missing}"}
        messages = with_reasoning_blocks(messages, view.events, self._llm.name)
        await asyncio.sleep(0)
        request = LLMRequest(
            messages, schemas, last_observation_text(view.events), self._growing_view.forgotten_answers(view)
        )
        await asyncio.sleep(0)
        response = await self._llm.complete(request, on_frame, cause)
        spent = add_response(metrics, response)
        return events_of(response, {**more, **self._tools}, set(self._growing_view.ids), step=cause, metrics=spent)

    def _instructions(self, logged: dict[str, str], own: dict[str, str]) -> dict[str, str]:
        """Return the instructions for the model: those in the log, which an older version may have written."""
        return logged
