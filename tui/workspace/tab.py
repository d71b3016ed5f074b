"""Tab: one conversation in the workspace, open, replayed or followed. No Textual.

A tab has the models of its panes, the log from which they are read, and what the tab bar and the footer show. The
subclasses are in `tui.workspace.conversation` and `tui.replay.replay_tab`. A tab draws nothing: it calls `wake` after a
change, and the views read the models when they draw.
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
    from tui.replay.transport_bar import TransportState
    from tui.workspace.conversation_status import Mark
    from tui.workspace.footer import Facts

PAGE = 100
"""Events that are loaded at once: more than a screen, and fast."""
TITLE_CELLS = 28


def short_title(title: str) -> str:
    """A clean title in TITLE_CELLS; an ending that distinguishes it, such as of a fork, stays."""
    clean = sanitize_line(title.strip(), 4 * TITLE_CELLS)
    end = next((ending for ending in TITLE_ENDINGS if clean.endswith(ending)), "")
    return sanitize_line(clean.removesuffix(end).rstrip(), TITLE_CELLS - len(end)) + end


class Log(Protocol):
    """The events of a conversation, as far as the tab shows them."""

    @property
    def latest_id(self) -> int:
        """The id of the newest event; -1 without events."""
        ...

    async def page(self, *, before: int | None = None, limit: int = PAGE, where: Any = None) -> list[Envelope]:
        """The last `limit` events before the id `before`, or of all, in order."""
        ...

    async def blob(self, ref: BlobRef) -> Blob | None:
        """A picture of the conversation; None if it is missing."""
        ...


class Tab(ABC):
    """A conversation with its pane models."""

    is_replay = False
    """Whether it shows the past, so nothing can be done in it."""
    level = 0
    """The depth of delegation: 0 for a conversation that the user started."""

    def __init__(self, log: Log, wake: Callable[[Any], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.log = log
        self.pictures = Pictures(log.blob)
        self.reset_models()
        self.shown = False
        """Whether the user sees this tab."""
        self.unread = False
        """Whether there are events since the user last saw this tab."""
        self.draft = ""
        """The text of the prompt while another tab is shown."""
        self.running_since: float | None = None
        self._tell = wake
        self._clock = clock
        self._oldest: int | None = None
        self._reading_back = False

    def reset_models(self) -> None:
        """Replace the models by empty ones."""
        self.chat, self.events, self.terminal = ChatModel(), EventsModel(), TerminalModel()
        self.browser, self.plan, self.mcp_tools = BrowserModel(), PlanModel(), ToolsModel()
        self.chat.pictures = self.browser.pictures = self.pictures
        self.models: tuple[PaneModel, ...] = (
            self.chat, self.events, self.terminal, self.browser, self.plan, self.mcp_tools,
        )  # fmt: skip

    def work_group(self, work: str) -> str:
        """The group name of one kind of background work of this tab."""
        return f"{work}-{id(self)}"

    @property
    def work_groups(self) -> list[str]:
        """The groups of background work that are cancelled when the tab is closed."""
        return [self.work_group(work) for work in ("search", "replay", "highlights")]

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def id(self) -> str:
        """The conversation's id."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The title in the tab bar; clean, one line."""

    @property
    @abstractmethod
    def mark(self) -> Mark:
        """The state in one glyph."""

    @property
    @abstractmethod
    def folder(self) -> str:
        """The folder in which the agent works, as stored."""

    @property
    @abstractmethod
    def model_name(self) -> str:
        """The model, as stored."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What the footer shows."""

    @property
    def about_terminal(self) -> str:
        """A remark on an incomplete terminal; empty if it is complete."""
        return ""

    @property
    def transport_state(self) -> TransportState | None:
        """What the transport bar shows; None without a bar."""
        return None

    @property
    def is_unused(self) -> bool:
        """Whether it is a conversation in which nothing happened."""
        return False

    @property
    def is_delegate(self) -> bool:
        """Whether another open conversation started it, and ends it."""
        return self.level > 0

    @property
    def queued(self) -> Sequence[str]:
        """Messages that wait until the agent is done."""
        return ()

    @property
    def running(self) -> bool:
        """Whether closing it would stop something."""
        return False

    @property
    def runs_command(self) -> bool:
        """Whether a command of the user is running."""
        return False

    def note_state(self) -> None:
        """Update `running_since`; the state may change a moment after its event."""
        if not self.running:
            self.running_since = None
        elif self.running_since is None:
            self.running_since = self._clock()

    # -- start and end -------------------------------------------------------------------------------------------------

    @abstractmethod
    async def start(self) -> None:
        """Load the last page and start to listen. Called once."""

    @abstractmethod
    async def aclose(self) -> None:
        """Stop listening. May be called twice."""

    # -- reading back --------------------------------------------------------------------------------------------------

    @property
    def oldest(self) -> int | None:
        """The id of the first loaded event; None if none is loaded."""
        return self._oldest

    async def read_back(self) -> None:
        """Load the page before the oldest loaded event into every model."""
        if self._reading_back or not self._oldest:
            return
        self._reading_back = True
        models = self.models
        try:
            page = await self.log.page(before=self._oldest, limit=PAGE)
        finally:
            self._reading_back = False
        if page and models is self.models:  # not after a reset
            self._oldest = page[0].id
            for model in models:
                model.prepend(page)
        self._wake()

    async def read_log_back(self, to: int | None = None) -> None:
        """Load the page before the oldest row, or all pages down to an event, into the event log only.

        When the other models load these events later, the log ignores them. Lets others draw between two pages.
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
        """Read one event from the store; None if it does not exist."""
        page = await self.log.page(before=event_id + 1, limit=1)
        return page[0] if page and page[0].id == event_id else None

    def _wake(self) -> None:
        self._tell(self)
