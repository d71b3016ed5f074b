"""Jump mode: letters over everything that can have the focus, and over every tab."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.geometry import Offset

from tui.shortcuts.command import Command, Group
from tui.workspace.layout import PANES

if TYPE_CHECKING:
    from tui.workspace.context import Context


def jump(app: Context) -> None:
    """Show the letters, and go to the place whose letter the user types."""
    from tui.jump.screen import JumpScreen

    targets = _targets(app)

    def chosen(number: int | None) -> None:
        if number is not None:
            targets[number][1]()

    app.push_screen(JumpScreen([offset for offset, _go in targets]), chosen)


def _targets(app: Context) -> list[tuple[Offset, Callable[[], object]]]:
    """Return the places on the screen, each with the function that goes there."""
    workspace, tabs = app.workspace, app.tabs
    targets: list[tuple[Offset, Callable[[], object]]] = []
    for x, target in workspace.tabs.places():
        kind, _colon, name = target.partition(":")
        if kind == "pane":
            targets.append((Offset(x, 0), partial(workspace.show_pane, name)))
        elif kind == "tab":
            targets.append((Offset(x, 0), partial(tabs.show, tabs.all[int(name)])))
    for widget in workspace.focus_chain:
        region = widget.region.intersection(workspace.region)
        if region:
            go = partial(workspace.show_pane, widget.id) if widget.id in PANES else widget.focus
            targets.append((region.offset, go))
    return targets


ROWS = (
    Command("app.jump", (), "Jump", "Show a letter over everything that can have the focus; typing it goes there.",
            Group.WORKSPACE, leader="g", slash="jump", run=jump),
)  # fmt: skip
