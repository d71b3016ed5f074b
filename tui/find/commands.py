"""The commands to find text in a pane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.scroll_view import ScrollView

from tui.shortcuts.command import Command, Group, Scope

if TYPE_CHECKING:
    from tui.find.pane_search import FindBar
    from tui.workspace.context import Context


def find_bar(app: Context) -> FindBar | None:
    from tui.find.pane_search import FindBar

    return next(iter(app.workspace.query(FindBar)), None)


async def open_find(app: Context) -> None:
    """Search the focused pane; from anywhere else, the chat."""
    from tui.find.pane_search import Findable, FindBar

    workspace, bar = app.workspace, find_bar(app)
    focused = workspace.focused
    name = focused.id if isinstance(focused, Findable) and focused.id else "chat"
    if bar is not None and (focused is bar.input or bar.view.id == name):
        bar.input.focus()
        return
    if bar is not None:
        await bar.remove()
    if not workspace.pane(name).display:
        workspace.show_pane(name)
    pane = workspace.pane(name)
    assert isinstance(pane, ScrollView)
    await workspace.mount(FindBar(pane))


def leave_find(app: Context) -> bool:
    """Close the search if it or its pane has the focus, and focus the pane. Returns whether it was open."""
    bar = find_bar(app)
    if bar is None or app.workspace.focused not in (bar.input, bar.view):
        return False
    bar.view.focus()
    bar.remove()
    return True


def show_tally(app: Context) -> None:
    bar = find_bar(app)
    if bar is not None and bar.is_mounted:
        bar.show_tally()


ROWS = (
    Command("find", ("ctrl+f",), "Find", "Find text in the focused pane. {find.next} goes to the next match, "
            "{find.prev} to the previous one, {app.back} closes the search.", Group.PANES, hint="find", slash="find",
            run=open_find),
    Command("list.find_next", ("n",), "Next match", "Go to the next match.", Group.READING,
            Scope.LIST, native=True),
    Command("list.find_prev", ("N",), "Previous match",
            "Go to the previous match; before the first one, load older events.",
            Group.READING, Scope.LIST, native=True),
    Command("find.next", ("enter",), "Next match",
            "Go to the next match; after the last one, to the first.", Group.READING,
            Scope.FIND, hint="next", native=True),
    Command("find.prev", ("up", "shift+enter"), "Previous match",
            "Go to the previous match.", Group.READING, Scope.FIND,
            hint="before", native=True),
    Command("find.read", ("tab",), "Read on", "Focus the pane; {list.find_next} and {list.find_prev} step through "
            "matches there, {app.back} closes the search.", Group.READING, Scope.FIND, hint="to the pane", native=True),
)  # fmt: skip
