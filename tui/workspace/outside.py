"""What the workspace does to the world around it: clipboard, notifications, the terminal's title, its mouse.

A mixin of the app. Everything that leaves for the terminal is made by `tui.terminal_io.escapes`; programs run in
threads. Nothing is copied that nobody asked for, and whatever is copied says which way it went. Who is told while away
is decided by `tui.workspace.conversation_status`; only a terminal that said it lost the focus counts as away.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from textual import events

from tui.i18n import _
from tui.terminal_io import escapes
from tui.terminal_io.glyphs import GLYPHS, in_ascii
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_status import Attention, Mark
from tui.workspace.frame import Frame
from tui.workspace.line_view import Copied

if TYPE_CHECKING:
    from tui.workspace.tab import Tab


SURROUNDINGS_CSS = """
TextArea > .text-area--placeholder, Input > .input--placeholder { color: $text-muted; }
Workspace.-copying {
    & TabStrip, & #bottom, & Footer { display: none; }
    & #chat, & #events, & #terminal, & #browser { border: none; padding: 0; scrollbar-size-vertical: 0; }
    & Hints { display: block; }
}
"""
LAST_LINES = 200
"""Of a conversation that stay on the normal screen at the end: enough to read back, not the whole of it."""
COPY_MODE = _("Copy mode: the mouse belongs to the terminal. Select and copy as it does; Esc leaves.")


class Outside(Frame):
    """Clipboard, notifications, title and copy mode, as methods of the app."""

    def prepare_outside(self) -> None:
        """Called once, before anything is drawn."""
        self.last_words = ""
        """What is written to the normal screen after the end; clean."""
        self._attention = Attention()
        self._before_copying: tuple[str, bool] | None = None

    def emit(self, sequence: str) -> None:
        """Have the terminal act on a sequence of `tui.terminal_io.escapes`."""
        escapes.write(self._driver, sequence)

    # -- the end -------------------------------------------------------------------------------------------------------

    def keep_last_words(self) -> None:
        """Note what stays on the normal screen, where that is wished. Called before the conversations are closed."""
        tab = self.current
        if self.options.screen.print_on_exit and tab is not None:
            said = [f"> {block.plain()}" if block.kind == "user" else block.plain() for block in tab.chat.blocks]
            lines = "\n\n".join(text for text in said if text).split("\n")
            go_on = _("Go on with: {command}").format(command=f"handloom --resume {tab.id}")
            self.last_words = "\n".join([*lines[-LAST_LINES:], "", go_on, ""])

    # -- signals -------------------------------------------------------------------------------------------------------

    def end_with_signals(self) -> None:
        """Close everything and leave a whole terminal when the system wants us to end."""
        if self.is_headless:
            return
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._end_by, number)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._begin_anew)

    def _end_by(self, number: int) -> None:
        self.exit(return_code=128 + number)

    def _begin_anew(self) -> None:
        """Another terminal has taken the place of ours, as when a served page is loaded again: draw all of it."""
        self.emit(escapes.BEGUN + escapes.title(self.title))
        self.refresh(layout=True)

    # -- title ---------------------------------------------------------------------------------------------------------

    def begin_title(self) -> None:
        """Have the terminal keep the title that it has. Called when there is a terminal."""
        self.emit(escapes.SAVE_TITLE + escapes.title(self.title))

    def title_for(self, tab: Tab) -> str:
        """The shown conversation and its state, and how many others wait for the user."""
        others = sum(other is not tab and other.waits_for is not None for other in self.living_tabs)
        waits = f" · {Mark.WAITING.glyph} {others}" if others else ""
        return sanitize_line(f"{tab.mark.glyph} {tab.title}", 60) + waits

    def watch_title(self, title: str) -> None:
        """Name the terminal after the conversation and its state."""
        self.emit(escapes.title(in_ascii(title) if GLYPHS.ascii else title))

    def end_title(self) -> None:
        """Give the terminal its title back."""
        self.emit(escapes.RESTORE_TITLE)

    # -- notifications -------------------------------------------------------------------------------------------------

    def tell_who_is_away(self) -> None:
        """Look at the conversations' states; what is news goes to a user who looks elsewhere."""
        for tab in self.living_tabs:
            news = self._attention.is_news(tab.id, tab.waits_for or tab.mark, self.clock())
            if not news or self.app_focus or (tab.is_delegate and tab.mark is Mark.IDLE):
                continue
            match self.options.screen.notify:
                case "auto":
                    self.emit(escapes.notification(f"{tab.title}: {tab.state_words}", os.environ))
                case "bell":
                    self.emit(escapes.BELL)

    # -- clipboard -----------------------------------------------------------------------------------------------------

    def on_copied(self, message: Copied) -> None:
        """A pane's reader copies something."""
        self.copy_to_clipboard(message.text, message.said)
        if not message.text:
            self.flash(message.said)

    def copy_to_clipboard(self, text: str, said: str = "") -> None:
        """Copy a text by every way that leads to the user's clipboard from here, and say which it was."""
        if not text:
            return  # what was copied before is worth more
        self._clipboard = text
        self.attempt(self._copy(text, said or _("Copied {count} characters").format(count=f"{len(text):,}")))

    async def _copy(self, text: str, said: str) -> None:
        from tui.terminal_io import clipboard  # and subprocess with it, when something is copied

        tools: list[clipboard.Tool] | None = [] if self.is_headless else None
        worked = await asyncio.to_thread(clipboard.set_by_tools, text, os.environ, tools)
        sequence = None if worked else escapes.clipboard(text, os.environ)
        if sequence is not None:
            self.emit(sequence)
        way = clipboard.how(worked, sequence is not None, os.environ)
        if way:
            self.flash(_("{said} ({way}).").format(said=said, way=way))
        else:
            told = _("Not copied: {count} characters are more than a terminal takes (OSC 52, 74 KB).")
            self.flash(told.format(count=f"{len(text):,}"))

    def on_text_selected(self, event: events.TextSelected) -> None:
        """The mouse selected something; copy it where that is wished."""
        if self.options.screen.copy_on_select and (text := self.screen.get_selected_text()):
            self.copy_to_clipboard(text)

    # -- copy mode -----------------------------------------------------------------------------------------------------

    @property
    def copying(self) -> bool:
        """Whether one pane has the screen and the terminal has the mouse."""
        return self._before_copying is not None

    @property
    def reading_width(self) -> int:
        """Columns of the chat at most; 0 takes all there are, so that no margin is selected in copy mode."""
        return 0 if self.copying else max(0, self.options.screen.reading_width)

    def do_app_copy_mode(self) -> None:
        workspace = self.workspace
        if self.leave_copy_mode():
            return
        self._before_copying = (workspace.looked_at, workspace.maximised_pane)
        workspace.add_class("-copying")
        workspace.maximised_pane = True
        workspace.look_at(workspace.looked_at)
        workspace.flash(COPY_MODE)
        self.emit(escapes.MOUSE_OFF)

    def leave_copy_mode(self) -> bool:
        """Have the mouse and everything else again. Answers whether it was copy mode."""
        if self._before_copying is None:
            return False
        (pane, maximised), self._before_copying = self._before_copying, None
        workspace = self.workspace
        workspace.remove_class("-copying")
        workspace.looked_at, workspace.maximised_pane = pane, maximised
        workspace.arrange_panes()
        workspace.flash("")
        workspace.helm.focus()
        self.emit(escapes.MOUSE_ON)
        return True
