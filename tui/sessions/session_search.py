"""Finding conversations: the part of the session manager that reads and shows, without its commands.

The upper field narrows the list down while it is typed into; Tab has it search through all texts. Invariants: what is
read follows what is in sight; nothing is left out that no chip names; a reading that comes late shows nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static
from textual.worker import WorkType

from core.errors import HandloomError
from core.store.conversations import ConversationInfo
from core.store.search_index import Hit
from tui.dialogs.line_input import Field
from tui.i18n import _, counted
from tui.sessions.conversation_list import ORDERS, SessionList
from tui.sessions.filter_chips import Chosen
from tui.sessions.search_hits import HitList
from tui.sessions.session_rows import CLOSED, Found, Listed, Standing, preview
from tui.sessions.view import ChipBar, RowsView
from tui.terminal_io.sanitizer import sanitize

if TYPE_CHECKING:
    from core.store.reader import EventReader

PREVIEW_FROM = 120
"""Columns from which a preview has a place beside the list."""
TYPED_S = 0.15
"""After so long without a key the store is asked: whoever types is not done yet."""
ORDER_WORDS = {
    "updated": _("last updated"),
    "created": _("created"),
    "title": _("title"),
    "cost": _("cost"),
    "size": _("size"),
}
NARROW = _("Filter by title, first line or folder")
LIST_KEYS = _("Enter opens · / filters · 1-5 conditions · space selects · ? keys · Esc closes")
FIELD_KEYS = _("Enter opens · ↓ list · Tab searches all text · Esc closes")
SEARCH_KEYS = _("Enter opens the match · ↓ matches · Tab back to the list · Esc closes")


class Wish(NamedTuple):
    """What the user wants of a conversation, with which the screen is left."""

    kind: str
    """`open`, `export`, `fork`, `replay` or `again`."""
    conversation_id: str
    event_id: int | None = None


class Ways(NamedTuple):
    """What the screen may do. Everything raises HandloomError."""

    store: EventReader
    standings: Callable[[Sequence[ConversationInfo]], Awaitable[Mapping[str, Standing]]]
    said: Callable[[str], Awaitable[Sequence[tuple[str, str]]]]
    """The last messages of a conversation, as pairs of who and what."""
    index_all: Callable[[], Awaitable[int]]
    """Brings the index of the search up to date."""
    rename: Callable[[str, str], Awaitable[None]]
    delete: Callable[[str, bool], Awaitable[None]]
    """Whether a container that is out of reach may go later comes second."""


@dataclass
class Whereabouts:
    """Where the user was when the screen was left, to begin there the next time."""

    chosen: Chosen = field(default_factory=Chosen)
    order: str = ORDERS[0]
    conversation_id: str = ""


class SessionFinding(ModalScreen[Wish | None]):
    """The list of conversations, its chips, the hits of a search, and a preview."""

    DEFAULT_CSS = """
    SessionFinding {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 98%; max-width: 200; height: 96%; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        #sessions-find, #sessions-find:focus { height: 1; border: none; background: $panel; padding: 0 1; }
        #sessions-chips { margin: 0 0 1 0; }
        #sessions-lists { height: 1fr; }
        #sessions-rows { width: 1fr; }
        #sessions-beside { width: 40%; max-width: 76; margin-left: 2; padding-left: 1; border-left: solid $panel; }
        #sessions-told { height: auto; max-height: 3; color: $text-success; }
        #sessions-told.-wrong { color: $text-error; }
    }
    SessionFinding.-narrow #sessions-beside { display: none; }
    SessionFinding.-low > Vertical { width: 100%; height: 100%; }
    SessionFinding.-low #sessions-chips { margin: 0; max-height: 2; }
    SessionFinding.-tiny #sessions-chips { display: none; }
    """

    def __init__(
        self,
        ways: Ways,
        here: str,
        place: Whereabouts,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`here` is the folder that is this one; `place` is kept up to date."""
        super().__init__()
        self._ways, self._here, self._place, self._clock = ways, here, place, clock
        self._list, self._hits = SessionList(ways.store), HitList(ways.store)
        self._standings: dict[str, Standing] = {}
        self._chosen_ids: set[str] = set()
        self._listed = Listed(self._list, clock, self._standings, self._chosen_ids)
        self._found = Found(self._hits, clock)
        self._all = 0
        self._searches = False
        """Whether the field looks through the texts of conversations instead of their names."""

        self._shown: tuple[bool, str] | None = None
        """What the rows are of: whether of a search, and for which text. None before the first ones."""

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Conversations")
            yield Field(placeholder=NARROW, id="sessions-find")
            yield ChipBar(id="sessions-chips")
            with Horizontal(id="sessions-lists"):
                yield RowsView(self._listed, "", id="sessions-rows")
                with VerticalScroll(id="sessions-beside", can_focus=False):
                    yield Static(id="sessions-preview")
            yield Static(id="sessions-told")

    def on_mount(self) -> None:
        """Everything is read in the background."""
        self._show_keys()
        self._read(at=self._place.conversation_id)

    def on_resize(self, event: events.Resize) -> None:
        """On small screens only what is needed stays."""
        self.set_class(event.size.width < PREVIEW_FROM, "-narrow")
        self.set_class(event.size.height < 26, "-low")
        self.set_class(event.size.height < 12, "-tiny")
        self.call_after_refresh(self._describe)

    def on_descendant_focus(self) -> None:
        self._show_keys()

    # -- what is shown -------------------------------------------------------------------------------------------------

    @property
    def _field(self) -> Input:
        return self.query_one("#sessions-find", Input)

    @property
    def _rows(self) -> RowsView:
        return self.query_one("#sessions-rows", RowsView)

    @property
    def _text(self) -> str:
        return self._field.value.strip()

    @property
    def under_cursor(self) -> ConversationInfo | None:
        """The conversation that a command is about."""
        row = self._rows.cursor
        if self._searches:
            return self._hits.conversation(row) if row < len(self._hits) else None
        entry = self._list.entry(row)
        return entry.info if entry is not None else None

    @property
    def _hit(self) -> Hit | None:
        row = self._rows.cursor
        found = self._hits.rows[row] if self._searches and row < len(self._hits) else None
        return found if isinstance(found, Hit) else None

    def _in_background(self, group: str, work: Callable[..., Coroutine[Any, Any, None]], *values: Any) -> None:
        """Do this in the place of what the group did before; what goes wrong is told."""

        async def attempt() -> None:
            try:
                await work(*values)
            except HandloomError as error:
                self._tell(str(error), wrong=True)

        wanted: WorkType[None] = attempt
        self.run_worker(wanted, group=group, exclusive=True, exit_on_error=False)

    def _read(self, *, at: str = "", after_s: float = 0.0) -> None:
        """Read what the field and the chips want, `after_s` seconds from now unless more is typed; then go to `at`."""
        if self._searches:
            self._in_background("rows", self._search, after_s)
        else:
            self._in_background("rows", self._narrow, at, after_s)

    async def _narrow(self, at: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self._begin()
        if at and (row := self._list.row_of(at)) is not None:
            self._rows.move_to(row)

    async def _begin(self, row: int = 0) -> None:
        """Read the list anew, and have the cursor on a row."""
        self._all = await self._ways.store.listing.count(Chosen().filter("", self._clock()))
        wanted = self._text
        await self._list.begin(self._place.chosen.filter(wanted, self._clock()), self._place.order)
        self._shown = (False, wanted)
        self._rows.empty = _("No conversations match. Remove a filter or type something else.")
        self._rows.show(self._listed, cursor=row)
        self._show_chips()
        await self._learn_standings()

    async def _search(self, after_s: float) -> None:
        if self._text:
            self._rows.empty = _("Searching…")
            await asyncio.sleep(after_s)
        wanted = self._text
        await self._hits.begin(wanted)
        self._shown = (True, wanted)
        self._rows.empty = _("No matches found.") if self._text else _("Type to search messages, actions and output.")
        self._rows.show(self._found, cursor=0)
        self._show_chips()
        if self._hits.behind:
            self._in_background("index", self._index)

    async def _index(self) -> None:
        """Bring the index up to date, then look again for what is looked for by then."""
        await self._ways.index_all()
        if self._searches:
            self._read()

    async def _catch_up(self) -> None:
        """Have the rows of what stands in the field, without waiting for more of it."""
        if self._shown != (self._searches, self._text):
            await (self._search(0) if self._searches else self._narrow("", 0))

    def _show_chips(self) -> None:
        tally = _("{n} of {all}").format(n=f"{self._list.total:,}", all=f"{self._all:,}")
        if self._searches:
            tally = counted(self._hits.hits, "{n} match", "{n} matches") + ("" if self._hits.is_whole else " +")
            if self._hits.behind:
                tally += " · " + _("{n} events are not indexed yet").format(n=f"{self._hits.behind:,}")
        elif self._chosen_ids:
            tally += " · " + _("{n} selected").format(n=len(self._chosen_ids))
        chips = () if self._searches else self._place.chosen.shown()
        order = "" if self._searches else ORDER_WORDS[self._place.order]
        self.query_one(ChipBar).show(chips, order, tally)

    def _show_keys(self) -> None:
        in_list = self.focused is self._rows
        keys = LIST_KEYS if in_list else SEARCH_KEYS if self._searches else FIELD_KEYS
        self.query_one(Vertical).border_subtitle = keys

    def _describe(self) -> None:
        """Fill the preview, where there is one."""
        info = self.under_cursor
        if not self.has_class("-narrow") and info is not None:
            self._in_background("preview", self._fill_preview, info)
        elif info is None:
            self.query_one("#sessions-preview", Static).update("")

    async def _fill_preview(self, info: ConversationInfo) -> None:
        await asyncio.sleep(TYPED_S)  # whoever runs down the list wants none of those in between
        said = await self._ways.said(info.id)
        delegates = len(await self._ways.store.descendants(info.id))
        beside = self.query_one("#sessions-beside")
        shown = preview(info, said, delegates, self._standings.get(info.id, CLOSED), beside.content_size.width)
        self.query_one("#sessions-preview", Static).update(shown)

    async def _learn_standings(self) -> None:
        """Ask which of the conversations in sight are open, and where."""
        first, last = self._rows.in_sight
        entries = (self._list.entry(row) for row in range(first, last + 1))
        infos = [entry.info for entry in entries if entry is not None]
        self._standings.update(await self._ways.standings(infos))
        self._rows.refresh()

    def _tell(self, text: str, wrong: bool = False) -> None:
        told = self.query_one("#sessions-told", Static)
        told.set_class(wrong, "-wrong")
        told.update(Content(sanitize(text)))

    def on_rows_view_moved(self) -> None:
        """Another one is looked at."""
        info = self.under_cursor
        self._place.conversation_id = info.id if info is not None else ""
        self._describe()

    def on_rows_view_in_sight(self) -> None:
        """Read what came into sight."""
        first, last = self._rows.in_sight
        if self._searches:
            if self._hits.wants_more(last):
                self._in_background("more", self._read_more)
        elif self._list.missing(first, last):
            self._in_background("more", self._read_pages)
        else:
            self._in_background("standings", self._learn_standings)

    async def _read_pages(self) -> None:
        while pages := self._list.missing(*self._rows.in_sight):
            await self._list.load(pages[0])
            self._rows.redraw()
        await self._learn_standings()

    async def _read_more(self) -> None:
        await self._hits.more()
        self._rows.redraw()
        self._show_chips()
