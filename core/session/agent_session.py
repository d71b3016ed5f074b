"""AgentSession: one open conversation. Open it, send to it, interrupt it, close it.

What works in it is built by `core.session.session_parts`; callers use those parts directly. The session starts them in
order, and ends them in order: what is in flight is interrupted and answered, then the sandbox goes, then the stream and
the lease. Made by the conversation manager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack

from core.controller.state import State
from core.errors import StoreError, UsageError
from core.events import (
    Action,
    AgentState,
    AgentStateChangedObservation,
    ChangeAgentStateAction,
    CondensationRequestAction,
    Envelope,
    Event,
    EventSource,
    MessageAction,
    NullAction,
    RecallAction,
    Status,
    UndoObservation,
)
from core.security.confirmation import ConfirmMode
from core.security.guard import PLANNING_NOTE
from core.session.recovery import Recovery
from core.session.session_parts import SessionParts
from core.session.state_snapshots import EVERY
from core.store.conversations import ConversationInfo
from core.stream import EventStreamSubscriber

log = logging.getLogger(__name__)

CLOSE_S = 5.0
"""How long what is in flight may take to end when a conversation is closed; then it is dropped."""


class AgentSession:
    """One open conversation: `start` it, `aclose` it."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._controller = parts.controller
        self.closed = parts.closed
        """Set as soon as it begins to close; nothing begins in it after that."""
        self.opened_after = parts.opened_after
        """The id of the newest event when the conversation was opened; -1 for a new one."""
        self.stream = parts.stream
        self.frames = parts.frames
        self.runtime = parts.runtime
        """For questions to the sandbox that are no actions: its usage, its jobs, its page."""
        self.record = parts.record
        self.consent = parts.consent
        self.guard = parts.guard
        self.approval = parts.approval
        self.planning = parts.planning
        self.undo = parts.undo
        self.delegation = parts.delegation
        self.active_model = parts.active_model
        self.user_control = parts.user_control
        self.recollection = parts.recollection
        self.leftovers = parts.leftovers
        self.suspension = parts.suspension
        self.recovery = Recovery(self, parts.setup)

    @property
    def state(self) -> State:
        """The controller's state now; LOADING until `start` has returned."""
        return self._controller.state

    @property
    def info(self) -> ConversationInfo:
        """What the list of conversations shows."""
        return self.record.info

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self.info.id

    @property
    def delegates(self) -> list[AgentSession]:
        """The sessions of the delegates that are at work, in the order of their actions."""
        return [child for _, child in sorted(self.delegation.children.items()) if isinstance(child, AgentSession)]

    # -- open and close ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Fold the log, subscribe, and settle what the last process left open. Raises StoreError."""
        parts, stream = self._parts, self.stream
        state, history = await parts.snapshots.fold(stream)
        await parts.tasks.open()
        await asyncio.to_thread(self.recollection.allow_skills)
        agent = self.active_model.make_agent()
        ends: list[type[Event]] = [Action, AgentStateChangedObservation, UndoObservation]
        states: list[type[Event]] = [AgentStateChangedObservation]
        stream.subscribe(EventStreamSubscriber.MEMORY, self._on_recall, "memory", types=[RecallAction])
        stream.subscribe(EventStreamSubscriber.RUNTIME, parts.turns.on_event, "turns", types=ends)
        stream.subscribe(EventStreamSubscriber.RUNTIME, self.leftovers.on_state, "leftovers", types=states)
        stream.subscribe(EventStreamSubscriber.MAIN, self._on_state, "snapshots", types=states)
        await self._controller.start(state, history)
        if parts.toolbox is not None:
            parts.toolbox.watch(self.frames.publish)
        if not history.next_id:
            await stream.append(agent.system_message(), EventSource.AGENT)
        await self.undo.heal()
        await self.consent.load()
        parts.tasks.spawn(parts.hooks.begin())
        await self.approval.load()
        self.approval.watch()

    async def aclose(self) -> None:
        """Interrupt what is in flight, wait until it is answered, and release the sandbox, the stream and the lease."""
        if self.closed.is_set():
            return
        self.closed.set()
        parts = self._parts
        if parts.toolbox is not None:
            parts.toolbox.unwatch()
        self.record.rest()
        if self._controller.is_started:
            await self._stop("The conversation was closed.")
            self._controller.stop_retrying()
        self.user_control.interrupt()
        await parts.hooks.end()
        await parts.setup.aclose()
        await parts.tasks.aclose(CLOSE_S)
        async with AsyncExitStack() as last:  # in reverse order, each also when the one before it fails
            last.push_async_callback(self.stream.aclose)
            last.push_async_callback(self._take_snapshot)
            last.push_async_callback(self.active_model.aclose)
            last.push_async_callback(self.leftovers.report)  # when nothing can write any more
            last.push_async_callback(self.runtime.rest if parts.comes_back else self.runtime.aclose)
        self._controller.history.clear()

    async def _stop(self, why: str) -> None:
        """Interrupt the agent and wait until its actions are answered."""
        try:
            if self._parts.agent_works:
                stop = ChangeAgentStateAction(agent_state=AgentState.STOPPED, thought=why)
                await self.stream.append(stop, EventSource.ENVIRONMENT)
            async with asyncio.timeout(CLOSE_S):
                await self.stream.settle()
        except (StoreError, TimeoutError) as error:  # the next start settles it from the log
            log.warning("conversation %s was closed in the middle of its work: %s", self.info.id, error)

    async def settled(self) -> None:
        """Return when the agent rests: it finished, asks, failed or was stopped, and all of that is stored."""
        await self._controller.settled()

    async def changed(self) -> None:
        """Return after the next change of the controller's state."""
        await self._controller.changed()

    # -- suspended while it rests ------------------------------------------------------------------------------------

    @property
    def rests(self) -> bool:
        """Whether nothing is under way, so that sandbox and model can be released without loss."""
        return self.suspension.rests

    @property
    def rests_since(self) -> float:
        """When the newest event came, by the clock of the manager."""
        return self.stream.latest_at

    async def suspend(self, notice: Status) -> bool:
        """Release the sandbox, the model and the slot, and publish `notice`. False if it works."""
        return await self.suspension.suspend(notice, self._take_snapshot)

    # -- subscribers -------------------------------------------------------------------------------------------------

    async def _on_state(self, envelope: Envelope) -> None:
        await self._take_snapshot(every=EVERY)

    async def _take_snapshot(self, *, every: int = 1) -> None:
        if self._controller.is_started:
            await self._parts.snapshots.take(self.state, self._controller.history.next_id, every=every)

    async def _on_recall(self, envelope: Envelope) -> None:
        if self.recollection.needs_sandbox and self._parts.setup.is_warming_up:
            self._parts.tasks.spawn(self._answer_recall(envelope))
        else:
            await self._answer_recall(envelope)

    async def _answer_recall(self, envelope: Envelope) -> None:
        if self.recollection.needs_sandbox:  # the repository, or the machine that has the project
            await self._parts.setup.warmed_up()
        await self.recollection.answer(envelope, lambda: self._controller.history.until(envelope.id))

    # -- what the user wants -----------------------------------------------------------------------------------------

    async def send(self, text: str, image_urls: Sequence[str] = (), context: str = "") -> Envelope:
        """Say something to the agent; it is stored when this returns. Resumes a suspended conversation.

        Pictures are `data:` URLs; `context` is added to the text for the model alone. Raises StoreError, and as
        `Suspension.awake`; then nothing was said.
        """
        async with self.suspension.awake():
            noted = context + PLANNING_NOTE * (self.guard.mode is ConfirmMode.PLAN)
            message = MessageAction(content=text, image_urls=list(image_urls) or None, context=noted)
            envelope = await self.stream.append(message, EventSource.USER)
            self._parts.setup.warm_up()  # while the model still thinks
            assert isinstance(envelope.event, MessageAction)
            await self.record.name(envelope.event.content)  # as it was stored, with secrets masked
        return envelope

    async def queue(self, text: str, image_urls: Sequence[str] = (), context: str = "") -> Envelope:
        """As `send`, but the agent reads it once it rests. Raises as `send`; then it is not queued."""
        pictures = list(image_urls) or None
        return await self.add(MessageAction(content=text, image_urls=pictures, context=context, queued=True))

    async def unqueue(self, message_id: int) -> None:
        """Remove a message from the queue; one that was sent already stays."""
        await self.stream.append(NullAction(), EventSource.USER, message_id)

    async def interrupt(self) -> None:
        """Stop what is going on now: the model call, every running command, the setup, and what waits for it."""
        self.user_control.commands.interrupt()
        await self.stream.append(ChangeAgentStateAction(agent_state=AgentState.STOPPED), EventSource.USER)
        self._parts.setup.interrupt()

    async def pause(self) -> None:
        """Let the running action end, and begin nothing after it."""
        await self.stream.append(ChangeAgentStateAction(agent_state=AgentState.PAUSED), EventSource.USER)

    async def resume(self) -> None:
        """Go on after a pause, an interrupt or an error; past a limit, extend it by the same amount again."""
        await self.add(ChangeAgentStateAction(agent_state=AgentState.RUNNING))

    async def compact(self, keep: str = "") -> None:
        """Condense the history for the model, now or before its next answer; `keep` says what matters most.

        Raises as `send`, and UsageError if the agent keeps its own history.
        """
        if not hasattr(self.active_model.agent, "history_condenser"):
            raise UsageError("This agent keeps its own history. Start a new conversation instead.")
        if self.state.first_said is None:
            raise UsageError("No messages yet, so there is nothing to compact.")
        await self.add(CondensationRequestAction(keep=keep))

    async def add(self, wish: Event, cause: int | None = None) -> Envelope:
        """Store something that the user wants, after which there may be work. Raises as `send`."""
        return await self.suspension.add(wish, cause)
