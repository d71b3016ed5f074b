"""The part of the session manager that reads and shows conversations, without its commands.

Typing in the field filters the list; Tab switches to a search through all texts. Only visible rows are read, every
active filter has a chip, and late results are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static
from textual.worker import WorkType

from core.errors import HandloomError
from core.store.conversations import ConversationInfo
from core.store.search_index import Hit
from tui.dialogs.dialog import Field
from tui.dialogs.modal import Modal
from tui.i18n import _, counted
from tui.sessions.conversation_list import ORDERS, HitList, SessionList
from tui.sessions.filter_chips import Filters
from tui.sessions.session_rows import CLOSED, ConversationRows, HitRows, OpenState, preview
from tui.sessions.view import ChipBar, RowsView
from tui.terminal_io.sanitizer import sanitize

if TYPE_CHECKING:
    from core.library.all_sessions import AllSessions
    from core.store.reader import EventReader

PREVIEW_FROM = 120
"""Width from which a preview is shown beside the list."""
REFRESH_S = 1.0
"""Shortest time between two refreshes while sessions are read."""
TYPED_S = 0.15
"""Wait after the last key before the store is queried."""
ORDER_WORDS = {
    "updated": _("last updated"),
    "created": _("created"),
    "title": _("title"),
    "cost": _("cost"),
    "size": _("size"),
}
FILTER_PLACEHOLDER = _("Filter by title, first line or folder")
LIST_KEYS = _("Enter opens · / filters · 1-5 conditions · space selects · ? keys · Esc closes")
FIELD_KEYS = _("Enter opens · ↓ list · Tab searches all text · Esc closes")
SEARCH_KEYS = _("Enter opens the match · ↓ matches · Tab back to the list · Esc closes")


class SessionChoice(NamedTuple):
    """What to do with a conversation: the result of the screen."""

    kind: str
    """`open`, `export`, `fork`, `replay` or `again`."""
    conversation_id: str
    event_id: int | None = None


class SessionActions(NamedTuple):
    """The operations that the screen needs. All raise HandloomError."""

    store: EventReader | AllSessions
    open_states: Callable[[Sequence[ConversationInfo]], Awaitable[Mapping[str, OpenState]]]
    recent_messages: Callable[[str], Awaitable[Sequence[tuple[str, str]]]]
    """The last messages of a conversation, as pairs of who and what."""
    update_index: Callable[[], Awaitable[int]]
    rename: Callable[[str, str], Awaitable[None]]
    delete: Callable[[str, bool], Awaitable[None]]
    """The second argument allows removing an unreachable container later."""
    is_only_copy: Callable[[str], bool] = lambda conversation_id: False
    """Whether another agent has deleted this session, so that only the copy is left."""


@dataclass
class ScreenState:
    """The state of the screen when it was closed, restored when it is opened again."""

    filters: Filters = field(default_factory=Filters)
    order: str = ORDERS[0]
    conversation_id: str = ""


class SessionSearchScreen(Modal[SessionChoice | None]):
    """The list of conversations, its filters, the hits of a search, and a preview."""

    DEFAULT_CSS = """
    SessionSearchScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 98%; max-width: 200; height: 96%; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        #sessions-find, #sessions-find:focus { height: 1; border: none; background: $panel; padding: 0 1; }
        #sessions-chips { margin: 0 0 1 0; }
        #sessions-lists { height: 1fr; }
        #sessions-rows { width: 1fr; }
        #sessions-pane { width: 40%; max-width: 76; margin-left: 2; padding-left: 1; border-left: solid $panel; }
        #sessions-message { height: auto; max-height: 3; color: $text-success; }
        #sessions-message.-wrong { color: $text-error; }
    }
    SessionSearchScreen.-narrow #sessions-pane { display: none; }
    SessionSearchScreen.-low > Vertical { width: 100%; height: 100%; }
    SessionSearchScreen.-low #sessions-chips { margin: 0; max-height: 2; }
    SessionSearchScreen.-tiny #sessions-chips { display: none; }
    """

    def __init__(
        self,
        actions: SessionActions,
        here: str,
        state: ScreenState,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`here` is the current folder; `state` is kept up to date."""
        super().__init__()
        self._actions, self._here, self._state, self._clock = actions, here, state, clock
        self._list, self._hits = SessionList(actions.store), HitList(actions.store)
        self._open_states: dict[str, OpenState] = {}
        self._selected_ids: set[str] = set()
        self._listed = ConversationRows(self._list, clock, self._open_states, self._selected_ids)
        self._found = HitRows(self._hits, clock)
        self._all = 0
        self._searches = False
        """Whether the field searches all texts instead of filtering the list."""
        self._pending = 0
        self._refreshed_at = 0.0
        self._shown: tuple[bool, str] | None = None
        """What the rows show: whether it is a search, and for which text. None before the first rows."""

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Conversations")
            yield Field(placeholder=FILTER_PLACEHOLDER, id="sessions-find")
            yield ChipBar(id="sessions-chips")
            with Horizontal(id="sessions-lists"):
                yield RowsView(self._listed, "", id="sessions-rows")
                with VerticalScroll(id="sessions-pane", can_focus=False):
                    yield Static(id="sessions-preview")
            yield Static(id="sessions-message")

    def on_mount(self) -> None:
        self._show_keys()
        self._read(at=self._state.conversation_id)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < PREVIEW_FROM, "-narrow")
        self.set_class(event.size.height < 26, "-low")
        self.set_class(event.size.height < 12, "-tiny")
        self.call_after_refresh(self._update_preview)

    def on_descendant_focus(self) -> None:
        self._show_keys()

    def show_progress(self, pending: int) -> None:
        """Show the sessions that another process has found or read; `pending` are still to be read."""
        self._pending = pending
        if self.is_mounted and (not pending or monotonic() - self._refreshed_at > REFRESH_S):
            self._refreshed_at = monotonic()
            if not self._searches:
                self._read(at=self._state.conversation_id)
            elif not self._hits.hits:
                self._read()  # hits that the user looks at stay where they are

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
    def selected(self) -> ConversationInfo | None:
        """The conversation under the cursor."""
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
        """Run this instead of what the group did before, and show errors."""

        async def attempt() -> None:
            try:
                await work(*values)
            except HandloomError as error:
                self._show_message(str(error), wrong=True)

        wanted: WorkType[None] = attempt
        self.run_worker(wanted, group=group, exclusive=True, exit_on_error=False)

    def _read(self, *, at: str = "", after_s: float = 0.0) -> None:
        """Read what matches the field and filters after `after_s` seconds, unless more is typed; then go to `at`."""
        if self._searches:
            self._in_background("rows", self._search, after_s)
        else:
            self._in_background("rows", self._filter, at, after_s)

    async def _filter(self, at: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self._reload()
        if at and (row := self._list.row_of(at)) is not None:
            self._rows.move_to(row)

    async def _reload(self, row: int = 0) -> None:
        """Read the list again, and put the cursor on a row."""
        self._all = await self._actions.store.listing.count(Filters().filter("", self._clock()))
        wanted = self._text
        await self._list.begin(self._state.filters.filter(wanted, self._clock()), self._state.order)
        self._shown = (False, wanted)
        self._rows.empty = _("No conversations match. Remove a filter or type something else.")
        self._rows.show(self._listed, cursor=row)
        self._show_chips()
        await self._read_open_states()

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
        await self._actions.update_index()
        if self._searches:
            self._read()

    async def _read_now(self) -> None:
        """Read the rows that match the field now, without waiting for more typing."""
        if self._shown != (self._searches, self._text):
            await (self._search(0) if self._searches else self._filter("", 0))

    def _show_chips(self) -> None:
        counts = _("{n} of {all}").format(n=f"{self._list.total:,}", all=f"{self._all:,}")
        if self._searches:
            counts = counted(self._hits.hits, "{n} match", "{n} matches") + ("" if self._hits.is_complete else " +")
            if self._hits.behind:
                counts += " · " + _("{n} events are not indexed yet").format(n=f"{self._hits.behind:,}")
        elif self._pending:
            counts += " · " + _("{n} being read").format(n=f"{self._pending:,}")
        elif self._selected_ids:
            counts += " · " + _("{n} selected").format(n=len(self._selected_ids))
        chips = () if self._searches else self._state.filters.labels()
        order = "" if self._searches else ORDER_WORDS[self._state.order]
        self.query_one(ChipBar).show(chips, order, counts)

    def _show_keys(self) -> None:
        in_list = self.focused is self._rows
        keys = LIST_KEYS if in_list else SEARCH_KEYS if self._searches else FIELD_KEYS
        self.query_one(Vertical).border_subtitle = keys

    def _update_preview(self) -> None:
        info = self.selected
        if not self.has_class("-narrow") and info is not None:
            self._in_background("preview", self._fill_preview, info)
        elif info is None:
            self.query_one("#sessions-preview", Static).update("")

    async def _fill_preview(self, info: ConversationInfo) -> None:
        await asyncio.sleep(TYPED_S)  # the cursor may move on
        messages = await self._actions.recent_messages(info.id)
        delegates = len(await self._actions.store.descendants(info.id))
        pane = self.query_one("#sessions-pane")
        width = pane.content_size.width
        if not pane.show_vertical_scrollbar:
            width -= pane.scrollbar_size_vertical  # it appears when the text is long
        shown = preview(info, messages, delegates, self._open_states.get(info.id, CLOSED), width)
        self.query_one("#sessions-preview", Static).update(shown)

    async def _read_open_states(self) -> None:
        """Find out which of the visible conversations are open, and where."""
        first, last = self._rows.visible_rows
        entries = (self._list.entry(row) for row in range(first, last + 1))
        infos = [entry.info for entry in entries if entry is not None]
        self._open_states.update(await self._actions.open_states(infos))
        self._rows.refresh()

    def _show_message(self, text: str, wrong: bool = False) -> None:
        message = self.query_one("#sessions-message", Static)
        message.set_class(wrong, "-wrong")
        message.update(Content(sanitize(text)))

    def on_rows_view_moved(self) -> None:
        info = self.selected
        self._state.conversation_id = info.id if info is not None else ""
        self._update_preview()

    def on_rows_view_visible_rows_changed(self) -> None:
        first, last = self._rows.visible_rows
        if self._searches:
            if self._hits.needs_more(last):
                self._in_background("more", self._read_more)
        elif self._list.missing(first, last):
            self._in_background("more", self._read_pages)
        else:
            self._in_background("standings", self._read_open_states)

    async def _read_pages(self) -> None:
        while pages := self._list.missing(*self._rows.visible_rows):
            await self._list.load(pages[0])
            self._rows.redraw()
        await self._read_open_states()

    async def _read_more(self) -> None:
        await self._hits.more()
        self._rows.redraw()
        self._show_chips()
