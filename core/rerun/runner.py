"""Runs a saved conversation again: makes the new conversation, plays the user's part, and compares results.

The run is a separate conversation with the normal controller, confirmation, sandbox and log. Only its agent repeats the
recorded actions, one a step, and its model refuses every call. A step is a function of the history: the n-th action of
the agent is the n-th that was recorded, so every recorded action has exactly one event in the new log. An action that
is not run again becomes a message that says so. The user's messages are sent at their place in the recording; the gate
holds the agent until then, and while the run is paused.

It never runs in the recorded folder unless the user names it: by default in a copy of the workspace as it was at the
beginning, or in an empty folder if there is none.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from core.controller.exit_reasons import HaltKind
from core.conversations.conversation_manager import ConversationManager
from core.errors import CheckpointError, UsageError
from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentFinishAction,
    AgentRejectAction,
    AgentState,
    CheckpointObservation,
    CmdRunAction,
    Envelope,
    Event,
    LLMMetrics,
    MessageAction,
    SystemMessageAction,
)
from core.llm.registry import RERUN
from core.protocols import FrameSink
from core.rerun.alignment import Pairing, skip_text
from core.rerun.comparison import Origin
from core.rerun.recipe import Folders, Step, is_agent_step, missing_plugin, read_steps, workspace_folders
from core.session.agent_session import AgentSession
from core.store.blobs import BlobRef
from core.store.conversations import IMPORT, ConversationInfo
from core.store.event_store import EventStore
from core.stream import EventStreamSubscriber

SYSTEM_MESSAGE = "The actions of a saved session are run again. No model takes part."
PAGE = 1000
FIRST_MESSAGE = "Run again what was recorded."
"""Sent if a recording does not begin with a message."""
END_MESSAGE = "This is the end of what was recorded."


class RunControl:
    """Pauses and steps a run, and makes the agent wait for the user's part of the recording."""

    def __init__(self) -> None:
        self.is_playing = True
        self.waiting_position: int | None = None
        """The number of the agent's action that waits for the user's part; None if none does."""
        self.is_waiting = False
        """Whether an action waits for the end of the pause."""
        self.on_wait: Callable[[], None] = lambda: None
        self._opened = asyncio.Event()
        self._user_done_upto = -1
        self._steps = 0

    def pause(self) -> None:
        """Pause after the running action."""
        self.is_playing, self._steps = False, 0
        self._opened.set()

    def resume(self) -> None:
        self.is_playing = True
        self._opened.set()

    def step(self) -> None:
        """Let one action through, and pause."""
        self.is_playing, self._steps = False, 1
        self._opened.set()

    def user_done(self, position: int) -> None:
        """Note that the user's part before the agent's action with this number is done."""
        self._user_done_upto = position
        self._opened.set()

    async def wait_for_user(self, position: int) -> None:
        """Wait until the user's part before the agent's action with this number is done."""
        try:
            while self._user_done_upto < position:
                await self._wait(waiting_position=position)
        finally:
            self.waiting_position = None

    async def wait_while_paused(self) -> None:
        """Wait until one more action may start. Cancelling changes nothing."""
        try:
            while not self.is_playing and not self._steps:
                await self._wait(is_waiting=True)
        finally:
            self.is_waiting = False
        self._steps = 0

    async def _wait(self, *, waiting_position: int | None = None, is_waiting: bool = False) -> None:
        if (self.waiting_position, self.is_waiting) != (waiting_position, is_waiting):
            self.waiting_position, self.is_waiting = waiting_position, is_waiting
            self.on_wait()
        self._opened.clear()
        await self._opened.wait()


class RerunAgent:
    """Implements core.protocols.Agent.

    `missing_plugin` says why the sandbox cannot carry out an action, `move` changes an action for the folder of the
    run, `check` gets the history before each step.
    """

    name = "RerunAgent"

    def __init__(
        self,
        steps: Sequence[Step],
        control: RunControl,
        *,
        missing_plugin: Callable[[Action], str],
        move: Callable[[Action], Action],
        check: Callable[[Sequence[Envelope]], None],
    ) -> None:
        self._steps = [step for step in steps if not step.is_users]
        after = [*steps[1:], None]
        self._continues = [
            next_ is not None and not next_.is_users
            for step, next_ in zip(steps, after, strict=True)
            if not step.is_users
        ]
        """Whether the next action of the agent follows without a part of the user."""
        self._control = control
        self._missing_plugin = missing_plugin
        self._move = move
        self._check = check
        self._read = self._steps_before = 0
        """How much of the history was counted, so that each event is looked at once, and the count."""

    def system_message(self) -> SystemMessageAction:
        return SystemMessageAction(content=SYSTEM_MESSAGE, agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """The next recorded action, once it may start; after the last one, the end."""
        self._steps_before += sum(map(is_agent_step, history[self._read :]))
        self._read = len(history)
        position = self._steps_before
        await self._control.wait_for_user(position)
        self._check(history)
        if position >= len(self._steps):
            return [AgentFinishAction(final_thought=END_MESSAGE)]
        await self._control.wait_while_paused()
        return [self._next_action(position)]

    def _next_action(self, position: int) -> Event:
        """The next action. It does not end the turn if the recording continues after it."""
        step, continues = self._steps[position], self._continues[position]
        action, is_last = step.action, position == len(self._steps) - 1
        if why := step.skip_reason or self._missing_plugin(action):
            return MessageAction(content=skip_message(step, why))
        if isinstance(action, AgentFinishAction | AgentRejectAction) and continues:
            return MessageAction(content=getattr(action, "final_thought", "") or action.message)
        update: dict[str, object] = {"llm_metrics": None, "judgement": None}
        if action.tool_call_metadata is not None:  # one action per step, so that a run can pause after each
            alone = action.tool_call_metadata.model_copy(update={"total_calls_in_response": 1})
            update["tool_call_metadata"] = alone
        if "confirmation_state" in type(action).model_fields:
            update["confirmation_state"] = ActionConfirmationStatus.CONFIRMED
        if isinstance(action, MessageAction):
            update["wait_for_response"] = not continues and not is_last
        return self._move(action.model_copy(update=update))


def skip_message(step: Step, why: str) -> str:
    """The message for an action that is not run: the reason, the action, and the recorded result."""
    lines = [skip_text(why), step.action.message]
    if step.observation and step.observation.content:
        lines += ["What was recorded:", step.observation.content]
    return "\n".join(line for line in lines if line)


Ask = Callable[[Envelope], Awaitable[str | None]]
"""Asks the user about an action: None approves, a text says why not."""


@dataclass(frozen=True, slots=True)
class _UserTurn:
    """What the user did before the agent's action number `before`. The agent then continues until number `until`."""

    before: int
    steps: tuple[Step, ...]
    until: int


class Rerun:
    """One run. `start` makes its conversation, `play` runs it."""

    def __init__(
        self, store: EventStore, source: ConversationInfo, steps: Sequence[Step], folders: tuple[str, ...]
    ) -> None:
        self.source = source
        self.control = RunControl()
        self.notes: list[str] = []
        """One-line notes for the user about this run."""
        self.stop_at_difference = False
        self.stopped_at: int | None = None
        """The pair with the first difference, if the run stops there."""
        self.has_ended = False
        self.changed = asyncio.Event()
        """Set after every change; a waiting method clears it."""
        self._store = store
        self._steps = steps
        self._recorded_folders = folders
        self._session: AgentSession | None = None
        self._folders = Folders((), "/")
        self.pairing = Pairing(steps, Origin(folders), Origin())
        """The recorded and the new results, action by action."""
        self._agents = sum(not step.is_users for step in steps)
        self._has_message = self._interrupted = False
        self._agent_waits = asyncio.Event()
        self.control.on_wait = self._on_wait

    @property
    def is_stopped(self) -> bool:
        """Whether it waits at the first difference."""
        return self.stopped_at is not None and self.control.is_waiting

    @property
    def session(self) -> AgentSession:
        assert self._session is not None
        return self._session

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start(self, manager: ConversationManager, workspace: str) -> None:
        """Make the conversation in this folder. Raises as `ConversationManager.create`."""
        plugins = {plugin.name for plugin in manager.factory.plugins}
        agent = RerunAgent(
            self._steps,
            self.control,
            missing_plugin=lambda action: missing_plugin(action, plugins),
            move=self._move,
            check=self._check,
        )
        session = await manager.create_rerun(self.source, workspace=workspace, agent=agent)
        self._session = session
        inside = session.runtime.working_dir
        self._folders = Folders(self._recorded_folders, inside, str(Path.home()))
        self.pairing = Pairing(self._steps, Origin(self._recorded_folders), Origin((inside, session.info.workspace)))
        self.notes += [f"In this run, {name} is {self._folders.new}." for name in self._folders.recorded]
        session.stream.subscribe(EventStreamSubscriber.MAIN, self._on_event, "again")

    def _move(self, action: Action) -> Action:
        return self._folders.move_action(action)

    def _on_wait(self) -> None:
        self._agent_waits.set()
        self.changed.set()

    async def _on_event(self, envelope: Envelope) -> None:
        self.pairing.add(envelope)
        self.changed.set()

    def _check(self, history: Sequence[Envelope]) -> None:
        """Add new events before the agent or user continues, and stop at a difference if wanted."""
        self.pairing.add_all(history[self.pairing.next_id :])
        if self.stop_at_difference and self.stopped_at is None:
            self.stopped_at = self.pairing.next_difference(-1)
            if self.stopped_at is not None:
                self.control.pause()
        self.changed.set()

    # -- playing -------------------------------------------------------------------------------------------------------

    async def play(self, ask: Ask | None = None) -> bool:
        """Run to the end. Returns whether it got there.

        With `ask` nobody watches: it answers confirmations, and the run ends where it cannot continue. Without it, the
        user decides on the screen. It also ends with the session. Cancelling leaves the session unchanged.
        """
        playing = asyncio.ensure_future(self._play(ask))
        closes = asyncio.ensure_future(self.session.closed.wait())
        try:
            await asyncio.wait([playing, closes], return_when=asyncio.FIRST_COMPLETED)
            return playing.done() and playing.result()
        finally:
            playing.cancel()
            closes.cancel()
            await asyncio.gather(playing, closes, return_exceptions=True)

    async def _play(self, ask: Ask | None) -> bool:
        for part in self._user_turns():
            if not await self._run_until(part.before, ask):
                return False
            for step in part.steps:
                await self._do(step)
            if not self._has_message and part.until >= part.before:
                await self.session.send(FIRST_MESSAGE)
            self._has_message = True
            self.control.user_done(part.until)
            if self._interrupted:
                self._interrupted = False
                await self.session.resume()
        if not await self._run_until(self._agents, ask, to_end=True):
            return False
        self.pairing.end()
        self.has_ended = True
        self.changed.set()
        return True

    def _user_turns(self) -> list[_UserTurn]:
        """The user's turns in order. A recording that does not begin with one gets one."""
        found: list[tuple[int, tuple[Step, ...]]] = []
        before = 0
        for is_users, group in groupby(self._steps, key=lambda step: step.is_users):
            steps = tuple(group)
            if is_users:
                found.append((before, steps))
            else:
                before += len(steps)
        if not found or found[0][0] > 0:
            found.insert(0, (0, ()))
        ends = [before - 1 for before, _ in found[1:]] + [sys.maxsize]
        return [_UserTurn(before, steps, until) for (before, steps), until in zip(found, ends, strict=True)]

    async def _run_until(self, position: int, ask: Ask | None, *, to_end: bool = False) -> bool:
        """Wait until the agent has taken so many steps and their results exist. False if it cannot continue."""
        while True:
            self._agent_waits.clear()
            if self.control.waiting_position == position and not to_end:
                return True
            if not await self._settled_or_waiting():
                continue
            if self.pairing.agent_steps >= position and not self.session.state.queue:
                return True
            if not await self._unblock(ask):
                return False

    async def _settled_or_waiting(self) -> bool:
        """Return True when the session has settled, False when the agent waits for the user."""
        rests, arrives = asyncio.ensure_future(self.session.settled()), asyncio.ensure_future(self._agent_waits.wait())
        try:
            await asyncio.wait([rests, arrives], return_when=asyncio.FIRST_COMPLETED)
            return rests.done()
        finally:
            rests.cancel()
            arrives.cancel()
            await asyncio.gather(rests, arrives, return_exceptions=True)

    async def _unblock(self, ask: Ask | None) -> bool:
        """Resume a session that stopped in the middle of the recording. False if that is not possible."""
        session, state = self.session, self.session.state
        if state.halt is not None and state.halt.kind is HaltKind.STUCK:
            await session.resume()  # the recorded loop is known to end
        elif state.awaiting is not None and ask is not None:
            (envelope,) = await session.stream.read(after=state.awaiting - 1, limit=1)
            refusal = await ask(envelope)
            await (session.approval.confirm() if refusal is None else session.approval.reject(refusal))
        elif ask is not None:
            return False
        else:
            await session.changed()
        return True

    # -- steps of the user ---------------------------------------------------------------------------------------------

    async def _do(self, step: Step) -> None:
        match step.action:
            case MessageAction(content=text, image_urls=urls, context=context):
                self._has_message, self._interrupted = True, False
                await self.session.send(text, await self._pictures(urls or ()), context)
            case CmdRunAction() as action if not step.skip_reason:
                await self._run(self._move(action))

    async def _pictures(self, urls: Sequence[str]) -> list[str]:
        """The pictures of a message, from the recorded conversation; missing ones are left out."""
        found = []
        for url in urls:
            ref = BlobRef.parse(url)
            blob = await self._store.blob(self.source.id, ref) if ref is not None else None
            if ref is None or blob is not None:
                found.append(blob.data_url() if blob is not None else url)
        return found

    async def _run(self, action: Action) -> None:
        """Run a command of the user while the agent waits. Returns with its result."""
        assert isinstance(action, CmdRunAction)
        session = self.session
        self._check(())
        await self.control.wait_while_paused()
        if session.state.agent_state is AgentState.RUNNING or session.state.is_busy:
            self._interrupted = True
            await session.interrupt()
            await session.settled()
        await session.user_control.run_command(action.command)
        await session.user_control.commands.ended()
        await session.stream.settle()


# -- from a saved conversation -----------------------------------------------------------------------------------------


async def start_rerun(
    manager: ConversationManager, conversation_id: str, *, workspace: str = "", stop_at_difference: bool = False
) -> Rerun:
    """A run of this conversation, not played yet.

    Raises UsageError if there is nothing to run, CheckpointError if the workspace cannot be restored, and as
    `ConversationManager.create`.
    """
    source, log = await _recorded(manager.store, conversation_id)
    steps = read_steps(log)
    if not any(step.acts for step in steps):
        raise UsageError(f"Conversation {conversation_id} has no actions to run again. Choose one whose agent worked.")
    rerun = Rerun(manager.store, source, steps, _folders(source, log))
    rerun.stop_at_difference = stop_at_difference
    if workspace:
        await rerun.start(manager, workspace)
        return rerun
    copy = await manager.copies.make()
    try:
        rerun.notes.append(await _restore_workspace(manager, source, log, steps, copy))
        await rerun.start(manager, copy)
    except BaseException:
        await manager.copies.remove(copy)
        raise
    return rerun


async def load(store: EventStore, conversation_id: str) -> Pairing:
    """The results of an earlier run, from its log and the recording. Raises UsageError if it is not a run."""
    (info,) = await store.conversations(conversation_id=conversation_id) or (None,)
    if info is None or info.origin != RERUN:
        raise UsageError(f"Conversation {conversation_id} is not a rerun. Start one with: handloom rerun ID")
    source, log = await _recorded(store, info.origin_of)
    new = await _read_all(store, conversation_id)
    pairing = Pairing(
        read_steps(log), Origin(_folders(source, log)), Origin(workspace_folders(new, info.workspace, imported=False))
    )
    pairing.add_all(new)
    pairing.end()
    return pairing


async def _recorded(store: EventStore, conversation_id: str) -> tuple[ConversationInfo, list[Envelope]]:
    return await store.conversation(conversation_id), await _read_all(store, conversation_id)


async def _read_all(store: EventStore, conversation_id: str) -> list[Envelope]:
    found: list[Envelope] = []
    while page := await store.read(conversation_id, after=len(found) - 1, limit=PAGE):
        found += page
    return found


def _folders(source: ConversationInfo, log: Sequence[Envelope]) -> tuple[str, ...]:
    return workspace_folders(log, source.workspace, imported=source.origin == IMPORT)


async def _restore_workspace(
    manager: ConversationManager, source: ConversationInfo, log: Sequence[Envelope], steps: Sequence[Step], folder: str
) -> str:
    """Restore the first state of the workspace in this empty folder. Returns a note. Raises CheckpointError."""
    until = f"which is deleted when this run is closed: {folder}"
    first = next(step.envelope.id for step in steps if step.acts)
    checkpoint_event = next((e.event for e in log if isinstance(e.event, CheckpointObservation)), None)
    checkpoints = await asyncio.to_thread(manager.factory.make_checkpoints, source.workspace, source.id)
    if checkpoint_event is None or checkpoint_event.after >= first or checkpoints is None:
        return f"There is no checkpoint from the beginning. This runs in an empty folder, {until}"
    try:
        await checkpoints.unpack(checkpoint_event.checkpoint, folder)
    except CheckpointError as error:
        raise CheckpointError(f"{error} Name a folder to run in with --workspace.") from error
    return f"This runs in a copy of the workspace as it was at the beginning, {until}"
