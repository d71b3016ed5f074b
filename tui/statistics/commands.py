"""Statistics on the screen: of the current conversation, and of the sessions of all agents."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from textual.content import Content

from tui.i18n import _
from tui.shortcuts.command import Command, Group, keyed

if TYPE_CHECKING:
    from pathlib import Path

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


def show_costs_of_agents(app: Context) -> None:
    """Show what the sessions of other agents cost."""
    if app.manager is not None:
        app.attempt(_show_costs_of_agents(app, app.manager.store.home))


async def _show_costs_of_agents(app: Context, home: Path) -> None:
    from tui.dialogs.dialog import TextScreen

    reports = await asyncio.to_thread(import_module, "tui.statistics.cli")
    text = await reports.report_all_agents(home)
    if text:
        app.push_screen(TextScreen(_("Costs of other agents"), Content(text)))
    else:
        app.report(keyed(_("No sessions of other agents were read yet. {conv.manager} asks for them.")))


ROWS = (
    Command("conv.statistics", (), "Statistics", "Show the model calls, tokens, cost and time of this conversation.",
            Group.CONVERSATIONS, leader="$", slash="statistics", run=show_statistics,
            aliases=("cost", "usage"), also="status context tokens price money spend stats"),
    Command("conv.agent_costs", (), "Costs of other agents", "Show what the sessions of other agents cost.",
            Group.CONVERSATIONS, slash="spending", run=show_costs_of_agents,
            also="claude codex opencode gemini spending usage statistics"),
)  # fmt: skip
