"""BrowserModel: the pages of a conversation, in the order in which they were seen, and the one that is looked at.

Follows the newest page until the reader goes back, like the other panes. While somebody watches, the newest page is the
living one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tui.display.text import sanitize_line
from tui.panes.pane import PaneModel

if TYPE_CHECKING:
    from core.events import Envelope, PageShown
    from tui.display.pictures import Pictures, Pixels

URL_CELLS = 2000
TITLE_CELLS = 200
_TITLE = re.compile(r"^RootWebArea '(.*?)'(?:, |$)", re.MULTILINE)
"""Where an accessibility tree says the title of its page."""


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


@dataclass(frozen=True, slots=True)
class LivePage:
    """The page as it looks at this moment. All texts are clean."""

    url: str
    title: str
    width: int
    height: int
    pixels: Pixels | str
    """Its picture, or why there is none."""


class BrowserModel(PaneModel):
    """The pages of one conversation."""

    def __init__(self) -> None:
        self.pages: list[PageSeen] = []
        self.pictures: Pictures | None = None
        """Where the pictures are; set by whoever has the log."""
        self._living: LivePage | None = None
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
    def live(self) -> LivePage | None:
        """The living page, where it is watched and looked at."""
        return self._living if self._at is None else None

    def show_live(self, page: PageShown, pixels: Pixels | str) -> None:
        """The page looks like this."""
        url, title = sanitize_line(page.url, URL_CELLS), sanitize_line(page.title, TITLE_CELLS)
        self._living = LivePage(url, title, page.width, page.height, pixels)
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
        page = _page_of(envelope)
        if page is not None:
            self.pages.append(page)
            self.notify()

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
    from core.events import BrowserOutputObservation

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
    )
