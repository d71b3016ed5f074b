"""One task without a screen: events go to a callback, and the result is an exit status.

The caller asks the user and prints: `ask` answers confirmations, `on_event` gets each event after it is durable.

The command `/compact [what to keep]` is not a message, as on the screen: it does not start the agent, and the model of
the settings writes the summary. Editors and the screen reader's lines use it, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from core.controller.controller import STORE_STATUS
from core.controller.exit_reasons import HaltKind
from core.errors import ExitStatus, HandloomError, UsageError
from core.events import CONVERSATION_TITLE, AgentState, CondensationAction, Envelope, Frame, Status
from core.sandbox.setup import RUNTIME_STARTED
from core.session.agent_session import AgentSession
from core.store.reader import EventFilter
from core.stream import EventStream, EventStreamSubscriber

COMPACT = "compact"
UNTOLD = frozenset({CONVERSATION_TITLE, RUNTIME_STARTED})
"""What is for screens only: a title, and a step between the start of the sandbox and its readiness."""
_DONE = EventFilter(kinds=frozenset({"action:condensation"}))


def compact_argument(text: str) -> str | None:
    """What to keep above all, if the text is this command; None if it is a message."""
    first, *rest = text.strip().split(maxsplit=1) or [""]
    return None if first != f"/{COMPACT}" else rest[0] if rest else ""


async def last_condensation(stream: EventStream, since: int) -> CondensationAction | None:
    """The newest condensation after an event; None if there is none. Raises StoreError."""
    for envelope in reversed(await stream.read(after=since, where=_DONE)):
        if isinstance(envelope.event, CondensationAction):
            return envelope.event
    return None


async def run_task(
    session: AgentSession,
    task: str,
    *,
    on_event: Callable[[Envelope], Awaitable[None]],
    on_notice: Callable[[str], None],
    ask: Callable[[Envelope], Awaitable[str | None]],
    interrupted: asyncio.Event,
    approves: bool = False,
    on_progress: Callable[[str], None] | None = None,
) -> ExitStatus:
    """Send `task` and wait until the agent rests, a limit is reached or `interrupted` is set.

    `/compact [what to keep]` condenses the history instead, and reports the result. `ask` returns None to approve, or
    the reason to deny: with a reason the agent goes on, with an empty one it stops. With `approves`, a plan that the
    agent makes is approved. `on_progress` takes what is no problem, such as that the sandbox starts; without it,
    `on_notice` does. Raises StoreError if the task could not be stored. If `on_event` raises OSError, the work
    is stopped; then this raises BrokenPipeError if the reader of the output is gone, or HandloomError if it cannot be
    written.
    """
    store_failed = asyncio.Event()
    unheard = _Unheard(on_event)

    def watch(frame: Frame) -> None:
        if isinstance(frame, Status) and frame.message and frame.id not in UNTOLD:
            (on_notice if frame.level == "error" else on_progress or on_notice)(frame.message)
            if frame.id == STORE_STATUS:
                store_failed.set()

    stop_watching = session.frames.watch(watch)
    session.stream.subscribe(EventStreamSubscriber.MAIN, unheard.tell, "headless")
    keep, since = compact_argument(task), session.stream.latest_id
    try:
        if keep is None:
            await session.send(task)
        else:
            await session.compact(keep)
        async with asyncio.TaskGroup() as group:
            waits = {
                group.create_task(_see_through(session, ask, approves=approves)): "done",
                group.create_task(interrupted.wait()): "interrupted",
                group.create_task(store_failed.wait()): "trouble",
                group.create_task(unheard.noticed.wait()): "unheard",
            }
            ended, rest = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task_ in rest:
                task_.cancel()
        how = {waits[task_] for task_ in ended}
        if "trouble" in how:
            return ExitStatus.ERROR
        if how & {"interrupted", "unheard"}:
            await session.interrupt()
            await session.settled()
        if unheard.error is not None:
            raise _output_error(unheard.error, session.info.id)
        if "interrupted" in how:
            return ExitStatus.INTERRUPTED
        if keep is not None and (condensed := await last_condensation(session.stream, since)) is not None:
            return _condensed(condensed, on_notice)
        return _exit_status(session, on_notice)
    finally:
        stop_watching()


def _condensed(action: CondensationAction, on_notice: Callable[[str], None]) -> ExitStatus:
    """Report the result of a request to condense."""
    count = len(action.forgotten)
    if action.note:
        on_notice(f"No summary: {action.note} The model no longer sees {count} older events.")
        return ExitStatus.ERROR
    if not count:
        on_notice("Nothing to compact yet: the conversation is short.")
    else:
        on_notice(f"Compacted: from the next message on, a summary replaces {count} older events.")
    return ExitStatus.FINISHED


def _output_error(error: OSError, conversation_id: str) -> Exception:
    """The error for the caller when the output has ended."""
    if isinstance(error, BrokenPipeError):
        return error
    return HandloomError(
        f"The output cannot be written: {error.strerror}. The work was stopped. Free some space or write to another "
        f"place, then go on with: handloom run --resume {conversation_id} 'go on'"
    )


class _Unheard:
    """Calls `on_event` until the output has ended, which ends the run and is not a failure of the stream."""

    def __init__(self, on_event: Callable[[Envelope], Awaitable[None]]) -> None:
        self._on_event = on_event
        self.error: OSError | None = None
        self.noticed = asyncio.Event()

    async def tell(self, envelope: Envelope) -> None:
        if self.error is not None:
            return
        try:
            await self._on_event(envelope)
        except OSError as error:
            self.error = error
            self.noticed.set()


async def _see_through(
    session: AgentSession, ask: Callable[[Envelope], Awaitable[str | None]], *, approves: bool
) -> None:
    """Wait until the agent rests, answering its confirmations."""
    while True:
        await session.settled()
        awaiting = session.state.awaiting
        if awaiting is None:
            if not (approves and _planned(session) and (plan := await session.planning.tasks())):
                return
            await session.planning.approve(plan)
            continue
        (envelope,) = await session.stream.read(after=awaiting - 1, limit=1)
        refusal = await ask(envelope)
        with suppress(UsageError):  # answered elsewhere in the meantime: what waits now is asked for by itself
            if refusal is None:
                await session.approval.confirm(awaiting)
            else:
                await session.approval.reject(refusal, awaiting)


def _planned(session: AgentSession) -> bool:
    """Whether the agent rests with a plan that is not approved."""
    return session.state.planning and session.state.agent_state in (
        AgentState.AWAITING_USER_INPUT,
        AgentState.FINISHED,
    )


_FLAGS = {"iterations": " --max-iterations N", "budget": " --max-budget USD"}
"""The option that changes a limit; other limits are settings."""


def _exit_status(session: AgentSession, on_notice: Callable[[str], None]) -> ExitStatus:
    state = session.state
    if state.reason:
        on_notice(state.reason)
    if state.halt is not None and state.halt.kind is HaltKind.LIMIT:
        flag = _FLAGS.get(state.halt.what, "")
        on_notice(f"Continue with: handloom run --resume {session.info.id} 'go on'{flag}")
        return ExitStatus.LIMIT
    if state.halt is not None and state.halt.kind is HaltKind.STUCK:
        on_notice(f"Give it another instruction with: handloom run --resume {session.info.id} '...'")
        return ExitStatus.STUCK
    if _planned(session):
        on_notice(
            "The agent only plans until you approve its plan. Approve it with: "
            f"handloom run --resume {session.info.id} --approve-plan 'go on'"
        )
    match state.agent_state:
        case AgentState.FINISHED | AgentState.AWAITING_USER_INPUT:
            return ExitStatus.FINISHED
        case AgentState.STOPPED:
            return ExitStatus.INTERRUPTED
    return ExitStatus.ERROR
