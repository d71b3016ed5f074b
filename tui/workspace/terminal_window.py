"""The terminal around the workspace: its title, notifications, signals, and what is printed on it after the end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

from rich.text import Text

from tui.cli.failure_report import redact_environment, traceback_text
from tui.i18n import _
from tui.terminal_io import escapes
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.conversation_status import Attention, Mark

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from tui.app import HandloomApp
    from tui.workspace.tab import Tab

log = logging.getLogger(__name__)

LAST_LINES = 200
"""Lines of the conversation that are printed at the end, if the user wants that."""


def crash_report(manager: ConversationManager | None) -> Text:
    """Log the exception that is being handled. Returns its trace without secrets: Textual's would show variables."""
    log.exception("the workspace failed")
    error = sys.exception()
    assert error is not None
    text = redact_environment(traceback_text(error))
    return Text(sanitize(manager.redact(text) if manager is not None else text))


class TerminalWindow:
    """The terminal that the workspace runs in."""

    def __init__(self, app: HandloomApp) -> None:
        self._app = app
        self._attention = Attention()

    def open(self) -> None:
        """Save the terminal's title, set ours, and handle signals."""
        self._app.emit(escapes.SAVE_TITLE + escapes.title(self._app.title))
        if self._app.is_headless:
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, lambda code: self._app.exit(return_code=code), 128 + number)
        loop.add_signal_handler(signal.SIGUSR1, self._redraw)

    def _redraw(self) -> None:
        """Draw everything for a new terminal, such as a reloaded page of the web server."""
        self._app.emit(escapes.START + escapes.title(self._app.title))
        self._app.refresh(layout=True)

    def close(self) -> None:
        """Restore the terminal's title."""
        self._app.emit(escapes.RESTORE_TITLE)

    def last_words(self) -> str:
        """What is printed after the end, clean; empty unless the user wants it."""
        tab = self._app.tabs.current
        if not self._app.options.screen.print_on_exit or tab is None:
            return ""
        texts = [f"> {block.plain()}" if block.kind == "user" else block.plain() for block in tab.chat.blocks]
        lines = "\n\n".join(text for text in texts if text).split("\n")
        command = _("Resume with: {command}").format(command=f"handloom --resume {tab.id}")
        return "\n".join([*lines[-LAST_LINES:], "", command, ""])

    def title_for(self, tab: Tab) -> str:
        """The title of the window: the tab, its state, and how many others wait for the user."""
        others = sum(other is not tab and other.waits_for is not None for other in self._app.tabs.conversations)
        waits = f" · {Mark.WAITING.glyph} {others}" if others else ""
        return sanitize_line(f"{tab.mark.glyph} {tab.title}", 60) + waits

    def notify(self) -> None:
        """Notify the user of new states of conversations, if the terminal has reported that it lost the focus."""
        app = self._app
        for tab in app.tabs.conversations:
            is_news = self._attention.is_news(tab.id, tab.waits_for or tab.mark, app.clock())
            if not is_news or app.app_focus or (tab.is_delegate and tab.mark is Mark.IDLE):
                continue
            match app.options.screen.notify:
                case "auto":
                    app.emit(escapes.notification(f"{tab.title}: {tab.state_words}", os.environ))
                case "bell":
                    app.emit(escapes.BELL)
