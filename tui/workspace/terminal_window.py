"""The terminal around the workspace: its title, notifications, signals, and the text that stays after the end."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.terminal_io import escapes
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_status import Attention, Mark

if TYPE_CHECKING:
    from tui.app import HandloomApp
    from tui.workspace.tab import Tab

LAST_LINES = 200
"""Lines of the conversation that stay on the normal screen at the end: enough to read back."""


class TerminalWindow:
    """The terminal that the workspace runs in."""

    def __init__(self, app: HandloomApp) -> None:
        self._app = app
        self._attention = Attention()

    def open(self) -> None:
        """Save the terminal's title, set ours, and end cleanly with the signals of the system."""
        self._app.emit(escapes.SAVE_TITLE + escapes.title(self._app.title))
        if self._app.is_headless:
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end_by, number)
        loop.add_signal_handler(signal.SIGUSR1, self._redraw)

    def _end_by(self, number: int) -> None:
        self._app.exit(return_code=128 + number)

    def _redraw(self) -> None:
        """Draw everything for another terminal that has taken the place of ours, as when a served page is reloaded."""
        self._app.emit(escapes.START + escapes.title(self._app.title))
        self._app.refresh(layout=True)

    def close(self) -> None:
        """Restore the terminal's title."""
        self._app.emit(escapes.RESTORE_TITLE)

    def text_to_keep(self) -> str:
        """What stays on the normal screen after the end, clean; empty unless the user wants it."""
        tab = self._app.tabs.current
        if not self._app.options.screen.print_on_exit or tab is None:
            return ""
        texts = [f"> {block.plain()}" if block.kind == "user" else block.plain() for block in tab.chat.blocks]
        lines = "\n\n".join(text for text in texts if text).split("\n")
        go_on = _("Resume with: {command}").format(command=f"handloom --resume {tab.id}")
        return "\n".join([*lines[-LAST_LINES:], "", go_on, ""])

    def title_for(self, tab: Tab) -> str:
        """The shown conversation and its state, and how many others wait for the user."""
        others = sum(other is not tab and other.waits_for is not None for other in self._app.tabs.conversations)
        waits = f" · {Mark.WAITING.glyph} {others}" if others else ""
        return sanitize_line(f"{tab.mark.glyph} {tab.title}", 60) + waits

    def notify(self) -> None:
        """Look at the conversations' states, and notify a user who looks elsewhere of what is new.

        Only a terminal that said that it lost the focus counts as looking elsewhere.
        """
        app = self._app
        for tab in app.tabs.conversations:
            news = self._attention.is_news(tab.id, tab.waits_for or tab.mark, app.clock())
            if not news or app.app_focus or (tab.is_delegate and tab.mark is Mark.IDLE):
                continue
            match app.options.screen.notify:
                case "auto":
                    app.emit(escapes.notification(f"{tab.title}: {tab.state_words}", os.environ))
                case "bell":
                    app.emit(escapes.BELL)
