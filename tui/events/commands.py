"""What the user does with the event log: filter it, open an event, go to another, copy one. A mixin of the app.

The log itself only shows rows; whatever needs the store is done from here, in the background.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.commands import keyed
from tui.dialogs.dialog import TextScreen
from tui.dialogs.line_input import LineScreen
from tui.events.event_filter import Filter
from tui.events.event_tree import EventTree
from tui.events.filter_bar import FilterBar
from tui.events.view import EventsView
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from tui.workspace.tab import Tab


class EventLog(Frame):
    """The commands of the event log, as methods of the app."""

    _detailed: Tab | None = None
    """Whose event stands beside the log."""

    def on_events_view_older_wanted(self, message: EventsView.OlderWanted) -> None:
        """Load the page before."""
        if self.current is not None:
            self.attempt(self.current.read_log_back())

    def on_events_view_asked(self, message: EventsView.Asked) -> None:
        """Do with the event under the cursor what was asked for."""
        tab = self.current
        if tab is None:
            return
        if message.event_id is None:
            self.flash(_("No events yet."))
        elif message.wish == "open":
            self.attempt(self.show_event(tab, message.event_id))
        elif message.wish == "jump":
            self._jump(tab, message.event_id)
        elif message.wish == "copy":
            self.attempt(self._copy_event(tab, message.event_id))

    # -- the filter ----------------------------------------------------------------------------------------------------

    def do_events_filter(self) -> None:
        from core.events import Action, Observation

        tab = self.current
        if tab is None:
            return
        wanted = tab.events.filter
        kinds = sorted({*Action.kinds, *Observation.kinds})
        self.workspace.filter_bar.open(str(wanted) if wanted is not None else "", kinds)

    def on_filter_bar_applied(self, message: FilterBar.Applied) -> None:
        """Show what the filter lets through, new events and old ones."""
        self.workspace.filter_bar.close()
        self.workspace.events_view.focus()
        if self.current is not None:
            self._set_filter(self.current, message.filter)

    def _set_filter(self, tab: Tab, wanted: Filter | None) -> None:
        tab.events.set_filter(wanted)
        self.workers.cancel_group(self, f"search-{tab.id}")
        if tab.events.is_searching:
            self.attempt(self._search(tab), f"search-{tab.id}")
        self.wake(tab)

    async def _search(self, tab: Tab) -> None:
        from tui.events.background_search import search

        await search(tab.events, tab.log, lambda: self.wake(tab))

    def leave_filter(self) -> bool:
        """Leave the line that is being typed or the event beside the log, or show every event again.

        Answers whether there was something to leave.
        """
        bar, tab = self.workspace.filter_bar, self.current
        if self.workspace.detail.has_focus:
            self.workspace.events_view.focus()
            return True
        if bar.is_open:
            bar.close()
            self.workspace.events_view.focus()
            return True
        if tab is not None and tab.events.filter is not None and self.workspace.events_view.has_focus:
            self._set_filter(tab, None)
            return True
        return False

    # -- one event and another -----------------------------------------------------------------------------------------

    def do_events_goto(self) -> None:
        tab = self.current
        if tab is None:
            return
        latest = tab.log.latest_id
        if latest < 0:
            self.flash(_("No events yet."))
            return

        def chosen(text: str | None) -> None:
            number = (text or "").strip().lstrip("#")
            if number.isascii() and number.isdigit() and int(number[:18]) <= latest:
                self.attempt(self.go_to_event(tab, int(number)))
            elif number:
                self.flash(_("Enter a number from 0 to {latest}.").format(latest=latest))

        self.push_screen(LineScreen(_("Go to event"), _("0 to {latest}").format(latest=latest)), chosen)

    async def go_to_event(self, tab: Tab, event_id: int) -> None:
        """Have the cursor on an event, reading back as far as that takes; one that is too far back is opened."""
        if tab.events.filter is not None and tab.events.lines.index(event_id) is None:
            self._set_filter(tab, None)
        if tab.events.row(event_id) is None:
            await tab.read_log_back(to=event_id)
        if self.current is not tab:
            return
        self.workspace.look_at("events")
        if not self.workspace.events_view.go_to(event_id):
            await self.show_event(tab, event_id)

    def _jump(self, tab: Tab, event_id: int) -> None:
        row = tab.events.lines.row(event_id)
        other = tab.events.all.counterpart(row) if row is not None else None
        if row is None or other is None:
            is_cause = row is not None and row.is_action
            self.flash(_("This action has no result yet.") if is_cause else _("This event has no cause in the log."))
        elif tab.events.filter is not None and tab.events.lines.index(other) is None and other >= tab.events.searched:
            self.flash(keyed(_("Event {id} is hidden by the filter. {app.back} shows all events."), id=other))
        else:
            self.attempt(self.go_to_event(tab, other))

    async def _copy_event(self, tab: Tab, event_id: int) -> None:
        from tui.events.event_parts import whole

        envelope = await tab.event(event_id)
        if envelope is not None:
            self.copy_to_clipboard(whole(envelope), _("Copied event {id} as JSON").format(id=event_id))

    async def show_event(self, tab: Tab, event_id: int) -> None:
        """An event in full, as a tree: beside the log where there is a place for it, else over the workspace."""
        from core.events import envelope_to_dict
        from tui.events.screen import EventScreen

        if self.workspace.detail.display and self.workspace.detail.event_id == event_id:
            self.workspace.detail.focus()
            return
        envelope = await tab.event(event_id)
        if envelope is None:
            self.flash(_("There is no event {id}.").format(id=event_id))
            return
        title = sanitize_line(f"{_('Event {id}').format(id=event_id)} · {envelope.source}", 60)
        await self.push_screen(EventScreen(title, event_id, envelope_to_dict(envelope)))

    def on_events_view_moved(self, message: EventsView.Moved) -> None:
        """Beside the log, show the event under the cursor."""
        self.show_detail()

    def on_event_tree_shown(self, message: EventTree.Shown) -> None:
        """The column beside the log has come into sight."""
        self.show_detail()

    def show_detail(self) -> None:
        """Fill the column beside the log, where it is shown."""
        tab, row = self.current, self.workspace.events_view.row
        if tab is None or row is None or not self.workspace.detail.display:
            return
        if self.workspace.detail.event_id != row.id or self._detailed is not tab:
            self._detailed = tab
            self.attempt(self._fill_detail(tab, row.id), "detail", exclusive=True)

    async def _fill_detail(self, tab: Tab, event_id: int) -> None:
        from core.events import envelope_to_dict

        envelope = await tab.event(event_id)
        if envelope is not None and self.current is tab:
            self.workspace.detail.show(event_id, envelope_to_dict(envelope))

    def on_event_tree_raw_wanted(self, message: EventTree.RawWanted) -> None:
        """Show the event as it is stored."""
        if self.current is not None:
            self.attempt(self._show_raw(self.current, message.event_id))

    async def _show_raw(self, tab: Tab, event_id: int) -> None:
        from tui.events.event_parts import details

        envelope = await tab.event(event_id)
        if envelope is not None:
            await self.push_screen(TextScreen(_("Event {id}").format(id=event_id), Content(details(envelope))))
