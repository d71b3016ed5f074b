"""How the picture of a page gets to the screen: the terminal draws it if it can, else it is drawn as cells.

The terminal is queried when the first picture of a page is drawn, so nobody who sees no page waits for a reply. It
deletes the pictures that it was sent at the end, and while another program has it. Pixels that are over cells (sixel)
are written in the same synchronised update as the cells under them, after an update that touched them, and only if
nothing covers the picture.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING

from rich.style import Style
from textual.geometry import Region
from textual.widget import Widget

from tui.browser.model import BrowserModel
from tui.browser.page_elements import PageLayout
from tui.terminal_io.glyphs import GLYPHS, IN_CELLS
from tui.terminal_io.graphics.picture_cells import KEPT_SIDE, SHARP_SIDE, PictureError, Pictures, Pixels, decoded
from tui.terminal_io.textual_patches import REPLY_LISTENER

if TYPE_CHECKING:
    from textual.screen import Screen

    from tui.app import HandloomApp
    from tui.browser.page_cells import Painted, View
    from tui.terminal_io.graphics.graphics_terminal import GraphicsTerminal
    from tui.terminal_io.graphics.terminal_picture import TerminalPicture
    from tui.workspace.conversation import ConversationTab


class GraphicsSession:
    """The terminal's pictures while the workspace runs."""

    def __init__(self, app: HandloomApp) -> None:
        self._app = app
        self._terminal: GraphicsTerminal | None = None

    @property
    def terminal(self) -> GraphicsTerminal | None:
        """The terminal, which is queried at the first access; None if it draws no pictures."""
        if self._terminal is None and self._may_query:
            from tui.terminal_io.graphics.graphics_terminal import GraphicsTerminal, cell_size

            app = self._app
            terminal = self._terminal = GraphicsTerminal(
                app.options.screen.pictures, os.environ, app.emit, lambda: cell_size(sys.__stdin__)
            )
            loop = asyncio.get_running_loop()

            def on_reply(reply: str) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(terminal.handle_reply, reply)

            REPLY_LISTENER.on_reply = on_reply
            terminal.on_change = self._method_changed
            app.app_suspend_signal.subscribe(app, lambda _: app.workspace.browser.clear_picture(), immediate=True)
            app.app_resume_signal.subscribe(app, lambda _: app.workspace.browser.redraw())
            terminal.query()
            self._ask_tmux()
        return self._terminal

    def _ask_tmux(self) -> None:
        """Ask tmux, if it is there, which terminal shows us: it may be another one than before."""
        if self._terminal is not None and self._terminal.is_in_tmux:
            self._app.run_worker(self._note_outer_terminal(self._terminal), group="tmux", exclusive=True)

    async def _note_outer_terminal(self, terminal: GraphicsTerminal) -> None:
        from tui.terminal_io.graphics.graphics_terminal import outer_terminal

        terminal.name_outer_terminal(await asyncio.to_thread(outer_terminal, os.environ))

    def measure(self) -> None:
        """Measure the cells again: the font may have another size."""
        if self._terminal is not None:
            self._terminal.measure()
            self._ask_tmux()

    @property
    def _may_query(self) -> bool:
        wanted = self._app.options.screen.pictures not in IN_CELLS
        return wanted and GLYPHS.pictures_are_drawn and self._app._driver is not None and not self._app.is_headless

    def _method_changed(self) -> None:
        from tui.terminal_io.graphics.kitty import PICTURE_IDS

        method = self._terminal.method if self._terminal is not None else "blocks"
        if self._terminal is not None:  # in tmux, another one than before may show us
            GLYPHS.shapes = "sextants" if self._terminal.draws_sextants else "quadrants"
        if method == "kitty" and PICTURE_IDS.style is None:
            in_tmux = self._terminal is not None and self._terminal.is_in_tmux  # which may reduce 24 bits
            of_256 = in_tmux or self._app.console.color_system != "truecolor"
            chosen = int.from_bytes(os.urandom(3))
            PICTURE_IDS.choose(16 + chosen % 240 if of_256 else max(1, chosen), of_256=of_256)
        side = KEPT_SIDE if method == "blocks" else SHARP_SIDE
        if side != BrowserModel.side:
            BrowserModel.side = side
            self._app.workspace.live_page.restart()
        self._app.workspace.browser.redraw()

    def end(self) -> None:
        """Delete the pictures that the terminal has, while it still listens."""
        REPLY_LISTENER.on_reply = None
        BrowserModel.side = KEPT_SIDE
        if self._terminal is not None:
            for picture_id in list(self._terminal.picture_ids):
                self._terminal.delete(picture_id)
            self._terminal = None

    def before_update(self, renderable: object) -> None:
        """Note whether an update of the screen writes over pixels."""
        if self._terminal is not None and renderable is not None:
            self._app.workspace.browser.picture.before_update(renderable)

    def write_pixels(self) -> None:
        if self._terminal is not None and (pixels := self._app.workspace.browser.picture.pixels()):
            self._app.emit(pixels)


class PictureView:
    """The picture of the browser pane. `redraw` draws the whole pane again."""

    def __init__(self, pane: Widget, redraw: Callable[[], None]) -> None:
        self._pane = pane
        self._redraw = redraw
        self._picture: TerminalPicture | None = None
        self._method = "blocks"
        self._sharp: tuple[Pictures, Pictures] | None = None
        """The pictures of a model, and the same with more pixels."""
        self._pixel_region = Region()
        """Where pixels lie, relative to the pane's content."""
        self._is_over = False
        """Whether there are pixels over the cells, as far as we know."""
        self._is_stale = False
        """Whether the cells under them are those of an older picture."""

    @property
    def _terminal(self) -> GraphicsTerminal | None:
        return getattr(self._pane.app, "graphics", None)

    @property
    def cell(self) -> tuple[int, int] | None:
        """Width and height of a cell in pixels; None if pictures are drawn as cells."""
        from tui.browser.page_cells import CELL_RATIO

        if self._terminal is None or self._picture is None:
            return None
        return self._terminal.cell if all(self._terminal.cell) else CELL_RATIO

    def prepare(self, model: BrowserModel) -> Pictures | None:
        """Choose how pictures are drawn. Returns the pictures of steps, as large as they have to be for that."""
        terminal = self._terminal
        method = terminal.method if terminal is not None else "blocks"
        if method != self._method:
            self.clear()
            self._method, self._picture = method, None
        if terminal is None or method == "blocks" or model.pictures is None:
            return model.pictures
        if self._picture is None:
            from tui.terminal_io.graphics.terminal_picture import PICTURES

            self._picture = PICTURES[method](
                terminal, self._ready, lambda work: self._pane.run_worker(work, group="graphics")
            )
        if self._sharp is None or self._sharp[0] is not model.pictures:
            self._sharp = (model.pictures, model.pictures.sharper())
            self._sharp[1].on_wanted = self._start_loading
        return self._sharp[1]

    def _start_loading(self) -> None:
        self._pane.run_worker(self._load(), group="sharper", exclusive=True)

    async def _load(self) -> None:
        if self._sharp is not None and await self._sharp[1].load():
            self._redraw()

    def lines(
        self,
        pixels: Pixels,
        layout: PageLayout,
        view: View,
        tags: Mapping[str, str],
        tag_style: Style,
        *,
        at: tuple[int, int],
    ) -> Painted:
        """Draw the viewed part of a picture in cells, which begin `at` this column and row of the pane."""
        from tui.browser.page_cells import paint, paint_on

        self._is_stale = False
        self.show_nothing()
        if self._picture is not None:
            from tui.terminal_io.graphics.terminal_picture import KittyPicture, PictureRequest

            page_width, page_height = layout.width or view.part.width, layout.height or view.part.height
            left, top, width, height = view.part
            right, bottom = min(1, (left + width) / page_width), min(1, (top + height) / page_height)
            part = (left / page_width, top / page_height, right, bottom)
            cell = self._terminal.cell if self._terminal is not None else (0, 0)
            is_there = self._picture.request(PictureRequest(pixels, part, view.columns, view.rows, cell))
            if is_there and isinstance(self._picture, KittyPicture):
                return paint_on(self._picture.cells, layout, view, tags, tag_style)
            if is_there and not tags:
                self._pixel_region = Region(*at, view.columns, view.rows)
                return paint(pixels, layout, view, tags, tag_style)._replace(cut=0)  # the terminal shows all of it
        return paint(pixels, layout, view, tags, tag_style)

    def show_nothing(self) -> None:
        self._pixel_region = Region()

    def clear(self) -> None:
        """Delete what the terminal has of the picture, such as when the pane is hidden."""
        self.show_nothing()
        self._is_over = False
        if self._picture is not None:
            self._picture.clear()

    def _ready(self) -> None:
        """Show the next picture: over the one before, so that no cells flash up between them, or with cells."""
        was_over, self._is_over = self._is_over, False
        if was_over and self._terminal is not None and (pixels := self.pixels()):
            self._terminal.write(pixels)
        else:
            self._redraw()

    # -- pixels over cells ---------------------------------------------------------------------------------------------

    @property
    def hides_cells(self) -> bool:
        """Whether pixels lie over the picture's cells, so these need not be drawn for the next picture."""
        return self._is_over and bool(self._pixel_region)

    def keep_cells(self) -> None:
        """Leave the cells of an older picture under the pixels; they are drawn when they become visible."""
        self._is_stale = True

    @property
    def _screen_region(self) -> Region:
        """Where pixels lie on the screen; empty if there are none."""
        region = self._pixel_region
        return region.translate(self._pane.content_region.offset) if region else region

    def before_update(self, update: object) -> None:
        """Note whether an update of the screen writes over the pixels."""
        place = self._screen_region
        if not self._is_over or not place:
            self._is_over = False
            return
        spans = getattr(update, "spans", None)
        region = getattr(update, "region", None)
        if spans is not None:
            touches = any(place.y <= y < place.bottom and x1 < place.right and place.x < x2 for y, x1, x2 in spans)
        else:
            touches = region is None or bool(place.intersection(region))
        self._is_over = not touches

    def pixels(self) -> str:
        """Return what has to be written after an update; empty if the pixels are there, or may not be."""
        place = self._screen_region
        if self._picture is None or self._is_over or not place:
            return ""
        from tui.terminal_io.graphics.terminal_picture import PixelPicture

        if not isinstance(self._picture, PixelPicture):
            return ""
        screen = self._pane.screen
        if not screen.is_active or place.bottom >= screen.size.height or self._is_covered(place):
            if self._is_stale:
                self._is_stale = False
                self._redraw()
            return ""
        self._is_over = True
        return self._picture.drawing(place.x, place.y)

    def _is_covered(self, place: Region) -> bool:
        layers = self._pane.screen._compositor.layers_visible
        for y in range(place.y, place.bottom):
            for widget, region, _ in layers[y] if y < len(layers) else []:
                if widget is self._pane:
                    break
                if region.x < place.right and place.x < region.right:
                    return True
            else:
                return True
        return False


class LivePageWatcher:
    """Watches the live page of one conversation at a time, while its pane is visible."""

    def __init__(self, screen: Screen[None]) -> None:
        self._screen = screen
        self._watched: ConversationTab | None = None

    def watch(self, tab: ConversationTab | None) -> None:
        """Watch the page of this conversation and no other; None stops watching."""
        if tab is self._watched:
            return
        self._watched = tab
        self._screen.workers.cancel_group(self._screen, "page")
        if tab is not None:
            begin = partial(_watch_page, tab)  # no coroutine yet: the worker may end before it runs
            self._screen.run_worker(begin, group="page")  # type: ignore[arg-type]

    def restart(self) -> None:
        """Watch the page from its start, such as when more pixels are needed."""
        tab, self._watched = self._watched, None
        self._screen.workers.cancel_group(self._screen, "page")
        self.watch(tab)


async def _watch_page(tab: ConversationTab) -> None:
    """Pass the live page to the tab's model until cancelled, or until it turns out that there is no browser."""
    from core.errors import UsageError

    with suppress(UsageError):
        async with aclosing(tab.session.runtime.watch_page()) as pages:
            try:
                async for page in pages:
                    try:
                        pixels: Pixels | str = await asyncio.to_thread(decoded, page.data, tab.browser.side)
                    except PictureError as error:
                        pixels = str(error)
                    tab.browser.show_live(page, pixels)
            finally:
                tab.browser.end_live()
