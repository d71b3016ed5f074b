"""One conversation in an editor: its updates, prompts, questions and cancellation.

One prompt runs at a time; it is answered when the agent rests and all updates have been sent. An action that waits for
approval is put to the editor; any answer that is not a clear yes leaves it waiting, or stops it if the user says so.
Nothing is stored here that the log does not have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from acp.exceptions import RequestError
from acp.schema import PromptRequest, PromptResponse, RequestPermissionRequest, SessionNotification
from acp.utils import serialize_params

from core.delegation.delegation import DELEGATES_STATUS
from core.errors import HandloomError
from core.events import AgentState, Envelope, Frame, LLMMetrics, Status, TerminalOutput
from core.memory.compaction import compact_argument, last_condensation
from core.security.confirmation import NOT_WANTED, Verdict
from core.session.agent_session import AgentSession
from core.stream import EventStreamSubscriber
from tui.acp import editor_commands, permission_request
from tui.acp.methods import INTERNAL_ERROR, INVALID_REQUEST
from tui.acp.outbox import Outbox
from tui.acp.permission_request import Answer
from tui.acp.prompts import Message, message_of, shown
from tui.acp.tool_calls import Paths
from tui.acp.turn import Turn, is_allowed, stop_reason, usage_between, usage_update
from tui.acp.updates import Teller, Update, message
from tui.approval.question import ask_about
from tui.i18n import _
from tui.memory.compaction_text import condensed

log = logging.getLogger(__name__)

PAGE = 200
PRINT_S = 0.25
"""How long what a command prints is gathered before the editor draws it."""
LEAVE_S = 10.0
"""For a prompt to be answered before its session is closed all the same."""
SUBSCRIBER = "acp"
_DONE = frozenset({AgentState.FINISHED, AgentState.REJECTED, AgentState.STOPPED, AgentState.AWAITING_USER_INPUT})
"""Where a delegate has come to its end."""

Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]
Notify = Callable[[str, dict[str, Any]], Awaitable[None]]


class EditorSession:
    """`ask` sends a request to the editor, `notify` a notification. `aclose` it; the session is somebody else's."""

    def __init__(self, session: AgentSession, ask: Ask, notify: Notify) -> None:
        self.session = session
        self.turn: Turn | None = None
        paths = Paths(session.info.workspace, session.runtime.working_dir.rstrip("/") or "/")
        self.teller = Teller(paths)
        self._ask = ask
        self._notify = notify
        self.outbox = Outbox(self._send)
        self._told = session.stream.latest_id
        self._spent: LLMMetrics | None = None
        self._printing: asyncio.TimerHandle | None = None
        session.delegation.attended = True
        session.stream.subscribe(EventStreamSubscriber.MAIN, self._hear, SUBSCRIBER)
        self._unwatch = session.frames.watch(self._hear_frame)

    async def aclose(self) -> None:
        """Tell nothing more. What runs goes on, or ends with its session."""
        self._unwatch()
        self.session.delegation.attended = False
        if self._printing is not None:
            self._printing.cancel()
        try:
            self.session.stream.unsubscribe(EventStreamSubscriber.MAIN, SUBSCRIBER)
        except HandloomError:  # the stream was closed before
            log.debug("conversation %s was closed already", self.session.id)
        await self.outbox.aclose()

    # -- telling -------------------------------------------------------------------------------------------------------

    async def _send(self, update: Update) -> None:
        params = SessionNotification(session_id=self.session.id, update=update)
        await self._notify("session/update", serialize_params(params))

    async def _hear(self, envelope: Envelope) -> None:
        if envelope.id <= self._told:
            return
        self._told = envelope.id
        self.outbox.put(self.teller.event(envelope))
        self._tell_usage(envelope.event.llm_metrics)

    def _tell_usage(self, metrics: LLMMetrics | None) -> None:
        if metrics is not None and metrics != self._spent and (update := usage_update(metrics)) is not None:
            self.outbox.put([update])
        self._spent = metrics or self._spent

    def _hear_frame(self, frame: Frame) -> None:
        self.outbox.put(self.teller.frame(frame))
        if isinstance(frame, TerminalOutput) and self._printing is None:
            self._printing = asyncio.get_running_loop().call_later(PRINT_S, self._print)

    def _print(self) -> None:
        self._printing = None
        self.outbox.put(self.teller.prints())

    def say(self, text: str) -> None:
        """Tell the user something of Handloom's own."""
        self.outbox.put([message(f"{text}\n\n")])

    async def replay(self) -> None:
        """Tell everything that was said and done so far, and return when it is sent."""
        teller = Teller(self.teller.paths)
        after, last = -1, self.session.stream.latest_id
        while page := await self.session.stream.read(after=after, before=last + 1, limit=PAGE):
            for envelope in page:
                self.outbox.put(teller.event(envelope, again=True))
                self.outbox.put(await shown(envelope, self.session.stream))
            after = page[-1].id
            await self.outbox.flush()
        self.teller, self._told = teller, max(last, self._told)
        self._tell_usage(self.session.state.metrics)
        if self.session.state.awaiting is not None:
            self.say(_("An action waits for your answer. You are asked again with your next message."))
            await self.outbox.flush()

    # -- a prompt ------------------------------------------------------------------------------------------------------

    async def prompt(self, request: PromptRequest, home: editor_commands.Home) -> PromptResponse:
        """Say it to the agent, and answer when it rests. Raises RequestError, HandloomError."""
        if self.turn is not None:
            wrong = _("A prompt runs in this session already. Wait for its end, or cancel it.")
            raise RequestError(INVALID_REQUEST, wrong)
        self.turn = turn = Turn()
        before, since = self.session.state.metrics.accumulated_token_usage, self.session.stream.latest_id
        try:
            said = await asyncio.to_thread(message_of, request.prompt, self.session.info.workspace)
            await self._say(said, home)
            turn.is_said = True
            if turn.is_cancelled:
                await self.session.interrupt()
            is_answered = await self._see_through(self.session, turn)
            if (
                compact_argument(said.text) is not None
                and (done := await last_condensation(self.session.stream, since)) is not None
            ):
                self.say(condensed(done))
            response = await self._response(turn, is_answered=is_answered)
            response.usage = usage_between(before, self.session.state.metrics.accumulated_token_usage)
            return response
        finally:
            self.turn = None
            turn.over.set()

    async def leave(self) -> None:
        """Stop the prompt that runs, and return when it is answered, or does not end. Raises StoreError."""
        turn = self.turn
        await self.cancel()
        if turn is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await turn.over.wait()

    async def cancel(self) -> None:
        """Stop the prompt that runs; does nothing where none does. Raises StoreError."""
        turn = self.turn
        if turn is None or turn.is_cancelled:
            return
        turn.is_cancelled = True
        turn.cancelled.set()
        if turn.is_said:
            await self.session.interrupt()

    async def _say(self, said: Message, home: editor_commands.Home) -> None:
        """Carry out a command, or say the message."""
        if not said.pictures and await editor_commands.carried_out(said.text, self.session):
            return
        await self.session.send(
            await editor_commands.expanded(said.text, home, self.session.recollection.gathered),
            said.pictures,
            said.context,
        )

    async def _response(self, turn: Turn, *, is_answered: bool) -> PromptResponse:
        state = self.session.state
        reason = "cancelled" if turn.is_cancelled else stop_reason(state)
        if not is_answered and not turn.is_cancelled:
            self.say(_("The action was not carried out: it waits for your answer. Send a message to be asked again."))
        elif reason in ("max_turn_requests", "max_tokens"):
            self.say(_("Write /continue to go on past the limit, by the same amount again."))
        await self.outbox.flush()
        if reason is None:
            raise RequestError(INTERNAL_ERROR, state.reason or _("The agent failed. Write /continue to try again."))
        return PromptResponse(stop_reason=reason)

    # -- its questions -------------------------------------------------------------------------------------------------

    async def _see_through(self, session: AgentSession, turn: Turn, *, prefix: str = "") -> bool:
        """Wait until the agent and its delegates rest, with all their questions put to the editor.

        False where a question found no answer, and waits.
        """
        async with asyncio.TaskGroup() as group:
            attended: dict[str, asyncio.Task[None]] = {}

            def attend(frame: Frame) -> None:
                if isinstance(frame, Status) and frame.id == DELEGATES_STATUS:
                    children = {child.id: child for child in session.delegates}
                    for id in attended.keys() - children.keys():
                        attended.pop(id).cancel()
                    for id in children.keys() - attended.keys():
                        attended[id] = group.create_task(self._attend(children[id], turn))

            unwatch = session.frames.watch(attend)
            try:
                return await self._answer_questions(session, turn, prefix)
            finally:
                unwatch()
                for task in attended.values():
                    task.cancel()

    async def _answer_questions(self, session: AgentSession, turn: Turn, prefix: str) -> bool:
        while True:
            await session.settled()
            awaiting = session.state.awaiting
            if awaiting is None:
                return True
            if turn.is_cancelled:
                await session.interrupt()
            elif not await self._question(session, awaiting, turn, prefix):
                return False

    async def _attend(self, child: AgentSession, turn: Turn) -> None:
        """Answer what a delegate asks, until cancelled.

        One that halts, or finds no answer, is stopped, and its parent reads that.
        """
        try:
            while True:
                is_answered = await self._see_through(child, turn, prefix=f"{child.id[:8]}-")
                if not is_answered or child.state.agent_state not in _DONE:
                    await child.interrupt()
                await child.changed()
        except HandloomError as error:  # its parent gets its result in any case
            log.warning("the delegate %s could not be attended: %s", child.id, error)

    async def _question(self, session: AgentSession, awaiting: int, turn: Turn, prefix: str) -> bool:
        """Put one question to the editor, and do as it says. False where it says nothing clear."""
        (envelope,) = await session.stream.read(after=awaiting - 1, limit=1)
        if turn.has_permitted and await is_allowed(session, envelope):
            await self._carry_out(session, envelope)
            return True
        await self.outbox.flush()
        question = await asyncio.to_thread(ask_about, envelope, session.guard.folders)
        asked = await asyncio.to_thread(
            permission_request.request, self.session.id, envelope, question, self.teller.paths, prefix
        )
        answer = await self._answer(asked, turn)
        if answer is Answer.NONE:
            return turn.is_cancelled
        if session.state.awaiting != awaiting:  # settled meanwhile, by a cancel or somewhere else
            return True
        if (scope := permission_request.SCOPES.get(answer)) is not None:
            verdict = Verdict.DENY if answer is Answer.NEVER else Verdict.ALLOW
            await session.approval.permit(question.pattern, scope, verdict)
            turn.has_permitted = True
        if answer in permission_request.YES:
            await self._carry_out(session, envelope)
        elif answer is Answer.STOP:
            await session.approval.reject()
        elif answer in (Answer.OTHERWISE, Answer.NEVER):
            await session.approval.reject(NOT_WANTED)
        else:
            turn.is_cancelled = True
            turn.cancelled.set()
            await self.session.interrupt()
        if prefix:
            self.outbox.put([permission_request.settled(prefix, awaiting, answer)])
        return True

    async def _carry_out(self, session: AgentSession, envelope: Envelope) -> None:
        self.outbox.put(self.teller.begins(envelope))
        await session.approval.confirm(envelope.id)

    async def _answer(self, asked: RequestPermissionRequest, turn: Turn) -> Answer:
        """What the editor says; NONE where the prompt is cancelled before."""
        asking = asyncio.ensure_future(self._ask("session/request_permission", serialize_params(asked)))
        cancelled = asyncio.create_task(turn.cancelled.wait())
        try:
            await asyncio.wait([asking, cancelled], return_when=asyncio.FIRST_COMPLETED)
            offered = {option.option_id for option in asked.options}
            return permission_request.answer(asking.result(), offered) if asking.done() else Answer.NONE
        except (RequestError, OSError) as error:
            log.warning("a question was not answered: %s", error)
            return Answer.NONE
        finally:
            asking.cancel()
            cancelled.cancel()
