"""The parts of one conversation, built in the order in which they need each other. AgentSession starts them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from core.actions.middleware import ActionPipeline, ConversationParts
from core.actions.table import ActionTable
from core.approval.approval import Approval
from core.approval.network_access import NetworkAccess
from core.checkpoints.turns import Turns
from core.controller.controller import AgentController
from core.controller.limits import ReachedLimit, daily_limit_reached
from core.controller.state import NO_LIMITS, Limits, State
from core.delegation.delegation import CloseChild, Delegation, MakeChild
from core.edits.model_edit import ModelEditor
from core.events import AgentState, MessageAction, Status
from core.hooks.hooks import Hooks
from core.llm.title_suggestion import SuggestTitle
from core.mcp.tool_registry import Toolbox
from core.memory.library import UserFolders
from core.memory.memory import Memory, with_saved_facts
from core.memory.past_conversations import PastConversations
from core.planning.planning_mode import PlanningMode
from core.protocols import LLM, Agent, Checkpoints, Runtime
from core.sandbox.leftovers import Leftovers
from core.sandbox.setup import Setup
from core.secrets import Redactor
from core.secrets.command_secrets import SecretInjection
from core.secrets.redacted_frames import RedactedFrames
from core.secrets.redactor import Detector
from core.secrets.vault import Vault
from core.security.analyzers.invariant import USER_FILE
from core.security.confirmation import ConfirmMode
from core.security.guard import Guard
from core.security.risk_checks import RiskChecks, ShellRecord
from core.session.active_model import ActiveModel
from core.session.conversation_record import ConversationRecord
from core.session.suspend import Slots, Suspension
from core.settings.config import Settings
from core.snapshots.state_snapshots import Snapshots
from core.store.conversations import ConversationInfo
from core.store.event_store import EventStore
from core.store.writer import Lease
from core.stream import EventStream, Frames
from core.trust.import_consent import ImportConsent
from core.trust.trust_store import TrustPolicy
from core.undo.undo_service import UndoService
from core.user_control.user_actions import UserActionContext
from core.user_control.user_control import UserControl

log = logging.getLogger(__name__)

TASK_STATUS = "STATUS$ERROR"


class SessionTasks:
    """The tasks of one conversation; `aclose` it after the last one was started.

    As in a task group, no task outlives its conversation. Unlike in asyncio's, a task that fails cancels no other: the
    user sees a notice, the log has the traceback, and the conversation goes on.
    """

    def __init__(self, conversation_id: str, frames: Frames) -> None:
        self._id = conversation_id
        self._frames = frames
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task. It may be cancelled. Raises RuntimeError after the end."""
        if self._is_closed:
            work.close()
            raise RuntimeError("the conversation is closed")
        task = asyncio.create_task(self._isolated(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # one that is cancelled before its first step never awaited it
        return task

    async def _isolated(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # the boundary between the tasks of a conversation: a bug of one ends that one
            log.exception("a task of conversation %s failed", self._id)
            what = f"Internal error ({type(error).__name__}: {error}). Stored events are safe. "
            self._frames.publish(Status("error", TASK_STATUS, what + "Interrupt, then send a message to go on."))

    async def aclose(self, within_s: float) -> None:
        """Wait until all tasks have ended, and cancel those that take longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


POLICY_STATUS = "STATUS$POLICY"
"""What is wrong with the files of rules and permissions; empty once it is corrected."""


class SessionParts:
    """Everything that works in one conversation. `comes_back` says whether it may be opened again with its sandbox."""

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
        settings: Settings,
        confirm: ConfirmMode,
        redactor: Redactor,
        detector: Detector | None,
        vault: Vault,
        make_child: MakeChild,
        close_child: CloseChild,
        slots: Slots,
        checkpoints: Checkpoints | None,
        suggest_title: SuggestTitle | None,
        toolbox: Toolbox | None,
        clock: Callable[[], float],
        comes_back: bool,
        past: PastConversations | None,
        own: UserFolders | None,
        trust_policy: TrustPolicy,
    ) -> None:
        self.runtime, self.toolbox, self.comes_back = runtime, toolbox, comes_back
        self._store, self._day_limits = store, day_limits
        self.opened_after = lease.next_id - 1
        """The id of the newest event when the conversation was opened; -1 for a new one."""
        self.closed = asyncio.Event()
        """Set as soon as it begins to close; nothing begins in it after that."""
        self.stream = stream = EventStream(store, lease, redactor, clock, detector)
        self.frames: Frames = RedactedFrames(redactor, stream.record, detector)
        frames = self.frames
        self.consent = ImportConsent(stream, info)
        self.tasks = SessionTasks(info.id, frames)
        spawn = self.tasks.spawn
        self.record = ConversationRecord(
            info=info,
            store=store,
            lease=lease,
            frames=frames,
            redact=stream.redact,
            spawn=spawn,
            suggest_title=suggest_title,
        )
        self.active_model = ActiveModel(llm, make_llm, make_agent, stream.blob, self.record)
        self.snapshots = Snapshots(store, lease, limits)
        sandbox = settings.sandbox
        self.setup = Setup(info=info, settings=sandbox, runtime=runtime, stream=stream, frames=frames, spawn=spawn)
        self.memory = Memory(
            own=own,
            policy=trust_policy,
            info=info,
            runtime=runtime,
            stream=stream,
            frames=frames,
            secrets=lambda: vault.descriptions(info.workspace, info.id),
            add_facts=lambda found: with_saved_facts(found, store.home, info.workspace, redactor),
        )

        # what the agent and the user may do
        harmless = toolbox.harmless if toolbox is not None else tuple
        risk_checks = RiskChecks(
            stream,
            lambda: runtime.working_dir,
            settings.security,
            lambda source: self.guard.trusts_source(source),  # noqa: PLW0108  # the guard is made below
            harmless,
            policies=store.home / USER_FILE,
        )
        self.guard = Guard(
            home=store.home,
            folder=info.workspace,
            workspace=lambda: runtime.working_dir,
            mode=confirm,
            notice=lambda text: frames.publish(Status("error" if text else "info", POLICY_STATUS, text)),
            shell=ShellRecord(stream, lambda: runtime.working_dir, lambda: self.setup.releases).before,
            checks=(risk_checks.judge,),
        )
        runtime.deny(self.guard.denials)
        self.suspension = Suspension(
            info=info,
            slots=slots,
            stream=stream,
            frames=frames,
            consent=self.consent,
            setup=self.setup,
            model=self.active_model,
            closed=self.closed,
            is_idle=lambda: self.controller.is_started and self.state.is_settled and not self.user_control.is_on,
        )
        add = self.suspension.add
        self.approval = Approval(stream=stream, info=info, guard=self.guard, state=lambda: self.state, add=add)
        self.network = NetworkAccess(
            runtime, self.approval, stream, frames, lambda text: add(MessageAction(content=text))
        )
        self.planning = PlanningMode(stream, lambda: self.state, add)

        # what happens to an action
        secrets = SecretInjection(vault, redactor, info.workspace, info.id)
        self.hooks = Hooks(
            memory=self.memory,
            settings=sandbox,
            runtime=runtime,
            stream=stream,
            frames=frames,
            ready=self.setup.ready,
        )
        self.turns = Turns(checkpoints, stream, frames)
        self.user_control = UserControl(
            runtime,
            secrets,
            UserActionContext(stream, frames, self.setup.ready, spawn, self.suspension.awake, lambda: self.agent_works),
        )
        self.delegation = Delegation(make_child, close_child, frames, lambda: self.state)
        editor = ModelEditor(runtime, lambda: self.active_model.helper(settings.agent.draft_model), store.add_spending)
        pipeline = ActionPipeline(
            ActionTable(runtime, self.delegation.run, toolbox, past, editor),
            ConversationParts(frames, self.user_control, self.setup.ready, self.turns, self.hooks, secrets),
        )
        self.controller = AgentController(
            stream=stream,
            agent=lambda: self.active_model.agent,
            execute=pipeline.execute,
            frames=frames,
            limits=limits,
            judge=self.guard.judge,
            day_limit=self._day_limit,
            spawn=spawn,
        )
        self.undo = UndoService(checkpoints, stream, lambda: self.state, self.suspension.at_rest)
        self.leftovers = Leftovers(runtime, stream, self.setup.restart, lambda: self.agent_works)

    @property
    def state(self) -> State:
        """The controller's state now; LOADING until `AgentSession.start` has returned."""
        return self.controller.state

    @property
    def agent_works(self) -> bool:
        """Whether the agent is working."""
        return self.state.is_busy or self.state.agent_state is AgentState.RUNNING

    async def _day_limit(self, state: State) -> ReachedLimit | None:
        if self._day_limits == NO_LIMITS:
            return None
        today = datetime.now(UTC).date()
        return daily_limit_reached(state, self._day_limits, await self._store.spent(today), today)
