"""The pages of a conversation's browser, in the order of the steps, and the page that is shown.

Follows the newest page until the reader goes back, as the other panes do. While the pane is visible, the newest page is
the live one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from tui.browser.page_elements import NO_LAYOUT, PageLayout
from tui.i18n import _
from tui.terminal_io.graphics.picture_cells import KEPT_SIDE
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.pane import PaneModel

if TYPE_CHECKING:
    from core.events import Envelope, PageShown
    from tui.terminal_io.graphics.picture_cells import Pictures, Pixels

URL_CELLS = 2000
TITLE_CELLS = 200
_TITLE = re.compile(r"^RootWebArea '(.*?)'(?:, |$)", re.MULTILINE)
"""The title of a page in its accessibility tree."""
_NOTE = re.compile(
    r"^\[(?!Current URL: |Focused element bid: |Screenshot saved to: |Action executed )([^\]]+)\]$", re.MULTILINE
)
"""A line in which the browser says what else happened."""
HEAD_CHARS = 4_000
"""The part of a page's text that can have notes."""


@dataclass(frozen=True, slots=True)
class VisitedPage:
    """The page after one step of the browser. All texts are clean."""

    event_id: int
    url: str
    title: str
    """Empty if unknown."""
    at: datetime
    picture: str
    """The reference of its screenshot; empty if none was taken."""
    action: str
    """The browser functions that led there; empty if a page was only opened."""
    error: str
    by_user: bool = False
    layout: PageLayout = NO_LAYOUT
    focused: str = ""
    """The bid of the focused element."""
    notes: str = ""
    """What else happened, such as a dialog that was dismissed."""


@dataclass(frozen=True, slots=True)
class LivePage:
    """The page as it looks now. All texts are clean."""

    url: str
    title: str
    width: int
    height: int
    pixels: Pixels | str
    """Its picture, or why it cannot be shown."""
    layout: PageLayout = NO_LAYOUT


class BrowserModel(PaneModel):
    """The pages of one conversation."""

    side: ClassVar[int] = KEPT_SIDE
    """Pixels of the longer side of live pages: more if the terminal draws them."""

    def __init__(self) -> None:
        self.pages: list[VisitedPage] = []
        self.pictures: Pictures | None = None
        """The pictures of the conversation; set by the owner of its log."""
        self.taken = False
        """Whether the user controls the browser."""
        self.message = ""
        """A message to the user below the page, such as the result of their last step. Clean."""
        self._live: LivePage | None = None
        self._step = -1
        self._step_name = ""
        """The name of that step if it is no browser function."""
        self._at: int | None = None
        """The index of the page that is shown; None follows the newest."""

    @property
    def index(self) -> int:
        """The index of the page that is shown; -1 if there is none."""
        return len(self.pages) - 1 if self._at is None else self._at

    @property
    def page(self) -> VisitedPage | None:
        return self.pages[self.index] if self.pages else None

    @property
    def shows_earlier(self) -> bool:
        """Whether an earlier page than the newest is shown."""
        return self._at is not None

    @property
    def live(self) -> LivePage | None:
        """The live page, if it is watched and shown."""
        return self._live if self._at is None else None

    @property
    def layout(self) -> PageLayout:
        """The layout of the page that is shown; a live page without elements has those of the last step."""
        page, live = self.page, self.live
        if live is None or not live.layout.width:
            return page.layout if page is not None and (live is None or live.url == page.url) else NO_LAYOUT
        if page is None or live.layout.elements or live.url != page.url:
            return live.layout
        return replace(live.layout, elements=page.layout.elements)

    def show_live(self, page: PageShown, pixels: Pixels | str) -> None:
        url, title = sanitize_line(page.url, URL_CELLS), sanitize_line(page.title, TITLE_CELLS)
        self._live = LivePage(url, title, page.width, page.height, pixels, PageLayout.parse(page.look))
        self.notify()

    def show_message(self, text: str) -> None:
        """Show a message below the page until the next step. The text is clean."""
        self.message = text
        self.notify()

    def end_live(self) -> None:
        self._live = None
        self.notify()

    def go(self, index: int) -> None:
        """Show another page; the newest is followed from then on."""
        last = len(self.pages) - 1
        self._at = None if index >= last else max(0, index)
        self.notify()

    def apply(self, envelope: Envelope) -> None:
        self._apply_step(envelope)
        page = _page_of(envelope)
        if page is not None:
            if envelope.cause == self._step and self._step_name:
                page = replace(page, action=self._step_name)
            self.pages.append(page)
            self.notify()

    def _apply_step(self, envelope: Envelope) -> None:
        """Note who controls the browser, and the result of a step of the user that is no page."""
        from core.events import BrowseInteractiveAction, ErrorObservation, EventSource, FileDownloadObservation

        event = envelope.event
        if isinstance(event, BrowseInteractiveAction) and envelope.source is EventSource.USER:
            self.taken, self.message = event.thought != event.GIVEN_BACK, ""
            self._step, self._step_name = envelope.id, ""
            if event.thought:
                self._step_name = _("take over") if self.taken else _("give back")
            self.notify()
        elif isinstance(event, FileDownloadObservation | ErrorObservation) and envelope.cause == self._step >= 0:
            self.show_message(sanitize_line(event.content, URL_CELLS))

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        first = self.pages[0].event_id if self.pages else None
        older = [
            page
            for envelope in envelopes
            if (first is None or envelope.id < first) and (page := _page_of(envelope)) is not None
        ]
        self.pages[:0] = older
        if self._at is not None:
            self._at += len(older)
        if older:
            self.notify()


def _page_of(envelope: Envelope) -> VisitedPage | None:
    from core.events import BrowserOutputObservation, EventSource

    event = envelope.event
    if not isinstance(event, BrowserOutputObservation):
        return None
    return VisitedPage(
        event_id=envelope.id,
        url=sanitize_line(event.url, URL_CELLS),
        title=sanitize_line(title[1], TITLE_CELLS) if (title := _TITLE.search(event.content)) else "",
        at=envelope.timestamp,
        picture=event.screenshot or event.set_of_marks,
        action=sanitize_line("; ".join(event.last_browser_action.split("\n")), URL_CELLS),
        error=sanitize_line(event.last_browser_action_error.partition("\n")[0], URL_CELLS),
        by_user=envelope.source is EventSource.USER,
        layout=PageLayout.parse(event.look),
        focused=event.focused_element_bid,
        notes=sanitize_line(" · ".join(_NOTE.findall(event.content[:HEAD_CHARS])), URL_CELLS),
    )
