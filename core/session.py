"""AgentSession: everything of one open conversation, from its first task to its last.

It folds the log, starts the controller and the memory, and ends them in the right order: what is in flight is
interrupted and answered, then the runtime goes, then the stream, then the lease. The user's wishes enter the
conversation here and nowhere else, each as one event. Used by the conversation manager's callers: the workspace and the
headless command.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from core import collector
from core.config import SandboxSettings
from core.controller.controller import AgentController
from core.controller.decide import evolve
from core.controller.halts import Way
from core.controller.limits import Reached, reached_of_day
from core.controller.state import Limits, State
from core.delegation import CloseChild, Delegation, MakeChild, share
from core.errors import StoreError
from core.events import (
    AgentDelegateAction,
    AgentState,
    ChangeAgentStateAction,
    CondensationRequestAction,
    Envelope,
    EventSource,
    LoopRecoveryAction,
    MessageAction,
    NullAction,
    Observation,
    RecallAction,
    Status,
)
from core.live import Frames
from core.memory.memory import recall
from core.ports import LLM, Agent, Runtime
from core.preparation import Preparation
from core.repository import Repository
from core.secrets import Masker
from core.security.confirmation import ConfirmMode, needs_confirmation
from core.store import ConversationInfo, EventFilter, EventStore
from core.stream import EventStream, EventStreamSubscriber
from core.writer import Lease

log = logging.getLogger(__name__)

CLOSE_S = 5.0
"""How long what is in flight may take to end when a conversation is closed; then it is dropped."""
TITLE_CHARS = 50
PAGE = 500
"""Events read and folded between two turns of the event loop: about 20 ms of work."""
DELEGATES_STATUS = "STATUS$DELEGATES"
TELL = "You go round in a circle: {} Do not repeat it. Say what you tried and why it did not work, then go another way."
_NO_LIMITS = Limits(max_iterations=None)


class AgentSession:
    """One open conversation. Made by the manager; `start` it, `aclose` it."""

    def __init__(
        self,
        *,
        store: EventStore,
        lease: Lease,
        info: ConversationInfo,
        runtime: Runtime,
        llm: LLM,
        make_llm: Callable[[str], Awaitable[LLM]],
        make_agent: Callable[[LLM], Agent],
        limits: Limits,
        day_limits: Limits,
        confirm: ConfirmMode,
        masker: Masker,
        make_child: MakeChild,
        close_child: CloseChild,
        sandbox: SandboxSettings,
    ) -> None:
        self.info = info
        self.opened_after = lease.next_id - 1
        """The id of the newest event when the conversation was opened; -1 for a new one."""
        self.stream: EventStream = EventStream(store, lease, masker)
        self.frames = Frames()
        self.runtime = runtime
        self.confirm_mode = confirm
        self._store = store
        self._lease = lease
        self._llm = llm
        self._make_llm = make_llm
        self._make_agent = make_agent
        self._limits = limits
        self._day_limits = day_limits
        self.delegation = Delegation(make_child, close_child, self._children_changed)
        self._preparation = Preparation(
            info=info,
            settings=sandbox,
            runtime=runtime,
            stream=self.stream,
            frames=self.frames,
            spawn=self._spawn,
        )
        self._controller: AgentController | None = None
        self._closing = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None

    @property
    def state(self) -> State:
        """The controller's state now; LOADING until `start` is through."""
        return self._controller.state if self._controller else State.initial(self._limits)

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self.info.id

    @property
    def model_name(self) -> str:
        return self._llm.name

    @property
    def isolation(self) -> str:
        """What separates the agent's commands from the user's machine; `none` has to be said all the time."""
        return self.runtime.isolation

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Fold the log, listen, and settle what a dead owner left open. Raises StoreError."""
        history: list[Envelope] = []
        state = State.initial(self._limits)
        while page := await self.stream.read(after=len(history) - 1, limit=PAGE):
            history += page
            state = reduce(evolve, page, state)
            collector.spare()
        opened = asyncio.Event()
        self._life = asyncio.create_task(self._live(opened), name=f"session {self.info.id}")
        await opened.wait()
        agent = self._make_agent(self._llm)
        self._controller = AgentController(
            stream=self.stream,
            agent=agent,
            runtime=self.runtime,
            frames=self.frames,
            history=history,
            state=state,
            needs_confirmation=lambda action: needs_confirmation(action, self.confirm_mode),
            ready=self._preparation.ready,
            delegate=self._delegate,
            day_limit=self._day_limit,
            spawn=self._spawn,
        )
        self.stream.subscribe(EventStreamSubscriber.MEMORY, self._recall, "memory", types=[RecallAction])
        await self._controller.start()
        if not history:
            await self.stream.append(agent.system_message(), EventSource.AGENT)

    async def _live(self, opened: asyncio.Event) -> None:
        """The task group in which everything of this conversation runs."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            opened.set()
            await self._closing.wait()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._group is not None
        return self._group.create_task(work)

    async def aclose(self) -> None:
        """Interrupt what is in flight, wait until it has answered, and let go of runtime, stream and lease."""
        if self._closing.is_set():
            return
        if self._controller is not None:
            await self._stop("The conversation was closed.")
            self._controller.give_up()
        await self._preparation.aclose()
        self._closing.set()
        if self._life is not None:
            _, late = await asyncio.wait([self._life], timeout=CLOSE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
        await self.runtime.aclose()
        await self._llm.aclose()
        await self.stream.aclose()

    async def _stop(self, why: str) -> None:
        """Interrupt, and see it through: the controller's tasks end only when their last words are stored."""
        try:
            if self.state.is_busy or self.state.agent_state is AgentState.RUNNING:
                stop = ChangeAgentStateAction(agent_state=AgentState.STOPPED, thought=why)
                await self.stream.append(stop, EventSource.ENVIRONMENT)
            async with asyncio.timeout(CLOSE_S):
                await self.stream.settle()
        except (StoreError, TimeoutError) as error:  # the next start settles it from the log
            log.warning("conversation %s was closed in the middle of its work: %s", self.info.id, error)

    async def settled(self) -> None:
        """Return when the agent rests: it finished, asks, failed or was stopped, and all of that is stored."""
        assert self._controller is not None
        while True:
            self._controller.changed.clear()
            await self.stream.settle()
            if not self.state.is_busy and not self.state.owed and self.state.agent_state is not AgentState.RUNNING:
                return
            await self._controller.changed.wait()

    async def changed(self) -> None:
        """Return after the next change of the controller's state."""
        assert self._controller is not None
        self._controller.changed.clear()
        await self._controller.changed.wait()

    # -- delegates and limits ----------------------------------------------------------------------------------------

    async def _delegate(self, action: AgentDelegateAction, action_id: int) -> Observation:
        return await self.delegation.run(action, action_id, share(self.state))

    def _children_changed(self) -> None:
        """Tell whoever watches that delegates have begun or ended."""
        self.frames.publish(Status("info", DELEGATES_STATUS, ""))

    async def _day_limit(self, state: State) -> Reached | None:
        if self._day_limits == _NO_LIMITS:
            return None
        today = datetime.now(UTC).date()
        return reached_of_day(state, self._day_limits, await self._store.spent(today), today)

    # -- memory ----------------------------------------------------------------------------------------------------

    async def _recall(self, envelope: Envelope) -> None:
        assert isinstance(envelope.event, RecallAction)
        repository = Repository.parse(self.info.repository) if self.info.repository else None
        workspace, now = self.runtime.working_dir, datetime.now(UTC)
        found = recall(envelope.event, workspace=workspace, now=now, repository=repository)
        await self.stream.append(found, EventSource.ENVIRONMENT, envelope.id)

    # -- the user's wishes -------------------------------------------------------------------------------------------

    async def send(self, text: str) -> Envelope:
        """Say something to the agent; it is stored when this returns. Raises StoreError, and then nothing was said."""
        envelope = await self.stream.append(MessageAction(content=text), EventSource.USER)
        if not self.info.title:
            first_line = text.strip().split("\n")[0][:TITLE_CHARS]
            await self.set_title(first_line or "Untitled")
        self._spawn(self._preparation.begin())  # while the model still thinks
        return envelope

    async def interrupt(self) -> None:
        """Stop what is going on, now: the model's answer, the running command, the preparation, what waits for it."""
        await self._wish(AgentState.STOPPED)
        self._preparation.interrupt()

    async def pause(self) -> None:
        """Let the running action end, and do nothing after it."""
        await self._wish(AgentState.PAUSED)

    async def resume(self) -> None:
        """Go on after a pause, an interrupt or an error; past a limit, extend it by the same amount again."""
        await self._wish(AgentState.RUNNING)

    async def queue(self, text: str) -> Envelope:
        """Have this said once the agent rests. Raises StoreError, and then it is not queued."""
        return await self.stream.append(MessageAction(content=text, queued=True), EventSource.USER)

    async def unqueue(self, message_id: int) -> None:
        """Do not say what was queued; what has been said already stays said."""
        await self.stream.append(NullAction(), EventSource.USER, message_id)

    async def take(self, way: Way, model: str = "") -> None:
        """Take one of the ways out that `state.halt` offers; any other does nothing. `model` is for SWITCH_MODEL.

        Raises ConfigurationError where the model cannot be used; then nothing has changed.
        """
        halt = self.state.halt
        if halt is None or way not in halt.ways:
            return
        match way:
            case Way.SWITCH_MODEL:
                await self.set_model(model)
            case Way.CONDENSE:
                await self.stream.append(CondensationRequestAction(), EventSource.USER)
            case Way.RESTART_SANDBOX:
                await self._preparation.restart()
            case Way.SKIP:
                self._preparation.skip()
            case Way.STOP:
                await self.interrupt()
                return
            case Way.CUT_LOOP:
                await self.stream.append(LoopRecoveryAction(option=1), EventSource.USER)
                return
            case Way.RESEND | Way.TELL:
                text = await self._last_request() if way is Way.RESEND else TELL.format(self.state.reason)
                await self.stream.append(LoopRecoveryAction(option=2), EventSource.USER)
                await self.send(text)
                return
        await self.resume()

    async def _last_request(self) -> str:
        """What the user said last."""
        before: int | None = None
        said = EventFilter(kinds=frozenset({"action:message"}), sources=frozenset({EventSource.USER}))
        while page := await self.stream.page(before=before, limit=10, where=said):
            for envelope in reversed(page):
                if isinstance(envelope.event, MessageAction) and not envelope.event.queued:
                    return envelope.event.content
            before = page[0].id
        return ""

    async def confirm(self) -> None:
        """Let the action that waits be carried out."""
        await self._wish(AgentState.USER_CONFIRMED, cause=self.state.awaiting)

    async def reject(self, reason: str = "") -> None:
        """Do not let the action that waits be carried out. With a reason the agent goes on and reads it."""
        await self._wish(AgentState.USER_REJECTED, cause=self.state.awaiting, thought=reason)

    async def _wish(self, wish: AgentState, *, cause: int | None = None, thought: str = "") -> None:
        await self.stream.append(ChangeAgentStateAction(agent_state=wish, thought=thought), EventSource.USER, cause)

    # -- what may change while it goes on -----------------------------------------------------------------------------

    def set_confirm_mode(self, mode: ConfirmMode | str) -> None:
        """From the next answer on, ask for this much."""
        self.confirm_mode = ConfirmMode(mode)

    async def set_model(self, name: str) -> None:
        """From the next answer on, another model answers. Raises ConfigurationError."""
        assert self._controller is not None
        llm = await self._make_llm(name)
        old, self._llm = self._llm, llm
        self._controller.agent = self._make_agent(llm)
        await self._store.update_conversation(self._lease, model=name)
        self.info = replace(self.info, model=name)
        await old.aclose()

    async def set_title(self, title: str) -> None:
        """What the lists call this conversation."""
        self.info = replace(self.info, title=title)
        await self._store.update_conversation(self._lease, title=title)
