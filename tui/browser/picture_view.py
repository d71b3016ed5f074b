"""Drawing: how the pane's picture gets to the screen: by the terminal itself where it can, else as cells.

The view says what is to be seen and gets lines. Pixels that lie over the cells (sixel) are written behind an update of
the screen that touched them, and only where nothing covers the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.widget import Widget

from tui.browser.page_elements import Look
from tui.terminal_io.graphics.picture_cells import Pictures, Pixels

if TYPE_CHECKING:
    from tui.browser.model import BrowserModel
    from tui.browser.page_cells import View
    from tui.terminal_io.graphics.graphics_support import Terminal
    from tui.terminal_io.graphics.terminal_picture import Sharp


class Host(Protocol):
    """The app, where it has a terminal that may draw pictures."""

    @property
    def graphics(self) -> Terminal | None: ...


class Drawing:
    """The picture of one pane. `redraw` has the pane drawn anew."""

    def __init__(self, pane: Widget, redraw: Callable[[], None]) -> None:
        self._pane = pane
        self._redraw = redraw
        self._sharp: Sharp | None = None
        self._way = "blocks"
        self._pictures: tuple[Pictures, Pictures] | None = None
        self._place = Region()
        """Where pixels lie, relative to the pane's content."""
        self._is_over = False
        """Whether there are pixels over the cells, as far as we know."""
        self._is_stale = False
        """Whether the cells under them are those of an older picture."""

    @property
    def _terminal(self) -> Terminal | None:
        return getattr(self._pane.app, "graphics", None)

    @property
    def cell(self) -> tuple[int, int] | None:
        """Pixels of a cell, wide and high, where the terminal draws pictures itself; None where cells do."""
        from tui.browser.page_cells import USUAL

        if self._terminal is None or self._sharp is None:
            return None
        return self._terminal.cell if all(self._terminal.cell) else USUAL

    def prepare(self, model: BrowserModel) -> Pictures | None:
        """Settle how pictures are drawn by now. Answers where those of steps are, as large as they have to be."""
        terminal = self._terminal
        way = terminal.way if terminal is not None else "blocks"
        if way != self._way:
            self.clear()
            self._way, self._sharp = way, None
        if terminal is None or way == "blocks" or model.pictures is None:
            return model.pictures
        if self._sharp is None:
            from tui.terminal_io.graphics.terminal_picture import KittyPicture, SixelPicture

            terminal.overlay = self
            kind = KittyPicture if way == "kitty" else SixelPicture
            self._sharp = kind(terminal, self._ready, lambda work: self._pane.run_worker(work, group="graphics"))
        if self._pictures is None or self._pictures[0] is not model.pictures:
            self._pictures = (model.pictures, model.pictures.sharper())
            self._pictures[1].on_wanted = self._load
        return self._pictures[1]

    def _load(self) -> None:
        self._pane.run_worker(self._fetch(), group="sharper", exclusive=True)

    async def _fetch(self) -> None:
        if self._pictures is not None and await self._pictures[1].load():
            self._redraw()

    def lines(
        self, pixels: Pixels, look: Look, view: View, tags: Mapping[str, str], tag_style: Style, *, at: tuple[int, int]
    ) -> list[list[Segment]]:
        """The picture's part in the cells of the view, which begin `at` this column and row of the pane."""
        from tui.browser.page_cells import paint, paint_on

        self._is_stale = False
        self._place = Region()
        if self._sharp is not None:
            from tui.terminal_io.graphics.scaled_picture import Wanted
            from tui.terminal_io.graphics.terminal_picture import KittyPicture

            wide, high = look.width or view.part.width, look.height or view.part.height
            left, top, width, height = view.part
            part = (left / wide, top / high, min(1, (left + width) / wide), min(1, (top + height) / high))
            cell = self._terminal.cell if self._terminal is not None else (0, 0)
            has = self._sharp.want(Wanted(pixels, part, view.columns, view.rows, cell))
            if has and isinstance(self._sharp, KittyPicture):
                return paint_on(self._sharp.cells, look, view, tags, tag_style)
            if has and not tags:
                self._place = Region(*at, view.columns, view.rows)
        return paint(pixels, look, view, tags, tag_style)

    def nothing(self) -> None:
        """There is no picture to be drawn at the moment."""
        self._place = Region()

    def clear(self) -> None:
        """Take away what the terminal has of the picture, such as when the pane is not to be seen any more."""
        self._place, self._is_over = Region(), False
        if self._sharp is not None:
            self._sharp.clear()

    def _ready(self) -> None:
        """Another picture may be shown: over the one before, so that no cells flash up between them, or with cells."""
        was_over, self._is_over = self._is_over, False
        if was_over and self._terminal is not None and (pixels := self.pixels()):
            self._terminal.write(pixels)
        else:
            self._redraw()

    # -- pixels over cells ---------------------------------------------------------------------------------------------

    @property
    def hides_cells(self) -> bool:
        """Whether cells of the picture need not be drawn for the next picture in its place."""
        return self._is_over and bool(self._place)

    def keep_cells(self) -> None:
        """The cells under the pixels are those of an older picture; they are drawn when they are to be seen."""
        self._is_stale = True

    @property
    def _pixels_at(self) -> Region:
        """Where pixels are to lie on the screen; empty where there are none."""
        return self._place.translate(self._pane.content_region.offset) if self._place else self._place

    def touched(self, update: object) -> None:
        """As `Overlay` says."""
        place = self._pixels_at
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
        """As `Overlay` says."""
        from tui.terminal_io.graphics.terminal_picture import SixelPicture

        place = self._pixels_at
        if self._is_over or not place or not isinstance(self._sharp, SixelPicture):
            return ""
        screen = self._pane.screen
        if not screen.is_active or place.bottom >= screen.size.height or self._is_covered(place):
            if self._is_stale:
                self._is_stale = False
                self._redraw()
            return ""
        self._is_over = True
        return self._sharp.drawing(place.x, place.y)

    def _is_covered(self, place: Region) -> bool:
        """Whether anything lies over a part of it."""
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
