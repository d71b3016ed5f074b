"""The conversations that this process has open, and what they share.

They share one event store, one model host, one set of settings and the slots for those that are awake. A conversation
is open in one process at a time, which the lease in the store records; in this process it is one AgentSession, however
many screens show it. One that is not shown goes on working, and is closed when it has rested for a while. An error in
one conversation does not affect the others. Use it as an async context manager; leaving it closes every conversation.

Follows `openhands/server/conversation_manager/standalone_conversation_manager.py`, but suspends where that one ends.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from core import garbage_collector
from core.acp import ACP_AGENT
from core.agent.registry import Found
from core.controller.state import Limits
from core.conversations import deletion
from core.conversations.deletion import Forget, forget_nothing
from core.conversations.session_factory import MakeCheckpoints, MakeRuntime, SessionFactory
from core.delegation.delegation import MAX_DEPTH
from core.delegation.shared_runtime import SharedRuntime
from core.errors import UsageError
from core.events import AgentDelegateAction, AgentState, EventSource
from core.llm.model_catalogue import KnownModel
from core.llm.registry import DEMO, NO_MODEL, RERUN, ModelOffer, NoModel, model_of_agent, offers
from core.llm.title_suggestion import first_line
from core.mcp.supervisor import BeforeServer
from core.protocols import LLM, Agent
from core.repository import Repository
from core.secrets.provider_keys import ProviderKeys
from core.secrets.redactor import without_secrets
from core.session.suspend import Slots
from core.settings.config import Settings, remember_model
from core.settings.editable_settings import EditableSettings, Setting
from core.store.conversations import FORK, RUN_AGAIN, ConversationFilter, ConversationInfo, NewConversation
from core.store.event_store import EventStore
from core.trust.folder_trust import FolderTrust
from core.workspaces.forks import consent_drafts, fork_title, moved_observation, unpack_copy
from core.workspaces.workspace_copies import WorkspaceCopies, usable_folder

if TYPE_CHECKING:
    from core.session.agent_session import AgentSession

log = logging.getLogger(__name__)


class ConversationManager:
    """All open conversations of one process.

    `forget` removes what the runtimes keep of a conversation. `before_server` isolates MCP servers.
    `around` is what the runtimes share, entered with the manager and left after the last conversation. `environ` has
    the names of models and the values of secrets, `options` are those with which the settings were loaded, `clock`
    measures how long a conversation has rested.
    """

    def __init__(
        self,
        home: Path,
        settings: Settings,
        *,
        make_runtime: MakeRuntime,
        make_checkpoints: MakeCheckpoints = lambda workspace, conversation_id: None,
        forget: Forget = forget_nothing,
        before_server: BeforeServer = lambda folder, hosts: (),
        environ: Mapping[str, str],
        around: AbstractAsyncContextManager[object] | None = None,
        options: Mapping[str, Any] = MappingProxyType({}),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self._book = EditableSettings(home, environ, options)
        self.store = EventStore(home)
        self._around = around or nullcontext()
        self._forget = forget
        self._sessions: dict[str, AgentSession] = {}
        self._clock = clock
        self._viewers: Counter[str] = Counter()
        """How many screens show each conversation."""
        self._left_at: dict[str, float] = {}
        """When the last screen that showed a conversation was closed, by `clock`."""
        self._slots = Slots(settings.conversations.max_concurrent, self._sessions)
        self.factory = SessionFactory(
            self.store,
            lambda: self.settings,
            make_runtime=make_runtime,
            make_checkpoints=make_checkpoints,
            before_server=before_server,
            make_child=self._make_child,
            close_child=self.close,
            environ=environ,
            slots=self._slots,
            clock=clock,
        )
        self.redact = partial(without_secrets, redactor=self.factory.redactor)
        """Redacts a text for use outside of the log."""
        self.vault, self.mcp = self.factory.vault, self.factory.mcp
        """The secrets that commands may have, and the MCP servers that all conversations share."""
        self.keys = ProviderKeys(self)
        self.trust = FolderTrust(home, self.factory.own, self.factory.trust_policy, self.mcp)
        """What folders bring, and whether the user trusts it."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._ending = asyncio.Event()
        self._housekeeping: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.factory.open()
        await self.store.__aenter__()
        self.copies = WorkspaceCopies(self.store.home, self.store.mark)
        await self._around.__aenter__()
        garbage_collector.freeze()
        self._housekeeping.append(asyncio.create_task(self.copies.sweep(), name="remove old workspace copies"))
        if self.settings.conversations.close_delay_s:
            self._housekeeping.append(asyncio.create_task(self._close_stale_loop(), name="close stale conversations"))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every conversation, then the hosts of models and MCP servers, then the store. May be called twice.

        An error while closing a conversation is logged, and the others are closed.
        """
        self._ending.set()
        await asyncio.gather(*self._housekeeping)
        ids = list(self._sessions)
        for id, failure in zip(ids, await asyncio.gather(*map(self.close, ids), return_exceptions=True), strict=True):
            if isinstance(failure, BaseException):
                log.error("conversation %s could not be closed", id, exc_info=failure)
        await self._around.__aexit__(None, None, None)
        await self.factory.aclose()
        await self.store.__aexit__()

    async def learn_secrets(self) -> None:
        """Redact what the vault holds, and use its keys for models and servers that the environment has no key for."""
        await self.factory.learn_secrets()

    def offers(self) -> list[ModelOffer]:
        """The models that can be used here now; the demo always can."""
        return offers(self.factory.environ, self.settings.models)

    async def choose_model(self, name: str, api_base: str = "") -> None:
        """Use this model for new conversations from now on, and after a restart; the demo is not remembered.

        Raises ConfigurationError if it cannot be used (then nothing changes) or not be saved.
        """
        if name == DEMO:
            return
        llm_settings = self.settings.llm.model_copy(update={"api_base": api_base}) if api_base else self.settings.llm
        await asyncio.to_thread(self.factory.llms.create, name, "/", llm_settings, self.settings.models)
        self.settings = self.settings.model_copy(update={"model": name, "llm": llm_settings})
        await asyncio.to_thread(remember_model, self.store.home, name, api_base)

    async def local_models(self) -> list[KnownModel]:
        """The models that need no table: the user's named models, and those of servers on this machine.

        Asking the servers takes at most half a second.
        """
        return await self.factory.llms.local_models(self.settings.llm, self.settings.models)

    async def known_models(self) -> list[KnownModel]:
        """The models of the catalogue; none if it is not available. Takes seconds while the model host loads."""
        return await self.factory.llms.known_models()

    async def read_settings(self) -> list[Setting]:
        """Every setting with its value. Raises ConfigurationError."""
        self.settings, listed = await asyncio.to_thread(self._book.read)
        return listed

    async def change_setting(self, name: str, value: str | bool) -> list[Setting]:
        """Save a setting and use it from now on. Raises ConfigurationError; then nothing has changed."""
        self.settings, listed = await asyncio.to_thread(self._book.change, name, value)
        return listed

    async def reset_setting(self, name: str) -> list[Setting]:
        """Reset a setting to its default. Raises ConfigurationError."""
        self.settings, listed = await asyncio.to_thread(self._book.reset, name)
        return listed

    async def list(self, *, all: bool = True) -> list[ConversationInfo]:
        """The conversations of this home, newest first; not `all` leaves out old ones (see settings)."""
        found, days = await self.store.conversations(), self.settings.conversations.max_age_days
        if all or days is None:
            return found
        since = datetime.now(UTC) - timedelta(days=days)
        return [info for info in found if info.updated_at >= since]

    # -- create, open, close -----------------------------------------------------------------------------------------

    async def create(
        self,
        *,
        workspace: str,
        model: str = "",
        title: str = "",
        repository: str = "",
        agent: str = "",
        limits: Limits | None = None,
    ) -> AgentSession:
        """Create and start a conversation. `repository` is `URL` or `URL#BRANCH`, cloned before the first action.

        Without a model it uses that of the agent or of the settings; without an agent that of the settings. Raises
        ConfigurationError, StoreError, and UsageError, also if all slots are taken by conversations that work, or if
        the user has not read a project's agent.
        """
        await self.trust.apply_setting(workspace)
        kind = await asyncio.to_thread(self.factory.agents.find, agent or self.settings.agent.name, workspace)
        if repository:
            repository = str(Repository.parse(repository, self.settings.sandbox.git_host))
            if self.factory.redactor.redact_text(repository) != repository:
                raise UsageError("The repository address contains the value of a secret variable. Remove it.")
        own_model = model_of_agent(kind.name, self.settings.llm) or kind.model
        model = model or own_model or self.settings.model or (NO_MODEL if kind.name == ACP_AGENT else "")
        if model == DEMO:
            workspace = await asyncio.to_thread(tempfile.mkdtemp, prefix="handloom-demo-")
        workspace = await asyncio.to_thread(usable_folder, workspace)
        llm = await self.factory.model(model, workspace)
        async with self._slot(uuid.uuid4().hex) as id:
            lease = await self.store.create_conversation(
                id, title=self.redact(title), workspace=workspace, model=model, repository=repository
            )
            session = await self._start(await self.factory.session(lease, llm, kind=kind, limits=limits), llm)
            session.memory.instructions = self.settings.agent.instructions.strip()
            return session

    async def agents_for(self, workspace: str) -> Found:
        """The agents that can be chosen in a folder, and the errors of others."""
        return await asyncio.to_thread(self.factory.agents.all, workspace)

    @asynccontextmanager
    async def _slot(self, conversation_id: str) -> AsyncIterator[str]:
        """Take a slot for a conversation that starts, and release it if that fails. Raises UsageError."""
        await self._slots.take(conversation_id)
        try:
            yield conversation_id
        except BaseException:
            self._slots.release(conversation_id)
            raise

    async def open(self, conversation_id: str, *, model: str = "") -> AgentSession:
        """Open and start a stored conversation; returns the same session if it is open here already.

        It is not closed automatically until it was attached and detached. Raises UsageError for an unknown one or if
        all slots are taken by conversations that work, StoreBusyError if another process has it open.
        """
        async with self._lock(conversation_id):
            self._left_at.pop(conversation_id, None)
            if (known := self._sessions.get(conversation_id)) is not None:
                return known
            async with self._slot(conversation_id):
                return await self._open(conversation_id, model)

    async def fork(self, conversation_id: str, event_id: int, *, copy_files: bool) -> AgentSession:
        """Create a conversation that begins like that one up to an event, and start it as after a restart.

        It works in a copy of the files of that moment, or in the same folder. The other one is only read. Raises
        UsageError if there is no such event or the files were not kept, and as `open`.
        """
        info = next(iter(await self.store.conversations(conversation_id=conversation_id)), None)
        if info is None or not 0 <= event_id < info.event_count:
            raise UsageError(f"Conversation {conversation_id} has no event {event_id} to fork from.")
        id, workspace = uuid.uuid4().hex, info.workspace
        if copy_files:
            checkpoints = await asyncio.to_thread(self.factory.make_checkpoints, info.workspace, info.id)
            workspace = str(await unpack_copy(self.store, checkpoints, info, event_id, id))
        else:
            await asyncio.to_thread(self._workspace_of, info)
        title = fork_title(info.title or info.first_line)
        new = NewConversation(id, title, workspace, info.model, FORK, info.id, event_id, repository=info.repository)
        await self.store.fork(info.id, event_id, new, await consent_drafts(self.store, info, event_id))
        session = await self.open(id)
        if copy_files:
            repository = Repository.parse(info.repository) if info.repository else None
            moved = moved_observation(session.runtime.working_dir, repository)
            await session.stream.append(moved, EventSource.ENVIRONMENT)
        return session

    async def others_at_work(self, session: AgentSession) -> Sequence[str]:
        """The titles of other conversations that work in the same folder, in any process. Foreign text."""
        own_ids = {session.id, *(child.id for child in session.delegates)}
        running = frozenset({AgentState.RUNNING.value, AgentState.RATE_LIMITED.value})
        where = ConversationFilter(workspace=session.info.workspace, states=running, parents=True)
        found = await self.store.conversations(where=where)
        return [other.title or other.first_line for other in found if other.id not in own_ids]

    async def _open(self, conversation_id: str, model: str) -> AgentSession:
        lease = await self.store.acquire(conversation_id)
        try:
            (info,) = await self.store.conversations(conversation_id=conversation_id)
            workspace = await asyncio.to_thread(self._workspace_of, info)
            await self.trust.apply_setting(workspace)
            llm = await self.factory.model(model or info.model, workspace)
        except BaseException:
            await self.store.release(lease)
            raise
        return await self._start(await self.factory.session(lease, llm), llm)

    def _workspace_of(self, info: ConversationInfo) -> str:
        """The folder of a stored conversation. Raises UsageError if it cannot be used."""
        if self.copies.has(info.workspace):
            raise UsageError(
                f"Conversation {info.id} was a rerun in a copy of the workspace, which was removed with it. "
                "Replay it, or rerun the original conversation."
            )
        return usable_folder(info.workspace)

    async def _make_child(
        self, parent: str, action: AgentDelegateAction, action_id: int, limits: Limits
    ) -> AgentSession:
        """Create and start a conversation for the task of a delegate. Raises HandloomError."""
        parent_session = self._sessions[parent]
        info, level = parent_session.info, 1
        while info.parent:
            (info,) = await self.store.conversations(conversation_id=info.parent)
            level += 1
        if level > MAX_DEPTH:
            raise UsageError(f"Delegates may not delegate deeper than {MAX_DEPTH} levels. Do the task yourself.")
        if action.agent == ACP_AGENT:
            raise UsageError(
                f"{ACP_AGENT} works outside of the sandbox, so only the user chooses it. Do the task yourself."
            )
        workspace = parent_session.info.workspace
        kind = await asyncio.to_thread(self.factory.agents.find, action.agent, workspace)
        model = model_of_agent(action.agent, self.settings.llm) or kind.model
        model = model or self.settings.agent.delegate_model or parent_session.info.model
        llm = await self.factory.model(model, workspace)
        async with self._slot(uuid.uuid4().hex) as id:
            lease = await self.store.create_conversation(
                id,
                title=first_line(str(action.inputs.get("task", ""))),
                workspace=workspace,
                model=model,
                parent=parent,
                parent_action=action_id,
            )
            runtime = SharedRuntime(parent_session.runtime) if parent_session.runtime.is_elsewhere else None
            child = await self.factory.session(lease, llm, kind=kind, limits=limits, runtime=runtime)
            await self._start(child, llm)
        child.approval.set_mode(parent_session.approval.mode)
        child.approval.share(parent_session.approval)
        child.delegation.attended = parent_session.delegation.attended
        return child

    async def create_rerun(self, source: ConversationInfo, *, workspace: str, agent: Agent) -> AgentSession:
        """Create and start a conversation in which this agent runs another one again. It has no model and no limits.

        Its sandbox ends with it, and so does the workspace if it is one of `copies`. Raises as `create`.
        """
        workspace = await asyncio.to_thread(usable_folder, workspace)
        async with self._slot(uuid.uuid4().hex) as id:
            title = f"{source.title.strip()}{RUN_AGAIN}" if source.title else ""
            new = NewConversation(id, title, workspace, RERUN, origin=RERUN, origin_of=source.id)
            lease = await self.store.acquire(await self.store.adopt(new, []))
            llm = NoModel()
            return await self._start(await self.factory.session(lease, llm, agent=agent), llm)

    async def _start(self, session: AgentSession, llm: LLM) -> AgentSession:
        try:
            await session.start()
        except BaseException:
            await session.aclose()
            raise
        self._sessions[session.id] = session
        await self.factory.llms.warm(llm)
        return session

    async def close(self, conversation_id: str) -> None:
        """Close a conversation, even if it is shown; one that is not open is ignored."""
        async with self._lock(conversation_id):
            await self._close(conversation_id)

    async def _close(self, conversation_id: str) -> None:
        self._viewers.pop(conversation_id, None)
        self._left_at.pop(conversation_id, None)
        self._slots.release(conversation_id)  # now, because closing takes seconds, and it starts nothing any more
        if (session := self._sessions.pop(conversation_id, None)) is not None:
            try:
                await session.aclose()
            finally:
                self._slots.release(conversation_id)  # again, because it may have been resuming
                if session.info.origin == RERUN:  # a delegate works in the copy too
                    await self.copies.remove(session.info.workspace)
                garbage_collector.conversation_closed()

    # -- conversations that are open or closed -------------------------------------------------------------------------

    def is_open(self, conversation_id: str) -> bool:
        """Whether this process has it open."""
        return conversation_id in self._sessions

    async def open_elsewhere(self, ids: Sequence[str]) -> set[str]:
        """The ids of those conversations that another living process has open."""
        mark, owners = self.store.mark, await self.store.listing.owners(ids)
        others = {id: owner for id, owner in owners.items() if owner != mark.name}
        return await asyncio.to_thread(lambda: {id for id, owner in others.items() if mark.is_alive(owner)})

    async def rename(self, conversation_id: str, title: str) -> None:
        """Rename a conversation. Raises UsageError for an unknown one, StoreError."""
        if (session := self._sessions.get(conversation_id)) is not None:
            await session.record.set_title(title)
        else:
            await self.store.rename(conversation_id, self.redact(title))

    async def delete(self, conversation_id: str, *, later: bool = False) -> None:
        """Delete a conversation and its delegates with everything that is kept of them; open ones are closed first.

        With `later`, what cannot be reached now, such as a container, is removed as soon as it can be. The database
        comes last, so that a delete that was interrupted can be repeated. Raises UsageError for an unknown one or if an
        agent works in it, StoreBusyError if another process has it open, OutOfReachError if `later` would help, and
        HandloomError if something could not be removed; then the conversation is still there.
        """
        infos = await deletion.with_delegates(self.store, conversation_id)
        if any(info.id in self._sessions and not self._sessions[info.id].rests for info in infos):
            raise UsageError("The agent is still working in it. Stop it first, then delete it.")
        for info in infos:
            await self.close(info.id)
        await deletion.delete(self.store, infos, self._forget, later=later)

    def _lock(self, conversation_id: str) -> asyncio.Lock:
        """A lock for opening and closing a conversation, so that it is started once."""
        return self._locks.setdefault(conversation_id, asyncio.Lock())

    # -- screens that show a conversation ------------------------------------------------------------------------------

    async def attach(self, conversation_id: str) -> AgentSession:
        """Show a conversation: its session, opened if necessary. Raises as `open`."""
        session = await self.open(conversation_id)
        self._viewers[conversation_id] += 1
        return session

    def detach(self, conversation_id: str) -> None:
        """Stop showing a conversation. It goes on working, and is closed when it has rested for a while."""
        if conversation_id not in self._sessions:
            return
        self._viewers[conversation_id] -= 1
        if self._viewers[conversation_id] <= 0:
            del self._viewers[conversation_id]
            self._left_at[conversation_id] = self._clock()

    async def _close_stale_loop(self) -> None:
        """Close stale conversations until the manager ends."""
        while True:
            try:
                async with asyncio.timeout(self.settings.conversations.cleanup_interval_s):
                    await self._ending.wait()
                return
            except TimeoutError:
                await self.close_stale()

    async def close_stale(self) -> None:
        """Close the conversations that are not shown and have rested for the delay of the settings."""
        for id in list(self._left_at):
            async with self._lock(id):
                if not self._is_stale(id):
                    continue
                try:
                    await self._close(id)
                except Exception:  # the boundary between conversations: the next one is closed all the same
                    log.exception("conversation %s could not be closed", id)

    def _is_stale(self, conversation_id: str) -> bool:
        delay_s, session = self.settings.conversations.close_delay_s, self._sessions.get(conversation_id)
        left_at = self._left_at.get(conversation_id)
        if not delay_s or session is None or left_at is None or not session.rests:
            return False
        return self._clock() - max(left_at, session.rests_since) >= delay_s
