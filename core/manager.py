"""ConversationManager: the conversations that this process has open, and what they share.

They share one event store, one model host and one set of settings. A conversation is open in one place at a time: the
lease in the store says where. Use as an async context manager; leaving it closes every conversation.
"""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from core import collector
from core.agent.registry import check_agent, create_agent
from core.config import AgentSettings, DaySettings, Settings, remember_model
from core.controller.state import Limits
from core.delegation import MAX_LEVEL
from core.errors import UsageError
from core.events import AgentDelegateAction
from core.llm.hosted import HostedLLM, ModelHost
from core.llm.registry import ModelOffer, create_llm, offers
from core.ports import LLM, Runtime
from core.repository import Repository
from core.secrets import Masker, from_environment
from core.security.confirmation import ConfirmMode
from core.session import AgentSession
from core.store import ConversationInfo, EventStore
from core.writer import Lease

DEMO = "demo"
"""The model that needs neither key nor network; it works in a scratch folder of its own."""
MakeRuntime = Callable[[str], Runtime]
"""A runtime that works in the folder of this name, not started yet."""


class ConversationManager:
    """All open conversations of one process. `environ` is read for names of models and values of secrets."""

    def __init__(
        self, home: Path, settings: Settings, *, make_runtime: MakeRuntime, environ: Mapping[str, str]
    ) -> None:
        self.settings = settings
        self.store = EventStore(home)
        self._host = ModelHost()
        self._make_runtime = make_runtime
        self._environ = environ
        self._masker = Masker(from_environment(environ))
        self._sessions: dict[str, AgentSession] = {}

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        collector.spare()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every conversation, then the model host, then the store. May be called twice."""
        await asyncio.gather(*(session.aclose() for session in self._sessions.values()))
        self._sessions.clear()
        await self._host.aclose()
        await self.store.__aexit__()

    def offers(self) -> list[ModelOffer]:
        """The models that can be used here as things stand; the demo always."""
        return offers(self._environ)

    async def choose_model(self, name: str, api_base: str = "") -> None:
        """Use this model for new conversations from now on, and in later starts; the demo is not remembered.

        Raises ConfigurationError where it cannot be used (then nothing changes) or not be written down.
        """
        if name == DEMO:
            return
        llm_settings = self.settings.llm.model_copy(update={"api_base": api_base}) if api_base else self.settings.llm
        await asyncio.to_thread(
            create_llm, name, workspace="/", host=self._host, settings=llm_settings, environ=self._environ
        )
        self.settings = self.settings.model_copy(update={"model": name, "llm": llm_settings})
        await asyncio.to_thread(remember_model, self.store.home, name, api_base)

    async def list(self) -> list[ConversationInfo]:
        """Every conversation of this home, the newest first."""
        return await self.store.conversations()

    async def create(self, *, workspace: str, model: str = "", title: str = "", repository: str = "") -> AgentSession:
        """A new conversation, started. Raises ConfigurationError, UsageError or StoreError.

        `repository` is `URL` or `URL#BRANCH`, cloned into the workspace before the first action.
        """
        if repository:
            repository = self._repository(repository)
        model = model or self.settings.model
        if model == DEMO:
            workspace = await asyncio.to_thread(tempfile.mkdtemp, prefix="handloom-demo-")
        workspace = await asyncio.to_thread(_folder, workspace)
        llm = await self._make_llm(model, workspace)
        conversation_id = uuid.uuid4().hex
        lease = await self.store.create_conversation(
            conversation_id, title=title, workspace=workspace, model=model, repository=repository
        )
        return await self._start(lease, llm)

    async def open(self, conversation_id: str, *, model: str = "") -> AgentSession:
        """A conversation as it was left, started; the same session where it is open here already.

        Raises UsageError for an unknown one, StoreBusyError where another process has it.
        """
        if (known := self._sessions.get(conversation_id)) is not None:
            return known
        lease = await self.store.acquire(conversation_id)
        try:
            (info,) = await self.store.conversations(conversation_id=conversation_id)
            llm = await self._make_llm(model or info.model, await asyncio.to_thread(_folder, info.workspace))
        except BaseException:
            await self.store.release(lease)
            raise
        return await self._start(lease, llm)

    async def _make_child(
        self, parent: str, action: AgentDelegateAction, action_id: int, limits: Limits
    ) -> AgentSession:
        """A conversation for a task of another's agent, started. Raises HandloomError."""
        by = self._sessions[parent]
        level, above = 1, by.info.parent
        while above:
            (info,) = await self.store.conversations(conversation_id=above)
            level, above = level + 1, info.parent
        if level > MAX_LEVEL:
            raise UsageError(f"Delegates may not delegate deeper than {MAX_LEVEL} levels. Do the task yourself.")
        check_agent(action.agent)
        model = self.settings.agent.delegate_model or by.info.model
        llm = await self._make_llm(model, by.info.workspace)
        conversation_id = uuid.uuid4().hex
        lease = await self.store.create_conversation(
            conversation_id,
            title="",
            workspace=by.info.workspace,
            model=model,
            parent=parent,
            parent_action=action_id,
        )
        child = await self._start(lease, llm, agent=action.agent, limits=limits)
        child.set_confirm_mode(by.confirm_mode)
        child.delegation.attended = by.delegation.attended
        return child

    async def _start(self, lease: Lease, llm: LLM, *, agent: str = "", limits: Limits | None = None) -> AgentSession:
        (info,) = await self.store.conversations(conversation_id=lease.conversation_id)
        agent_settings = self.settings.agent
        session = AgentSession(
            store=self.store,
            lease=lease,
            info=info,
            runtime=await asyncio.to_thread(self._make_runtime, info.workspace),
            llm=llm,
            make_llm=lambda name: self._make_llm(name, info.workspace),
            make_agent=lambda llm: create_agent(agent or agent_settings.name, llm),
            limits=limits or _limits(agent_settings),
            day_limits=_limits(self.settings.day),
            make_child=lambda action, id, limits: self._make_child(info.id, action, id, limits),
            close_child=self.close,
            confirm=ConfirmMode.NEVER if info.model == DEMO else agent_settings.confirm,  # its commands are ours
            masker=self._masker,
            sandbox=self.settings.sandbox,
        )
        try:
            await session.start()
        except BaseException:
            await session.aclose()
            raise
        self._sessions[lease.conversation_id] = session
        if isinstance(llm, HostedLLM):
            await self._host.start()  # it loads for seconds, while the user still writes
        return session

    def _repository(self, text: str) -> str:
        """The repository as it is stored. Raises UsageError for one that is not allowed, or holds a secret."""
        repository = str(Repository.parse(text))
        if self._masker.mask_text(repository) != repository:
            raise UsageError("The repository's address holds the value of a secret variable. Give it without.")
        return repository

    async def _make_llm(self, name: str, workspace: str) -> LLM:
        """The model of that name; off the loop, because a script is a file that has to be read."""
        settings = self.settings.llm
        return await asyncio.to_thread(
            create_llm, name, workspace=workspace, host=self._host, settings=settings, environ=self._environ
        )

    async def close(self, conversation_id: str) -> None:
        """Close a conversation; an unknown one is closed already."""
        if (session := self._sessions.pop(conversation_id, None)) is not None:
            await session.aclose()


def _limits(settings: AgentSettings | DaySettings) -> Limits:
    return Limits(settings.max_iterations, settings.max_budget, settings.max_tokens, settings.max_seconds)


def _folder(path: str) -> str:
    """The folder in which the agent works, absolute. Raises UsageError where it cannot be used."""
    folder = Path(path).expanduser().absolute()
    if not folder.is_dir():
        raise UsageError(f"The workspace {folder} is no folder. Make it, or name another with --workspace.")
    try:
        next(folder.iterdir(), None)
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"The workspace {folder} cannot be read: {why}. Name another with --workspace.") from error
    return str(folder)
