"""The tab of an open conversation. No Textual.

It passes every event to its models once and in order, whether loaded from the store or live, and every frame, also
while it is not shown. Imported after the first frame, because it imports pydantic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from core.controller.decide import RESTARTED
from core.errors import UsageError
from core.events import AgentState, Envelope, EventSource, Frame, MessageAction, ModeAction
from core.stream import EventStreamSubscriber
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_status import Mark, Wait, mark_of, wait_of
from tui.workspace.footer import Facts
from tui.workspace.tab import PAGE, Tab, short_title

if TYPE_CHECKING:
    from core.session.agent_session import AgentSession


class ConversationTab(Tab):
    """A session with its pane models."""

    def __init__(
        self,
        session: AgentSession,
        wake: Callable[[ConversationTab], None],
        clock: Callable[[], float] = time.monotonic,
        level: int = 0,
    ) -> None:
        super().__init__(session.stream, wake, clock)
        self.session = session
        self.level = level
        session.delegation.attended = True
        self._first_message = ""
        self._seen = -1
        self._changes_of_mode = 0
        """As far as they were seen; each has a block in the chat. They alone are not worth keeping."""
        self._early: list[Envelope] | None = []
        """Live events from before the last page was loaded; None afterwards."""
        self._unwatch: Callable[[], None] | None = None

    @property
    def id(self) -> str:
        return self.session.info.id

    @property
    def title(self) -> str:
        """The title, else the first words of the task."""
        return short_title(self.session.info.title or self._first_message) or _("new conversation")

    @property
    def is_unused(self) -> bool:
        """Whether nothing was said or done in it, and the user gave it no title, so that it is not worth keeping."""
        count = self.log.latest_id + 1 - self._changes_of_mode
        now = replace(self.session.info, first_line=self._first_message, event_count=count)
        return now.is_unused and len(self.chat.blocks) <= self._changes_of_mode

    @property
    def folder(self) -> str:
        return self.session.info.workspace

    @property
    def model_name(self) -> str:
        return self.session.active_model.name

    @property
    def mark(self) -> Mark:
        return self._mark_and_words[0]

    @property
    def state_words(self) -> str:
        return self._mark_and_words[1]

    @property
    def _mark_and_words(self) -> tuple[Mark, str]:
        return mark_of(self.session.state.agent_state, self.waits_for, self.session.suspension.is_on)

    @property
    def waits_for(self) -> Wait | None:
        """What the conversation waits for the user to do; None if nothing."""
        state, halt = self.session.state, self.session.state.halt
        return wait_of(
            state.agent_state,
            str(halt.kind) if halt is not None else "",
            halt.what if halt is not None else "",
            has_message=state.first_message_id is not None,
            reads_terminal=self.terminal.waits and not self.has_terminal and (self.running or self.runs_command),
            has_plan=self.has_open_plan,
            was_interrupted=state.reason == RESTARTED,
        )

    @property
    def has_open_plan(self) -> bool:
        """Whether there is a complete plan that the user has not approved yet."""
        state = self.session.state
        is_complete = state.agent_state in (AgentState.AWAITING_USER_INPUT, AgentState.FINISHED) and not state.is_busy
        return state.planning and is_complete and bool(self.plan.tasks)

    @property
    def running(self) -> bool:
        return mark_of(self.session.state.agent_state)[0] is Mark.RUNNING and self.session.state.halt is None

    @property
    def runs_command(self) -> bool:
        return self.session.user_control.commands.is_busy

    @property
    def has_terminal(self) -> bool:
        """Whether the user has taken over the agent's terminal."""
        return self.session.user_control.terminal.is_on

    @property
    def queued(self) -> Sequence[str]:
        return [queued.text for queued in self.session.state.queued]

    @property
    def facts(self) -> Facts:
        session, state = self.session, self.session.state
        usage = state.metrics.accumulated_token_usage
        return Facts(
            mark=self.mark,
            state=self.state_words,
            elapsed_s=int(self._clock() - self.running_since) if self.running_since is not None else None,
            model=sanitize_line(session.active_model.name, 40),
            context_used=usage.per_turn_token,
            context_window=usage.context_window,
            tokens_in=usage.prompt_tokens,
            tokens_out=usage.completion_tokens,
            estimated=usage.is_estimated,
            cost=state.metrics.accumulated_cost,
            iteration=state.iteration,
            max_iterations=state.allowed.max_iterations or 0,
            workspace=sanitize_line(session.info.workspace, 300),
            confirm_mode=str(session.approval.mode),
            isolated=session.runtime.isolation != "none",
        )

    async def start(self) -> None:
        """Subscribe, then load the last page. Events that arrive in between are neither lost nor shown twice."""
        stream = self.session.stream
        stream.subscribe(EventStreamSubscriber.MAIN, self._take, f"tab-{self.id}")
        self._unwatch = self.session.frames.watch(self._take_frame)
        page = await stream.page(limit=PAGE)
        for envelope in page:
            self._apply(envelope, stored=True)
        self._oldest = page[0].id if page else None
        early, self._early = self._early or [], None
        for envelope in early:
            self._apply(envelope)
        self.unread = False
        self.browser.taken = self.session.user_control.browser.is_on  # the log of a killed process may differ
        self.note_state()
        self._wake()

    async def aclose(self) -> None:
        """Stop listening; the session stays open."""
        with suppress(UsageError):  # a delegate's stream ends with its work
            self.session.stream.unsubscribe(EventStreamSubscriber.MAIN, f"tab-{self.id}")
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    async def _take(self, envelope: Envelope) -> None:
        if self._early is not None:
            self._early.append(envelope)
            return
        self._apply(envelope)
        self.note_state()
        self._wake()

    def _apply(self, envelope: Envelope, *, stored: bool = False) -> None:
        if envelope.id <= self._seen:
            return
        self._seen = envelope.id
        if (
            isinstance(envelope.event, MessageAction)
            and not self._first_message
            and envelope.source is EventSource.USER
        ):
            self._first_message = envelope.event.content[:200]
        self._changes_of_mode += isinstance(envelope.event, ModeAction)
        if not stored and not self.shown:
            self.unread = True
        for model in self.models:
            model.apply(envelope)

    def _take_frame(self, frame: Frame) -> None:
        for model in self.models:
            model.apply_frame(frame)
        self._wake()
