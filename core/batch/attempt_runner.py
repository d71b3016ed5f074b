"""AttemptRunner: carries out one attempt of a batch as a conversation, wherever that is.

The same code works on this machine and on a node of a cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from core.batch import environments
from core.batch.engine import Attempt
from core.batch.ledger import AttemptState, Ended
from core.batch.patches import make_patch
from core.batch.workspaces import prepare
from core.controller.state import Limits
from core.conversations.conversation_manager import ConversationManager
from core.errors import ExitStatus
from core.events import CmdOutputObservation, Envelope
from core.headless import run_task
from core.import_export.exporter import export
from core.import_export.secret_scan import Cleaner, Patterns
from core.session.agent_session import AgentSession
from core.store.reader import EventReader
from core.stream import EventStreamSubscriber

WORK, PATCH = "work", "patch.diff"
"""In the folder of an attempt: where the agent works, and what it changed in its repository."""
KEPT = {"trajectory.json": "trajectory", "log.txt": "markdown"}
"""The exports in the folder of an attempt, and their formats."""
STALL_S = 3600.0
"""An attempt without a new event for this long is stalled: longer than any command or model call may take."""
NO_USER = "Nobody is there to approve this action, so it was not carried out. Find another way, or finish without it."
_STATES = {
    ExitStatus.FINISHED: AttemptState.FINISHED,
    ExitStatus.STUCK: AttemptState.STUCK,
    ExitStatus.LIMIT: AttemptState.LIMIT,
    ExitStatus.INTERRUPTED: AttemptState.INTERRUPTED,
}


class AttemptRunner:
    """Carries out attempts with one manager. `approve` says yes to every question."""

    def __init__(
        self,
        manager: ConversationManager,
        batch: Path,
        *,
        approve: bool = False,
        stall_s: float = STALL_S,
    ) -> None:
        """`batch` is the folder for what its attempts share."""
        self._manager, self._batch, self._approve, self._stall_s = manager, batch, approve, stall_s

    async def run(
        self,
        attempt: Attempt,
        interrupted: asyncio.Event,
        on_session: Callable[[AgentSession], None] = lambda session: None,
    ) -> Ended:
        """Carry out one attempt. `on_session` is told of its conversation before anything happens in it.

        Raises HandloomError if the machine fails, and not the task.
        """
        task, work = attempt.task, attempt.folder / WORK
        commit = await asyncio.to_thread(prepare, task, work, self._batch)
        if interrupted.is_set():
            return Ended(AttemptState.INTERRUPTED)
        session = await self._manager.create(
            workspace=str(work), model=task.model, agent=task.agent, title=task.id, limits=self._limits(attempt)
        )
        on_session(session)
        try:
            session.approval.set_mode(self._manager.settings.agent.confirm)
            goal = await environments.begin(session, task) if task.environment else ""
            text = "\n\n".join(filter(None, (task.task, goal)))
            state, reason = await self._run(session, text, interrupted)
            can_answer = task.environment and state not in (AttemptState.INTERRUPTED, AttemptState.ERROR)
            rewards = await environments.rewards(session) if can_answer else ()
            if state is AttemptState.FINISHED and task.environment and max(rewards, default=0.0) <= 0.0:
                state, reason = AttemptState.FAILED, "The environment gave no reward."
            if state is AttemptState.FINISHED and task.check:
                state, reason = await _check(session, task.check)
            metrics = session.state.metrics
        finally:
            await self._manager.close(session.id)
        if commit:
            patch = await asyncio.to_thread(make_patch, task, work, self._batch, commit)
            data = patch.text.encode("utf-8", "surrogateescape")
            await asyncio.to_thread((attempt.folder / PATCH).write_bytes, data)
            reason = " ".join(filter(None, (reason, patch.note)))
        used = metrics.accumulated_token_usage
        return Ended(
            *(state, session.id, metrics.accumulated_cost, used.prompt_tokens, used.completion_tokens),
            reason=reason[:2_000],
            rewards=tuple(rewards),
        )

    def _limits(self, attempt: Attempt) -> Limits | None:
        """The limits of the task over those of the settings; None if it has none of its own."""
        if not attempt.task.limits:
            return None
        agent = self._manager.settings.agent
        values = {name: getattr(agent, name) for name in ("max_iterations", "max_budget", "max_tokens", "max_seconds")}
        return Limits(**{**values, **attempt.task.limits})

    async def _run(self, session: AgentSession, text: str, interrupted: asyncio.Event) -> tuple[AttemptState, str]:
        said: list[str] = []

        async def ask(envelope: Envelope) -> str | None:
            return None if self._approve else NO_USER

        ends = asyncio.Event()
        stall = _Stall(self._stall_s, ends)
        session.stream.subscribe(EventStreamSubscriber.MAIN, stall.heard, "batch")
        watch = asyncio.create_task(_then(interrupted.wait(), ends))
        try:
            status = await run_task(
                session,
                text,
                on_event=_ignore,
                on_notice=said.append,
                on_progress=_ignore_text,
                ask=ask,
                interrupted=ends,
                approves=True,
            )
        finally:
            watch.cancel()
            stall.close()
        if stall.is_over and not interrupted.is_set():
            return AttemptState.STALLED, f"Nothing happened for {self._stall_s / 60:.0f} minutes."
        state = _STATES.get(status, AttemptState.ERROR)
        return state, "" if state is AttemptState.FINISHED else (said[0] if said else str(session.state.reason))


class _Stall:
    """Notices that a conversation has had no event for some time, and sets `ends`."""

    def __init__(self, after_s: float, ends: asyncio.Event) -> None:
        self._after_s, self._ends = after_s, ends
        self.is_over = False
        self._begin()

    def _begin(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._end)

    def _end(self) -> None:
        self.is_over = True
        self._ends.set()

    async def heard(self, envelope: Envelope) -> None:
        """Begin again with an event."""
        self.close()
        self._begin()

    def close(self) -> None:
        """Stop watching."""
        self._timer.cancel()


async def keep_exports(manager: ConversationManager, attempt: Attempt, conversation: str) -> None:
    """Write the conversation beside its work, with secrets redacted. Raises StoreError, UsageError."""
    patterns = await asyncio.to_thread(Patterns.of, manager.factory.environ)
    await asyncio.to_thread(attempt.folder.mkdir, parents=True, exist_ok=True)
    async with EventReader(manager.store.home) as reader:
        for name, format in KEPT.items():
            await export(reader, conversation, format, attempt.folder / name, cleaner=Cleaner(patterns))


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


def _ignore_text(text: str) -> None:
    return None


async def _then(wait: Coroutine[Any, Any, object], event: asyncio.Event) -> None:
    await wait
    event.set()
