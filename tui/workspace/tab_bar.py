"""The tab bar: each conversation with its state, and the names of the panes if only one fits.

If not all tabs fit, their titles are shortened, that of the current one last. If that is not enough, the bar shows the
tabs around the current one, and at each end the most urgent state of the hidden ones.
The wheel and a click on an end scroll it until the current tab changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.i18n import _
from tui.workspace.conversation_status import Mark

NEW = " + "
PANE_NAMES = {"chat": _("chat"), "events": _("events"), "terminal": _("terminal"), "browser": _("browser")}
MIN_TITLE_CELLS = 8
"""Titles are shortened to this before tabs are hidden."""
LEAST_CELLS = 12
"""With less room for the tabs, only the current one is shown, as a number; with more, the plus always has a place."""
_MIDDLE_BUTTON = 2


class TabItem(NamedTuple):
    """One tab. The title is clean."""

    title: str
    mark: Mark
    unread: bool
    in_split: bool = False
    """Whether it is shown beside the current one."""


class _Cell(NamedTuple):
    text: str
    style: str
    target: str


class TabStrip(Widget):
    """One line: conversations on the left, panes on the right."""

    DEFAULT_CSS = """
    TabStrip { height: 1; background: $panel; color: $text-muted; }
    """

    class Chosen(Message):
        """A conversation was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    class CloseWanted(Message):
        """A conversation was clicked with the middle button."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    class NewWanted(Message):
        """The plus after the tabs was clicked."""

    class PaneChosen(Message):
        """A pane was clicked."""

        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._items: Sequence[TabItem] = ()
        self._current = -1
        self._first: int | None = None
        """The tab that was scrolled to; None if the bar was not scrolled."""
        self._panes: Sequence[str] = ()
        self._pane = ""
        self._cells: list[_Cell] = []

    def show(self, items: Sequence[TabItem], current: int) -> None:
        """Show these conversations."""
        if (items, current) != (self._items, self._current):
            if current != self._current or len(items) != len(self._items):
                self._first = None
            self._items, self._current = items, current
            self.refresh()

    def show_panes(self, panes: Sequence[str], shown: str) -> None:
        """Show these pane names on the right."""
        if (panes, shown) != (self._panes, self._pane):
            self._panes, self._pane = panes, shown
            self.refresh()

    def render(self) -> Content:
        width = self.size.width
        right = [
            _Cell(
                f" {PANE_NAMES.get(pane, pane)} ",
                "bold $text-accent" if pane == self._pane else "$text-muted",
                f"pane:{pane}",
            )
            for pane in self._panes
        ]
        room = width - sum(cell_len(cell.text) for cell in right)
        if right and room < LEAST_CELLS and (counted := self._counted(room)) is not None:
            self._cells = [counted, _Cell(" " * (room - cell_len(counted.text)), "", ""), *right]
            return Content.assemble(*((cell.text, cell.style) for cell in self._cells))
        if room < LEAST_CELLS:
            right, room = [], width
        left = fit_tabs(self._items, self._current, room - (len(NEW) if room > LEAST_CELLS else 0), self._first)
        gap = room - sum(cell_len(cell.text) for cell in left)
        if gap >= len(NEW):
            left.append(_Cell(NEW, "$text-muted", "new"))
            gap -= len(NEW)
        self._cells = [*left, _Cell(" " * max(0, gap), "", ""), *right]
        return Content.assemble(*((cell.text, cell.style) for cell in self._cells))

    def _counted(self, room: int) -> _Cell | None:
        """The current conversation as a number of how many, where its title has no room; None if that has none."""
        if not 0 <= self._current < len(self._items):
            return None
        item, count = self._items[self._current], len(self._items)
        number = f"{self._current + 1}/{count}" if count > 1 else "1"
        text = f" {number} {item.mark.glyph} "
        style = "bold $foreground on $surface"
        return _Cell(text, style, f"tab:{self._current}") if cell_len(text) <= room else None

    def places(self) -> list[tuple[int, str]]:
        """The column and the target of each tab and pane name: `tab:INDEX` or `pane:NAME`."""
        found, x = [], 0
        for cell in self._cells:
            if cell.target:
                found.append((x, cell.target))
            x += cell_len(cell.text)
        return found

    def on_click(self, event: events.Click) -> None:
        x = 0
        for cell in self._cells:
            x += cell_len(cell.text)
            if event.x < x:
                kind, _colon, name = cell.target.partition(":")
                if kind == "pane":
                    self.post_message(self.PaneChosen(name))
                elif kind == "tab" and event.button == _MIDDLE_BUTTON:
                    self.post_message(self.CloseWanted(int(name)))
                elif kind == "tab":
                    self.post_message(self.Chosen(int(name)))
                elif kind == "new":
                    self.post_message(self.NewWanted())
                elif kind == "scroll":
                    self._show_from(int(name))
                return

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll_by(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll_by(-1)

    def _scroll_by(self, step: int) -> None:
        tabs = [int(cell.target.partition(":")[2]) for cell in self._cells if cell.target.startswith("tab:")]
        hidden = self._cells and any(cell.target.startswith("scroll:") for cell in self._cells)
        if tabs and hidden:
            self._show_from(tabs[0] + step)

    def _show_from(self, first: int) -> None:
        self._first = min(max(0, first), len(self._items) - 1)
        self.refresh()


def fit_tabs(items: Sequence[TabItem], current: int, width: int, first: int | None = None) -> list[_Cell]:
    """The tabs that fit, from `first` on or around the current one. An end where tabs are hidden has a mark."""
    if not items:
        nothing = f" {_('no conversation')} "
        return [_Cell(set_cell_size(nothing, min(width, cell_len(nothing))), "$text-muted", "")]
    cells = [_tab(index, item, index == current) for index, item in enumerate(items)]
    sizes = [cell_len(cell.text) for cell in cells]
    if sum(sizes) <= width:
        return cells
    if (limits := _title_limits(items, current, width - sum(sizes))) is not None:
        shortened = [item._replace(title=_cut(item.title, limit)) for item, limit in zip(items, limits, strict=True)]
        return [_tab(index, item, index == current) for index, item in enumerate(shortened)]
    start = first if first is not None else _start(sizes, max(current, 0), width)
    room = width - (2 if start else 0)
    end = start
    while end < len(cells) and sum(sizes[start : end + 1]) <= room - (2 if end + 1 < len(cells) else 0):
        end += 1
    shown = cells[start:end]
    if not shown:
        cut = cells[start]
        shown, end = [cut._replace(text=set_cell_size(cut.text, max(0, room - 3)) + "…")], start + 1
    before = [_end("‹", items[:start], max(0, start - 1))] if start else []
    after = [_end("›", items[end:], start + 1)] if end < len(items) else []
    return [*before, *shown, *after]


def _title_limits(items: Sequence[TabItem], current: int, spare: int) -> list[int] | None:
    """The most cells of each title with which all tabs fit, the current one whole if possible; None if they do not.

    `spare` is what the whole tabs leave of the bar's width; it is negative.
    """
    titles = [cell_len(item.title) for item in items]
    for whole in (current, -1):
        for limit in range(max(titles), MIN_TITLE_CELLS - 1, -1):
            limits = [cells if index == whole else min(cells, limit) for index, cells in enumerate(titles)]
            if sum(titles) - sum(limits) + spare >= 0:
                return limits
    return None


def _cut(title: str, limit: int) -> str:
    """A title of at most `limit` cells."""
    return title if cell_len(title) <= limit else set_cell_size(title, limit - 1).rstrip() + "…"


def _start(sizes: Sequence[int], current: int, width: int) -> int:
    """The first tab to show so that the current one fits, too."""
    start = 0
    while start < current and sum(sizes[start : current + 1]) > width - 2 - (2 if start else 0):
        start += 1
    return start


def _end(sign: str, hidden: Sequence[TabItem], target: int) -> _Cell:
    """The mark for the tabs that are hidden on one side."""
    for mark in (Mark.WAITING, Mark.RUNNING):
        if any(item.mark is mark for item in hidden):
            return _Cell(sign + mark.glyph, f"bold {mark.colour}", f"scroll:{target}")
    news = "*" if any(item.unread for item in hidden) else " "
    return _Cell(sign + news, "bold $foreground", f"scroll:{target}")


def _tab(index: int, item: TabItem, current: bool) -> _Cell:
    unread = "*" if item.unread else " "
    text = f" {index + 1} {item.mark.glyph}{unread}{item.title} "
    if current:
        return _Cell(text, "bold $foreground on $surface", f"tab:{index}")
    if item.in_split:
        return _Cell(text, "$foreground on $surface", f"tab:{index}")
    return _Cell(text, item.mark.colour, f"tab:{index}")
