"""Makes the agent of a conversation, with the tools that it has there.

A conversation keeps the agent that it began with. The agent that an import names is used only if that gives the file no
more than the user chose.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.acp.acp_selection import OTHER, linked
from core.agent.no_agent import NoAgent
from core.agent.registry import AGENTS, AgentKind, Agents
from core.agent.tool_agent import ToolAgent
from core.agent.tools import OUR_TOOLS, Tool
from core.env_allowlist import inherited
from core.errors import ConfigurationError, ConsentError
from core.events import SystemMessageAction
from core.llm.no_model import AGAIN
from core.mcp.tool_registry import Toolbox
from core.memory.history_condenser import HistoryCondenser
from core.plugin_requirements import PluginRequirement
from core.protocols import LLM, Agent, Runtime
from core.settings.config import AgentSettings
from core.store.conversations import IMPORT, ConversationInfo
from core.store.event_store import EventStore


@dataclass(frozen=True, slots=True)
class Made:
    """The agent of a conversation, and what depends on it."""

    make: Callable[[LLM], Agent]
    runtime: Runtime
    toolbox: Toolbox | None
    """None if the agent brings its own tools."""
    condenses: bool = False
    """Whether the agent condenses its history itself."""


class AgentFactory:
    """Makes agents. `settings` are read when a conversation starts."""

    def __init__(self, home: Path, store: EventStore, settings: Callable[[], AgentSettings]) -> None:
        self.agents = Agents(home)
        """The agents that exist."""
        self._store = store
        self._settings = settings

    async def of(
        self,
        info: ConversationInfo,
        kind: AgentKind | None,
        *,
        plugins: Sequence[PluginRequirement],
        toolbox: Toolbox | None,
        runtime: Runtime,
        history_condenser: Callable[[LLM], HistoryCondenser] | None = None,
        more: Sequence[Tool] = (),
    ) -> Made:
        """The agent of a conversation: `kind` for a new one, else the one that it began with, and what depends on it.

        `history_condenser` makes what condenses the history, and `more` are tools that the session carries out, for
        our own agents. If the agent does not exist any more, one that says so takes its place; an import uses that of
        the settings. Raises ConfigurationError, ConsentError, StoreError.
        """
        if kind is None:
            name = await self._name(info)
            try:
                kind = await asyncio.to_thread(self.agents.find, name, info.workspace)
            except (ConfigurationError, ConsentError) as error:
                if info.origin not in (IMPORT, AGAIN):
                    absent = NoAgent(name, str(error))
                    return Made(lambda llm: absent, runtime, toolbox)
                kind = await asyncio.to_thread(self.agents.find, self._settings().name, info.workspace)
        if kind.name == OTHER:
            said = self._settings()
            environ = inherited(os.environ, said.acp_env)
            other = await asyncio.to_thread(linked, said.acp_command, info.workspace, runtime, environ)
            return Made(other.make, other.runtime, None)
        make, condenses = kind.make, self._settings().request_condensation

        async def more_tools() -> Sequence[Tool]:
            own = (OUR_TOOLS["request_condensation"],) if condenses else ()
            return (*own, *more, *(await toolbox.tools() if toolbox else ()))

        others = await asyncio.to_thread(self._others, info.workspace)

        def made(llm: LLM) -> Agent:
            agent = make(llm, plugins, more_tools)
            if isinstance(agent, ToolAgent):
                agent.offer_delegates(others)
                if history_condenser is not None:
                    agent.history_condenser = history_condenser(llm)
            return agent

        return Made(made, runtime, toolbox, condenses=True)

    def _others(self, workspace: str) -> dict[str, str]:
        """The agents of files and packages that may take a task in a folder, with their descriptions. Blocks."""
        kinds = self.agents.all(workspace).kinds.values()
        return {kind.name: kind.description for kind in kinds if kind.name not in AGENTS and kind.allowed}

    async def _name(self, info: ConversationInfo) -> str:
        """The agent that a conversation began with, or that of the settings."""
        begun = next(iter(await self._store.read(info.id, limit=1)), None)
        name = begun.event.agent_class if begun and isinstance(begun.event, SystemMessageAction) else None
        if (
            info.origin == IMPORT and name == OTHER
        ):  # it works outside of the sandbox: only the user may choose it, not a file
            name = None
        return name or self._settings().name
