"""BrowserView: a page's picture with its words over it, its address above, the steps and what came of them below.

What the user wants done goes up as `Asked`; the view knows no session. While letters stand over the elements, keys are
letters. A place in the picture is a place on the page, so a click is one there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.browser.page_elements import NOTHING, Look, PageMark, labels
from tui.browser.picture_view import Drawing
from tui.browser.step_line import film
from tui.commands import BY_ID, keyed
from tui.i18n import _
from tui.terminal_io.glyphs import GLYPHS
from tui.terminal_io.graphics.picture_cells import Pixels, size_told
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.line_view import Copied

if TYPE_CHECKING:
    from tui.browser.model import BrowserModel, LivePage, PageSeen
    from tui.browser.page_cells import View
    from tui.terminal_io.graphics.picture_cells import Pictures

EMPTY = _("Pages that the agent opens appear here")
LIVE = _("live")
YOURS = _("you control the browser")
PAST = _("viewing an earlier page")
KEYS = keyed(
    _(
        "{terminal.take} return control · {browser.hints} click by letters · "
        "{browser.type} type · {browser.open} open URL"
    )
)
TITLE_MARK = "  "
TITLE_FROM = 8
"""Columns that a title has to have, to be worth it."""
STRIP_FROM = 8
"""Rows of a pane that has room for the strip of steps."""
WHEEL_PX = 120
"""That one notch of the wheel, or one row up or down, moves the page."""
ACTIONS = {
    "browser.prev": "older",
    "browser.next": "newer",
    "browser.first": "first",
    "browser.last": "last",
    "browser.copy_url": "copy_url",
    "browser.take": "ask('take')",
    "browser.hints": "hints",
    "browser.type": "ask('type')",
    "browser.enter": "ask('enter')",
    "browser.open": "ask('open')",
    "browser.back": "ask('back')",
    "browser.forward": "ask('forward')",
    "browser.reload": "ask('reload')",
    "browser.up": "move(0, -1)",
    "browser.down": "move(0, 1)",
    "browser.page_up": "move(0, -5)",
    "browser.page_down": "move(0, 5)",
    "browser.left": "move(-1, 0)",
    "browser.right": "move(1, 0)",
    "browser.zoom": "zoom",
    "browser.numbers": "numbers",
    "browser.copy_words": "copy_words",
}


class BrowserView(Widget, can_focus=True):
    """The pages of the attached model, one at a time."""

    HELP = keyed(
        _(
            "The pages that the agent visited. Left and right switch between them, "
            "{browser.copy_url} copies the URL. {terminal.take} gives you control: then "
            "{browser.hints} labels clickable elements with letters, {browser.type} types, "
            "the arrow keys scroll, and {terminal.take} returns control."
        )
    )
    COMPONENT_CLASSES = {
        "browser--muted", "browser--failed", "browser--url", "browser--hint", "browser--taken",
    }  # fmt: skip
    DEFAULT_CSS = """
    BrowserView {
        & > .browser--muted { color: $text-muted; }
        & > .browser--failed { color: $text-error; }
        & > .browser--url { color: $text-accent; }
        & > .browser--hint { color: $background; background: $warning; text-style: bold; }
        & > .browser--taken { color: $text-warning; text-style: bold; }
    }
    """
    BINDINGS = [
        Binding(",".join(BY_ID[id].keys), action, BY_ID[id].title, show=False, id=id) for id, action in ACTIONS.items()
    ]

    class Asked(Message):
        """The user wants something done on the page: `take`, `click`, `type`, `scroll`, `back`, ..."""

        def __init__(self, wish: str, mark: PageMark | None = None, place: tuple[int, int] = (0, 0)) -> None:
            super().__init__()
            self.wish = wish
            self.mark = mark
            """The element that is meant; None for the page."""
            self.place = place
            """Where, in pixels of the view; of `scroll`, how far."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._model: BrowserModel | None = None
        self.drawing = Drawing(self, self.redraw)
        self._drawn: tuple[Any, ...] = ()
        self._rows: list[Strip] = []
        self._view: View | None = None
        """Which part of the page is drawn, from the second row on; None where there is no picture."""
        self._margin = 0
        self._letters: dict[str, PageMark] = {}
        """The elements by their letters; empty unless letters are shown."""
        self._typed = ""
        self._numbered = self._zoomed = False
        self._middle: tuple[int, int] | None = None
        """What is looked at where the page is enlarged; None follows what has the focus."""

    def attach(self, model: BrowserModel | None) -> None:
        """Show this model from now on."""
        if self._model is not None:
            self._model.changed = None
        if model is not self._model:
            self.leave_hints()
            self.put_away()
        self._model = model
        if model is not None:
            model.changed = self._changed
        self.redraw()

    def redraw(self) -> None:
        """Draw anew what is shown, such as when a picture has come."""
        self._drawn = ()
        self.refresh()

    def put_away(self) -> None:
        """Take back what the terminal has of the picture; the next frame draws it again."""
        self.drawing.clear()
        self.redraw()  # what was drawn is kept by Textual, too

    def on_hide(self) -> None:
        """Nothing is kept for a pane that nobody sees."""
        self.put_away()

    def _changed(self) -> None:
        if self._letters and not set(self._letters.values()) <= set(self._look.marks):
            self._letter(self._look.marks)  # the page has changed under them
        if self.drawing.hides_cells and self._only_lives():
            self.drawing.keep_cells()
            self.refresh(Region(0, 0, self.content_size.width, 1))
        else:
            self.refresh()

    def _only_lives(self) -> bool:
        """Whether what has changed since it was drawn is how the living page looks, and nothing in the pane moves."""
        (before, *rest), (shown, *others) = self._drawn or ((), None), self._state
        if not before or not shown or not before[1] or not shown[1] or rest != others:
            return False
        old, new = (
            (type(it.pixels), it.width, it.height, it.look.width, it.look.height) for it in (before[1], shown[1])
        )
        return old == new and before[:1] + before[2:] == shown[:1] + shown[2:]

    def on_resize(self, event: events.Resize) -> None:
        self.redraw()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._drawn = ()

    @property
    def _look(self) -> Look:
        return self._model.look if self._model is not None else NOTHING

    @property
    def _state(self) -> tuple[Any, ...]:
        """All that decides how the pane looks."""
        model = self._model
        shown = model and (model.page, model.live, model.index, len(model.pages), model.taken, model.told)
        how = (tuple(self._letters), self._typed, self._numbered, self._zoomed, self._middle)
        return shown, *self.content_size, self.has_focus, how

    def render_line(self, y: int) -> Strip:
        width, height = self.content_size
        if (state := self._state) != self._drawn:
            self._rows = self._draw(width, height)
            self._drawn = state
        return self._rows[y] if y < len(self._rows) else Strip.blank(width, self.rich_style)

    def _draw(self, width: int, height: int) -> list[Strip]:
        model, self._view = self._model, None
        self.drawing.nothing()
        live = model.live if model is not None else None
        page = model.page if model is not None else None
        if model is None or (page is None and live is None):
            return [self._line(EMPTY, "browser--muted", width)]
        foot = self._foot(model, page, live, width, height)
        rows = max(1, height - 1 - len(foot))
        pictures = self.drawing.prepare(model) if GLYPHS.pictures_are_drawn else model.pictures
        if live is not None:
            head = self._head(live.url, live.title, LIVE, width)
            return [head, *self._pixels(live.pixels, live.width, live.height, width, rows), *foot]
        assert page is not None
        place = f"{model.index + 1}/{len(model.pages)}  {page.at.astimezone():%H:%M:%S}"
        return [self._head(page.url, page.title, place, width), *self._picture(page, pictures, width, rows), *foot]

    def _head(self, url: str, title: str, place: str, width: int) -> Strip:
        """Address and title on the left as far as they fit, the place among the steps on the right."""
        model = self._model
        said = [YOURS] * bool(model and model.taken) + [PAST] * bool(model and model.looks_back)
        taken = f"{' · '.join(said)}  " if said else ""
        room = max(4, width - cell_len(place) - cell_len(taken) - 3)
        address = sanitize_line(url, room)
        left = room - cell_len(address) - len(TITLE_MARK)
        named = f"{TITLE_MARK}{sanitize_line(title, left)}" if title and left >= TITLE_FROM else ""
        gap = " " * max(1, room - cell_len(address) - cell_len(named) + 1)
        muted = self._style("browser--muted")
        parts = [Segment(f" {address}", self._style("browser--url")), Segment(named + gap, muted)]
        parts += [Segment(taken, self._style("browser--taken")), Segment(f"{place} ", muted)]
        return Strip([part for part in parts if part.text]).adjust_cell_length(width, self.rich_style)

    def _foot(
        self, model: BrowserModel, page: PageSeen | None, live: LivePage | None, width: int, height: int
    ) -> list[Strip]:
        """What came of the step, and the steps before and after it."""
        lines = []
        if model.told:
            lines.append(self._line(model.told, "browser--muted", width))
        elif page is not None and page.error and (live is None or page.by_user):
            lines.append(self._line(_explained(page.error), "browser--failed", width))
        elif page is not None and page.notes:
            lines.append(self._line(page.notes, "browser--muted", width))
        elif page is not None and page.action and live is None:
            lines.append(self._line(page.action, "browser--muted", width))
        elif model.taken and self.screen.has_class("-low"):  # where no line below has room for it
            lines.append(self._line(KEYS, "browser--muted", width))
        if height >= STRIP_FROM and len(model.pages) > 1:
            at = None if live is not None else model.index
            parts = film(model.pages, at, width, self._style("browser--muted"), self._style("browser--url"))
            lines.append(Strip(parts).adjust_cell_length(width, self.rich_style))
        return lines

    def _picture(self, page: PageSeen, pictures: Pictures | None, width: int, rows: int) -> list[Strip]:
        from core.store.blobs import BlobRef

        ref = BlobRef.parse(page.picture)
        if ref is None or pictures is None:
            return self._filled([self._line(_("No screenshot was taken."), "browser--muted", width)], rows)
        return self._pixels(pictures.get(ref), ref.width, ref.height, width, rows)

    def _pixels(self, found: Pixels | str | None, wide: int, high: int, width: int, rows: int) -> list[Strip]:
        """A picture of `wide` x `high` pixels, in the middle, with what is known of the page over it."""
        if not GLYPHS.pictures_are_drawn:
            words = self._look.plain().split("\n") if self._look.texts else []
            told = [self._line(size_told(wide, high), "browser--muted", width)]
            return self._filled([*told, *(self._line(line, "", width) for line in words)][:rows], rows)
        if not isinstance(found, Pixels):
            said = _("Cannot show the image: {why}.").format(why=found) if found else "…"
            return self._filled([self._line(said, "browser--muted", width)], rows)
        from tui.browser.page_cells import View

        look = self._look
        wide, high = (look.width, look.height) if look.width else (max(1, wide), max(1, high))
        if self._zoomed:
            view = View.near(wide, high, width, rows, self._looked_at(wide, high), cell=self.drawing.cell)
        else:
            view = View.whole(wide, high, width, rows, cell=self.drawing.cell)
        self._view, self._margin = view, (width - view.columns) // 2
        margin = [Segment(" " * self._margin, self.rich_style)] if self._margin else []
        at = (self._margin, 1)
        drawn = self.drawing.lines(found, look, view, self._tags(), self._style("browser--hint"), at=at)
        lines = [Strip([*margin, *line]).adjust_cell_length(width, self.rich_style) for line in drawn]
        return self._filled(lines, rows)

    def _filled(self, lines: list[Strip], rows: int) -> list[Strip]:
        """As many as there is room for, so that what stands below does not move."""
        blank = Strip.blank(self.content_size.width, self.rich_style)
        return [*lines, *[blank] * (rows - len(lines))][:rows]

    def _tags(self) -> dict[str, str]:
        """What stands over the elements: the rest of their letters, or their numbers."""
        if self._letters:
            begun = {mark.bid: letters for letters, mark in self._letters.items() if letters.startswith(self._typed)}
            return {bid: letters[len(self._typed) :].upper() for bid, letters in begun.items()}
        return {mark.bid: mark.bid for mark in self._look.marks} if self._numbered else {}

    def _looked_at(self, wide: int, high: int) -> tuple[int, int]:
        page = self._model.page if self._model is not None else None
        mark = self._look.mark(page.focused) if page is not None else None
        if self._middle is not None:
            return self._middle
        return (mark.box.left + mark.box.width // 2, mark.box.top + mark.box.height // 2) if mark else (0, 0)

    def _line(self, text: str, role: str, width: int) -> Strip:
        shown = sanitize_line(text, max(0, width - 2))
        style = self._style(role) if role else self.rich_style
        return Strip([Segment(f" {shown}", style)]).adjust_cell_length(width, self.rich_style)

    def _style(self, role: str) -> Style:
        return self.rich_style + self.get_component_rich_style(role, partial=True)

    # -- what the reader does ------------------------------------------------------------------------------------------

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
        model = self._model
        shown = model and (model.live or model.page)
        if shown:
            self.post_message(Copied(shown.url))

    def action_copy_words(self) -> None:
        """Copy what can be read in the view."""
        self.post_message(Copied(self._look.plain(), "" if self._look.texts else _("There is no text to copy.")))

    def action_zoom(self) -> None:
        """Large enough to read every word, or the whole page."""
        self._zoomed, self._middle = not self._zoomed, None
        self.refresh()

    def action_numbers(self) -> None:
        """Show the numbers by which the agent knows the elements, or take them away."""
        self._numbered = not self._numbered
        self.refresh()

    # -- what the user does on the page --------------------------------------------------------------------------------

    def action_ask(self, wish: str) -> None:
        self.post_message(self.Asked(wish))

    def action_move(self, across: int, down: int) -> None:
        """Move what is enlarged; at its edge, and where nothing is, the page itself."""
        view = self._view
        if self._zoomed and view is not None and self._model is not None:
            part, look = view.part, self._look
            left = part.left + across * part.width // 4
            top = part.top + down * part.height // 4
            left = max(0, min(left, max(part.width, look.width) - part.width))
            top = max(0, min(top, max(part.height, look.height) - part.height))
            if (left, top) != (part.left, part.top):
                self._middle = left + part.width // 2, top + part.height // 2
                # The next key may come before the next frame, and moves on from here.
                self._view = replace(view, part=part._replace(left=left, top=top))
                self.refresh()
                return
        self.post_message(self.Asked("scroll", place=(across * WHEEL_PX, down * WHEEL_PX)))

    def action_hints(self) -> None:
        """Put letters over what can be acted on."""
        if self._model is None or not self._model.taken:
            self.post_message(self.Asked("click"))  # which says how to take it over
            return
        self._model.go(len(self._model.pages))
        self._letter(self._look.marks)
        if not self._letters:
            self.post_message(self.Asked("nothing"))

    def _letter(self, marks: tuple[PageMark, ...]) -> None:
        self._letters, self._typed = dict(zip(labels(len(marks)), marks, strict=True)), ""
        self.refresh()

    def leave_hints(self) -> bool:
        """Take the letters away. Answers whether there were any."""
        had, self._letters, self._typed = bool(self._letters), {}, ""
        if had:
            self.refresh()
        return had

    def on_key(self, event: events.Key) -> None:
        """A letter of a label; any other key takes the letters away."""
        if not self._letters:
            return
        event.stop()
        event.prevent_default()
        typed = self._typed + (event.character or "").lower()
        left = {letters: mark for letters, mark in self._letters.items() if letters.startswith(typed)}
        if event.character and len(left) == 1 and typed in left:
            self.leave_hints()
            self.post_message(self.Asked("click", left[typed]))
        elif event.character and left:
            self._typed = typed
            self.refresh()
        else:
            self.leave_hints()

    def on_click(self, event: events.Click) -> None:
        """A click on the picture is one on the page, where the user has the browser."""
        self.focus()
        at = event.get_content_offset(self)
        if self._view is None or at is None or self._model is None or not self._model.taken:
            return
        column, row = at.x - self._margin, at.y - 1
        if 0 <= column < self._view.columns and 0 <= row < self._view.rows:
            place = self._view.place(column, row)
            self.leave_hints()
            self.post_message(self.Asked("click", self._look.mark_at(*place), place))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves the page."""
        event.stop()
        self.action_move(0, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves the page."""
        event.stop()
        self.action_move(0, -1)


def _explained(error: str) -> str:
    """What went wrong, and what to do next where that is known."""
    if "Could not find element" in error:
        return _("The page has changed and the element no longer exists. Press f to label the current elements.")
    if "Timeout" in error and "Locator" in error:
        return _(
            "The element cannot be used: another element covers it, or it is moving. Press "
            "f to label the current elements."
        )
    return error
