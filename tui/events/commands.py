"""The commands of the event log: filter it, open an event, go to another, copy one.

The log itself only shows rows; what needs the store is done here, in the background.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.dialogs.dialog import LineScreen, TextScreen
from tui.i18n import _
from tui.shortcuts.command import Command, Group, Scope, keyed
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from tui.events.event_filter import Filter
    from tui.events.view import EventsView
    from tui.workspace.context import Context
    from tui.workspace.tab import Tab


def read_back(app: Context) -> None:
    if app.tabs.current is not None:
        app.attempt(app.tabs.current.read_log_back())


def act(app: Context, message: EventsView.ActionRequested) -> None:
    tab = app.tabs.current
    if tab is None:
        return
    if message.event_id is None:
        app.flash(_("No events yet."))
    elif message.action == "open":
        app.attempt(show_event(app, tab, message.event_id))
    elif message.action == "jump":
        _jump(app, tab, message.event_id)
    elif message.action == "copy":
        app.attempt(_copy_event(app, tab, message.event_id))


def open_filter(app: Context) -> None:
    from core.events import Action, Observation

    tab = app.tabs.current
    if tab is None:
        return
    wanted = tab.events.filter
    kinds = sorted({*Action.kinds, *Observation.kinds})
    app.workspace.filter_bar.open(str(wanted) if wanted is not None else "", kinds)


def apply_filter(app: Context, wanted: Filter | None) -> None:
    """Show the events that match the filter, new and old ones."""
    app.workspace.filter_bar.close()
    app.workspace.events_view.focus()
    if app.tabs.current is not None:
        _set_filter(app, app.tabs.current, wanted)


def _set_filter(app: Context, tab: Tab, wanted: Filter | None) -> None:
    tab.events.set_filter(wanted)
    app.cancel(tab.work_group("search"))
    if tab.events.is_searching:
        app.attempt(tab.events.search(tab.log, lambda: app.wake(tab)), tab.work_group("search"))
    app.wake(tab)


def leave_filter(app: Context) -> bool:
    """Leave the filter bar or the event beside the log, or clear the filter. Returns whether there was any of these."""
    bar, tab = app.workspace.filter_bar, app.tabs.current
    if app.workspace.detail.has_focus:
        app.workspace.events_view.focus()
        return True
    if bar.is_open:
        bar.close()
        app.workspace.events_view.focus()
        return True
    if tab is not None and tab.events.filter is not None and app.workspace.events_view.has_focus:
        _set_filter(app, tab, None)
        return True
    return False


def ask_event(app: Context) -> None:
    tab = app.tabs.current
    if tab is None:
        return
    latest = tab.log.latest_id
    if latest < 0:
        app.flash(_("No events yet."))
        return

    def chosen(text: str | None) -> None:
        number = (text or "").strip().lstrip("#")
        if number.isascii() and number.isdigit() and int(number[:18]) <= latest:
            app.attempt(go_to_event(app, tab, int(number)))
        elif number:
            app.flash(_("Enter a number from 0 to {latest}.").format(latest=latest))

    app.push_screen(LineScreen(_("Go to event"), _("0 to {latest}").format(latest=latest)), chosen)


async def go_to_event(app: Context, tab: Tab, event_id: int) -> None:
    """Move the cursor to an event, reading back as far as needed; one that is too far back is opened."""
    if tab.events.filter is not None and tab.events.shown.index(event_id) is None:
        _set_filter(app, tab, None)
    if tab.events.row(event_id) is None:
        await tab.read_log_back(to=event_id)
    if app.tabs.current is not tab:
        return
    app.workspace.show_pane("events")
    if not app.workspace.events_view.go_to(event_id):
        await show_event(app, tab, event_id)


def _jump(app: Context, tab: Tab, event_id: int) -> None:
    row = tab.events.shown.row(event_id)
    other = tab.events.all.counterpart(row) if row is not None else None
    if row is None or other is None:
        is_action = row is not None and row.is_action
        app.flash(_("It has no result yet.") if is_action else _("The event that caused it is not in this log."))
    elif tab.events.filter is not None and tab.events.shown.index(other) is None and other >= tab.events.searched:
        app.flash(keyed(_("The filter hides event {id}. {app.back} shows every event."), id=other))
    else:
        app.attempt(go_to_event(app, tab, other))


async def _copy_event(app: Context, tab: Tab, event_id: int) -> None:
    from tui.events.event_tree import stored_json

    envelope = await tab.event(event_id)
    if envelope is not None:
        app.copy_to_clipboard(stored_json(envelope), _("Copied event {id} as JSON").format(id=event_id))


async def show_event(app: Context, tab: Tab, event_id: int) -> None:
    """Show an event in full: beside the log if there is room for it, else in a dialog."""
    from core.events import envelope_to_dict
    from tui.events.event_tree import EventScreen

    if app.workspace.detail.display and app.workspace.detail.event_id == event_id:
        app.workspace.detail.focus()
        return
    envelope = await tab.event(event_id)
    if envelope is None:
        app.flash(_("There is no event {id}.").format(id=event_id))
        return
    title = sanitize_line(f"{_('Event {id}').format(id=event_id)} · {envelope.source}", 60)
    app.push_screen(EventScreen(title, event_id, envelope_to_dict(envelope)))


def show_detail(app: Context) -> None:
    """Show the event under the cursor beside the log, if there is room for it."""
    workspace, tab = app.workspace, app.tabs.current
    row = workspace.events_view.row
    if tab is None or row is None or not workspace.detail.display:
        return
    if workspace.detail.event_id != row.id or workspace.detail_tab is not tab:
        workspace.detail_tab = tab
        app.attempt(_fill_detail(app, tab, row.id), "detail", exclusive=True)


async def _fill_detail(app: Context, tab: Tab, event_id: int) -> None:
    from core.events import envelope_to_dict

    envelope = await tab.event(event_id)
    if envelope is not None and app.tabs.current is tab:
        app.workspace.detail.show(event_id, envelope_to_dict(envelope))


def show_raw(app: Context, event_id: int) -> None:
    if app.tabs.current is not None:
        app.attempt(_open_raw(app, app.tabs.current, event_id))


async def _open_raw(app: Context, tab: Tab, event_id: int) -> None:
    from tui.events.event_tree import shown_json

    envelope = await tab.event(event_id)
    if envelope is not None:
        app.push_screen(TextScreen(_("Event {id}").format(id=event_id), Content(shown_json(envelope))))


ROWS = (
    Command("events.filter", ("slash",), "Filter", 'Show some events only: type:run exit!=0 text~"no such file".',
            Group.READING, Scope.EVENTS, hint="filter", run=open_filter),
    Command("events.jump", ("o",), "Cause or outcome", "Jump between an action and its result.", Group.READING,
            Scope.EVENTS, hint="outcome", native=True),
    Command("events.copy", ("c",), "Copy", "Copy the event under the cursor as JSON.", Group.READING, Scope.EVENTS,
            hint="copy", native=True),
    Command("events.goto", (), "Go to event",
            "Go to an event by its number.", Group.READING, leader="#", run=ask_event),
)  # fmt: skip
