"""The statistics of the current conversation, on the screen."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from textual.content import Content

from tui.i18n import _
from tui.shortcuts.command import Command, Group

if TYPE_CHECKING:
    from tui.workspace.context import Context
    from tui.workspace.tab import Tab


def show_statistics(app: Context) -> None:
    """Show what the current conversation used."""
    if app.tabs.current is not None:
        app.attempt(_show_statistics(app, app.tabs.current))


async def _show_statistics(app: Context, tab: Tab) -> None:
    from tui.dialogs.dialog import TextScreen

    reports = await asyncio.to_thread(import_module, "tui.statistics.cli")
    assert app.manager is not None
    text = await reports.report(app.manager.store, tab.id)
    app.push_screen(TextScreen(_("Statistics"), Content(text)))


ROWS = (
    Command("conv.statistics", (), "Statistics", "Show the model calls, tokens, cost and time of this conversation.",
            Group.CONVERSATIONS, leader="$", slash="statistics", run=show_statistics,
            aliases=("cost", "usage"), also="status context tokens price money spend stats"),
)  # fmt: skip
