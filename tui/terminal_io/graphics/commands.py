"""Pictures that the terminal draws itself: which way it has, and when they come and go.

A mixin of the app. The terminal is asked when the first picture of a page is to be drawn, so nobody who sees no page
waits for an answer. What the terminal was given is taken back before it is anybody else's: at the end, and while
another program has it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from tui.browser.model import BrowserModel
from tui.terminal_io.glyphs import GLYPHS
from tui.terminal_io.graphics.picture_cells import KEPT_SIDE, SHARP_SIDE
from tui.terminal_io.textual_patches.terminal_replies import EAR
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from textual.screen import Screen

    from tui.terminal_io.graphics.graphics_support import Terminal


class Picturing(Frame):
    """The terminal's pictures, as methods of the app."""

    _terminal: Terminal | None = None

    @property
    def graphics(self) -> Terminal | None:
        """What is known of the terminal, which is asked now unless it was; None where it draws no pictures."""
        if self._terminal is None and self._may_ask:
            from tui.terminal_io.graphics.graphics_support import Terminal, cell_of

            wanted = self.options.screen.pictures
            terminal = self._terminal = Terminal(wanted, os.environ, self.emit, cell_of(sys.__stdin__))
            loop = asyncio.get_running_loop()
            EAR.listener = lambda answer: _tell(loop, terminal, answer)
            terminal.on_change = self._way_changed
            self.app_suspend_signal.subscribe(self, lambda _: self.workspace.browser.put_away(), immediate=True)
            self.app_resume_signal.subscribe(self, lambda _: self.workspace.browser.redraw())
            terminal.ask()
        return self._terminal

    def on_resize(self) -> None:
        """Cells may have another size, such as with another size of letters."""
        if self._terminal is not None:
            self._terminal.measure()

    @property
    def _may_ask(self) -> bool:
        wanted = self.options.screen.pictures not in ("blocks", "off")
        return wanted and GLYPHS.pictures_are_drawn and self._driver is not None and not self.is_headless

    def _way_changed(self) -> None:
        """The terminal has said what it can."""
        from tui.terminal_io.graphics.kitty import INK

        if self._terminal is not None and self._terminal.way == "kitty" and INK.style is None:
            few = self.console.color_system != "truecolor"
            own = int.from_bytes(os.urandom(3))
            INK.take(16 + own % 240 if few else max(1, own), of_256=few)
        side = KEPT_SIDE if self._terminal is None or self._terminal.way == "blocks" else SHARP_SIDE
        if side != BrowserModel.side:
            BrowserModel.side = side
            self.workspace.watch_anew()
        self.workspace.browser.redraw()

    def end_pictures(self) -> None:
        """Take back what the terminal has. Called while it still listens to us."""
        EAR.listener = None
        BrowserModel.side = KEPT_SIDE
        if self._terminal is not None:
            for number in list(self._terminal.kept):
                self._terminal.remove(number)
            self._terminal = None

    # -- pixels over cells: written within the same synchronised update as what is under them --------------------------

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        if self._terminal is not None and self._terminal.overlay is not None and renderable is not None:
            self._terminal.overlay.touched(renderable)
        super()._display(screen, renderable)

    def _end_update(self) -> None:
        overlay = self._terminal.overlay if self._terminal is not None else None
        if overlay is not None and (pixels := overlay.pixels()):
            self.emit(pixels)
        super()._end_update()


def _tell(loop: asyncio.AbstractEventLoop, terminal: Terminal, answer: str) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(terminal.hear, answer)
