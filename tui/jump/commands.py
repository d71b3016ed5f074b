"""Jump mode: a letter over everything that can have the focus, and over every tab."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.geometry import Offset

from tui.shortcuts.command import Command, Group
from tui.workspace.layout import PANES

if TYPE_CHECKING:
    from textual.widget import Widget

    from tui.workspace.context import Context
    from tui.workspace.screen import Workspace


def jump(app: Context) -> None:
    """Show the letters, and go where the user's letter is."""
    from tui.jump.screen import JumpScreen

    targets = _targets(app)

    def chosen(number: int | None) -> None:
        if number is not None:
            targets[number][1]()

    app.push_screen(JumpScreen([offset for offset, go in targets]), chosen)


def _targets(app: Context) -> list[tuple[Offset, Callable[[], object]]]:
    """Places on the screen, each with the function that goes there."""
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
            targets.append((region.offset, _go_to(workspace, widget)))
    return targets


def _go_to(workspace: Workspace, widget: Widget) -> Callable[[], object]:
    return partial(workspace.show_pane, widget.id) if widget.id in PANES else widget.focus


ROWS = (
    Command("app.jump", (), "Jump", "Show a letter over everything that can have the focus; typing it goes there.",
            Group.WORKSPACE, leader="g", slash="jump", run=jump),
)  # fmt: skip
