"""The browser pane: a page's picture with its texts over it, its address above, messages and the steps below.

What the user wants done goes up as `ActionRequested`; the view knows no session. While labels stand over the elements,
keys are letters of labels. A click on the picture is one at that place of the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.browser.page_elements import NO_LAYOUT, PageElement, PageLayout, labels
from tui.browser.picture_view import PictureView
from tui.commands import BY_ID, keyed
from tui.i18n import _
from tui.terminal_io.glyphs import GLYPHS
from tui.terminal_io.graphics.picture_cells import Pixels, describe_size
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.line_view import Copied

if TYPE_CHECKING:
    from tui.browser.model import BrowserModel, LivePage, VisitedPage
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
MIN_TITLE_CELLS = 8
MIN_STEPS_HEIGHT = 8
"""Rows of a pane that has room for the line of steps."""
STEP_CELLS = 22
WHEEL_PX = 120
"""How far one notch of the wheel, or an arrow key, scrolls the page."""
_FUNCTION = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_SITE = re.compile(r"https?://([^/?#'\"]+)")
ACTIONS = {
    "browser.prev": "step(-1)",
    "browser.next": "step(1)",
    "browser.first": "home",
    "browser.last": "end",
    "browser.copy_url": "copy_url",
    "browser.take": "ask('take')",
    "browser.hints": "hints",
    "browser.type": "ask('type')",
    "browser.enter": "press_enter",
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
    "browser.open_picture": "app.command('picture.open')",
    "browser.save_picture": "app.command('picture.save')",
}


class BrowserView(Widget, can_focus=True):
    """Shows the pages of the attached model, one at a time."""

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

    class ActionRequested(Message):
        """The user wants something done on the page: `take`, `click`, `type`, `scroll`, `back`, ..."""

        def __init__(self, action: str, element: PageElement | None = None, place: tuple[int, int] = (0, 0)) -> None:
            super().__init__()
            self.action = action
            self.element = element
            self.place = place
            """In pixels of the view; for `scroll`, how far."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._model: BrowserModel | None = None
        self.picture = PictureView(self, self.redraw)
        self._drawn: tuple[Any, ...] = ()
        self._rows: list[Strip] = []
        self._view: View | None = None
        """The part of the page that is drawn, from the second row on; None if there is no picture."""
        self._margin = 0
        self._title = Content(_("Browser"))
        self.letters: dict[str, PageElement] = {}
        """The elements by their labels; empty unless labels are shown."""
        self._typed = ""
        self._numbered = self._zoomed = False
        self._middle: tuple[int, int] | None = None
        """The place in the middle of an enlarged page; None follows the focused element."""

    def attach(self, model: BrowserModel | None) -> None:
        if self._model is not None:
            self._model.changed = None
        if model is not self._model:
            self.leave_hints()
            self.clear_picture()
        self._model = model
        if model is not None:
            model.changed = self._changed
        self.redraw()

    def redraw(self) -> None:
        """Draw everything again, such as when a picture was loaded."""
        self._drawn = ()
        self.refresh()

    def clear_picture(self) -> None:
        """Delete what the terminal has of the picture; the next frame sends it again."""
        self.picture.clear()
        self.redraw()  # Textual, too, keeps what was drawn

    def on_hide(self) -> None:
        self.clear_picture()

    def _changed(self) -> None:
        if self.letters and not set(self.letters.values()) <= set(self._layout_of_page.elements):
            self._label(self._layout_of_page.elements)  # the page has changed under them
        if self.picture.hides_cells and self._only_live_page_changed():
            self.picture.keep_cells()
            self.refresh(Region(0, 0, self.content_size.width, 1))
        else:
            self.refresh()

    def _only_live_page_changed(self) -> bool:
        """Whether only the live page's pixels have changed since the last drawing, and nothing in the pane moves."""
        (before, *rest), (shown, *others) = self._drawn or ((), None), self._state
        if not before or not shown or not before[1] or not shown[1] or rest != others:
            return False
        old, new = (
            (type(live.pixels), live.width, live.height, live.layout.width, live.layout.height)
            for live in (before[1], shown[1])
        )
        return old == new and before[:1] + before[2:] == shown[:1] + shown[2:]

    def on_resize(self, event: events.Resize) -> None:
        self.redraw()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._drawn = ()

    @property
    def _layout_of_page(self) -> PageLayout:
        return self._model.layout if self._model is not None else NO_LAYOUT

    @property
    def _state(self) -> tuple[Any, ...]:
        """All that decides how the pane looks."""
        model = self._model
        shown = model and (model.page, model.live, model.index, len(model.pages), model.taken, model.message)
        how = (tuple(self.letters), self._typed, self._numbered, self._zoomed, self._middle)
        return shown, *self.content_size, self.has_focus, how

    def render_line(self, y: int) -> Strip:
        width, height = self.content_size
        if (state := self._state) != self._drawn:
            self._rows = self._draw(width, height)
            self._drawn = state
        return self._rows[y] if y < len(self._rows) else Strip.blank(width, self.rich_style)

    def _draw(self, width: int, height: int) -> list[Strip]:
        model, self._view = self._model, None
        self.picture.show_nothing()
        live = model.live if model is not None else None
        page = model.page if model is not None else None
        if model is None or (page is None and live is None):
            return [self._line(EMPTY, "browser--muted", width)]
        foot = self._foot(model, page, live, width, height)
        rows = max(1, height - 1 - len(foot))
        pictures = self.picture.prepare(model) if GLYPHS.pictures_are_drawn else model.pictures
        if live is not None:
            head = self._head(model, live.url, live.title, LIVE, width)
            return [head, *self._pixels(live.pixels, live.width, live.height, width, rows), *foot]
        assert page is not None
        place = f"{model.index + 1}/{len(model.pages)}  {page.at.astimezone():%H:%M:%S}"
        head = self._head(model, page.url, page.title, place, width)
        return [head, *self._screenshot(page, pictures, width, rows), *foot]

    def _head(self, model: BrowserModel, url: str, title: str, place: str, width: int) -> Strip:
        """Draw address and title on the left as far as they fit, and the place among the steps on the right."""
        notes = [YOURS] * model.taken + [PAST] * model.shows_earlier
        note = f"{' · '.join(notes)}  " if notes else ""
        room = max(4, width - cell_len(place) - cell_len(note) - 3)
        address = sanitize_line(url, room)
        left = room - cell_len(address) - len(TITLE_MARK)
        named = f"{TITLE_MARK}{sanitize_line(title, left)}" if title and left >= MIN_TITLE_CELLS else ""
        gap = " " * max(1, room - cell_len(address) - cell_len(named) + 1)
        muted = self._style("browser--muted")
        parts = [Segment(f" {address}", self._style("browser--url")), Segment(named + gap, muted)]
        parts += [Segment(note, self._style("browser--taken")), Segment(f"{place} ", muted)]
        return Strip([part for part in parts if part.text]).adjust_cell_length(width, self.rich_style)

    def _foot(
        self, model: BrowserModel, page: VisitedPage | None, live: LivePage | None, width: int, height: int
    ) -> list[Strip]:
        text, role = model.message, "browser--muted"
        if not text and page is not None and page.error and (live is None or page.by_user):
            text, role = _explained(page.error), "browser--failed"
        elif not text and page is not None:
            text = page.notes or (page.action if live is None else "")
        if not text and model.taken and self.screen.has_class("-tiny"):  # no line of hints below
            text = KEYS
        lines = [self._line(text, role, width)] if text else []
        if height >= MIN_STEPS_HEIGHT and len(model.pages) > 1:
            at = None if live is not None else model.index
            parts = _step_line(model.pages, at, width, self._style("browser--muted"), self._style("browser--url"))
            lines.append(Strip(parts).adjust_cell_length(width, self.rich_style))
        return lines

    def _screenshot(self, page: VisitedPage, pictures: Pictures | None, width: int, rows: int) -> list[Strip]:
        from core.store.blobs import BlobRef

        ref = BlobRef.parse(page.picture)
        if ref is None or pictures is None:
            return self._filled([self._line(_("No screenshot was taken."), "browser--muted", width)], rows)
        return self._pixels(pictures.get(ref), ref.width, ref.height, width, rows)

    def _pixels(
        self, pixels: Pixels | str | None, page_width: int, page_height: int, width: int, rows: int
    ) -> list[Strip]:
        """Draw a picture of a page in the middle of `width` x `rows` cells, with texts and labels over it."""
        layout = self._layout_of_page
        if not GLYPHS.pictures_are_drawn:
            texts = layout.plain_text().split("\n") if layout.texts else []
            size = self._line(describe_size(page_width, page_height), "browser--muted", width)
            return self._filled([size, *(self._line(line, "", width) for line in texts)], rows)
        if not isinstance(pixels, Pixels):
            text = _("Cannot show the image: {why}.").format(why=pixels) if pixels else "…"
            return self._filled([self._line(text, "browser--muted", width)], rows)
        from tui.browser.page_cells import View

        if layout.width:
            page_width, page_height = layout.width, layout.height
        page_width, page_height, cell = max(1, page_width), max(1, page_height), self.picture.cell
        if self._zoomed:
            view = View.near(page_width, page_height, width, rows, self._zoom_middle(), cell=cell)
        else:
            view = View.whole(page_width, page_height, width, rows, cell=cell)
        self._view, self._margin = view, (width - view.columns) // 2
        margin = [Segment(" " * self._margin, self.rich_style)] if self._margin else []
        tag_style = self._style("browser--hint")
        drawn = self.picture.lines(pixels, layout, view, self._tags(), tag_style, at=(self._margin, 1))
        self._show_cut(drawn.cut)
        lines = [Strip([*margin, *line]).adjust_cell_length(width, self.rich_style) for line in drawn.lines]
        return self._filled(lines, rows)

    def _show_cut(self, count: int) -> None:
        """Say in the title how many texts of the page are not shown in full, and what shows them."""
        title = Content(_("Browser"))
        if count:
            cut = keyed(_("{count} cut, {browser.zoom} enlarges"), count=count)
            title = Content.assemble(title, "  ", (cut, "$text-muted"))
        if title != self._title:
            self._title = title
            self.call_later(setattr, self, "border_title", title)  # not while the pane is drawn

    def _filled(self, lines: list[Strip], rows: int) -> list[Strip]:
        """Cut or fill up to `rows` lines, so that what is below does not move."""
        blank = Strip.blank(self.content_size.width, self.rich_style)
        return [*lines, *[blank] * (rows - len(lines))][:rows]

    def _tags(self) -> dict[str, str]:
        """Return what stands over the elements: the rest of their labels, or their numbers."""
        if self.letters:
            begun = {mark.bid: letters for letters, mark in self.letters.items() if letters.startswith(self._typed)}
            return {bid: letters[len(self._typed) :].upper() for bid, letters in begun.items()}
        return {element.bid: element.bid for element in self._layout_of_page.elements} if self._numbered else {}

    def _zoom_middle(self) -> tuple[int, int]:
        if self._middle is not None:
            return self._middle
        page = self._model.page if self._model is not None else None
        element = self._layout_of_page.element(page.focused) if page is not None else None
        if element is None:
            return 0, 0
        return element.box.left + element.box.width // 2, element.box.top + element.box.height // 2

    def _line(self, text: str, role: str, width: int) -> Strip:
        shown = sanitize_line(text, max(0, width - 2))
        style = self._style(role) if role else self.rich_style
        return Strip([Segment(f" {shown}", style)]).adjust_cell_length(width, self.rich_style)

    def _style(self, role: str) -> Style:
        return self.rich_style + self.get_component_rich_style(role, partial=True)

    # -- reading -------------------------------------------------------------------------------------------------------

    def action_step(self, step: int) -> None:
        if self._model is not None:
            self._model.go(self._model.index + step)

    def action_home(self) -> None:
        if self._model is not None:
            self._model.go(0)

    def action_end(self) -> None:
        if self._model is not None:
            self._model.go(len(self._model.pages))

    def action_copy_url(self) -> None:
        model = self._model
        shown = model and (model.live or model.page)
        if shown:
            self.post_message(Copied(shown.url))

    def action_copy_words(self) -> None:
        layout = self._layout_of_page
        self.post_message(Copied(layout.plain_text(), "" if layout.texts else _("There is no text to copy.")))

    def action_zoom(self) -> None:
        self._zoomed, self._middle = not self._zoomed, None
        self.refresh()

    def action_numbers(self) -> None:
        """Show or hide the numbers by which the agent knows the elements."""
        self._numbered = not self._numbered
        self.refresh()

    # -- acting on the page --------------------------------------------------------------------------------------------

    def action_press_enter(self) -> None:
        """Press Enter in the page if the user has control; otherwise enlarge the page."""
        if self._model is not None and self._model.taken:
            self.action_ask("enter")
        else:
            self.action_zoom()

    def action_ask(self, action: str) -> None:
        self.post_message(self.ActionRequested(action))

    def action_move(self, across: int, down: int) -> None:
        """Move the enlarged part; at its edge, and if nothing is enlarged, scroll the page."""
        view = self._view
        if self._zoomed and view is not None and self._model is not None:
            part, layout = view.part, self._layout_of_page
            left = part.left + across * part.width // 4
            top = part.top + down * part.height // 4
            left = max(0, min(left, max(part.width, layout.width) - part.width))
            top = max(0, min(top, max(part.height, layout.height) - part.height))
            if (left, top) != (part.left, part.top):
                self._middle = left + part.width // 2, top + part.height // 2
                # The next key may come before the next frame, and moves on from here.
                self._view = replace(view, part=part._replace(left=left, top=top))
                self.refresh()
                return
        self.post_message(self.ActionRequested("scroll", place=(across * WHEEL_PX, down * WHEEL_PX)))

    def action_hints(self) -> None:
        if self._model is None or not self._model.taken:
            self.post_message(self.ActionRequested("click"))  # which says how to take control
            return
        self._model.go(len(self._model.pages))
        self._label(self._layout_of_page.elements)
        if not self.letters:
            self.post_message(self.ActionRequested("nothing"))

    def _label(self, elements: tuple[PageElement, ...]) -> None:
        self.letters, self._typed = dict(zip(labels(len(elements)), elements, strict=True)), ""
        self.refresh()

    def leave_hints(self) -> bool:
        """Remove the labels. Returns whether there were any."""
        had, self.letters, self._typed = bool(self.letters), {}, ""
        if had:
            self.refresh()
        return had

    def on_key(self, event: events.Key) -> None:
        """Take a letter of a label; any other key removes the labels."""
        if not self.letters:
            return
        event.stop()
        event.prevent_default()
        typed = self._typed + (event.character or "").lower()
        left = {letters: element for letters, element in self.letters.items() if letters.startswith(typed)}
        if event.character and len(left) == 1 and typed in left:
            self.leave_hints()
            self.post_message(self.ActionRequested("click", left[typed]))
        elif event.character and left:
            self._typed = typed
            self.refresh()
        else:
            self.leave_hints()

    def on_click(self, event: events.Click) -> None:
        """Click at this place of the page, if the user controls the browser."""
        self.focus()
        at = event.get_content_offset(self)
        if self._view is None or at is None or self._model is None or not self._model.taken:
            return
        column, row = at.x - self._margin, at.y - 1
        if 0 <= column < self._view.columns and 0 <= row < self._view.rows:
            place = self._view.place(column, row)
            self.leave_hints()
            self.post_message(self.ActionRequested("click", self._layout_of_page.element_at(*place), place))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_move(0, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_move(0, -1)


def _explained(error: str) -> str:
    """Say what went wrong, and what to do next if that is known."""
    if "Could not find element" in error:
        return _("The page has changed and the element no longer exists. Press f to label the current elements.")
    if "Timeout" in error and "Locator" in error:
        return _(
            "The element cannot be used: another element covers it, or it is moving. Press "
            "f to label the current elements."
        )
    return error


def _step_line(pages: Sequence[VisitedPage], at: int | None, width: int, muted: Style, current: Style) -> list[Segment]:
    """Draw the steps around step `at` in one line; None is the live page at the end."""
    names = [_step_name(number, page) for number, page in enumerate(pages, 1)]
    if at is None:
        names.append(LIVE)
        at = len(names) - 1
    first = last = at
    room = width - 4 - cell_len(names[at])
    while True:
        if last + 1 < len(names) and (need := cell_len(names[last + 1]) + 3) <= room:
            last, room = last + 1, room - need
        elif first > 0 and (need := cell_len(names[first - 1]) + 3) <= room:
            first, room = first - 1, room - need
        else:
            break
    parts = [Segment("‹ " if first else "  ", muted)]
    for step in range(first, last + 1):
        if step > first:
            parts.append(Segment(" · ", muted))
        parts.append(Segment(names[step], current + Style(bold=True, underline=True) if step == at else muted))
    if last < len(names) - 1:
        parts.append(Segment(" ›", muted))
    return parts


def _step_name(number: int, page: VisitedPage) -> str:
    """Name a step in few cells: its number, who did it, the function and its argument."""
    name = page.action
    if (call := _FUNCTION.match(name)) is not None:
        site = _SITE.search(call[2])
        name = f"{call[1]} {site[1] if site else call[2]}".replace("'", "").replace('"', "")
    who = "" if not page.by_user else ("* " if GLYPHS.ascii else "◆ ")
    return sanitize_line(f"{number} {who}{name}".strip(), STEP_CELLS)
