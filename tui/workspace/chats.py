"""The chat pane: the chat of the current conversation, and optionally another beside it.

When the two change roles, each view keeps its side and its conversation, so nothing moves. The second view is created
when it is first needed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message

from tui.chat.view import ChatView
from tui.i18n import _

if TYPE_CHECKING:
    from tui.workspace.tab import Tab


class Chats(Horizontal):
    """One chat, or two side by side."""

    DEFAULT_CSS = """
    Chats {
        width: 3fr;
        & > ChatView { width: 1fr; }
    }
    """
    TITLE = _("Chat")

    class OtherChosen(Message):
        """The user moved the focus to the other chat."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._views = [ChatView(id="chat")]
        """The view of the current conversation, then the other one, once created."""
        self._tab: Tab | None = None
        self.split_tab: Tab | None = None
        """The conversation beside the current one."""

    def compose(self) -> ComposeResult:
        yield self.shown

    @property
    def shown(self) -> ChatView:
        return self._views[0]

    def on_mount(self) -> None:
        self.shown.border_title = self.TITLE

    def attach(self, tab: Tab | None) -> None:
        """Make this the current conversation; if it is the other one, the two change roles."""
        before, self._tab = self._tab, tab
        if tab is not None and tab is self.split_tab:
            self._views.reverse()
            self.split_tab = before
        self.shown.attach(tab.chat if tab is not None else None)

    def split(self, tab: Tab) -> None:
        """Show this conversation beside the current one."""
        if len(self._views) == 1:
            self._views.append(ChatView(id="beside"))
            self.mount(self._views[1])
        self.split_tab = tab
        self._views[1].attach(tab.chat)

    def end_split(self) -> None:
        """Show the current conversation only."""
        if self.split_tab is not None:
            self._views[1].attach(None)
            self.split_tab = None

    def show_visible(self, visible: Collection[str]) -> None:
        """Show the chats that are among the visible panes."""
        self.set_class("beside" in visible, "-split")
        self.display = self.shown.display = "chat" in visible
        for other in self._views[1:]:
            other.display = "beside" in visible

    def update_titles(self) -> None:
        """Give two chats the titles of their conversations, and highlight the current one."""
        for view, tab in zip(self._views, (self._tab, self.split_tab), strict=False):
            title = Content(self.TITLE)
            if self.split_tab is not None and tab is not None:
                title = Content(f"{tab.mark.glyph} {tab.title}")
            if view.border_title != title.markup:
                view.border_title = title
            view.set_class(self.split_tab is not None and view is self.shown, "-owner")

    def redraw(self) -> None:
        for view in self._views:
            view.refresh()

    def tab_of(self, view: object) -> Tab | None:
        """The conversation of a view."""
        return self._tab if view is self.shown else self.split_tab

    def on_descendant_focus(self) -> None:
        if self.split_tab is not None and self._views[1].has_focus:
            self.post_message(self.OtherChosen())
