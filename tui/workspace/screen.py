"""The main screen: tab bar, panes, question, prompt and footer of the current conversation.

The app has one widget tree; `show` attaches it to the models of another conversation. The screen manages focus and
layout. It knows no sessions: what the user does becomes messages and commands.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast
from weakref import WeakKeyDictionary

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import TextArea

from tui.approval.view import QuestionView
from tui.browser.picture_view import LivePageWatcher
from tui.browser.view import BrowserView
from tui.chat.view import ChatView
from tui.commands import Scope, hints, key_of, keyed
from tui.dialogs.choice_dialog import LastKey
from tui.events.event_tree import EventTree
from tui.events.filter_bar import FilterBar
from tui.events.view import EventsView
from tui.find.pane_search import FindInput
from tui.i18n import _
from tui.plan.view import PlanLine, PlanPanel
from tui.prompt.completion import ListOverlay
from tui.prompt.view import Prompt
from tui.replay.transport_bar import TransportBar
from tui.shortcuts.leader import WhichKey
from tui.terminal.view import InputHint, TerminalView
from tui.workspace.chats import Chats
from tui.workspace.footer import Footer, Hints, Notice, Queue
from tui.workspace.layout import LEAST, LOW, NARROW, PANES, SMALL, TINY, WORKSPACE_CSS, arrange
from tui.workspace.tab_bar import TabStrip

if TYPE_CHECKING:
    from tui.workspace.conversation import ConversationTab
    from tui.workspace.tab import Tab

PLACEHOLDER = keyed(_("Ask for something, or type / for commands"))
DETAIL_FROM = 120
"""Columns from which a maximised event log has an event beside it."""
GIVE_BACK = [(key_of("terminal.take"), _("give the terminal back")), ("ctrl+]", _("as well"))]
"""The only keys of the workspace while the user types into the agent's terminal."""


class _ViewState(NamedTuple):
    """The layout and focus that a tab had when it was left."""

    active_pane: str
    side: str
    maximised: bool
    focus: str
    """The focused pane; empty for the prompt."""


_INITIAL_VIEW = _ViewState("chat", "terminal", False, "")


class Workspace(Screen[None]):
    """The one main screen."""

    DEFAULT_CSS = WORKSPACE_CSS
    AUTO_FOCUS = "#prompt"
    TITLES = {"events": _("Events"), "terminal": _("Terminal"), "browser": _("Browser")}

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        """`on_ready` is called once, when every part is mounted and before any key."""
        super().__init__()
        self._clock = clock
        self.last_key: Callable[[], LastKey] = LastKey
        """Returns the key that was pressed last."""
        self._on_ready = on_ready
        self.active_pane = "chat"
        self.side = "terminal"
        self.maximised_pane = False
        self.typed_at = float("-inf")
        self.quit_armed_at = float("-inf")
        """When ctrl+c was pressed once; pressed twice it quits."""
        self.detail_tab: Tab | None = None
        """The tab whose event is shown beside the event log."""
        self._tab: Tab | None = None
        self._view_states: WeakKeyDictionary[Tab, _ViewState] = WeakKeyDictionary()
        self._has_pages = False
        self.live_page = LivePageWatcher(self)

    def compose(self) -> ComposeResult:
        self.tabs, self.chats, self.detail = TabStrip(id="tabs"), Chats(id="chats"), EventTree(id="detail")
        self.plan_panel, self.plan_line = PlanPanel(id="plan"), PlanLine(id="plan-line")
        self.events_view, self.filter_bar = EventsView(id="events"), FilterBar(id="filter-bar")
        self.terminal, self.browser = TerminalView(id="terminal"), BrowserView(id="browser")
        self.notice, self.input_hint, self.queue = Notice(id="notice"), InputHint(id="waits"), Queue(id="queue")
        overlay = ListOverlay(id="list")
        self.transport, self.prompt = TransportBar(id="transport"), Prompt(id="prompt", overlay=overlay)
        self.footer, self.hints, self.which_key = Footer(id="footer"), Hints(id="hints"), WhichKey(id="which-key")
        yield self.tabs
        with Horizontal(id="body"):
            yield self.chats
            with Vertical(id="side"):
                yield self.plan_panel
                yield self.events_view
                yield self.filter_bar
                yield self.terminal
                yield self.browser
            yield self.detail
        with Vertical(id="bottom"):
            yield self.plan_line
            yield self.notice
            yield self.input_hint
            yield self.queue
            yield self.transport
            yield self.prompt
        yield self.footer
        yield self.hints
        yield self.which_key
        yield overlay

    def on_mount(self) -> None:
        for pane, title in self.TITLES.items():
            self.pane(pane).border_title = title
        self.detail.border_subtitle = _("Enter unfolds · c copies · r as JSON")
        self.prompt.cursor_blink = False  # an idle screen paints nothing
        self.prompt.list_anchor = self.query_one("#bottom")
        self._on_ready()
        self.prompt.focus()

    # -- parts ---------------------------------------------------------------------------------------------------------

    @property
    def main_input(self) -> Widget:
        """The prompt; in a replay, the transport bar."""
        return self.transport if self.transport.display else self.prompt

    @property
    def chat(self) -> ChatView:
        return self.chats.shown

    @property
    def question(self) -> QuestionView | None:
        return self.prompt.question

    def pane(self, name: str) -> Widget:
        """A pane by its name; of two chats, the current one."""
        return self.chat if name == "chat" else self.query_one(f"#{name}")

    def _name_of(self, widget: Widget | None) -> str:
        return next((name for name in PANES if widget is not None and widget is self.pane(name)), "")

    # -- what is shown -------------------------------------------------------------------------------------------------

    def show(self, tab: Tab | None) -> None:
        """Attach the panes to this conversation, and save draft, layout and focus of the one before."""
        before, self._tab = self._tab, tab
        self.prompt.tab = tab
        view = self._view_states.get(tab, _INITIAL_VIEW) if tab is not None else _INITIAL_VIEW
        if before is not tab:
            self._leave(before)
            if before is not None and (tab is None or tab is not self.split_tab):
                self._hide(before)
            if before is not None:
                self.active_pane, self.side, self.maximised_pane, _focus = view
            if before is not None or (tab is not None and tab.draft):
                self.prompt.put(tab.draft if tab else "")  # text from before the first tab stays
            self.typed_at = float("-inf")
        self._place_main_input(tab)
        self.chats.attach(tab)
        self.events_view.attach(tab.events if tab else None)
        self.terminal.attach(tab.terminal if tab else None)
        self.browser.attach(tab.browser if tab else None)
        if tab is not None:
            self._reveal(tab)
        self.arrange_panes()
        if before is not tab and before is not None:
            self._focus(view.focus)

    def _place_main_input(self, tab: Tab | None) -> None:
        """Show the transport bar instead of the prompt for a replay. A focused pane keeps the focus."""
        replays = tab is not None and tab.is_replay
        if replays is not self.transport.display:
            before = self.main_input
            self.transport.display, self.prompt.display = replays, not replays
            if self.focused in (before, None) and self.app.screen is self:
                self.main_input.focus()
            if tab is not None and (state := tab.transport_state) is not None:
                self.transport.show(state)

    def _leave(self, tab: Tab | None) -> None:
        """Save draft, layout and focus."""
        if tab is not None:
            tab.draft = self.prompt.text
            self._view_states[tab] = _ViewState(
                self.active_pane, self.side, self.maximised_pane, self._name_of(self.focused)
            )

    def _focus(self, pane: str) -> None:
        if self.app.screen is self:
            (self.pane(pane) if pane else self.main_input).focus()

    def _reveal(self, tab: Tab) -> None:
        """Mark a tab as visible, and load the pictures that its panes ask for."""
        tab.shown, tab.unread = True, False
        tab.pictures.on_wanted = lambda: self._load_pictures(tab)
        self._load_pictures(tab)

    def _hide(self, tab: Tab) -> None:
        tab.shown, tab.pictures.on_wanted = False, None

    # -- two conversations ---------------------------------------------------------------------------------------------

    @property
    def split_tab(self) -> Tab | None:
        return self.chats.split_tab

    def split(self, tab: Tab) -> None:
        """Show the chat of this conversation beside the current one."""
        self.chats.split(tab)
        self._reveal(tab)
        self.active_pane, self.maximised_pane = "chat", False
        self.arrange_panes()

    def leave_split(self, tab: Tab) -> Tab | None:
        """End the split if this tab is part of it. Returns the other tab if this one was the current tab."""
        other = self.split_tab
        if other is None or tab not in (other, self._tab):
            return None
        self.end_split()
        return None if tab is other else other

    def end_split(self) -> None:
        if self.split_tab is not None:
            self._hide(self.split_tab)
            self.chats.end_split()
        self.arrange_panes()

    def _watch_page(self) -> None:
        """Watch the page of the current conversation while its browser is visible, and no other."""
        is_conversation = self._tab is not None and not self._tab.is_replay
        self.live_page.watch(cast("ConversationTab", self._tab) if is_conversation and self.browser.display else None)

    def _load_pictures(self, tab: Tab) -> None:
        fetch = partial(self._fetch_pictures, tab)  # no coroutine, which a screen that ends at once would not await
        self.run_worker(fetch, group=f"pictures-{tab.id}", exclusive=True)  # type: ignore[arg-type]

    async def _fetch_pictures(self, tab: Tab) -> None:
        if await tab.pictures.load() and tab in (self._tab, self.split_tab):
            self.chats.redraw()
            if tab is self._tab:
                self.browser.redraw()

    def sync(self) -> bool:
        """Update the panes from their models. Returns whether one of them has more to do in the next frame."""
        if self._tab is not None:
            self.events_view.show_count(self._tab.log.latest_id + 1)
            self.chats.update_titles()
            if (state := self._tab.transport_state) is not None:
                self.transport.show(state)
            if self._has_pages is not bool(self._tab.browser.pages):
                self.arrange_panes()
        self.show_hints()
        self.events_view.sync()
        self._sync_plan()
        return self.terminal.sync()

    def _sync_plan(self) -> None:
        plan = self._tab.plan if self._tab is not None else None
        for part in (self.plan_panel, self.plan_line):
            if part.has_class("-shown"):
                part.sync(plan, self._tab is not None and self._tab.running)

    def on_resize(self, event: events.Resize) -> None:
        for rows, name in ((LOW, "-low"), (SMALL, "-small"), (TINY, "-tiny"), (LEAST, "-least")):
            self.set_class(event.size.height < rows, name)
        self._show_placeholder()
        self.arrange_panes()
        self.which_key.fit()

    def _show_placeholder(self) -> None:
        """Invite to ask for something, unless a question waits, which says itself what a text means."""
        fits = self.size.width > cell_len(PLACEHOLDER)  # Textual 8.2 divides by its width when it lays it out
        self.prompt.placeholder = PLACEHOLDER if fits and self.question is None else ""

    def arrange_panes(self) -> None:
        """Show the panes that fit."""
        self._has_pages = self._tab is not None and bool(self._tab.browser.pages)
        split = self.split_tab is not None
        shown = arrange(self.size.width, self.active_pane, self.side, self.maximised_pane, self._has_pages, split=split)
        for name in PANES:
            self.pane(name).display = name in shown.visible
        self.chats.show_visible(shown.visible)
        if "events" not in shown.visible:
            self.filter_bar.close()
        self.detail.display = shown.visible == {"events"} and self.size.width >= DETAIL_FROM
        self.query_one("#side").display = bool(shown.visible - {"chat", "beside"})
        self.set_class(len(shown.visible) == 1, "-one-pane")
        has_plan = self._tab is not None and self._tab.plan.shown
        fits = self.size.width >= NARROW and not self.maximised_pane and self.size.height >= LOW // 2
        in_panel = fits and bool(shown.visible - {"chat"})
        self.plan_panel.set_class(has_plan and in_panel, "-shown")
        self.plan_line.set_class(has_plan and not in_panel and self.size.height >= TINY, "-shown")
        self._sync_plan()
        self.tabs.show_panes(PANES if shown.tabs else (), self.active_pane)
        self._watch_page()

    # -- focus ---------------------------------------------------------------------------------------------------------

    def choose_pane(self, name: str) -> None:
        """Focus a pane; if it is focused, maximise or restore it."""
        if self.focused is self.pane(name):
            self.maximised_pane = not self.maximised_pane
        elif self.active_pane != name:
            self.maximised_pane = False
        self.show_pane(name)

    def show_pane(self, name: str) -> None:
        """Show a pane and focus it."""
        self.active_pane = name
        if name != "chat":
            self.side = name
        self.arrange_panes()
        self.pane(name).focus()

    def restore(self) -> bool:
        """Restore a maximised pane. Returns whether there was one."""
        was_maximised, self.maximised_pane = self.maximised_pane, False
        self.arrange_panes()
        return was_maximised

    def cycle(self, step: int) -> None:
        """Move the focus through prompt and panes."""
        stops = [self.main_input, *(self.pane(name) for name in PANES)]
        here = next((n for n, stop in enumerate(stops) if stop.has_focus), len(stops) - 1 if step > 0 else 0)
        stop = stops[(here + step) % len(stops)]
        if name := self._name_of(stop):
            if self.maximised_pane and name != self.active_pane:
                self.maximised_pane = False
            self.show_pane(name)
        else:
            stop.focus()

    @property
    def scope(self) -> Scope:
        """The scope of the focused widget."""
        focused = self.focused
        if focused is self.prompt:
            return Scope.PROMPT
        if focused is self.transport:
            return Scope.REPLAY
        if isinstance(focused, FindInput):
            return Scope.FIND
        if focused is self.chat:
            return Scope.CHAT
        if focused is self.events_view:
            return Scope.EVENTS
        if focused is self.browser:
            return Scope.BROWSER
        return Scope.LIST if focused is self.terminal else Scope.GLOBAL

    @property
    def keys_scope(self) -> Scope:
        """The scope whose keys are shown: a question comes before the prompt below it."""
        return Scope.QUESTION if self.question is not None and self.focused is self.prompt else self.scope

    def on_descendant_focus(self) -> None:
        """Update the hints, and never leave the focus in the hidden one of prompt and transport bar."""
        if self.focused in (self.prompt, self.transport) and self.focused is not self.main_input:
            self.main_input.focus()
        self.show_hints()

    def on_descendant_blur(self) -> None:
        self.show_hints()

    def show_hints(self) -> None:
        """Show the keys that work here."""
        working = self._tab is not None and self._tab.running
        has_terminal = self.terminal.taken and self.terminal.has_focus
        self.hints.show(GIVE_BACK if has_terminal else hints(self.keys_scope, working=working))

    def flash(self, text: str) -> None:
        """Show a clean line instead of the hints, or of the footer if there are no hints; an empty line ends that."""
        self.hints.flash(text)
        self.hints.set_class(bool(text), "-flash")
        self.footer.set_class(bool(text), "-flash")

    async def on_list_overlay_clicked(self) -> None:
        await self.prompt.take_row("click")

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Note that the user is typing: a question must not take the next key."""
        if event.text_area is self.prompt:
            self.typed_at = self._clock() if self.prompt.text else float("-inf")

    # -- questions -----------------------------------------------------------------------------------------------------

    def ask(self, question: QuestionView | None) -> None:
        """Show this question above the prompt instead of the one before; None shows none."""
        if (old := self.question) is not None:
            old.remove()
        self.prompt.question = question
        if question is not None:
            question.note_key(self.last_key())
            question.show_typing(is_typing=bool(self.prompt.text))
            self.query_one("#bottom").mount(question, before="#prompt")
        self._show_placeholder()
        self.show_hints()

    def on_screen_resume(self) -> None:
        """Guard a question that was behind a dialog and is visible only now."""
        if self.question is not None:
            self.question.restart_guard()
