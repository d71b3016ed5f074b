"""The workspace: tabs, panes, questions, prompt and footer of the conversation that is shown.

One widget tree for the whole app; `show` attaches it to another conversation's models. Knows where the focus is and
which panes fit, and nothing of sessions: what the user does goes up as messages and commands.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import TextArea

from tui.arrangement import LOW, PANES, TINY, arrange
from tui.cards import ApprovalCard, Card, HaltCard, Notice, Queue
from tui.commands import WORKING, Scope, hints
from tui.footer import Footer, Hints
from tui.leader import WhichKey
from tui.panes.browser.view import BrowserView
from tui.panes.chat.view import ChatView
from tui.panes.events.view import EventsView
from tui.panes.prompt import Prompt
from tui.panes.prompt.lists import ListOverlay
from tui.panes.terminal.view import TerminalView
from tui.tabs import TabStrip

if TYPE_CHECKING:
    from tui.conversation import ConversationTab

PLACEHOLDER = "Say what you want done. Enter sends."
WORKING_HINT = " · ".join(f"{key} {word}" for key, word in WORKING)
"""On the prompt's border where there is no line for hints."""
TYPING_S = 1.0
"""How long after a change of the prompt the user counts as typing."""


class Workspace(Screen[None]):
    """The one main screen."""

    DEFAULT_CSS = """
    Workspace {
        background: $background; layers: base above;
        #body { height: 1fr; }
        #side { width: 2fr; }
        #chat { width: 3fr; }
        #chat, #events, #terminal, #browser {
            height: 1fr; background: $background;
            border-top: solid $panel; border-title-color: $text-muted; border-title-style: none;
            padding: 0 0 0 1;
        }
        #events, #terminal, #browser { border-left: solid $panel; }
        #side > #browser { height: 2fr; }
        #chat:focus, #events:focus, #terminal:focus, #browser:focus {
            border-top: heavy $accent; border-title-color: $text-accent; border-title-style: bold;
        }
        &.-one-pane #chat, &.-one-pane #events, &.-one-pane #terminal, &.-one-pane #browser {
            border-left: none;
        }
        &.-one-pane #body > * { width: 1fr; }
        #bottom { height: auto; max-height: 80%; }
        &.-low Hints { display: none; }
        &.-low WhichKey { margin-bottom: 1; }
        &.-tiny TabStrip { display: none; }
        &.-tiny #queue { max-height: 1; }
        &.-tiny #prompt { border: none; min-height: 1; height: 1; }
        &.-tiny #chat, &.-tiny #events, &.-tiny #terminal, &.-tiny #browser { border: none; }
    }
    """
    AUTO_FOCUS = "#prompt"
    TITLES = {"chat": "Chat", "events": "Events", "terminal": "Terminal", "browser": "Browser"}

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self.looked_at = "chat"
        self.side = "terminal"
        self.maximised_pane = False
        self.typed_at = float("-inf")
        self._tab: ConversationTab | None = None
        self._has_pages = False

    def compose(self) -> ComposeResult:
        """Everything that there ever is but the cards."""
        overlay = ListOverlay(id="list")
        yield TabStrip(id="tabs")
        with Horizontal(id="body"):
            yield ChatView(id="chat")
            with Vertical(id="side"):
                yield EventsView(id="events")
                yield TerminalView(id="terminal")
                yield BrowserView(id="browser")
        with Vertical(id="bottom"):
            yield Notice(id="notice")
            yield Queue(id="queue")
            yield Prompt(id="prompt", overlay=overlay)
        yield Footer(id="footer")
        yield Hints(id="hints")
        yield WhichKey(id="which-key")
        yield overlay

    def on_mount(self) -> None:
        """The prompt has the focus from the start."""
        for pane, title in self.TITLES.items():
            self.pane(pane).border_title = title
        self.prompt.cursor_blink = False  # an idle screen paints nothing
        self.prompt.stands_in = self.query_one("#bottom")
        self.prompt.focus()

    # -- parts ---------------------------------------------------------------------------------------------------------

    @property
    def tabs(self) -> TabStrip:
        return self.query_one(TabStrip)

    @property
    def queue(self) -> Queue:
        return self.query_one(Queue)

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    @property
    def chat(self) -> ChatView:
        return self.query_one(ChatView)

    @property
    def events_view(self) -> EventsView:
        return self.query_one(EventsView)

    @property
    def terminal(self) -> TerminalView:
        return self.query_one(TerminalView)

    @property
    def browser(self) -> BrowserView:
        return self.query_one(BrowserView)

    @property
    def footer(self) -> Footer:
        return self.query_one(Footer)

    @property
    def hints(self) -> Hints:
        return self.query_one(Hints)

    @property
    def notice(self) -> Notice:
        return self.query_one(Notice)

    @property
    def card(self) -> Card | None:
        """The question that waits for an answer."""
        return next(iter(self.query(Card)), None)

    def pane(self, name: str) -> Widget:
        """A pane by its name."""
        return self.query_one(f"#{name}")

    # -- what is shown -------------------------------------------------------------------------------------------------

    def show(self, tab: ConversationTab | None) -> None:
        """Attach the panes to this conversation, and keep what was typed for the one before."""
        before, self._tab = self._tab, tab
        if before is not None and before is not tab:
            before.shown = False
            before.draft = self.prompt.text
        if tab is not None:
            tab.shown, tab.unread = True, False
        if before is not tab:
            if before is not None or (tab is not None and tab.draft):
                self.prompt.put(tab.draft if tab else "")  # what was typed before any tab was there stays
            self.typed_at = float("-inf")
        self.chat.attach(tab.chat if tab else None)
        self.events_view.attach(tab.events if tab else None)
        self.terminal.attach(tab.terminal if tab else None)
        self.browser.attach(tab.browser if tab else None)
        if before is not None:
            before.pictures.on_wanted = None
        if tab is not None:
            tab.pictures.on_wanted = self._load_pictures
            self._load_pictures()
        self.arrange_panes()

    def _load_pictures(self) -> None:
        """Fetch the pictures that the panes ask for. A tab that is left keeps what it asked for."""
        if self._tab is not None:
            self.run_worker(self._fetch_pictures(self._tab), group="pictures", exclusive=True)

    async def _fetch_pictures(self, tab: ConversationTab) -> None:
        if await tab.pictures.load() and self._tab is tab:
            self.chat.refresh()
            self.browser.redraw()

    def sync(self) -> bool:
        """Let the panes take over what changed. Answers whether one of them has more to do in the next frame."""
        if self._tab is not None:
            self.pane("events").border_title = f"Events {self._tab.session.stream.latest_id + 1}"
            if self._has_pages is not bool(self._tab.browser.pages):
                self.arrange_panes()
        self.show_hints()
        self.events_view.sync()
        return self.terminal.sync()

    def on_resize(self, event: events.Resize) -> None:
        """Arrange the panes for the new size."""
        self.set_class(event.size.height < LOW, "-low")
        self.set_class(event.size.height < TINY, "-tiny")
        # Textual 8.2 divides by the width of the text when it lays out a placeholder.
        self.prompt.placeholder = PLACEHOLDER if event.size.width > len(PLACEHOLDER) else ""
        self.arrange_panes()

    def arrange_panes(self) -> None:
        """Show the panes that fit."""
        self._has_pages = self._tab is not None and bool(self._tab.browser.pages)
        shown = arrange(self.size.width, self.looked_at, self.side, self.maximised_pane, self._has_pages)
        for name in PANES:
            self.pane(name).display = name in shown.visible
        self.query_one("#side").display = bool(shown.visible - {"chat"})
        self.set_class(len(shown.visible) == 1, "-one-pane")
        self.tabs.show_panes(PANES if shown.tabs else (), self.looked_at)

    # -- focus ---------------------------------------------------------------------------------------------------------

    def choose_pane(self, name: str) -> None:
        """Go to a pane; there already, fill the screen with it; that too, restore."""
        if self.focused is self.pane(name):
            self.maximised_pane = not self.maximised_pane
        elif self.looked_at != name:
            self.maximised_pane = False
        self.look_at(name)

    def look_at(self, name: str) -> None:
        """Show a pane and give it the focus."""
        self.looked_at = name
        if name != "chat":
            self.side = name
        self.arrange_panes()
        self.pane(name).focus()

    def restore(self) -> bool:
        """Undo a maximised pane. Answers whether there was one."""
        was, self.maximised_pane = self.maximised_pane, False
        self.arrange_panes()
        return was

    def cycle(self, step: int) -> None:
        """Move the focus on through question, prompt and panes."""
        stops: list[Widget] = [self.card] if self.card else []
        stops += [self.prompt, *(self.pane(name) for name in PANES)]
        here = next((n for n, stop in enumerate(stops) if stop.has_focus), len(stops) - 1 if step > 0 else 0)
        stop = stops[(here + step) % len(stops)]
        if stop.id in PANES:
            if self.maximised_pane and stop.id != self.looked_at:
                self.maximised_pane = False
            self.look_at(stop.id or "chat")
        else:
            stop.focus()

    @property
    def scope(self) -> Scope:
        """Where the keys go now."""
        focused = self.focused
        if isinstance(focused, ApprovalCard):
            return Scope.APPROVAL
        if isinstance(focused, HaltCard):
            return Scope.HALT
        if focused is self.prompt:
            return Scope.PROMPT
        if focused is self.chat:
            return Scope.CHAT
        if focused is self.browser:
            return Scope.BROWSER
        return Scope.LIST if focused is not None and focused.id in PANES else Scope.GLOBAL

    def on_descendant_focus(self) -> None:
        """The hints follow the focus."""
        self.show_hints()

    def on_descendant_blur(self) -> None:
        """The hints follow the focus."""
        self.show_hints()

    def show_hints(self) -> None:
        """Name the keys that answer here, and while the agent works what the prompt's do then."""
        working = self._tab is not None and self._tab.running
        self.hints.show(hints(self.scope, working=working))
        self.prompt.border_subtitle = WORKING_HINT if working and self.has_class("-low") else ""

    async def on_list_overlay_clicked(self) -> None:
        """A click takes a row of the list over the transcript."""
        await self.prompt.take_clicked()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Remember that the user is typing: a question must not take the next key."""
        if event.text_area is self.prompt:
            self.typed_at = self._clock() if self.prompt.text else float("-inf")

    # -- questions -----------------------------------------------------------------------------------------------------

    def ask(self, card: Card | None) -> None:
        """Put this question above the prompt; None takes the one there is away."""
        old = self.card
        had_focus = old is not None and self.focused is not None and old in self.focused.ancestors_with_self
        if old is not None:
            old.remove()
        if card is None:
            if had_focus:
                self.prompt.focus()
            return
        self.query_one("#bottom").mount(card, before="#prompt")
        typing = self.prompt.text or self._clock() - self.typed_at < TYPING_S
        if had_focus or (self.focused in (self.prompt, None) and not typing):
            card.focus()
