"""BrowserView: a page's picture in quarters of cells, its address above, and what led there below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.strip import Strip
from textual.widget import Widget

from tui.commands import BY_ID
from tui.display.glyphs import GLYPHS
from tui.display.pictures import Pixels, quadrants, size_in_cells, size_told
from tui.display.text import sanitize_line
from tui.i18n import _
from tui.panes.copied import Copied

if TYPE_CHECKING:
    from tui.panes.browser.model import BrowserModel, LivePage, PageSeen

EMPTY = _("Pages that the agent opens will stand here as pictures.")
LIVE = _("live")
TITLE_MARK = "  "
TITLE_FROM = 8
"""Columns that a title has to have, to be worth it."""
ACTIONS = {
    "browser.prev": "older",
    "browser.next": "newer",
    "browser.first": "first",
    "browser.last": "last",
    "browser.copy_url": "copy_url",
}


class BrowserView(Widget, can_focus=True):
    """The pages of the attached model, one at a time."""

    HELP = _("The pages that the agent saw. Left and right go from one to the next; u copies the address.")
    COMPONENT_CLASSES = {"browser--muted", "browser--failed", "browser--url"}
    DEFAULT_CSS = """
    BrowserView {
        & > .browser--muted { color: $text-muted; }
        & > .browser--failed { color: $text-error; }
        & > .browser--url { color: $text-accent; }
    }
    """
    BINDINGS = [
        Binding(",".join(BY_ID[id].keys), action, BY_ID[id].title, show=False, id=id) for id, action in ACTIONS.items()
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._model: BrowserModel | None = None
        self._drawn: tuple[object, ...] = ()
        self._rows: list[Strip] = []

    def attach(self, model: BrowserModel | None) -> None:
        """Show this model from now on."""
        if self._model is not None:
            self._model.changed = None
        self._model = model
        if model is not None:
            model.changed = self._changed
        self.redraw()

    def redraw(self) -> None:
        """Draw anew what is shown, such as when a picture has come."""
        self._drawn = ()
        self.refresh()

    def _changed(self) -> None:
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        self.redraw()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._drawn = ()

    def render_line(self, y: int) -> Strip:
        width, height = self.content_size
        model = self._model
        shown = model and (model.page, model.live, model.index, len(model.pages))
        state = (shown, width, height, self.has_focus)
        if state != self._drawn:
            self._rows = self._draw(width, height)
            self._drawn = state
        return self._rows[y] if y < len(self._rows) else Strip.blank(width, self.rich_style)

    def _draw(self, width: int, height: int) -> list[Strip]:
        model = self._model
        if model is not None and model.live is not None:
            return self._draw_live(model.live, width, height)
        page = model.page if model is not None else None
        if model is None or page is None:
            return [self._line(EMPTY, "browser--muted", width)]
        head = self._head(
            page.url, page.title, f"{model.index + 1}/{len(model.pages)}  {page.at.astimezone():%H:%M:%S}", width
        )
        foot = self._foot(page, width)
        rows = max(1, height - 1 - len(foot))
        return [head, *self._picture(page, width, rows), *foot]

    def _draw_live(self, live: LivePage, width: int, height: int) -> list[Strip]:
        """The living page; what led there is in the steps before it."""
        head = self._head(live.url, live.title, LIVE, width)
        return [head, *self._pixels(live.pixels, live.width, live.height, width, max(1, height - 1))]

    def _head(self, url: str, title: str, place: str, width: int) -> Strip:
        """Address and title on the left as far as they fit, the place among the steps on the right."""
        room = max(4, width - cell_len(place) - 3)
        address = sanitize_line(url, room)
        left = room - cell_len(address) - len(TITLE_MARK)
        named = f"{TITLE_MARK}{sanitize_line(title, left)}" if title and left >= TITLE_FROM else ""
        gap = " " * max(1, width - cell_len(address) - cell_len(named) - cell_len(place) - 2)
        muted = self._style("browser--muted")
        parts = [Segment(f" {address}", self._style("browser--url")), Segment(named, muted)]
        return Strip([*parts, Segment(f"{gap}{place} ", muted)]).adjust_cell_length(width, self.rich_style)

    def _foot(self, page: PageSeen, width: int) -> list[Strip]:
        if page.error:
            return [self._line(page.error, "browser--failed", width)]
        return [self._line(page.action, "browser--muted", width)] if page.action else []

    def _picture(self, page: PageSeen, width: int, rows: int) -> list[Strip]:
        from core.store.blobs import BlobRef

        assert self._model is not None
        ref, pictures = BlobRef.parse(page.picture), self._model.pictures
        if ref is None or pictures is None:
            return [self._line(_("No picture was taken."), "browser--muted", width)]
        return self._pixels(pictures.get(ref), ref.width, ref.height, width, rows)

    def _pixels(self, found: Pixels | str | None, wide: int, high: int, width: int, rows: int) -> list[Strip]:
        """A picture of `wide` x `high` pixels, in the middle."""
        if not GLYPHS.pictures_are_drawn:
            return [self._line(size_told(wide, high), "browser--muted", width)]
        if not isinstance(found, Pixels):
            said = _("The picture cannot be shown: {why}.").format(why=found) if found else "…"
            return [self._line(said, "browser--muted", width)]
        columns, lines = size_in_cells(wide, high, width, rows, enlarge=True)
        left = (width - columns) // 2
        margin = [Segment(" " * left, self.rich_style)] if left else []
        drawn = quadrants(found, columns, lines)
        return [Strip([*margin, *line]).adjust_cell_length(width, self.rich_style) for line in drawn]

    def _line(self, text: str, role: str, width: int) -> Strip:
        shown = sanitize_line(text, max(0, width - 2))
        return Strip([Segment(f" {shown}", self._style(role))]).adjust_cell_length(width, self.rich_style)

    def _style(self, role: str) -> Style:
        return self.rich_style + self.get_component_rich_style(role, partial=True)

    # What the reader does

    def action_older(self) -> None:
        self._go(-1)

    def action_newer(self) -> None:
        self._go(1)

    def _go(self, step: int) -> None:
        if self._model is not None:
            self._model.go(self._model.index + step)

    def action_first(self) -> None:
        if self._model is not None:
            self._model.go(0)

    def action_last(self) -> None:
        if self._model is not None:
            self._model.go(len(self._model.pages))

    def action_copy_url(self) -> None:
        if self._model is not None and self._model.page is not None:
            self.post_message(Copied(self._model.page.url))
