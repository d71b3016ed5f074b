"""The line of tabs on top: each conversation with its state; in one-pane screens also the panes.

Shows what it is given and reports clicks; it knows no conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.marks import Mark


class TabItem(NamedTuple):
    """One conversation on the line. The title is clean."""

    title: str
    mark: Mark
    unread: bool


class _Cell(NamedTuple):
    text: str
    style: str
    target: str


class TabStrip(Widget):
    """One line: conversations on the left, panes on the right where only one is shown."""

    DEFAULT_CSS = """
    TabStrip { height: 1; background: $panel; color: $text-muted; }
    """

    class Chosen(Message):
        """A conversation was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    class PaneChosen(Message):
        """A pane was clicked."""

        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._items: Sequence[TabItem] = ()
        self._current = -1
        self._panes: Sequence[str] = ()
        self._pane = ""
        self._cells: list[_Cell] = []

    def show(self, items: Sequence[TabItem], current: int) -> None:
        """Show these conversations."""
        if (items, current) != (self._items, self._current):
            self._items, self._current = items, current
            self.refresh()

    def show_panes(self, panes: Sequence[str], shown: str) -> None:
        """Show these pane names on the right; none takes them away."""
        if (panes, shown) != (self._panes, self._pane):
            self._panes, self._pane = panes, shown
            self.refresh()

    def render(self) -> Content:
        """The line, cut to the width around the current tab."""
        width = self.size.width
        right = [
            _Cell(f" {pane} ", "bold $text-accent" if pane == self._pane else "$text-muted", f"pane:{pane}")
            for pane in self._panes
        ]
        room = width - sum(cell_len(cell.text) for cell in right)
        if room < 12:
            right, room = [], width
        left = fit_tabs(self._items, self._current, room)
        gap = room - sum(cell_len(cell.text) for cell in left)
        self._cells = [*left, _Cell(" " * max(0, gap), "", ""), *right]
        return Content.assemble(*((cell.text, cell.style) for cell in self._cells))

    def places(self) -> list[tuple[int, str]]:
        """Where each tab and pane name begins, and what it is: `tab:INDEX` or `pane:NAME`."""
        found, x = [], 0
        for cell in self._cells:
            if cell.target:
                found.append((x, cell.target))
            x += cell_len(cell.text)
        return found

    def on_click(self, event: events.Click) -> None:
        """Report what was clicked."""
        x = 0
        for cell in self._cells:
            x += cell_len(cell.text)
            if event.x < x:
                kind, _, name = cell.target.partition(":")
                if kind == "pane":
                    self.post_message(self.PaneChosen(name))
                elif kind == "tab":
                    self.post_message(self.Chosen(int(name)))
                return


def fit_tabs(items: Sequence[TabItem], current: int, width: int) -> list[_Cell]:
    """The tabs that fit, the current one always among them and those before it dropped first."""
    if not items:
        return [_Cell(" no conversation "[:width], "$text-muted", "")]
    cells = [_tab(index, item, index == current) for index, item in enumerate(items)]
    first = 0
    while first < max(current, 0) and sum(cell_len(c.text) for c in cells[first : current + 1]) > width:
        first += 1
    shown: list[_Cell] = []
    used = 0
    for cell in cells[first:]:
        size = cell_len(cell.text)
        if used + size > width:
            if not shown:
                shown.append(_Cell(cell.text[: max(0, width - 1)] + "…", cell.style, cell.target))
            break
        shown.append(cell)
        used += size
    return shown


def _tab(index: int, item: TabItem, current: bool) -> _Cell:
    unread = "*" if item.unread else " "
    text = f" {index + 1} {item.mark.glyph}{unread}{item.title} "
    if current:
        return _Cell(text, "bold $foreground on $surface", f"tab:{index}")
    return _Cell(text, item.mark.colour, f"tab:{index}")
