"""Pictures that the terminal draws itself: which way it has, and when they come and go.

The terminal is asked when the first picture of a page is to be drawn, so nobody who sees no page
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

if TYPE_CHECKING:
    from tui.app import HandloomApp
    from tui.terminal_io.graphics.graphics_support import Terminal


class GraphicsSession:
    """The terminal's pictures while the workspace runs."""

    def __init__(self, app: HandloomApp) -> None:
        self._app = app
        self._terminal: Terminal | None = None

    @property
    def terminal(self) -> Terminal | None:
        """What is known of the terminal, which is asked now unless it was; None where it draws no pictures."""
        if self._terminal is None and self._may_ask:
            from tui.terminal_io.graphics.graphics_support import Terminal, cell_of

            wanted = self._app.options.screen.pictures
            terminal = self._terminal = Terminal(wanted, os.environ, self._app.emit, cell_of(sys.__stdin__))
            loop = asyncio.get_running_loop()
            EAR.listener = lambda answer: _tell(loop, terminal, answer)
            terminal.on_change = self._way_changed
            self._app.app_suspend_signal.subscribe(
                self._app, lambda _: self._app.workspace.browser.put_away(), immediate=True
            )
            self._app.app_resume_signal.subscribe(self._app, lambda _: self._app.workspace.browser.redraw())
            terminal.ask()
        return self._terminal

    def measure(self) -> None:
        """Cells may have another size, such as with another size of letters."""
        if self._terminal is not None:
            self._terminal.measure()

    @property
    def _may_ask(self) -> bool:
        wanted = self._app.options.screen.pictures not in ("blocks", "off")
        return wanted and GLYPHS.pictures_are_drawn and self._app._driver is not None and not self._app.is_headless

    def _way_changed(self) -> None:
        """The terminal has said what it can."""
        from tui.terminal_io.graphics.kitty import INK

        if self._terminal is not None and self._terminal.way == "kitty" and INK.style is None:
            few = self._app.console.color_system != "truecolor"
            own = int.from_bytes(os.urandom(3))
            INK.take(16 + own % 240 if few else max(1, own), of_256=few)
        side = KEPT_SIDE if self._terminal is None or self._terminal.way == "blocks" else SHARP_SIDE
        if side != BrowserModel.side:
            BrowserModel.side = side
            self._app.workspace.live_page.restart()
        self._app.workspace.browser.redraw()

    def end(self) -> None:
        """Take back what the terminal has. Called while it still listens to us."""
        EAR.listener = None
        BrowserModel.side = KEPT_SIDE
        if self._terminal is not None:
            for number in list(self._terminal.kept):
                self._terminal.remove(number)
            self._terminal = None

    # -- pixels over cells: written within the same synchronised update as what is under them --------------------------

    def note_drawn(self, renderable: Any) -> None:
        """Take note of cells that are drawn over pictures."""
        if self._terminal is not None and self._terminal.overlay is not None and renderable is not None:
            self._terminal.overlay.touched(renderable)

    def draw_pixels(self) -> None:
        """Draw the pictures over the cells that were drawn."""
        overlay = self._terminal.overlay if self._terminal is not None else None
        if overlay is not None and (pixels := overlay.pixels()):
            self._app.emit(pixels)


def _tell(loop: asyncio.AbstractEventLoop, terminal: Terminal, answer: str) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(terminal.hear, answer)
