"""Frames: the changes of the models are drawn at a limited rate, so that there is always time for keys.

If a flooded screen drew without a pause, each key would wait behind a frame. So there are at most `FRAMES_PER_S` frames
a second, fewer if drawing leaves the event loop little time, and fewer still while the user types and frames are
expensive: typed text is drawn at once, streamed text can wait. Without a change nothing is drawn.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.terminal.commands import show_terminal_control
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.footer import Facts
from tui.workspace.tab_bar import TabItem

if TYPE_CHECKING:
    from textual.timer import Timer

    from tui.app import HandloomApp
    from tui.workspace.tab import Tab

FRAMES_PER_S = 30
PERIOD_S = 1 / FRAMES_PER_S
SLOWEST_S = 0.25
BUSY = 0.8
"""The share of time that frames may take."""
TYPING_S = 0.2
"""The longest time between two frames while the user types."""
TYPING_BUSY = 0.25
"""The share of time that frames may take while the user types."""
TYPED_WITHIN_S = 0.4
"""The user counts as typing for so long after a key."""


class Pace:
    """Says when the next frame is due. Pure. All times but the processor's are seconds of one clock."""

    def __init__(self) -> None:
        self._period_s = PERIOD_S
        self._frame_s = 0.0
        """Processor time between the last two frames."""
        self._drawn_at = float("-inf")
        self._processor_s = 0.0

    def drawn(self, now: float, processor_s: float) -> None:
        """Note that a frame begins; `processor_s` is the processor time of this thread so far."""
        passed, used = now - self._drawn_at, processor_s - self._processor_s
        self._drawn_at, self._processor_s = now, processor_s
        if passed <= 0:
            return
        self._frame_s = used
        if used / passed > BUSY:
            self._period_s = min(SLOWEST_S, self._period_s * 1.5)
        else:
            self._period_s = max(PERIOD_S, self._period_s / 1.5)

    def period_s(self, now: float, typed_at: float) -> float:
        """The time between two frames, if the last key was typed at `typed_at`."""
        if now - typed_at >= TYPED_WITHIN_S:
            return self._period_s
        return max(self._period_s, min(TYPING_S, self._frame_s / TYPING_BUSY))

    def wait_s(self, now: float, typed_at: float) -> float:
        return max(0.0, self._drawn_at + self.period_s(now, typed_at) - now)


class FrameLoop:
    """Draws the next frame after a change."""

    def __init__(self, app: HandloomApp) -> None:
        self._app = app
        self._pace = Pace()
        self.timer: Timer | None = None
        """Set while a frame is due."""
        self.elapsed_timer: Timer | None = None
        """Wakes the current tab every second while its agent works."""

    def start(self) -> None:
        """Called when the screen is mounted."""
        self.elapsed_timer = self._app.set_interval(1.0, self._wake_current, pause=True)

    def _wake_current(self) -> None:
        if self._app.tabs.current is not None:
            self.wake(self._app.tabs.current)

    def wake(self, tab: Tab) -> None:
        if self.timer is None and self._app.is_running:
            delay = self._pace.wait_s(self._app.clock(), self._app.workspace.typed_at)
            self.timer = self._app.set_timer(delay or 0.001, self.draw)

    def period_s(self) -> float:
        return self._pace.period_s(self._app.clock(), self._app.workspace.typed_at)

    def draw(self) -> None:
        """Draw the tab bar, the footer and the panes of the current tab."""
        if self.timer is not None:
            self.timer.stop()
            self.timer = None
        app, workspace, tabs = self._app, self._app.workspace, self._app.tabs
        if not app.is_running:  # widgets are being removed
            return
        self._pace.drawn(app.clock(), time.thread_time())
        tab, split_tab = tabs.current, workspace.split_tab
        app.delegates.follow()
        items = tuple(TabItem("└ " * bool(t.level) + t.title, t.mark, t.unread, t is split_tab) for t in tabs.all)
        workspace.tabs.show(items, tabs.all.index(tab) if tab else -1)
        if tab is None:
            workspace.footer.show(Facts(state=_("no conversation"), workspace=sanitize(app.options.workspace)))
            return
        for shown in filter(None, (tab, split_tab)):
            shown.note_state()
        show_terminal_control(app)
        has_more = workspace.sync()
        workspace.footer.show(tab.facts)
        if tabs.conversation is not None:
            app.approvals.ask(tabs.conversation)
        workspace.queue.show([sanitize_line(text, 200) for text in tab.queued])
        app.title = app.window.title_for(tab)
        app.window.notify()
        if self.elapsed_timer is not None:
            (self.elapsed_timer.resume if tab.running else self.elapsed_timer.pause)()
        if has_more:
            self.wake(tab)
