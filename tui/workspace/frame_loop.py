"""Frames: what the models of the current tab hold is drawn at a limited rate, and only after a change."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.terminal.commands import show_terminal_control
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.footer import Facts
from tui.workspace.frame_rate import Pace
from tui.workspace.tab_bar import TabItem

if TYPE_CHECKING:
    from textual.timer import Timer

    from tui.app import HandloomApp
    from tui.workspace.tab import Tab


class FrameLoop:
    """Draws the next frame when something has changed."""

    def __init__(self, app: HandloomApp) -> None:
        self._app = app
        self._pace = Pace()
        self.timer: Timer | None = None
        """Set while a frame is due."""
        self.elapsed_timer: Timer | None = None
        """Wakes the current tab every second while its agent works."""

    def start(self) -> None:
        """Called when the screen is there."""
        self.elapsed_timer = self._app.set_interval(1.0, self._wake_current, pause=True)

    def _wake_current(self) -> None:
        if self._app.tabs.current is not None:
            self.wake(self._app.tabs.current)

    def wake(self, tab: Tab) -> None:
        """Draw a tab in the next frame, because something in it changed."""
        if self.timer is None and self._app.is_running:
            delay = self._pace.wait_s(self._app.clock(), self._app.workspace.typed_at)
            self.timer = self._app.set_timer(delay or 0.001, self.draw)

    def period_s(self) -> float:
        """The time between two frames now."""
        return self._pace.period_s(self._app.clock(), self._app.workspace.typed_at)

    def draw(self) -> None:
        """Draw one frame: tab bar and footer, and what the current tab's panes have to draw."""
        if self.timer is not None:
            self.timer.stop()
            self.timer = None
        app, workspace, tabs = self._app, self._app.workspace, self._app.tabs
        if not app.is_running:  # at the end the parts of the screen go one by one
            return
        self._pace.drawn(app.clock(), time.thread_time())
        tab, beside = tabs.current, workspace.split_tab
        app.delegates.follow()
        items = tuple(TabItem("└ " * bool(t.level) + t.title, t.mark, t.unread, t is beside) for t in tabs.all)
        workspace.tabs.show(items, tabs.all.index(tab) if tab else -1)
        if tab is None:
            workspace.footer.show(Facts(state=_("no conversation"), workspace=sanitize(app.options.workspace)))
            return
        for shown in filter(None, (tab, beside)):
            shown.note_state()
        show_terminal_control(app)
        more = workspace.sync()
        workspace.footer.show(tab.facts)
        if tabs.conversation is not None:
            app.approvals.ask(tabs.conversation)
        workspace.queue.show([sanitize_line(text, 200) for text in tab.queued])
        app.title = app.window.title_for(tab)
        app.window.notify()
        if self.elapsed_timer is not None:
            (self.elapsed_timer.resume if tab.running else self.elapsed_timer.pause)()
        if more:
            self.wake(tab)
