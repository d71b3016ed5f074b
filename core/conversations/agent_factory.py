"""AgentFactory: makes the agent of a conversation, with the tools that it has there.

A conversation keeps the agent that it began with. What an import says of its agent counts only as far as it gives a
file no more than the user chose. Used by the conversation manager.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.acp.acp_selection import OTHER, linked
from core.agent.no_agent import AbsentAgent
from core.agent.registry import AGENTS, AgentKind, Agents
from core.agent.tool_agent import ToolAgent
from core.agent.tools import OUR_TOOLS, Tool
from core.env_allowlist import inherited
from core.errors import ConfigurationError, ConsentError
from core.events import SystemMessageAction
from core.llm.no_model import AGAIN
from core.mcp.tool_registry import Toolbox
from core.memory.condensation import Condensing
from core.plugin_requirements import PluginRequirement
from core.protocols import LLM, Agent, Runtime
from core.settings.config import AgentSettings
from core.store.conversations import IMPORT, ConversationInfo
from core.store.event_store import EventStore


@dataclass(frozen=True, slots=True)
class Made:
    """What a conversation gets."""

    make: Callable[[LLM], Agent]
    runtime: Runtime
    toolbox: Toolbox | None
    """None where its agent has tools of its own only."""
    condenses: bool = False
    """Whether the agent shortens its history by itself."""


class AgentFactory:
    """Of one home. `settings` are read at each conversation's start."""

    def __init__(self, home: Path, store: EventStore, settings: Callable[[], AgentSettings]) -> None:
        self.agents = Agents(home)
        """Those that there are."""
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
        condensing: Callable[[LLM], Condensing] | None = None,
        more: Sequence[Tool] = (),
    ) -> Made:
        """What makes the agent of a conversation, the one that it is begun with or that began it, and goes with it.

        `condensing` makes what shortens its history, and `more` are tools that the session carries out, for an agent of
        ours.
        Where that one is not there any more, it is an agent that says so; an import goes on with that of the settings.
        Raises ConfigurationError, ConsentError, StoreError.
        """
        if kind is None:
            name = await self._name(info)
            try:
                kind = await asyncio.to_thread(self.agents.find, name, info.workspace)
            except (ConfigurationError, ConsentError) as error:
                if info.origin not in (IMPORT, AGAIN):
                    absent = AbsentAgent(name, str(error))
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
                agent.know(others)
                agent.condensing = condensing(llm) if condensing is not None else agent.condensing
            return agent

        return Made(made, runtime, toolbox, condenses=True)

    def _others(self, workspace: str) -> dict[str, str]:
        """The agents beside ours that may take a task there, with what each is for. Blocks."""
        kinds = self.agents.all(workspace).kinds.values()
        return {kind.name: kind.description for kind in kinds if kind.name not in AGENTS and kind.allowed}

    async def _name(self, info: ConversationInfo) -> str:
        """The agent that a conversation began with; that of the settings where nothing is said, or a file says more."""
        begun = next(iter(await self._store.read(info.id, limit=1)), None)
        name = begun.event.agent_class if begun and isinstance(begun.event, SystemMessageAction) else None
        if info.origin == IMPORT and name == OTHER:  # it works outside of the sandbox: the user's choice, not a file's
            name = None
        return name or self._settings().name
