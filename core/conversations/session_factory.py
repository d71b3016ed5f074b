"""Builds the session of a conversation, and its agent, from what all conversations of a home share.

The model host, the MCP servers, the agents, the secrets and the user's memory exist once; runtime, toolbox, past and
checkpoints are made for each conversation. A conversation keeps the agent that it began with. The agent that an import
names is used only if that gives the file no more than the user chose.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from core.acp import ACP_AGENT, connect_agent
from core.agent.registry import AGENTS, AgentKind, Agents, MissingAgent
from core.agent.tool_agent import ToolAgent
from core.agent.tools import Tool
from core.agent.tools.control import RECALL_CONVERSATIONS, REQUEST_CONDENSATION
from core.agent.tools.files import EDIT_FILE
from core.controller.state import NO_LIMITS, Limits
from core.delegation.delegation import CloseChild
from core.environment import inherited
from core.errors import ConfigurationError, ConsentError
from core.events import AgentDelegateAction, SystemMessageAction
from core.llm.registry import DEMO, RERUN, LLMRegistry, model_for
from core.llm.title_suggestion import SuggestTitle, suggest_title
from core.mcp.supervisor import BeforeServer, Supervisor
from core.mcp.tool_registry import Toolbox
from core.memory.condensers.condenser import context_limit
from core.memory.history_condenser import condenser_maker
from core.memory.library import UserFolders
from core.memory.past_conversations import PastConversations
from core.plugin_requirements import PluginError, PluginRequirement, load_events, required
from core.protocols import LLM, Agent, Checkpoints, Runtime
from core.repository import Repository
from core.sandbox_types import GitAccess, sandbox_variables
from core.secrets import Redactor
from core.secrets.git_tokens import GitTokens, names_of
from core.secrets.known_secrets import kept_values, values_of
from core.secrets.redactor import Detector
from core.secrets.vault import Vault
from core.security.confirmation import ConfirmMode
from core.session.suspend import Slots
from core.settings.config import AgentSettings, DaySettings, Settings
from core.settings.sections import MemorySettings
from core.store.conversations import IMPORT, ConversationInfo
from core.store.event_store import EventStore
from core.store.writer import Lease
from core.trust.trust_store import TrustPolicy

if TYPE_CHECKING:
    from core.session.agent_session import AgentSession


@dataclass(frozen=True, slots=True)
class ConversationAgent:
    """The agent of a conversation, and the runtime and the tools that it works with."""

    make: Callable[[LLM], Agent]
    runtime: Runtime
    toolbox: Toolbox | None
    """None if the agent brings its own tools."""
    condenses: bool = False
    """Whether the agent condenses its history itself."""


MakeRuntime = Callable[[str], Runtime]
"""Makes a runtime that works in this folder, not started yet."""
MakeCheckpoints = Callable[[str, str], Checkpoints | None]
"""Makes the checkpoints of a workspace for the conversation with this id; None if there are none."""


class SessionFactory:
    """Makes sessions. `settings` are read for each one; `environ` has the names of models and the values of secrets."""

    def __init__(
        self,
        store: EventStore,
        settings: Callable[[], Settings],
        *,
        make_runtime: MakeRuntime,
        make_checkpoints: MakeCheckpoints,
        before_server: BeforeServer,
        make_child: Callable[[str, AgentDelegateAction, int, Limits], Awaitable[AgentSession]],
        close_child: CloseChild,
        environ: Mapping[str, str],
        slots: Slots,
        clock: Callable[[], float],
    ) -> None:
        home = store.home
        self._store = store
        self._settings = settings
        self._make_runtime = make_runtime
        self.make_checkpoints = make_checkpoints
        self._make_child, self._close_child = make_child, close_child
        self.given_environ = environ
        """The environment of this process."""
        self.environ = dict(environ)
        """The environment, and the keys in the vault."""
        self._slots = slots
        self._clock = clock
        self.agents = Agents(home)
        """The agents that exist."""
        self.vault = Vault(home)
        """The secrets that commands may have."""
        self.llms = LLMRegistry(self.environ)
        self.mcp = Supervisor(home, lambda: settings().mcp, self.environ, before_server)
        """The MCP servers that all conversations share."""
        self.own = UserFolders.of(home, self.environ)
        self.trust_policy = TrustPolicy(home, lambda: settings().trust.projects, lambda: settings().trust.disabled)
        self.redactor = self.llms.redactor = Redactor(values_of(settings(), self.environ))
        self._detector = Detector(self.redactor, lambda: settings().secrets.shown_kinds)
        self.plugins: Sequence[PluginRequirement] = ()
        """The plugins of the sandboxes."""

    async def open(self) -> None:
        """Load the plugins, and read the secrets. Raises ConfigurationError."""
        self.plugins = await asyncio.to_thread(_plugins, self._settings().sandbox.plugins)
        await self.learn_secrets()

    async def aclose(self) -> None:
        """Close the hosts of models and MCP servers."""
        await self.llms.aclose()
        await self.mcp.aclose()

    async def learn_secrets(self) -> None:
        """Redact what the vault holds, and use its keys for models and servers that the environment has no key for."""
        values, keys = await asyncio.to_thread(kept_values, self.vault, self._settings(), self.given_environ)
        self.redactor.add(values)
        self.environ.update(keys)
        self.llms.host.keys = {**self.llms.host.keys, **keys}

    async def model(self, name: str, workspace: str) -> LLM:
        """The model of that name for a conversation; in a thread, because a script is a file."""
        settings = self._settings()
        return await asyncio.to_thread(self.llms.create_chat, name, workspace, settings.llm, settings.models)

    async def session(
        self,
        lease: Lease,
        llm: LLM,
        *,
        agent: Agent | None = None,
        kind: AgentKind | None = None,
        limits: Limits | None = None,
        runtime: Runtime | None = None,
    ) -> AgentSession:
        """A session for the conversation of this lease, not started.

        With `agent` it has that one and no limits. Raises ConfigurationError, ConsentError, StoreError.
        """
        (info,) = await self._store.conversations(conversation_id=lease.conversation_id)
        settings = self._settings()
        runtime = await self._runtime(info, runtime)
        toolbox = None if info.model in (DEMO, RERUN) else Toolbox(self.mcp, info.workspace, info.id)
        past = _past_conversations(self._store, info, settings.memory)
        if agent is not None:
            chosen, limits = ConversationAgent(lambda llm: agent, runtime, toolbox), NO_LIMITS
        else:
            chosen = await self._agent(info, kind, runtime, toolbox, past)
        if chosen.toolbox is not None:
            await chosen.toolbox.open(chosen.runtime)
        limits = limits or replace(_limits(settings.agent), context=context_limit(settings.condenser, chosen.condenses))
        await asyncio.to_thread(import_module, "core.session.agent_session")  # takes long, so not at the start
        from core.session.agent_session import AgentSession

        return AgentSession(
            store=self._store,
            lease=lease,
            info=info,
            runtime=chosen.runtime,
            llm=llm,
            make_llm=lambda name: self.model(name, info.workspace),
            make_agent=chosen.make,
            limits=limits,
            day_limits=_limits(settings.day) if agent is None else NO_LIMITS,
            make_child=partial(self._make_child, info.id),
            close_child=self._close_child,
            settings=settings,
            confirm=ConfirmMode.NEVER if info.model == DEMO else settings.agent.confirm,  # its commands are ours
            redactor=self.redactor,
            detector=self._detector if settings.secrets.detect else None,
            vault=self.vault,
            slots=self._slots,
            checkpoints=await asyncio.to_thread(self.make_checkpoints, info.workspace, info.id),
            suggest_title=self._suggest_title(info),
            clock=self._clock,
            comes_back=info.origin != RERUN,
            toolbox=chosen.toolbox,
            past=past if chosen.condenses else None,
            own=self.own if toolbox is not None else None,
            trust_policy=self.trust_policy,
        )

    async def _agent(
        self,
        info: ConversationInfo,
        kind: AgentKind | None,
        runtime: Runtime,
        toolbox: Toolbox | None,
        past: PastConversations | None,
    ) -> ConversationAgent:
        """The agent of a conversation: `kind` for a new one, else the one that it began with.

        If the agent does not exist any more, one that says so takes its place; an import uses that of the settings.
        Raises ConfigurationError, ConsentError, StoreError.
        """
        settings = self._settings()
        if kind is None:
            name = await self._agent_name(info)
            try:
                kind = await asyncio.to_thread(self.agents.find, name, info.workspace)
            except (ConfigurationError, ConsentError) as error:
                if info.origin not in (IMPORT, RERUN):
                    missing = MissingAgent(name, str(error))
                    return ConversationAgent(lambda llm: missing, runtime, toolbox)
                kind = await asyncio.to_thread(self.agents.find, settings.agent.name, info.workspace)
        if kind.name == ACP_AGENT:
            environ = inherited(os.environ, settings.agent.acp_env)
            command = settings.agent.acp_command
            other = await asyncio.to_thread(connect_agent, command, info.workspace, runtime, environ)
            return ConversationAgent(other.make, other.runtime, None)
        wanted = (
            (REQUEST_CONDENSATION, settings.agent.request_condensation),
            (EDIT_FILE, settings.agent.llm_editor),
            (RECALL_CONVERSATIONS, past is not None),
        )
        own_tools = [tool for tool, is_wanted in wanted if is_wanted]

        async def more_tools() -> Sequence[Tool]:
            return (*own_tools, *(await toolbox.tools() if toolbox else ()))

        make, plugins, delegates = kind.make, self.plugins, await asyncio.to_thread(self._delegates, info.workspace)
        make_condenser = condenser_maker(self.llms, info.workspace, settings.condenser, settings.llm, settings.models)

        def make_agent(llm: LLM) -> Agent:
            agent = make(llm, plugins, more_tools)
            if isinstance(agent, ToolAgent):
                agent.offer_delegates(delegates)
                agent.history_condenser = make_condenser(llm)
                if toolbox is not None:
                    agent.missing_tools = toolbox.missing
            return agent

        return ConversationAgent(make_agent, runtime, toolbox, condenses=True)

    async def _agent_name(self, info: ConversationInfo) -> str:
        """The agent that a conversation began with, or that of the settings."""
        first = next(iter(await self._store.read(info.id, limit=1)), None)
        name = first.event.agent_class if first and isinstance(first.event, SystemMessageAction) else None
        if info.origin == IMPORT and name == ACP_AGENT:
            name = None  # it works outside of the sandbox: only the user may choose it, not a file
        return name or self._settings().agent.name

    def _delegates(self, workspace: str) -> dict[str, str]:
        """The agents of files and packages that may take a task in a folder, with their descriptions. Blocks."""
        kinds = self.agents.all(workspace).kinds.values()
        return {kind.name: kind.description for kind in kinds if kind.name not in AGENTS and kind.allowed}

    async def _runtime(self, info: ConversationInfo, runtime: Runtime | None) -> Runtime:
        """The given runtime, or a new one, with its folder and what it may reach."""
        if runtime is None:
            sandbox = self._settings().sandbox
            variables = {**sandbox.author, **sandbox_variables(sandbox.environment, self.environ)}
            runtime = await asyncio.to_thread(self._make_runtime, info.workspace)
            await runtime.set_environment(variables)
        runtime.keep(self._store.home / "sandboxes" / info.id)
        repository = Repository.parse(info.repository) if info.repository else None
        if repository:
            runtime.allow(host=repository.host, folder=repository.folder)
        runtime.allow_git(self._git_access(info, repository))
        return runtime

    def _git_access(self, info: ConversationInfo, repository: Repository | None) -> GitAccess:
        """What git in the sandbox reaches with the user's tokens and ssh keys."""
        settings = self._settings().sandbox
        names = names_of(settings.git_tokens)
        tokens = GitTokens(
            names,
            vault=self.vault,
            environ=self.environ,
            redactor=self.redactor,
            workspace=info.workspace,
            conversation_id=info.id,
        )
        place = repository.place if repository else None
        return GitAccess(tokens.credential, tuple(names), place, settings.allowed_hosts)

    def _suggest_title(self, info: ConversationInfo) -> SuggestTitle | None:
        """What suggests a title; None without a model for it, for a delegate, or for a rerun."""
        settings = self._settings()
        name = model_for("title", info.model, settings.llm)
        if not name or info.parent or info.model == RERUN:
            return None
        make = partial(self.llms.create, name, info.workspace, settings.llm, settings.models)
        return partial(suggest_title, lambda: asyncio.to_thread(make))


def _past_conversations(
    store: EventStore, info: ConversationInfo, settings: MemorySettings
) -> PastConversations | None:
    """The other conversations that the agent may search; None if the setting or the model excludes that."""
    if settings.recall == "off" or info.model in (DEMO, RERUN):
        return None
    return PastConversations(store, info.id, info.workspace if settings.recall == "project" else "")


def _limits(settings: AgentSettings | DaySettings) -> Limits:
    return Limits(settings.max_iterations, settings.max_budget, settings.max_tokens, settings.max_seconds)


def _plugins(names: Iterable[str]) -> list[PluginRequirement]:
    """The plugins of the sandboxes, with their events registered. Raises ConfigurationError."""
    try:
        plugins = required(names)
        for plugin in plugins:
            load_events(plugin)
    except PluginError as error:
        raise ConfigurationError(f"{error}. Correct sandbox.plugins in config.toml.") from error
    return plugins
