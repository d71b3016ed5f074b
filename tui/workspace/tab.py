"""Tab: one conversation as the workspace holds it, living or replayed. No Textual in here.

What a tab has: the models of its panes, the log they are read from, and what the frame tells of the conversation (its
mark, its words, the facts of the footer). What goes on in it is a kind's own: `tui.workspace.conversation` has a living
session, `tui.replay.replay_tab` a player. A tab paints nothing: it calls `wake` when something changed, and whatever
shows it reads the models at their own pace.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from core.store.conversations import TITLE_ENDINGS
from tui.browser.model import BrowserModel
from tui.chat.model import ChatModel
from tui.events.model import EventsModel
from tui.mcp.called_tools import ToolsModel
from tui.plan.model import PlanModel
from tui.terminal.model import TerminalModel
from tui.terminal_io.graphics.picture_cells import Pictures
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.pane import PaneModel

if TYPE_CHECKING:
    from core.events import Envelope
    from core.store.blobs import Blob, BlobRef
    from tui.replay.transport_bar import Reel
    from tui.workspace.conversation_status import Mark
    from tui.workspace.footer import Facts

PAGE = 100
"""Events that one look back loads: more than a screen, less than a blink."""
TITLE_CELLS = 28


def short_title(title: str) -> str:
    """A title in TITLE_CELLS, clean; what tells it apart from the one that it comes from stays."""
    clean = sanitize_line(title.strip(), 4 * TITLE_CELLS)
    end = next((ending for ending in TITLE_ENDINGS if clean.endswith(ending)), "")
    return sanitize_line(clean.removesuffix(end).rstrip(), TITLE_CELLS - len(end)) + end


class Log(Protocol):
    """What the panes of a tab are read from: a conversation's events, as far as the tab shows them."""

    @property
    def latest_id(self) -> int:
        """The id of the newest event; -1 while there is none."""
        ...

    async def page(self, *, before: int | None = None, limit: int = PAGE, where: Any = None) -> list[Envelope]:
        """The last `limit` events before `before` (or of all), in the order of ids."""
        ...

    async def blob(self, ref: BlobRef) -> Blob | None:
        """A picture of the conversation; None where it is not there."""
        ...


class Tab(ABC):
    """A conversation with its pane models."""

    is_replay = False
    """Whether it shows what was; nothing can be done in it then."""
    level = 0
    """How many conversations delegated until it came to this one."""

    def __init__(self, log: Log, wake: Callable[[Any], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.log = log
        self.pictures = Pictures(log.blob)
        self.begin_models()
        self.shown = False
        """Whether this is the tab that the user sees."""
        self.unread = False
        """Whether something was said since the user last saw this tab."""
        self.draft = ""
        """What stood in the prompt when the user went to another tab."""
        self.running_since: float | None = None
        self._tell = wake
        self._clock = clock
        self._oldest: int | None = None
        self._reading_back = False

    def begin_models(self) -> None:
        """Have models that know nothing."""
        self.chat, self.events, self.terminal = ChatModel(), EventsModel(), TerminalModel()
        self.browser, self.plan, self.mcp_tools = BrowserModel(), PlanModel(), ToolsModel()
        self.chat.pictures = self.browser.pictures = self.pictures
        self.models: tuple[PaneModel, ...] = (
            self.chat, self.events, self.terminal, self.browser, self.plan, self.mcp_tools,
        )  # fmt: skip

    def work_group(self, work: str) -> str:
        """The name of the group in which this tab's background work of one kind runs."""
        return f"{work}-{id(self)}"

    @property
    def work_groups(self) -> list[str]:
        """The groups of background work that are cancelled when the tab is closed."""
        return [self.work_group(work) for work in ("search", "replay", "signs")]

    # -- what the frame tells ------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def id(self) -> str:
        """The conversation's id."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What the strip of tabs calls it; clean, one line."""

    @property
    @abstractmethod
    def mark(self) -> Mark:
        """Its state in one glyph."""

    @property
    @abstractmethod
    def folder(self) -> str:
        """Where the agent works, as it is stored."""

    @property
    @abstractmethod
    def model_name(self) -> str:
        """The model that answers, as it is stored."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What the footer tells."""

    @property
    def about_terminal(self) -> str:
        """What is to be known of what its terminal shows; empty where it shows everything."""
        return ""

    @property
    def reel(self) -> Reel | None:
        """What the transport bar shows; None where there is no bar."""
        return None

    @property
    def is_delegate(self) -> bool:
        """Whether another open conversation began it, and ends it."""
        return self.level > 0

    @property
    def queued(self) -> Sequence[str]:
        """Messages that wait until the agent rests, as they were written."""
        return ()

    @property
    def running(self) -> bool:
        """Whether closing it would stop something."""
        return False

    @property
    def runs_command(self) -> bool:
        """Whether a command of the user's is at work."""
        return False

    def note_state(self) -> None:
        """Look at the state again; it may change a moment after the event that tells of it."""
        if not self.running:
            self.running_since = None
        elif self.running_since is None:
            self.running_since = self._clock()

    # -- its life ------------------------------------------------------------------------------------------------------

    @abstractmethod
    async def start(self) -> None:
        """Load the last page and begin to listen. Called once."""

    @abstractmethod
    async def aclose(self) -> None:
        """Stop listening. May be called twice."""

    # -- reading back --------------------------------------------------------------------------------------------------

    @property
    def oldest(self) -> int | None:
        """The id of the first event that is loaded; None while nothing is."""
        return self._oldest

    async def read_back(self) -> None:
        """Load the page before the oldest loaded event into every model. Does nothing at the beginning."""
        if self._reading_back or not self._oldest:
            return
        self._reading_back = True
        models = self.models
        try:
            page = await self.log.page(before=self._oldest, limit=PAGE)
        finally:
            self._reading_back = False
        if page and models is self.models:  # other models by now have pages of their own
            self._oldest = page[0].id
            for model in models:
                model.prepend(page)
        self._wake()

    async def read_log_back(self, to: int | None = None) -> None:
        """Load the page before the oldest row into the event log alone, or all pages down to an event.

        What the other models load later, the log knows already. Others may draw between two pages.
        """
        log = self.events
        while (oldest := log.oldest) and log.has_room and log is self.events:
            page = await self.log.page(before=oldest, limit=PAGE)
            log.prepend(page)
            self._wake()
            if to is None or not page or page[0].id <= to:
                return
            await asyncio.sleep(0)

    async def event(self, event_id: int) -> Envelope | None:
        """Read one event from the store; None where there is none."""
        page = await self.log.page(before=event_id + 1, limit=1)
        return page[0] if page and page[0].id == event_id else None

    def _wake(self) -> None:
        self._tell(self)
