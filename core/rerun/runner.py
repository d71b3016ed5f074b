"""Runs a saved session again, from its folder to its last result.

The run is a separate conversation with the normal controller, confirmation, sandbox and log; only its agent gives the
recorded actions (`rerun_agent`), and its model refuses every call. The user's part is said here, each message in its
place. It never runs in the recorded folder unless the user names it: by default in a copy of the workspace as it was at
the beginning, or in an empty folder if there is none.
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
from core.events import Action, AgentState, CheckpointObservation, CmdRunAction, Envelope, MessageAction
from core.llm.no_model import AGAIN
from core.rerun.alignment import Pairing
from core.rerun.normalization import Folders, Origin
from core.rerun.recipe import Step, folders_of, lacking, steps_of
from core.rerun.rerun_agent import Gate, RerunAgent
from core.session.agent_session import AgentSession
from core.store.blobs import BlobRef
from core.store.conversations import IMPORT, ConversationInfo
from core.store.event_store import EventStore
from core.stream import EventStreamSubscriber

PAGE = 1000
"""Events read at a time."""
BEGIN = "Run again what was recorded."
"""The first message if a recording begins without one."""
Ask = Callable[[Envelope], Awaitable[str | None]]
"""Asks the user about an action: None approves, a text says why not."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What the user did before the agent's action with a number, and until which one the agent goes on after it."""

    before: int
    steps: tuple[Step, ...]
    until: int


class Again:
    """One run. `begin` makes it; `play` it."""

    def __init__(
        self, store: EventStore, source: ConversationInfo, steps: Sequence[Step], folders: tuple[str, ...]
    ) -> None:
        self.source = source
        self.gate = Gate()
        self.notes: list[str] = []
        """Notes for the user about this run, a line each."""
        self.stops_at_first = False
        self.stopped_at: int | None = None
        """The pair with the first difference, if the run stops there."""
        self.is_over = False
        self.changed = asyncio.Event()
        """Set after every change; a waiting method clears it."""
        self._store = store
        self._steps = steps
        self._recorded_folders = folders
        self._session: AgentSession | None = None
        self._folders = Folders((), "/")
        self._pairing = Pairing(steps, Origin(folders), Origin())
        self._agents = sum(not step.is_users for step in steps)
        self._greeted = self._made_room = False
        self._arrived = asyncio.Event()
        """Set when the agent begins to wait at the gate."""
        self.gate.on_wait = self._on_wait

    @property
    def pairing(self) -> Pairing:
        """The recorded and the new results, action by action."""
        return self._pairing

    @property
    def session(self) -> AgentSession:
        """The conversation of this run."""
        assert self._session is not None
        return self._session

    # -- beginning ---------------------------------------------------------------------------------------------------

    async def start(self, manager: ConversationManager, workspace: str) -> None:
        """Make the conversation in this folder. Raises as `ConversationManager.create`."""
        plugins = {plugin.name for plugin in manager.factory.plugins}
        agent = RerunAgent(
            self._steps,
            self.gate,
            lacking=lambda action: lacking(action, plugins),
            moved=self._moved,
            look=self._look,
        )
        session = await manager.create_rerun(self.source, workspace=workspace, agent=agent)
        self._session = session
        inside = session.runtime.working_dir
        self._folders = Folders(self._recorded_folders, inside, str(Path.home()))
        self._pairing = Pairing(self._steps, Origin(self._recorded_folders), Origin((inside, session.info.workspace)))
        self.notes += [f"In this run, {name} is {self._folders.new}." for name in self._folders.recorded]
        session.stream.subscribe(EventStreamSubscriber.MAIN, self._on_event, "again")

    def _moved(self, action: Action) -> Action:
        return self._folders.moved_action(action)

    def _on_wait(self) -> None:
        self._arrived.set()
        self.changed.set()

    async def _on_event(self, envelope: Envelope) -> None:
        self._pairing.take(envelope)
        self.changed.set()

    def _look(self, history: Sequence[Envelope]) -> None:
        """Before agent or user goes on: take new events, and stop at a difference if wanted."""
        self._pairing.take_all(history[self._pairing.next_id :])
        if self.stops_at_first and self.stopped_at is None:
            self.stopped_at = self._pairing.next_difference(-1)
            if self.stopped_at is not None:
                self.gate.pause()
        self.changed.set()

    # -- playing -----------------------------------------------------------------------------------------------------

    async def play(self, ask: Ask | None = None) -> bool:
        """Run it, and return whether it reached its end.

        With `ask` nobody watches: it answers confirmations, and the run ends where it cannot go on. Without it, the
        user decides on the screen, and this waits. It also ends with the session. Cancelling leaves the session as it
        is.
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
        for part in self._parts():
            if not await self._reached(part.before, ask):
                return False
            for step in part.steps:
                await self._do(step)
            if not self._greeted and part.until >= part.before:
                await self.session.send(BEGIN)
            self._greeted = True
            self.gate.said(part.until)
            if self._made_room:
                self._made_room = False
                await self.session.resume()
        if not await self._reached(self._agents, ask, to_end=True):
            return False
        self._pairing.end()
        self.is_over = True
        self.changed.set()
        return True

    def _parts(self) -> list[_Part]:
        """The user's parts in order. A recording that begins without one gets one."""
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
        return [_Part(before, steps, until) for (before, steps), until in zip(found, ends, strict=True)]

    async def _reached(self, position: int, ask: Ask | None, *, to_end: bool = False) -> bool:
        """Return when the agent has given so many actions and their results are there. False if it cannot go on."""
        while True:
            self._arrived.clear()
            if self.gate.waiting == position and not to_end:
                return True
            if not await self._rests_or_arrives():
                continue
            if self._pairing.given >= position and not self.session.state.queue:
                return True
            if not await self._unblocked(ask):
                return False

    async def _rests_or_arrives(self) -> bool:
        """Return True when the session rests, False when the agent begins to wait."""
        rests, arrives = asyncio.ensure_future(self.session.settled()), asyncio.ensure_future(self._arrived.wait())
        try:
            await asyncio.wait([rests, arrives], return_when=asyncio.FIRST_COMPLETED)
            return rests.done()
        finally:
            rests.cancel()
            arrives.cancel()
            await asyncio.gather(rests, arrives, return_exceptions=True)

    async def _unblocked(self, ask: Ask | None) -> bool:
        """Let a session that rests in the middle of the recording go on. False if that is not possible."""
        session, state = self.session, self.session.state
        if state.halt is not None and state.halt.kind is HaltKind.STUCK:
            await session.resume()  # the circle is the recording's, and it is known how it ends
        elif state.awaiting is not None and ask is not None:
            (envelope,) = await session.stream.read(after=state.awaiting - 1, limit=1)
            refusal = await ask(envelope)
            await (session.approval.confirm() if refusal is None else session.approval.reject(refusal))
        elif ask is not None:
            return False
        else:
            await session.changed()
        return True

    # -- the user's part -----------------------------------------------------------------------------------------------

    async def _do(self, step: Step) -> None:
        match step.action:
            case MessageAction(content=text, image_urls=urls, context=context):
                self._greeted, self._made_room = True, False
                await self.session.send(text, await self._pictures(urls or ()), context)
            case CmdRunAction() as action if not step.why_not:
                await self._run(self._moved(action))

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
        self._look(())
        await self.gate.passed()
        if session.state.agent_state is AgentState.RUNNING or session.state.is_busy:
            self._made_room = True
            await session.interrupt()
            await session.settled()
        await session.user_control.run_command(action.command)
        await session.user_control.commands.ended()
        await session.stream.settle()


# -- from a saved conversation -----------------------------------------------------------------------------------------


async def begin(
    manager: ConversationManager, conversation_id: str, *, workspace: str = "", stops_at_first: bool = False
) -> Again:
    """A run of this conversation, started and not played yet.

    Raises UsageError if there is nothing to run, CheckpointError if the workspace cannot be restored, and as
    `ConversationManager.create`.
    """
    source, log = await _recorded(manager.store, conversation_id)
    steps = steps_of(log)
    if not any(step.acts for step in steps):
        raise UsageError(f"Conversation {conversation_id} has no actions to run again. Choose one whose agent worked.")
    again = Again(manager.store, source, steps, _folders(source, log))
    again.stops_at_first = stops_at_first
    if workspace:
        await again.start(manager, workspace)
        return again
    copy = await manager.copies.make()
    try:
        again.notes.append(await _as_at_the_beginning(manager, source, log, steps, copy))
        await again.start(manager, copy)
    except BaseException:
        await manager.copies.remove(copy)
        raise
    return again


async def load(store: EventStore, conversation_id: str) -> Pairing:
    """The results of a run, from its log and that of the recording. Raises UsageError if it is not a run."""
    (info,) = await store.conversations(conversation_id=conversation_id) or (None,)
    if info is None or info.origin != AGAIN:
        raise UsageError(f"Conversation {conversation_id} runs none again. Run one again with: handloom again ID")
    source, log = await _recorded(store, info.origin_of)
    new = await _read_all(store, conversation_id)
    pairing = Pairing(
        steps_of(log), Origin(_folders(source, log)), Origin(folders_of(new, info.workspace, imported=False))
    )
    pairing.take_all(new)
    pairing.end()
    return pairing


async def _recorded(store: EventStore, conversation_id: str) -> tuple[ConversationInfo, list[Envelope]]:
    infos = await store.conversations(conversation_id=conversation_id)
    if not infos:
        raise UsageError(f"There is no conversation {conversation_id}. `handloom list` shows all conversations.")
    return infos[0], await _read_all(store, conversation_id)


async def _read_all(store: EventStore, conversation_id: str) -> list[Envelope]:
    found: list[Envelope] = []
    while page := await store.read(conversation_id, after=len(found) - 1, limit=PAGE):
        found += page
    return found


def _folders(source: ConversationInfo, log: Sequence[Envelope]) -> tuple[str, ...]:
    return folders_of(log, source.workspace, imported=source.origin == IMPORT)


async def _as_at_the_beginning(
    manager: ConversationManager, source: ConversationInfo, log: Sequence[Envelope], steps: Sequence[Step], folder: str
) -> str:
    """Restore the workspace in this empty folder, and return notes for the user. Raises CheckpointError."""
    goes = f"which goes when this run is closed: {folder}"
    first = next(step.envelope.id for step in steps if step.acts)
    kept = next((e.event for e in log if isinstance(e.event, CheckpointObservation)), None)
    checkpoints = await asyncio.to_thread(manager.factory.make_checkpoints, source.workspace, source.id)
    if kept is None or kept.after >= first or checkpoints is None:
        return f"How the workspace was at the beginning was not kept; this runs in an empty folder, {goes}"
    try:
        await checkpoints.unpack(kept.checkpoint, folder)
    except CheckpointError as error:
        raise CheckpointError(f"{error} Name a folder to run in with --workspace.") from error
    return f"This runs in a copy of the workspace as it was at the beginning, {goes}"
