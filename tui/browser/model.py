"""BrowserModel: the pages of a conversation, in the order in which they were seen, and the one that is looked at.

Follows the newest page until the reader goes back, like the other panes. While somebody watches, the newest page is the
living one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from tui.browser.page_elements import NOTHING, Look
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
"""Where an accessibility tree says the title of its page."""
_NOTE = re.compile(
    r"^\[(?!Current URL: |Focused element bid: |Screenshot saved to: |Action executed )([^\]]+)\]$", re.MULTILINE
)
"""A line in which the browser says what happened beside the step."""
HEAD_CHARS = 4_000
"""Of a page's text: notes stand at its beginning."""


@dataclass(frozen=True, slots=True)
class PageSeen:
    """One step of the browser. All texts are clean."""

    event_id: int
    url: str
    title: str
    """Empty where it is not known."""
    at: datetime
    picture: str
    """The reference of its picture; empty where none was taken."""
    action: str
    """What led there: browser functions, or nothing where a page was only opened."""
    error: str
    by_user: bool = False
    look: Look = NOTHING
    focused: str = ""
    """The bid of the element that takes what is typed."""
    notes: str = ""
    """What happened on the way, such as a dialog that was dismissed."""


@dataclass(frozen=True, slots=True)
class LivePage:
    """The page as it looks at this moment. All texts are clean."""

    url: str
    title: str
    width: int
    height: int
    pixels: Pixels | str
    """Its picture, or why there is none."""
    look: Look = NOTHING


class BrowserModel(PaneModel):
    """The pages of one conversation."""

    side: ClassVar[int] = KEPT_SIDE
    """Pixels of the longer side that living pages are kept with: more where the terminal draws them itself."""

    def __init__(self) -> None:
        self.pages: list[PageSeen] = []
        self.pictures: Pictures | None = None
        """Where the pictures are; set by whoever has the log."""
        self.taken = False
        """Whether the user has the browser."""
        self.told = ""
        """What the user is told below the page: what came of their last step, or what comes first. Clean."""
        self._living: LivePage | None = None
        self._step = -1
        """The user's last step, as far as it is known, and what it is called where it is no function."""
        self._said = ""
        self._at: int | None = None
        """The index of the page that is looked at; None follows the newest."""

    @property
    def index(self) -> int:
        """The page that is looked at; -1 where there is none."""
        return len(self.pages) - 1 if self._at is None else self._at

    @property
    def page(self) -> PageSeen | None:
        return self.pages[self.index] if self.pages else None

    @property
    def looks_back(self) -> bool:
        """Whether a page is looked at that is not how things are by now."""
        return self._at is not None

    @property
    def live(self) -> LivePage | None:
        """The living page, where it is watched and looked at."""
        return self._living if self._at is None else None

    @property
    def look(self) -> Look:
        """What is known of the page that is looked at; the marks of the last step where it changed a little since."""
        page, live = self.page, self.live
        if live is None or not live.look.width:
            return page.look if page is not None and (live is None or live.url == page.url) else NOTHING
        if page is None or live.look.marks or live.url != page.url:
            return live.look
        return replace(live.look, marks=page.look.marks)

    def show_live(self, page: PageShown, pixels: Pixels | str) -> None:
        """The page looks like this."""
        url, title = sanitize_line(page.url, URL_CELLS), sanitize_line(page.title, TITLE_CELLS)
        self._living = LivePage(url, title, page.width, page.height, pixels, Look.of(page.look))
        self.notify()

    def tell(self, text: str) -> None:
        """Say something to the user below the page, until the next step. The text is clean."""
        self.told = text
        self.notify()

    def end_live(self) -> None:
        """Nobody watches the page any more."""
        self._living = None
        self.notify()

    def go(self, index: int) -> None:
        """Look at another page; the newest is followed from then on."""
        last = len(self.pages) - 1
        self._at = None if index >= last else max(0, index)
        self.notify()

    def apply(self, envelope: Envelope) -> None:
        self._note(envelope)
        page = _page_of(envelope)
        if page is not None:
            if envelope.cause == self._step and self._said:
                page = replace(page, action=self._said)
            self.pages.append(page)
            self.notify()

    def _note(self, envelope: Envelope) -> None:
        """Who has the browser, and what became of the user's step where that is no page."""
        from core.events import BrowseInteractiveAction, ErrorObservation, EventSource, FileDownloadObservation

        event = envelope.event
        if isinstance(event, BrowseInteractiveAction) and envelope.source is EventSource.USER:
            self.taken, self.told = event.thought != event.GIVEN_BACK, ""
            self._step, self._said = envelope.id, ""
            if event.thought:
                self._said = _("take over") if self.taken else _("give back")
            self.notify()
        elif isinstance(event, FileDownloadObservation | ErrorObservation) and envelope.cause == self._step >= 0:
            self.tell(sanitize_line(event.content, URL_CELLS))

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


def _page_of(envelope: Envelope) -> PageSeen | None:
    from core.events import BrowserOutputObservation, EventSource

    event = envelope.event
    if not isinstance(event, BrowserOutputObservation):
        return None
    return PageSeen(
        event_id=envelope.id,
        url=sanitize_line(event.url, URL_CELLS),
        title=sanitize_line(title[1], TITLE_CELLS) if (title := _TITLE.search(event.content)) else "",
        at=envelope.timestamp,
        picture=event.screenshot or event.set_of_marks,
        action=sanitize_line("; ".join(event.last_browser_action.split("\n")), URL_CELLS),
        error=sanitize_line(event.last_browser_action_error.partition("\n")[0], URL_CELLS),
        by_user=envelope.source is EventSource.USER,
        look=Look.of(event.look),
        focused=event.focused_element_bid,
        notes=sanitize_line(" · ".join(_NOTE.findall(event.content[:HEAD_CHARS])), URL_CELLS),
    )
