"""Makes the agent of a conversation, with the tools that it has there.

A conversation keeps the agent that it began with. The agent that an import names is used only if that gives the file no
more than the user chose.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.acp import ACP_AGENT, connect_agent
from core.agent.agents import MissingAgent
from core.agent.registry import AGENTS, AgentKind, Agents
from core.agent.tool_agent import ToolAgent
from core.agent.tools import OUR_TOOLS, Tool
from core.env_allowlist import inherited
from core.errors import ConfigurationError, ConsentError
from core.events import SystemMessageAction
from core.llm.registry import RERUN
from core.mcp.tool_registry import Toolbox
from core.memory.history_condenser import HistoryCondenser
from core.plugin_requirements import PluginRequirement
from core.protocols import LLM, Agent, Runtime
from core.settings.config import AgentSettings
from core.store.conversations import IMPORT, ConversationInfo
from core.store.event_store import EventStore


@dataclass(frozen=True, slots=True)
class ConversationAgent:
    """The agent of a conversation, and the runtime and the tools that it works with."""

    make: Callable[[LLM], Agent]
    runtime: Runtime
    toolbox: Toolbox | None
    """None if the agent brings its own tools."""
    condenses: bool = False
    """Whether the agent condenses its history itself."""


class AgentFactory:
    """Makes agents. `settings` are read when a conversation starts."""

    def __init__(self, agents: Agents, store: EventStore, settings: Callable[[], AgentSettings]) -> None:
        self._agents = agents
        self._store = store
        self._settings = settings

    async def create(
        self,
        info: ConversationInfo,
        kind: AgentKind | None,
        *,
        plugins: Sequence[PluginRequirement],
        toolbox: Toolbox | None,
        runtime: Runtime,
        make_condenser: Callable[[LLM], HistoryCondenser],
        extra_tools: Sequence[Tool],
    ) -> ConversationAgent:
        """The agent of a conversation: `kind` for a new one, else the one that it began with.

        `make_condenser` and `extra_tools`, which the session carries out, are for our own agents. If the agent does not
        exist any more, one that says so takes its place; an import uses that of the settings. Raises
        ConfigurationError, ConsentError, StoreError.
        """
        settings = self._settings()
        if kind is None:
            name = await self._name(info)
            try:
                kind = await asyncio.to_thread(self._agents.find, name, info.workspace)
            except (ConfigurationError, ConsentError) as error:
                if info.origin not in (IMPORT, RERUN):
                    missing = MissingAgent(name, str(error))
                    return ConversationAgent(lambda llm: missing, runtime, toolbox)
                kind = await asyncio.to_thread(self._agents.find, settings.name, info.workspace)
        if kind.name == ACP_AGENT:
            environ = inherited(os.environ, settings.acp_env)
            other = await asyncio.to_thread(connect_agent, settings.acp_command, info.workspace, runtime, environ)
            return ConversationAgent(other.make, other.runtime, None)
        own_tools = (OUR_TOOLS["request_condensation"],) if settings.request_condensation else ()

        async def more_tools() -> Sequence[Tool]:
            return (*own_tools, *extra_tools, *(await toolbox.tools() if toolbox else ()))

        make, delegates = kind.make, await asyncio.to_thread(self._delegates, info.workspace)

        def make_agent(llm: LLM) -> Agent:
            agent = make(llm, plugins, more_tools)
            if isinstance(agent, ToolAgent):
                agent.offer_delegates(delegates)
                agent.history_condenser = make_condenser(llm)
            return agent

        return ConversationAgent(make_agent, runtime, toolbox, condenses=True)

    def _delegates(self, workspace: str) -> dict[str, str]:
        """The agents of files and packages that may take a task in a folder, with their descriptions. Blocks."""
        kinds = self._agents.all(workspace).kinds.values()
        return {kind.name: kind.description for kind in kinds if kind.name not in AGENTS and kind.allowed}

    async def _name(self, info: ConversationInfo) -> str:
        """The agent that a conversation began with, or that of the settings."""
        first = next(iter(await self._store.read(info.id, limit=1)), None)
        name = first.event.agent_class if first and isinstance(first.event, SystemMessageAction) else None
        if info.origin == IMPORT and name == ACP_AGENT:
            name = None  # it works outside of the sandbox: only the user may choose it, not a file
        return name or self._settings().name
