"""What the user does in the agent's browser: take control, click, type, scroll, return control.

The view requests actions; here they become browser functions, which go through the session's stream as the user's. The
text for a password field is passed separately and is part of no function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.browser.page_elements import PageElement
from tui.dialogs.dialog import LineScreen
from tui.i18n import _
from tui.shortcuts.command import Command, Group, Scope, keyed

if TYPE_CHECKING:
    from tui.browser.view import BrowserView
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab


NOT_TAKEN = _("The agent controls the browser. {terminal.take} gives you control while the agent waits.")
REPLAYED = _("This is a replay. The page is a recorded screenshot.")
NOTHING_TO_CLICK = _("No clickable elements were found. Scroll, or press r to reload the page.")
NO_FIELD = _("No field has the focus. Press f, then type the letters of a field.")
RETURNED = _("The agent controls the browser again.")
SIMPLE_ACTIONS = {
    "back": "go_back()",
    "forward": "go_forward()",
    "reload": "reload()",
    "enter": "keyboard_press('Enter')",
}
FIELD_KINDS = frozenset({"text", "secret", "choice", "file"})
"""Kinds of elements that the user writes into."""


class BrowserControl:
    """What the user does in the agent's browser."""

    def __init__(self, app: Context) -> None:
        self._app = app
        self._scrolled = (0, 0)
        """Pixels that are still to be scrolled."""
        self._is_scrolling = False

    def act(self, message: BrowserView.ActionRequested) -> None:
        tab = self._app.tabs.conversation
        if tab is None:
            self._app.flash(REPLAYED)
        elif message.action == "take":
            self._app.attempt(
                self._return_browser(tab) if tab.session.user_control.browser.is_on else self._take_browser(tab)
            )
        elif not tab.session.user_control.browser.is_on:
            tab.browser.show_message(keyed(NOT_TAKEN))
        elif message.action == "scroll":
            self._scrolled = self._scrolled[0] + message.place[0], self._scrolled[1] + message.place[1]
            if not self._is_scrolling:
                self._app.attempt(self._scroll(tab))
        else:
            self._act_on_page(tab, message)

    def _act_on_page(self, tab: ConversationTab, message: BrowserView.ActionRequested) -> None:
        match message.action:
            case "click" if message.element is not None and message.element.kind in FIELD_KINDS:
                self._write(tab, message.element)
            case "click" if message.element is not None:
                self._do(tab, f"click({message.element.bid!r})")
            case "click":
                self._do(tab, f"mouse_click({message.place[0]}, {message.place[1]})")
            case "type":
                page = tab.browser.page
                element = tab.browser.layout.element(page.focused) if page is not None else None
                if element is None or element.kind not in FIELD_KINDS:
                    tab.browser.show_message(NO_FIELD)
                else:
                    self._write(tab, element)
            case "open":
                shown = tab.browser.live or tab.browser.page
                address = shown.url if shown is not None else ""
                screen = LineScreen(_("Open an address"), "https://", address)
                self._app.push_screen(screen, lambda text: self._open(tab, text or ""))
            case action if action in SIMPLE_ACTIONS:
                self._do(tab, SIMPLE_ACTIONS[action])
            case _:
                tab.browser.show_message(NOTHING_TO_CLICK)

    async def _take_browser(self, tab: ConversationTab) -> None:
        await tab.session.user_control.browser.begin()
        tab.browser.go(len(tab.browser.pages))
        from tui.browser.view import KEYS

        self._app.flash(KEYS)

    async def _return_browser(self, tab: ConversationTab) -> None:
        self._app.workspace.browser.leave_hints()
        await tab.session.user_control.browser.give_back()
        self._app.flash(RETURNED)

    def _do(self, tab: ConversationTab, calls: str, hidden: str = "") -> None:
        tab.browser.go(len(tab.browser.pages))
        self._app.attempt(self._browse(tab, calls, hidden))

    async def _browse(self, tab: ConversationTab, calls: str, hidden: str) -> None:
        await tab.session.user_control.browser.do(calls, hidden)

    async def _scroll(self, tab: ConversationTab) -> None:
        """Scroll as far as was requested, requests that come meanwhile at once."""
        self._is_scrolling = True
        try:
            while self._scrolled != (0, 0):
                (across, down), self._scrolled = self._scrolled, (0, 0)
                await tab.session.user_control.browser.do(f"scroll({across}, {down})")
                await tab.session.user_control.browser.settled()
        finally:
            self._is_scrolling, self._scrolled = False, (0, 0)

    def _open(self, tab: ConversationTab, address: str) -> None:
        if address.strip():
            self._do(tab, f"goto({_completed(address.strip())!r})")

    def _write(self, tab: ConversationTab, element: PageElement) -> None:
        from core.events import BrowseInteractiveAction

        function, title = {
            "choice": ("select_option", _("Option to select")),
            "file": ("upload_file", _("A file in the workspace")),
            "secret": ("fill", _("Text (not stored)")),
        }.get(element.kind, ("fill", _("Write")))
        is_secret = element.kind == "secret"

        def chosen(text: str | None) -> None:
            if text is not None:
                shown = BrowseInteractiveAction.HIDDEN if is_secret else text
                self._do(tab, f"{function}({element.bid!r}, {shown!r})", text if is_secret else "")

        self._app.push_screen(LineScreen(title, element.label, hidden=is_secret), chosen)


def _completed(address: str) -> str:
    """Add a scheme if the address has none: http for this machine, else https."""
    if "://" in address or address.startswith("about:"):
        return address
    host = address.partition("/")[0].partition(":")[0]
    return f"http{'' if host == 'localhost' or host.startswith('127.') else 's'}://{address}"


ROWS = (
    Command("browser.prev", ("left", "h"), "Previous page", "Show the screenshot of the previous step.", Group.READING,
            Scope.BROWSER, hint="before", native=True),
    Command("browser.next", ("right", "l"), "Next page", "Show the screenshot of the next step.", Group.READING,
            Scope.BROWSER, hint="after", native=True),
    Command("browser.first", ("home", "g"), "First page", "Show the first loaded screenshot.", Group.READING,
            Scope.BROWSER, native=True),
    Command("browser.last", ("end", "G"), "Newest page", "Show the newest screenshot, and follow.", Group.READING,
            Scope.BROWSER, hint="newest", native=True),
    Command("browser.copy_url", ("u",), "Copy the address",
            "Copy the address of the page.", Group.READING, Scope.BROWSER,
            hint="copy address", native=True),
    Command("browser.take", ("t",), "Take or return control", "You control the browser while the agent waits. Press "
            "again to return control.", Group.READING, Scope.BROWSER, hint="take over", native=True),
    Command("browser.hints", ("f",), "Click by letters", "Label everything that can be clicked or filled; type a "
            "label to use it.", Group.READING, Scope.BROWSER, hint="click", native=True),
    Command("browser.type", ("i",), "Type", "Write into the focused field.", Group.READING, Scope.BROWSER,
            hint="type", native=True),
    Command("browser.enter", ("enter",), "Press Enter",
            "Submit a form, or follow the focused link; while the agent has control, enlarge the page.",
            Group.READING, Scope.BROWSER, native=True),
    Command("browser.open", ("o",), "Open an address", "Go to another page.", Group.READING, Scope.BROWSER,
            native=True),
    Command("browser.back", ("left_square_bracket",), "Back", "Go back one page.",
            Group.READING, Scope.BROWSER, native=True),
    Command("browser.forward", ("right_square_bracket",), "Forward", "Go forward one page.", Group.READING,
            Scope.BROWSER, native=True),
    Command("browser.reload", ("r",), "Reload", "Reload the page.", Group.READING, Scope.BROWSER, native=True),
    Command("browser.up", ("up", "k"), "Scroll up", "Scroll the enlarged part; at its edge, the page.", Group.READING,
            Scope.BROWSER, native=True),
    Command("browser.down", ("down", "j"), "Scroll down",
            "Scroll the enlarged part; at its edge, the page.", Group.READING,
            Scope.BROWSER, native=True),
    Command("browser.page_up", ("pageup",), "Screen up",
            "Scroll the page by most of a screen.", Group.READING, Scope.BROWSER,
            native=True),
    Command("browser.page_down", ("pagedown",), "Screen down", "Scroll the page by most of a screen.", Group.READING,
            Scope.BROWSER, native=True),
    Command("browser.left", ("H",), "Scroll left", "Scroll the enlarged part; at its edge, the page.", Group.READING,
            Scope.BROWSER, native=True),
    Command("browser.right", ("L",), "Scroll right", "Scroll the enlarged part; at its edge, the page.", Group.READING,
            Scope.BROWSER, native=True),
    Command("browser.zoom", ("z",), "Enlarge",
            "Enlarge the page until every word can be read, or show all of it.", Group.READING,
            Scope.BROWSER, hint="enlarge", native=True),
    Command("browser.numbers", ("m",), "Numbers",
            "Show the numbers by which the agent knows the elements.", Group.READING,
            Scope.BROWSER, native=True),
    Command("browser.copy_words", ("y",), "Copy the words", "Copy all text in the screenshot.", Group.READING,
            Scope.BROWSER, native=True),
)  # fmt: skip
