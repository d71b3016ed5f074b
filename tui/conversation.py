"""One conversation as the workspace holds it: its session and the models of its panes. No Textual in here.

A tab takes every event once and in order, whether its page was read or the event came live, and every frame. It paints
nothing: it calls `wake` when something changed, and whoever shows it reads the models at their own pace. A tab that
nobody looks at goes on collecting. Loaded after the first frame, because it brings pydantic with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from core.errors import UsageError
from core.events import Envelope, EventSource, Frame, MessageAction
from core.stream import EventStreamSubscriber
from tui.i18n import _
from tui.marks import Mark, mark_of
from tui.mcp import ToolsModel
from tui.panes.browser.model import BrowserModel
from tui.panes.chat.model import ChatModel
from tui.panes.events.model import EventsModel
from tui.panes.pane import PaneModel
from tui.panes.tasks.model import PlanModel
from tui.panes.terminal.model import TerminalModel
from tui.pictures import Pictures
from tui.text import sanitize_line

if TYPE_CHECKING:
    from core.session import AgentSession

PAGE = 100
"""Events that one look back loads: more than a screen, less than a blink."""
TITLE_CELLS = 28


class ConversationTab:
    """A session with its pane models. Made open, closed once by `aclose`."""

    def __init__(
        self,
        session: AgentSession,
        wake: Callable[[ConversationTab], None],
        clock: Callable[[], float] = time.monotonic,
        level: int = 0,
    ) -> None:
        self.session = session
        self.level = level
        """How many conversations delegated until it came to this one."""
        session.attended = True
        self.chat, self.events, self.terminal = ChatModel(), EventsModel(), TerminalModel()
        self.browser, self.pictures = BrowserModel(), Pictures(session.stream.blob)
        self.chat.pictures = self.browser.pictures = self.pictures
        self.plan, self.mcp_tools = PlanModel(), ToolsModel()
        self.models: tuple[PaneModel, ...] = (
            self.chat, self.events, self.terminal, self.browser, self.plan, self.mcp_tools,
        )  # fmt: skip
        self.shown = False
        """Whether this is the tab that the user sees."""
        self.unread = False
        """Whether something was said since the user last saw this tab."""
        self.draft = ""
        """What stood in the prompt when the user went to another tab."""
        self.running_since: float | None = None
        self._first_said = ""
        self._tell = wake
        self._clock = clock
        self._seen = -1
        self._waiting: list[Envelope] | None = []
        """Events that came live before the last page was read; None from then on."""
        self._oldest: int | None = None
        self._reading_back = False
        self._unwatch: Callable[[], None] | None = None

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self.session.info.id

    @property
    def title(self) -> str:
        """Its title, else the first words of its task; clean, one line."""
        title = self.session.info.title or self._first_said
        return sanitize_line(title.strip(), TITLE_CELLS) or _("new conversation")

    @property
    def oldest(self) -> int | None:
        """The id of the first event that is loaded; None while nothing is."""
        return self._oldest

    @property
    def is_delegate(self) -> bool:
        """Whether another open conversation began it, and ends it."""
        return self.level > 0

    @property
    def mark(self) -> Mark:
        """Its state in one glyph."""
        return self._mark_and_words()[0]

    @property
    def state_words(self) -> str:
        """Its state in words."""
        return self._mark_and_words()[1]

    def _mark_and_words(self) -> tuple[Mark, str]:
        state = self.session.state
        halt = str(state.halt.kind) if state.halt is not None else None
        return mark_of(state.agent_state, halt, self.session.asleep)

    @property
    def running(self) -> bool:
        """Whether closing it would stop something."""
        return self.mark is Mark.RUNNING

    async def start(self) -> None:
        """Subscribe, then load the last page. Events that come in between are neither lost nor shown twice."""
        stream = self.session.stream
        stream.subscribe(EventStreamSubscriber.MAIN, self._take, f"tab-{self.id}")
        self._unwatch = self.session.frames.watch(self._take_frame)
        page = await stream.page(limit=PAGE)
        for envelope in page:
            self._apply(envelope, stored=True)
        self._oldest = page[0].id if page else None
        waiting, self._waiting = self._waiting or [], None
        for envelope in waiting:
            self._apply(envelope)
        self.unread = False
        self.note_state()
        self._wake()

    async def read_back(self) -> None:
        """Load the page before the oldest loaded event into every model. Does nothing at the beginning."""
        if self._reading_back or not self._oldest:
            return
        self._reading_back = True
        try:
            page = await self.session.stream.page(before=self._oldest, limit=PAGE)
        finally:
            self._reading_back = False
        if page:
            self._oldest = page[0].id
            for model in self.models:
                model.prepend(page)
        self._wake()

    async def read_log_back(self, to: int | None = None) -> None:
        """Load the page before the oldest row into the event log alone, or all pages down to an event.

        What the other models load later, the log knows already. Others may draw between two pages.
        """
        while (oldest := self.events.oldest) and self.events.has_room:
            page = await self.session.stream.page(before=oldest, limit=PAGE)
            self.events.prepend(page)
            self._wake()
            if to is None or not page or page[0].id <= to:
                return
            await asyncio.sleep(0)

    async def event(self, event_id: int) -> Envelope | None:
        """Read one event from the store; None where there is none."""
        page = await self.session.stream.page(before=event_id + 1, limit=1)
        return page[0] if page and page[0].id == event_id else None

    async def aclose(self) -> None:
        """Stop listening. The session lives on; its owner closes it. May be called twice."""
        with suppress(UsageError):  # a delegate's stream ends with its work
            self.session.stream.unsubscribe(EventStreamSubscriber.MAIN, f"tab-{self.id}")
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _wake(self) -> None:
        self._tell(self)

    async def _take(self, envelope: Envelope) -> None:
        if self._waiting is not None:
            self._waiting.append(envelope)
            return
        self._apply(envelope)
        self.note_state()
        self._wake()

    def _apply(self, envelope: Envelope, *, stored: bool = False) -> None:
        if envelope.id <= self._seen:
            return
        self._seen = envelope.id
        if isinstance(envelope.event, MessageAction) and not self._first_said and envelope.source is EventSource.USER:
            self._first_said = envelope.event.content[:200]
        if not stored and not self.shown:
            self.unread = True
        for model in self.models:
            model.apply(envelope)

    def _take_frame(self, frame: Frame) -> None:
        for model in self.models:
            model.apply_frame(frame)
        self._wake()

    def note_state(self) -> None:
        """Look at the session's state again; it may change a moment after the event that tells of it."""
        if not self.running:
            self.running_since = None
        elif self.running_since is None:
            self.running_since = self._clock()
