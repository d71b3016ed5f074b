"""LocalEngine: attempts as conversations of this process, several at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from core.batch.engine import Attempt, AttemptEnded, ConversationBegan, EngineEvent
from core.batch.ledger import AttemptState, Ended
from core.batch.workspaces import patch, prepare
from core.conversations.conversation_manager import ConversationManager
from core.errors import ExitStatus, HandloomError
from core.events import CmdOutputObservation, Envelope
from core.headless import run_task
from core.import_export.exporter import export
from core.import_export.secret_scan import Cleaner, Patterns
from core.session.agent_session import AgentSession
from core.store.reader import EventReader

WORK, PATCH = "work", "patch.diff"
"""In the folder of an attempt: where the agent works, and what it changed in its repository."""
KEPT = {"trajectory.json": "trajectory", "log.md": "markdown"}
"""The exports in the folder of an attempt, and their formats."""
NO_USER = "Nobody is there to approve this action, so it was not carried out. Find another way, or finish without it."
_STATES = {
    ExitStatus.FINISHED: AttemptState.FINISHED,
    ExitStatus.STUCK: AttemptState.STUCK,
    ExitStatus.LIMIT: AttemptState.LIMIT,
    ExitStatus.INTERRUPTED: AttemptState.INTERRUPTED,
}


class LocalEngine:
    """Carries out attempts with one manager. `slots` is how many run at once; `approve` says yes to every question."""

    def __init__(
        self,
        manager: ConversationManager,
        batch: Path,
        slots: int,
        *,
        approve: bool = False,
        on_session: Callable[[AgentSession], None] = lambda session: None,
    ) -> None:
        """`on_session` is told of each conversation as it begins."""
        self._manager, self._batch, self._slots = manager, batch, slots
        self._approve, self._on_session = approve, on_session
        self._events: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self._interrupted = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def capacity(self) -> int:
        return self._slots

    def submit(self, attempt: Attempt) -> None:
        task = asyncio.create_task(self._carry_out(attempt), name=f"{attempt.task.id}, attempt {attempt.number}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def next_event(self) -> EngineEvent:
        return await self._events.get()

    def cancel(self) -> None:
        self._interrupted.set()

    async def aclose(self) -> None:
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry_out(self, attempt: Attempt) -> None:
        """Carry out one attempt; whatever happens, it ends with one event."""
        ended = Ended(AttemptState.ERROR, reason="The attempt ended unexpectedly. See the log.")
        try:
            ended = await self._result(attempt)
        except HandloomError as error:
            ended = Ended(AttemptState.ERROR, reason=str(error))
        except asyncio.CancelledError:
            ended = Ended(AttemptState.INTERRUPTED)
            raise
        finally:
            self._events.put_nowait(AttemptEnded(attempt, ended))

    async def _result(self, attempt: Attempt) -> Ended:
        """Raises HandloomError if the machine fails, and not the task."""
        task, work = attempt.task, attempt.folder / WORK
        commit = await asyncio.to_thread(prepare, task, work, self._batch)
        if self._interrupted.is_set():
            return Ended(AttemptState.INTERRUPTED)
        session = await self._manager.create(workspace=str(work), model=task.model, agent=task.agent, title=task.id)
        self._on_session(session)
        self._events.put_nowait(ConversationBegan(attempt, session.id))
        try:
            session.approval.set_mode(self._manager.settings.agent.confirm)
            state, reason = await self._run(session, task.task)
            if state is AttemptState.FINISHED and task.check:
                state, reason = await _check(session, task.check)
            metrics = session.state.metrics
        finally:
            await self._manager.close(session.id)
        await self._keep(attempt, session.id)
        if commit:
            text = await asyncio.to_thread(patch, task, work, self._batch, commit)
            await asyncio.to_thread((attempt.folder / PATCH).write_bytes, text.encode("utf-8", "surrogateescape"))
        used = metrics.accumulated_token_usage
        return Ended(
            *(state, session.id, metrics.accumulated_cost, used.prompt_tokens, used.completion_tokens),
            reason=reason[:2_000],
        )

    async def _keep(self, attempt: Attempt, conversation: str) -> None:
        """Write the conversation beside its work, with secrets redacted. Raises StoreError, UsageError."""
        patterns = await asyncio.to_thread(Patterns.of, self._manager.factory.environ)
        async with EventReader(self._manager.store.home) as reader:
            for name, format in KEPT.items():
                await export(reader, conversation, format, attempt.folder / name, cleaner=Cleaner(patterns))

    async def _run(self, session: AgentSession, text: str) -> tuple[AttemptState, str]:
        said: list[str] = []

        async def ask(envelope: Envelope) -> str | None:
            return None if self._approve else NO_USER

        status = await run_task(
            session,
            text,
            on_event=_ignore,
            on_notice=said.append,
            on_progress=_ignore_text,
            ask=ask,
            interrupted=self._interrupted,
            approves=True,
        )
        state = _STATES.get(status, AttemptState.ERROR)
        return state, "" if state is AttemptState.FINISHED else (said[0] if said else str(session.state.reason))


async def _check(session: AgentSession, command: str) -> tuple[AttemptState, str]:
    """Run the command that decides, as the user's, in the shell of the sandbox."""
    action = await session.user_control.run_command(command)
    await session.user_control.commands.ended()
    events = await session.stream.read(after=action.id)
    found = next((one.event for one in events if one.cause == action.id), None)
    if isinstance(found, CmdOutputObservation) and found.exit_code == 0:
        return AttemptState.FINISHED, ""
    code = f"exit code {found.exit_code}" if isinstance(found, CmdOutputObservation) else "no result"
    return AttemptState.FAILED, f"The check failed with {code}: {command[:200]}"


async def _ignore(envelope: Envelope) -> None:
    return None


_ignore_text: Callable[[str], None] = lambda text: None  # noqa: E731
