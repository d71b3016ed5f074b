"""AgentSession: everything of one open conversation, from its first task to its last.

It folds the log, starts the controller and the memory, and ends them in the right order: what is in flight is
interrupted and answered, then the runtime goes, then the stream, then the lease. The user's wishes enter the
conversation here and nowhere else, each as one event. A session that rests can be put to sleep: it lets go of its
sandbox and its model, keeps the rest, and wakes up for the next wish. Used by the conversation manager's callers: the
workspace and the headless command.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from core import garbage_collector
from core.actions.hooks import Hooks
from core.actions.middleware import ActionPipeline, ConversationParts
from core.actions.secret_injection import SecretInjection
from core.actions.table import ActionTable
from core.actions.user_actions import UserActionContext
from core.actions.user_control import UserControl
from core.agent.tools.files import only_reads
from core.checkpoints.turns import Turns
from core.controller.controller import AgentController
from core.controller.decide import evolve
from core.controller.history import PAGE, History
from core.controller.limits import Reached, reached_of_day
from core.controller.state import Limits, State
from core.delegation.delegation import CloseChild, Delegation, MakeChild, share
from core.errors import StoreError, UsageError
from core.events import (
    Action,
    AgentDelegateAction,
    AgentState,
    AgentStateChangedObservation,
    ChangeAgentStateAction,
    CondensationRequestAction,
    Envelope,
    Event,
    EventSource,
    MessageAction,
    NullAction,
    Observation,
    RecallAction,
    Status,
    UndoObservation,
)
from core.mcp.tool_registry import Toolbox
from core.memory.library import Own
from core.memory.past_conversations import Past
from core.memory.recall import Recollection, with_pins
from core.planning.planning_mode import Planning
from core.protocols import LLM, Agent, Checkpoints, Runtime
from core.pub_sub import Frames
from core.secrets import Masker
from core.secrets.detector import Detector
from core.secrets.vault import Vault
from core.security.confirmation import ConfirmMode
from core.security.guard import PLANNING_NOTE, Guard
from core.session.active_model import Mind
from core.session.approval import Permitting
from core.session.conversation_record import Record
from core.session.import_consent import Consent
from core.session.leftovers import Aftermath
from core.session.recovery import WaysOut
from core.session.redacted_frames import MaskedFrames
from core.session.risk_checks import ShellRecord, Wariness
from core.session.setup import Preparation
from core.session.slots import Places
from core.session.state_snapshots import EVERY, Snapshots
from core.session.suspend import Sleep
from core.session.task_group import Tasks
from core.session.titles import SuggestTitle
from core.settings.config import SandboxSettings
from core.settings.security_settings import SecuritySettings
from core.store.conversations import ConversationInfo
from core.store.event_store import EventStore
from core.store.writer import Lease
from core.stream import EventStream, EventStreamSubscriber
from core.trust.trust_store import ASK, Gate
from core.undo.undo_service import Undoing

log = logging.getLogger(__name__)

CLOSE_S = 5.0
"""How long what is in flight may take to end when a conversation is closed; then it is dropped."""
SLEEP_S = 1.0
"""How long subscribers may take over what they have before a session that rests is put to sleep; else it works."""
POLICY_STATUS = "STATUS$POLICY"
"""What is wrong with the files of rules and permissions; empty once that is mended."""
DELEGATES_STATUS = "STATUS$DELEGATES"
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
        detector: Detector | None = None,
        vault: Vault | None = None,
        make_child: MakeChild,
        close_child: CloseChild,
        sandbox: SandboxSettings,
        places: Places,
        checkpoints: Checkpoints | None = None,
        suggest_title: SuggestTitle | None = None,
        toolbox: Toolbox | None = None,
        clock: Callable[[], float] = time.monotonic,
        comes_back: bool = True,
        past: Past | None = None,
        own: Own | None = None,
        gate: Gate | None = None,
        security: SecuritySettings = SecuritySettings(),  # noqa: B008  # frozen
    ) -> None:
        self.closed = asyncio.Event()
        """Set as soon as it begins to close; then nothing is begun in it any more."""
        self.opened_after = lease.next_id - 1
        """The id of the newest event when the conversation was opened; -1 for a new one."""
        self.stream: EventStream = EventStream(store, lease, masker, clock, detector)
        self.consent = Consent(self.stream, info)
        self.frames: Frames = MaskedFrames(masker, self.stream.record, detector)
        self._tasks = Tasks(info.id, self.frames)
        self.record = Record(
            info=info,
            store=store,
            lease=lease,
            frames=self.frames,
            masked=self.stream.masked,
            spawn=self._spawn,
            suggest_title=suggest_title,
        )
        self.runtime = runtime
        """For what is asked of the sandbox beside actions: what it uses, its jobs, its page."""
        harmless = toolbox.harmless if toolbox is not None else tuple
        self.guard = Guard(
            home=store.home,
            folder=info.workspace,
            workspace=lambda: runtime.working_dir,
            mode=confirm,
            only_reads=only_reads,
            notice=lambda text: self.frames.publish(Status("error" if text else "info", POLICY_STATUS, text)),
            shell=ShellRecord(self.stream, lambda: runtime.working_dir).before,
            voices=(Wariness(self.stream, lambda: runtime.working_dir, security, self._is_fine, harmless).heard,),
        )
        runtime.deny(self.guard.denials)
        self.permitting = Permitting(
            stream=self.stream,
            info=info,
            guard=self.guard,
            state=lambda: self.state,
            wish=self._answer,
            add=self.add,
        )
        self._toolbox = toolbox
        self._masker = masker
        self._store = store
        self._mind = Mind(llm, make_llm, make_agent, self.stream.blob)
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
        gate = gate or Gate(store.home, lambda: ASK)
        self.recollection = Recollection(
            own=own,
            gate=gate,
            info=info,
            runtime=runtime,
            stream=self.stream,
            frames=self.frames,
            secrets=(lambda: vault.descriptions(info.workspace, info.id)) if vault is not None else dict,
            completed=lambda found: with_pins(found, store.home, info.workspace, masker),
        )
        """What its agent is told of the knowledge that there is."""
        self.hooks = Hooks(
            recollection=self.recollection,
            settings=sandbox,
            runtime=runtime,
            stream=self.stream,
            frames=self.frames,
            ready=self._preparation.ready,
        )
        secrets = None if vault is None else SecretInjection(vault, masker, info.workspace, info.id)
        ready = self._preparation.ready
        self.user_control = UserControl(
            runtime, secrets, UserActionContext(self.stream, self.frames, ready, self._spawn)
        )
        """What the user does in the sandbox."""
        self._aftermath = Aftermath(runtime, self.stream)
        self._turns = Turns(checkpoints, self.stream, self.frames)
        self._pipeline = ActionPipeline(
            ActionTable(runtime, self._delegate, toolbox, past),
            ConversationParts(self.frames, self.user_control, ready, self._turns, self.hooks, secrets),
        )
        self.planning = Planning(self.stream, lambda: self.state, self.add)
        """The plan of an agent that plans first."""
        self.ways = WaysOut(self, self._preparation)
        """What the user can choose where something stands in the agent's way."""
        self.undoing = Undoing(checkpoints, self.stream, lambda: self.state, self._at_rest)
        self._snapshots = Snapshots(store, lease, limits)
        self._controller: AgentController | None = None
        self._turn = asyncio.Lock()
        """Held while something is said, and while it falls asleep or wakes up."""
        self._sleep = Sleep(info.id, places, self.frames, (self._preparation.rest, self._mind.aclose), self._come_back)
        self._warming: asyncio.Task[None] | None = None
        self._comes_back = comes_back
        """Whether somebody may open it again and want its sandbox as it was."""

    @property
    def state(self) -> State:
        """The controller's state now; LOADING until `start` is through."""
        return self._controller.state if self._controller else State.initial(self._limits)

    def _is_fine(self, source: str) -> bool:
        return self.guard.has_read(source)

    @property
    def info(self) -> ConversationInfo:
        """What the lists say of it."""
        return self.record.info

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self.info.id

    @property
    def model_name(self) -> str:
        return self._mind.model

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Fold the log, listen, and settle what a dead owner left open. Raises StoreError."""
        state, first = await self._snapshots.newest()
        history = History(lambda after, before: self.stream.read(after=after, before=before, limit=PAGE), first)
        while page := await self.stream.read(after=history.next_id - 1, limit=PAGE):
            for envelope in page:
                history.append(envelope)
            state = reduce(evolve, page, state)
            garbage_collector.spare()
        await self._tasks.open()
        await asyncio.to_thread(self.recollection.allow_skills)
        agent = self._mind.agent()
        self._controller = AgentController(
            stream=self.stream,
            agent=agent,
            execute=self._pipeline.execute,
            frames=self.frames,
            history=history,
            state=state,
            judge=self.guard.judge,
            day_limit=self._day_limit,
            spawn=self._spawn,
        )
        self.stream.subscribe(EventStreamSubscriber.MEMORY, self._recall, "memory", types=[RecallAction])
        ends: list[type[Event]] = [Action, AgentStateChangedObservation, UndoObservation]
        self.stream.subscribe(EventStreamSubscriber.RUNTIME, self._turns.on_event, "turns", types=ends)
        types = [AgentStateChangedObservation]
        self.stream.subscribe(EventStreamSubscriber.RUNTIME, self._aftermath.on_state, "aftermath", types=types)
        self.stream.subscribe(EventStreamSubscriber.MAIN, self._on_state, "snapshots", types=types)
        await self._controller.start()
        if self._toolbox is not None:
            self._toolbox.watch(self.frames.publish)
        if not history.next_id:
            await self.stream.append(agent.system_message(), EventSource.AGENT)
        await self.undoing.heal()
        await self.consent.load()
        self._spawn(self.hooks.begin())
        await self.permitting.load()
        self.permitting.watch()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._tasks.spawn(work)

    async def aclose(self) -> None:
        """Interrupt what is in flight, wait until it has answered, and let go of runtime, stream and lease."""
        if self.closed.is_set():
            return
        self.closed.set()
        if self._toolbox is not None:
            self._toolbox.unwatch()
        self.record.rest()
        if self._controller is not None:
            await self._stop("The conversation was closed.")
            self._controller.give_up()
        self.user_control.interrupt()
        await self.hooks.end()
        await self._preparation.aclose()
        await self._tasks.aclose(CLOSE_S)
        async with AsyncExitStack() as last:  # each is let go of, whatever happens with the one before
            last.push_async_callback(self.stream.aclose)
            last.push_async_callback(self._take_snapshot)
            last.push_async_callback(self._mind.aclose)
            last.push_async_callback(self._aftermath.tell)  # once nothing can write any more
            last.push_async_callback(self.runtime.rest if self._comes_back else self.runtime.aclose)
        if self._controller is not None:
            self._controller.history.let_go()

    async def _on_state(self, envelope: Envelope) -> None:
        await self._take_snapshot(every=EVERY)

    async def _take_snapshot(self, *, every: int = 1) -> None:
        if self._controller is not None:
            await self._snapshots.take(self.state, self._controller.history.next_id, every=every)

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
            if self._is_settled:
                return
            await self._controller.changed.wait()

    @property
    def _is_settled(self) -> bool:
        return not self.state.is_busy and not self.state.owed and self.state.agent_state is not AgentState.RUNNING

    async def changed(self) -> None:
        """Return after the next change of the controller's state."""
        assert self._controller is not None
        self._controller.changed.clear()
        await self._controller.changed.wait()

    # -- delegates and limits ----------------------------------------------------------------------------------------

    @property
    def delegates(self) -> list[AgentSession]:
        """The sessions of the delegates that are at work, in the order of their actions."""
        return [child for _, child in sorted(self.delegation.children.items()) if isinstance(child, AgentSession)]

    @property
    def attended(self) -> bool:
        """Whether somebody answers what its delegates ask; else a delegate that asks is done."""
        return self.delegation.attended

    @attended.setter
    def attended(self, attended: bool) -> None:
        self.delegation.attended = attended

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

    # -- sleep -----------------------------------------------------------------------------------------------------

    @property
    def asleep(self) -> bool:
        """Whether it has let go of sandbox and model. It is shown as ever, and the next wish wakes it up."""
        return self._sleep.is_on

    @property
    def rests(self) -> bool:
        """Whether nothing is under way, so that sandbox and model can go without a loss to the work."""
        starts = self._controller is None or (self._warming is not None and not self._warming.done())
        return self._is_settled and not starts and not self.user_control.is_on

    @property
    def rests_since(self) -> float:
        """When anything last happened, by the clock of the manager."""
        return self.stream.latest_at

    async def sleep(self, notice: Status) -> bool:
        """Let go of sandbox and model and of the place; tell `notice` to whoever watches. False where it works."""
        async with self._turn:
            if not await self._is_quiet():
                return False
            await self._take_snapshot()
            await self._sleep.fall(notice)
            return True

    async def _is_quiet(self) -> bool:
        """Whether it rests and nobody still chews on an event after which it might work."""
        if not self.rests:
            return False
        try:
            async with asyncio.timeout(SLEEP_S):
                await self.stream.settle()
        except TimeoutError:
            return False
        return self.rests and not self.closed.is_set()

    @asynccontextmanager
    async def _awake(self) -> AsyncIterator[None]:
        """Awake, and kept awake while something is said.

        Raises UsageError where it is closed or every place is taken by one that works, ConsentError where the user has
        to let it go on first, ConfigurationError where its model is gone.
        """
        async with self._turn:
            self._refuse_if_closed()
            self.consent.require()
            await self._sleep.wake()
            yield

    def _refuse_if_closed(self) -> None:
        if self.closed.is_set():
            raise UsageError(f"Conversation {self.info.id} is closed here. Open it again.")

    async def _come_back(self) -> None:
        """Have a model again."""
        assert self._controller is not None
        await self._mind.take()
        if self.closed.is_set():
            await self._mind.aclose()
            self._refuse_if_closed()
        self._controller.agent = self._mind.agent()

    # -- memory ----------------------------------------------------------------------------------------------------

    async def _recall(self, envelope: Envelope) -> None:
        if self.recollection.needs_sandbox and self._warming is not None and not self._warming.done():
            self._spawn(self._recall_when_warm(envelope, self._warming))
        else:
            await self._answer_recall(envelope)

    async def _recall_when_warm(self, envelope: Envelope, warming: asyncio.Task[None]) -> None:
        """Answer once the repository, or the machine that has the project, is there, or cannot be had."""
        await asyncio.wait([warming])
        await self._answer_recall(envelope)

    async def _answer_recall(self, envelope: Envelope) -> None:
        assert self._controller is not None
        history = self._controller.history
        await self.recollection.answer(envelope, lambda: history.until(envelope.id))

    # -- the user's wishes -------------------------------------------------------------------------------------------

    async def send(self, text: str, image_urls: Sequence[str] = (), context: str = "") -> Envelope:
        """Say something to the agent; it is stored when this returns. Wakes it up.

        Pictures are `data:` URLs; `context` is for the model alone, behind the text. Raises StoreError, UsageError or
        ConfigurationError (see `_awake`), and then nothing was said.
        """
        async with self._awake():
            noted = context + PLANNING_NOTE * (self.confirm_mode is ConfirmMode.PLAN)
            message = MessageAction(content=text, image_urls=list(image_urls) or None, context=noted)
            envelope = await self.stream.append(message, EventSource.USER)
            if self._warming is None or self._warming.done():
                self._warming = self._spawn(self._preparation.begin())  # while the model still thinks
            assert isinstance(envelope.event, MessageAction)
            await self.record.name(envelope.event.content)  # as it was stored, with secrets masked
        return envelope

    async def interrupt(self) -> None:
        """Stop what is going on, now: the model's answer, every running command, the preparation, what waits for it."""
        self.user_control.commands.interrupt()
        await self._wish(AgentState.STOPPED)
        self._preparation.interrupt()

    async def pause(self) -> None:
        """Let the running action end, and do nothing after it."""
        await self._wish(AgentState.PAUSED)

    async def resume(self) -> None:
        """Go on after a pause, an interrupt or an error; past a limit, extend it by the same amount again."""
        await self._wish(AgentState.RUNNING)

    async def queue(self, text: str, image_urls: Sequence[str] = (), context: str = "") -> Envelope:
        """As `send`, but said once the agent rests. Raises as `send`, and then it is not queued."""
        pictures = list(image_urls) or None
        return await self.add(MessageAction(content=text, image_urls=pictures, context=context, queued=True))

    async def run_command(self, command: str) -> Envelope:
        """Run a command in the agent's shell, as the user; the model reads it with the next message.

        It is stored when this returns, and runs on. Raises as `send`, and UsageError while the shell is not free.
        """
        if self.state.agent_state is AgentState.RUNNING or self.state.is_busy:
            raise UsageError("The agent works in this shell. Esc stops it; then run the command again.")
        if self.user_control.terminal.is_on:
            raise UsageError("You have taken over the terminal. Type the command there, or give it back.")
        async with self._awake():
            return await self.user_control.commands.run(command)

    async def take_terminal(self, rows: int, columns: int) -> Envelope:
        """Let the user have the agent's terminal, in this size, until `take_over.give_back`. The agent waits.

        It is stored when this returns; keys may be typed from then on. Raises as `send`, and UsageError where it is
        taken over already.
        """
        async with self._awake():
            return await self.user_control.terminal.begin(rows, columns)

    async def take_browser(self) -> Envelope:
        """Let the user have the agent's browser until `users_browser.give_back`. The agent waits.

        It is stored when this returns. Raises as `send`, and UsageError where it is taken over already.
        """
        async with self._awake():
            return await self.user_control.browser.begin()

    @property
    def runs_command(self) -> bool:
        """Whether a command of the user's own is running."""
        return self.user_control.commands.is_busy

    async def command_ended(self) -> None:
        """Return when no command of the user's own runs any more."""
        await self.user_control.commands.ended()

    async def unqueue(self, message_id: int) -> None:
        """Do not say what was queued; what has been said already stays said."""
        await self.stream.append(NullAction(), EventSource.USER, message_id)

    async def put_back(self, name: str) -> str:
        """Give a file that was moved aside its name again; the answer is the name. The next sandbox cannot write it.

        Ends the sandbox; the next action starts a new one. Raises UsageError while the agent works.
        """
        if self.state.is_busy or self.state.agent_state is AgentState.RUNNING:
            raise UsageError("The agent is working. Pause it first, then restore the file.")
        restored = await self.runtime.put_back(name)
        await self._preparation.restart()
        return restored

    async def compact(self, keep: str = "") -> None:
        """Have the history condensed for the model, now or before its next answer; `keep` is what matters above all.

        Raises as `send`, UsageError where the agent has no history of ours.
        """
        if self._controller is not None and not hasattr(self._controller.agent, "condensing"):
            raise UsageError("This agent keeps its own history. Start a new conversation for a fresh one.")
        if self.state.first_said is None:
            raise UsageError("Nothing was said yet, so there is nothing to condense.")
        await self.add(CondensationRequestAction(keep=keep))

    async def confirm(self, action_id: int | None = None) -> None:
        """Let the action that waits be carried out. Raises UsageError where it was answered already, and as `send`."""
        await self.permitting.confirm(action_id)

    async def reject(self, reason: str = "", action_id: int | None = None) -> None:
        """Do not let the action that waits be carried out. With a reason the agent goes on and reads it.

        Raises as `confirm`.
        """
        await self.permitting.reject(reason, action_id)

    async def _answer(self, answer: AgentState, action_id: int | None, reason: str) -> None:
        await self._wish(answer, cause=action_id, thought=reason)

    async def _wish(self, wish: AgentState, *, cause: int | None = None, thought: str = "") -> None:
        action = ChangeAgentStateAction(agent_state=wish, thought=thought)
        if wish in (AgentState.STOPPED, AgentState.PAUSED):  # nothing starts, so nothing has to wake up for it
            await self.stream.append(action, EventSource.USER, cause)
        else:
            await self.add(action, cause)

    async def add(self, wish: Event, cause: int | None = None) -> Envelope:
        """Store a wish after which there may be work. Raises as `send`."""
        async with self._awake():
            return await self.stream.append(wish, EventSource.USER, cause)

    @asynccontextmanager
    async def _at_rest(self) -> AsyncIterator[None]:
        """Nothing is under way, and nothing is said meanwhile. Raises UsageError."""
        if self._is_settled and self._warming is not None:
            await asyncio.wait([self._warming])  # it may still bring files
        async with self._turn:
            self._refuse_if_closed()
            if self.info.parent:
                raise UsageError("A delegate's work is undone in the conversation that began it.")
            if self.rests:
                await self.stream.settle()  # a checkpoint that is being taken may need seconds
            if not self.rests:
                raise UsageError("The agent is at work, or its sandbox is. Esc stops it; then undo.")
            yield

    # -- what may change while it goes on -----------------------------------------------------------------------------

    @property
    def confirm_mode(self) -> ConfirmMode:
        """How much the agent may do by itself."""
        return self.guard.mode

    def set_confirm_mode(self, mode: ConfirmMode | str) -> None:
        """From the next answer on, ask for this much."""
        self.guard.mode = ConfirmMode(mode)

    async def set_model(self, name: str) -> None:
        """From the next answer on, another model answers. Raises ConfigurationError."""
        assert self._controller is not None
        old = await self._mind.take(name)
        self._controller.agent = self._mind.agent()
        await self.record.set_model(name)
        await old.aclose()

    async def set_title(self, title: str) -> None:
        """What the lists call this conversation. Raises StoreError, and then it keeps its name."""
        await self.record.set_title(title)
