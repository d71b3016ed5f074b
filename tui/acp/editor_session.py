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
from pathlib import Path
from typing import Any

from acp.exceptions import RequestError
from acp.schema import PromptRequest, PromptResponse, RequestPermissionRequest, SessionNotification
from acp.utils import serialize_params

from core.delegation.delegation import DELEGATES_STATUS
from core.errors import HandloomError
from core.events import Action, AgentState, Envelope, Frame, LLMMetrics, Status, TerminalOutput
from core.headless import compact_argument, last_condensation
from core.security.confirmation import NOT_WANTED, Verdict
from core.session.agent_session import AgentSession
from core.stream import EventStreamSubscriber
from tui.acp.methods import INTERNAL_ERROR, INVALID_REQUEST
from tui.acp.prompts import (
    Message,
    expand_command,
    message_of,
    run_command,
    stop_reason,
    stored_pictures,
    usage_between,
    usage_update,
)
from tui.acp.tool_calls import (
    APPROVALS,
    SCOPES,
    Answer,
    Paths,
    parse_answer,
    permission_request,
    settle_call,
)
from tui.acp.updates import EventTranslator, Outbox, Update, message
from tui.approval.question import ask_about
from tui.i18n import _
from tui.memory.memory_text import condensed

log = logging.getLogger(__name__)

PAGE = 200
OUTPUT_S = 0.25
"""How long a command's output is gathered before it is sent."""
STOP_S = 10.0
"""How long a prompt may take to end before its session is closed anyway."""
SUBSCRIBER = "acp"
_DONE = frozenset({AgentState.FINISHED, AgentState.REJECTED, AgentState.STOPPED, AgentState.AWAITING_USER_INPUT})
"""States in which a delegate has ended."""

Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]
Notify = Callable[[str, dict[str, Any]], Awaitable[None]]


class Turn:
    """One running prompt."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.is_sent = False
        """Whether the message is stored, so that there is something to interrupt."""
        self.has_new_permission = False
        """Whether an answer was stored as a permission, which may allow other waiting actions."""
        self.cancelled = asyncio.Event()
        self.ended = asyncio.Event()

    def cancel(self) -> None:
        self.is_cancelled = True
        self.cancelled.set()


class EditorSession:
    """`ask` sends a request to the editor, `notify` a notification. `aclose` does not close the AgentSession."""

    def __init__(self, session: AgentSession, ask: Ask, notify: Notify) -> None:
        self.session = session
        self.turn: Turn | None = None
        self._paths = Paths(session.info.workspace, session.runtime.working_dir.rstrip("/") or "/")
        self._translator = EventTranslator(self._paths)
        self._ask = ask
        self._notify = notify
        self.outbox = Outbox(self._send)
        self._last_id = session.stream.latest_id
        self._metrics: LLMMetrics | None = None
        self._output_timer: asyncio.TimerHandle | None = None
        session.delegation.attended = True
        session.stream.subscribe(EventStreamSubscriber.MAIN, self._on_event, SUBSCRIBER)
        self._unwatch = session.frames.watch(self._on_frame)

    async def aclose(self) -> None:
        """Stop sending updates. What runs continues, or ends with its session."""
        self._unwatch()
        self.session.delegation.attended = False
        if self._output_timer is not None:
            self._output_timer.cancel()
        try:
            self.session.stream.unsubscribe(EventStreamSubscriber.MAIN, SUBSCRIBER)
        except HandloomError:  # the stream was closed before
            log.debug("conversation %s was closed already", self.session.id)
        await self.outbox.aclose()

    # -- updates -------------------------------------------------------------------------------------------------------

    async def _send(self, update: Update) -> None:
        params = SessionNotification(session_id=self.session.id, update=update)
        await self._notify("session/update", serialize_params(params))

    async def _on_event(self, envelope: Envelope) -> None:
        if envelope.id <= self._last_id:
            return
        self._last_id = envelope.id
        self.outbox.put(self._translator.event(envelope))
        self._send_usage(envelope.event.llm_metrics)

    def _send_usage(self, metrics: LLMMetrics | None) -> None:
        if metrics is not None and metrics != self._metrics and (update := usage_update(metrics)) is not None:
            self.outbox.put([update])
        self._metrics = metrics or self._metrics

    def _on_frame(self, frame: Frame) -> None:
        self.outbox.put(self._translator.frame(frame))
        if isinstance(frame, TerminalOutput) and self._output_timer is None:
            self._output_timer = asyncio.get_running_loop().call_later(OUTPUT_S, self._send_output)

    def _send_output(self) -> None:
        self._output_timer = None
        self.outbox.put(self._translator.output())

    def say(self, text: str) -> None:
        """Send the user a message of Handloom."""
        self.outbox.put([message(f"{text}\n\n")])

    async def replay(self) -> None:
        """Send the conversation so far, and return when it is sent."""
        translator = EventTranslator(self._paths)
        after, last = -1, self.session.stream.latest_id
        while page := await self.session.stream.read(after=after, before=last + 1, limit=PAGE):
            for envelope in page:
                self.outbox.put(translator.event(envelope, is_replay=True))
                self.outbox.put(await stored_pictures(envelope, self.session.stream))
            after = page[-1].id
            await self.outbox.flush()
        self._translator, self._last_id = translator, max(last, self._last_id)
        self._send_usage(self.session.state.metrics)
        if self.session.state.awaiting is not None:
            self.say(_("An action is waiting for your answer. You will be asked again with your next message."))
            await self.outbox.flush()

    # -- a prompt ------------------------------------------------------------------------------------------------------

    async def prompt(self, request: PromptRequest, home: Path) -> PromptResponse:
        """Send a message to the agent, and respond when it rests. Raises RequestError, HandloomError."""
        if self.turn is not None:
            wrong = _("This session is already running a prompt. Wait until it ends, or cancel it.")
            raise RequestError(INVALID_REQUEST, wrong)
        self.turn = turn = Turn()
        before, since = self.session.state.metrics.accumulated_token_usage, self.session.stream.latest_id
        try:
            sent = await asyncio.to_thread(message_of, request.prompt, self.session.info.workspace)
            await self._send_message(sent, home)
            turn.is_sent = True
            if turn.is_cancelled:
                await self.session.interrupt()
            is_answered = await self._wait_until_idle(self.session, turn)
            is_compact = compact_argument(sent.text) is not None
            if is_compact and (result := await last_condensation(self.session.stream, since)) is not None:
                self.say(condensed(result))
            response = await self._response(turn, is_answered=is_answered)
            response.usage = usage_between(before, self.session.state.metrics.accumulated_token_usage)
            return response
        finally:
            self.turn = None
            turn.ended.set()

    async def stop(self) -> None:
        """Cancel the running prompt, and wait until it has ended, for STOP_S at most. Raises StoreError."""
        turn = self.turn
        await self.cancel()
        if turn is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await turn.ended.wait()

    async def cancel(self) -> None:
        """Cancel the running prompt, if there is one. Raises StoreError."""
        turn = self.turn
        if turn is None or turn.is_cancelled:
            return
        turn.cancel()
        if turn.is_sent:
            await self.session.interrupt()

    async def _send_message(self, message: Message, home: Path) -> None:
        """Run a command, or send the message."""
        if not message.pictures and await run_command(message.text, self.session):
            return
        text = await expand_command(message.text, home, self.session.memory.gathered)
        await self.session.send(text, message.pictures, message.context)

    async def _response(self, turn: Turn, *, is_answered: bool) -> PromptResponse:
        state = self.session.state
        reason = "cancelled" if turn.is_cancelled else stop_reason(state)
        if not is_answered and not turn.is_cancelled:
            self.say(_("The action was not run: it is waiting for your answer. Send a message to be asked again."))
        elif reason in ("max_turn_requests", "max_tokens"):
            self.say(_("Send /continue to extend the limit by the same amount and go on."))
        await self.outbox.flush()
        if reason is None:
            raise RequestError(INTERNAL_ERROR, state.reason or _("The agent failed. Send /continue to try again."))
        return PromptResponse(stop_reason=reason)

    # -- permission requests -------------------------------------------------------------------------------------------

    async def _wait_until_idle(self, session: AgentSession, turn: Turn, *, prefix: str = "") -> bool:
        """Wait until the agent and its delegates rest, and ask the editor about their actions.

        Return False if a question got no answer, so that its action waits.
        """
        async with asyncio.TaskGroup() as group:
            watched: dict[str, asyncio.Task[None]] = {}

            def on_frame(frame: Frame) -> None:
                if isinstance(frame, Status) and frame.id == DELEGATES_STATUS:
                    children = {child.id: child for child in session.delegates}
                    for id in watched.keys() - children.keys():
                        watched.pop(id).cancel()
                    for id in children.keys() - watched.keys():
                        watched[id] = group.create_task(self._attend_delegate(children[id], turn))

            unwatch = session.frames.watch(on_frame)
            try:
                return await self._answer_questions(session, turn, prefix)
            finally:
                unwatch()
                for task in watched.values():
                    task.cancel()

    async def _answer_questions(self, session: AgentSession, turn: Turn, prefix: str) -> bool:
        while True:
            await session.settled()
            awaiting = session.state.awaiting
            if awaiting is None:
                return True
            if turn.is_cancelled:
                await session.interrupt()
            elif not await self._ask_permission(session, awaiting, turn, prefix):
                return False

    async def _attend_delegate(self, child: AgentSession, turn: Turn) -> None:
        """Ask the editor about a delegate's actions until cancelled. A delegate that gets no answer is stopped."""
        try:
            while True:
                is_answered = await self._wait_until_idle(child, turn, prefix=f"{child.id[:8]}-")
                if not is_answered or child.state.agent_state not in _DONE:
                    await child.interrupt()
                await child.changed()
        except HandloomError as error:  # its parent gets its result in any case
            log.warning("the delegate %s could not be watched: %s", child.id, error)

    async def _ask_permission(self, session: AgentSession, awaiting: int, turn: Turn, prefix: str) -> bool:
        """Ask the editor about one action, and act on the answer. Return False if there is no clear answer."""
        (envelope,) = await session.stream.read(after=awaiting - 1, limit=1)
        if turn.has_new_permission and await _is_allowed(session, envelope):
            await self._approve(session, envelope)
            return True
        await self.outbox.flush()
        question = await asyncio.to_thread(ask_about, envelope, session.guard.folders)
        asked = await asyncio.to_thread(permission_request, self.session.id, envelope, question, self._paths, prefix)
        answer = await self._ask_editor(asked, turn)
        if answer is Answer.NONE:
            return turn.is_cancelled
        if session.state.awaiting != awaiting:  # settled meanwhile, by a cancel or somewhere else
            return True
        if (scope := SCOPES.get(answer)) is not None:
            verdict = Verdict.DENY if answer is Answer.NEVER else Verdict.ALLOW
            await session.approval.permit(question.pattern, scope, verdict)
            turn.has_new_permission = True
        if answer in APPROVALS:
            await self._approve(session, envelope)
        elif answer is Answer.REJECT:
            await session.approval.reject()
        elif answer in (Answer.REJECT_AND_GO_ON, Answer.NEVER):
            await session.approval.reject(NOT_WANTED)
        else:
            turn.cancel()
            await self.session.interrupt()
        if prefix:
            self.outbox.put([settle_call(prefix, awaiting, answer)])
        return True

    async def _approve(self, session: AgentSession, envelope: Envelope) -> None:
        self.outbox.put(self._translator.approved(envelope))
        await session.approval.confirm(envelope.id)

    async def _ask_editor(self, asked: RequestPermissionRequest, turn: Turn) -> Answer:
        """Return the editor's answer; NONE if the prompt is cancelled before."""
        asking = asyncio.ensure_future(self._ask("session/request_permission", serialize_params(asked)))
        cancelled = asyncio.create_task(turn.cancelled.wait())
        try:
            await asyncio.wait([asking, cancelled], return_when=asyncio.FIRST_COMPLETED)
            offered = {option.option_id for option in asked.options}
            return parse_answer(asking.result(), offered) if asking.done() else Answer.NONE
        except (RequestError, OSError) as error:
            log.warning("a question was not answered: %s", error)
            return Answer.NONE
        finally:
            asking.cancel()
            cancelled.cancel()


async def _is_allowed(session: AgentSession, envelope: Envelope) -> bool:
    """Whether a permission that was given meanwhile allows an action that waits."""
    action = envelope.event
    return isinstance(action, Action) and (await session.guard.judge(action)).verdict is Verdict.ALLOW
