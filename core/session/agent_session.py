"""AgentSession: one open conversation. Open it, send to it, interrupt it, close it.

`SessionParts` builds what works in it; callers use those parts directly. The session starts them in order
and ends them in order: running work is interrupted and answered, then the sandbox is released, then the stream and the
lease. The conversation manager makes sessions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack

from core.controller.exit_reasons import HaltOption
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
    LoopRecoveryAction,
    MessageAction,
    NullAction,
    RecallAction,
    Status,
    UndoObservation,
)
from core.security.confirmation import ConfirmMode
from core.security.guard import PLANNING_NOTE
from core.session.session_parts import SessionParts
from core.snapshots.state_snapshots import EVERY
from core.store.conversations import ConversationInfo
from core.store.reader import EventFilter
from core.stream import EventStreamSubscriber

log = logging.getLogger(__name__)

CLOSE_S = 5.0
"""How long running work may take to end when a conversation is closed; then it is dropped."""
REPEATING = (
    "You are repeating yourself: {} Do not repeat it. Say what you tried and why it did not work, then go another way."
)
_USER_MESSAGES = EventFilter(kinds=frozenset({"action:message"}), sources=frozenset({EventSource.USER}))


class AgentSession(SessionParts):
    """One open conversation: `start` it, `aclose` it."""

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
        stream = self.stream
        state, history = await self.snapshots.fold(stream)
        await asyncio.to_thread(self.memory.allow_skills)
        agent = self.active_model.make_agent()
        states = (AgentStateChangedObservation,)
        turn_events = (Action, *states, UndoObservation)
        stream.subscribe(EventStreamSubscriber.MEMORY, self._on_recall, "memory", types=[RecallAction])
        stream.subscribe(EventStreamSubscriber.RUNTIME, self.turns.on_event, "turns", types=turn_events)
        stream.subscribe(EventStreamSubscriber.RUNTIME, self.leftovers.on_state, "leftovers", types=states)
        stream.subscribe(EventStreamSubscriber.MAIN, self._on_state, "snapshots", types=states)
        await self.controller.start(state, history)
        if self.toolbox is not None:
            self.toolbox.watch(self.frames.publish, self.setup.warm_up)
        if not history.next_id:
            await stream.append(agent.system_message(), EventSource.AGENT)
        await self.undo.finish_interrupted()
        await self.consent.load()
        self.tasks.spawn(self.hooks.begin())
        self.tasks.spawn(self.memory.look_around())  # the first message needs it
        await self.approval.load()
        self.approval.watch()
        await self.network.begin()

    async def aclose(self) -> None:
        """Interrupt running work, wait until it is answered, and release the sandbox, the stream and the lease."""
        if self.closed.is_set():
            return
        self.closed.set()
        if self.toolbox is not None:
            self.toolbox.unwatch()
        self.record.cancel_title()
        if self.controller.is_started:
            await self._stop("The conversation was closed.")
            self.controller.stop_retrying()
        self.user_control.interrupt()
        await self.hooks.end()
        await self.setup.aclose()
        await self.tasks.aclose(CLOSE_S)
        async with AsyncExitStack() as stack:  # in reverse order, each also when the one before it fails
            stack.push_async_callback(self.stream.aclose)
            stack.push_async_callback(self._take_snapshot)
            stack.push_async_callback(self.active_model.aclose)
            stack.push_async_callback(self.leftovers.report)  # when nothing can write any more
            stack.push_async_callback(self.runtime.rest if self.comes_back else self.runtime.aclose)
            if self.toolbox is not None:
                stack.push_async_callback(self.toolbox.leave)
        self.controller.history.clear()

    async def _stop(self, reason: str) -> None:
        """Interrupt the agent and wait until its actions are answered."""
        try:
            if self.agent_works:
                stop = ChangeAgentStateAction(agent_state=AgentState.STOPPED, thought=reason)
                await self.stream.append(stop, EventSource.ENVIRONMENT)
            async with asyncio.timeout(CLOSE_S):
                await self.stream.settle()
        except (StoreError, TimeoutError) as error:  # the next start settles it from the log
            log.warning("conversation %s was closed in the middle of its work: %s", self.info.id, error)

    async def settled(self) -> None:
        """Return when the agent rests: it finished, asks, failed or was stopped, and all of that is stored."""
        await self.controller.settled()

    async def changed(self) -> None:
        """Return after a change of the controller's state since the last call."""
        await self.controller.changed()

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
        """Release the sandbox, the model and the slot, and publish `notice`; False if the session works meanwhile."""
        return await self.suspension.suspend(notice, self._take_snapshot)

    # -- subscribers -------------------------------------------------------------------------------------------------

    async def _on_state(self, envelope: Envelope) -> None:
        await self._take_snapshot(every=EVERY)

    async def _take_snapshot(self, *, every: int = 1) -> None:
        if self.controller.is_started:
            await self.snapshots.take(self.state, self.controller.history.next_id, every=every)

    async def _on_recall(self, envelope: Envelope) -> None:
        if self.memory.needs_sandbox and self.setup.is_warming_up:
            self.tasks.spawn(self._answer_recall(envelope))
        else:
            await self._answer_recall(envelope)

    async def _answer_recall(self, envelope: Envelope) -> None:
        if self.memory.needs_sandbox:  # the repository, or the machine that has the project
            await self.setup.warmed_up()
        await self.memory.answer(envelope, lambda: self.controller.history.until(envelope.id))

    # -- commands of the user ----------------------------------------------------------------------------------------

    async def send(self, text: str, image_urls: Sequence[str] = (), context: str = "") -> Envelope:
        """Send a message to the agent; it is stored when this returns. Resumes a suspended conversation.

        Pictures are `data:` URLs; `context` is added to the text for the model alone. Raises StoreError, UsageError if
        the model does not read images, and as `Suspension.awake`; then nothing was sent.
        """
        async with self.suspension.awake():
            if image_urls:
                await self.active_model.check_images()
            context += PLANNING_NOTE * (self.guard.mode is ConfirmMode.PLAN)
            message = MessageAction(content=text, image_urls=list(image_urls) or None, context=context)
            envelope = await self.stream.append(message, EventSource.USER)
            self.setup.warm_up()  # while the model still thinks
            assert isinstance(envelope.event, MessageAction)
            await self.record.name(envelope.event.content)  # as it was stored, with secrets redacted
        return envelope

    async def queue(self, text: str, image_urls: Sequence[str] = (), context: str = "") -> Envelope:
        """As `send`, but the agent reads it once it rests. Raises as `send`; then it is not queued."""
        pictures = list(image_urls) or None
        if pictures:
            async with self.suspension.awake():
                await self.active_model.check_images()
        return await self.add(MessageAction(content=text, image_urls=pictures, context=context, queued=True))

    async def unqueue(self, message_id: int) -> None:
        """Remove a message from the queue; one that was sent already stays."""
        await self.stream.append(NullAction(), EventSource.USER, message_id)

    async def interrupt(self) -> None:
        """Stop what is going on now: the model call, every running command, the setup, and what waits for it."""
        self.user_control.commands.interrupt()
        await self.stream.append(ChangeAgentStateAction(agent_state=AgentState.STOPPED), EventSource.USER)
        self.setup.interrupt()

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
        if self.state.first_message_id is None:
            raise UsageError("No messages yet, so there is nothing to compact.")
        await self.add(CondensationRequestAction(keep=keep))

    async def add(self, event: Event, cause: int | None = None) -> Envelope:
        """Store an event of the user that may give the agent work. Raises as `send`."""
        return await self.suspension.add(event, cause)

    async def recover(self, option: HaltOption, model: str = "") -> None:
        """Carry out one of the options of `state.halt`; any other does nothing. `model` is for SWITCH_MODEL.

        Raises ConfigurationError if the model cannot be used; then nothing has changed.
        """
        halt = self.state.halt
        if halt is None or option not in halt.options:
            return
        match option:
            case HaltOption.SWITCH_MODEL:
                await self.active_model.switch(model)
            case HaltOption.CONDENSE:
                await self.add(CondensationRequestAction())
            case HaltOption.RESTART_SANDBOX:
                await self.setup.restart()
            case HaltOption.SKIP:
                self.setup.skip()
            case HaltOption.STOP:
                await self.interrupt()
                return
            case HaltOption.CUT_LOOP:
                await self.add(LoopRecoveryAction(option=1))
                return
            case HaltOption.RESEND | HaltOption.TELL:
                is_resend = option is HaltOption.RESEND
                text = await self._last_message() if is_resend else REPEATING.format(self.state.reason)
                await self.add(LoopRecoveryAction(option=2))
                await self.send(text)
                return
        await self.resume()

    async def _last_message(self) -> str:
        """The last message of the user; empty if there is none."""
        before: int | None = None
        while page := await self.stream.page(before=before, limit=10, where=_USER_MESSAGES):
            for envelope in reversed(page):
                if isinstance(envelope.event, MessageAction) and not envelope.event.queued:
                    return envelope.event.content
            before = page[0].id
        return ""
