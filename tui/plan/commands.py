"""The agent's plan: shown or hidden, edited before the user approves it, made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.i18n import _
from tui.plan.model import plan_text, tasks_of
from tui.shortcuts.command import Command, Group, keyed

if TYPE_CHECKING:
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab
    from tui.workspace.tab import Tab


async def edit_plan(app: Context, tab: ConversationTab) -> None:
    """Let the user change the plan; then the agent carries out what they wrote."""
    from tui.plan.screen import PlanScreen

    before, raw_tasks = tab.plan.tasks, list(tab.plan.raw_tasks)
    text = await app.push_screen_wait(PlanScreen(plan_text(before)))
    if text is not None and (tasks := tasks_of(text, before, raw_tasks)):
        await tab.session.planning.approve(tasks)


LOOK_BACK = 5_000
"""Events before the loaded ones in which a plan is looked for: an older one says little about what is being done."""
PAGE = 500


def toggle_plan(app: Context) -> None:
    """Show the plan, or hide it."""
    tab = app.tabs.current
    if tab is None:
        app.flash(keyed(_("No conversation is open. Press {conv.new} to start one.")))
        return
    tab.plan.shown = not tab.plan.shown
    app.workspace.arrange_panes()
    app.wake(tab)
    look_for_plan(app, tab)


def look_for_plan(app: Context, tab: Tab) -> None:
    """Look for the plan of a tab that shows one and knows none that counts."""
    if tab.plan.shown and not tab.plan.is_known:
        app.attempt(_look_for_plan(app, tab))


async def _look_for_plan(app: Context, tab: Tab) -> None:
    """Look for a plan before the events that are loaded; the newest one that is found is shown."""
    before, looked = tab.oldest, 0
    while before and looked < LOOK_BACK and not tab.plan.is_known:
        page = await tab.log.page(before=before, limit=PAGE)
        tab.plan.prepend(page)
        before, looked = page[0].id if page else None, looked + len(page)
    app.wake(tab)


def plan_again(app: Context) -> None:
    """Have the agent make another plan before it changes anything more."""
    if app.tabs.conversation is not None:
        app.attempt(app.tabs.conversation.session.planning.again())


ROWS = (
    Command("tasks.toggle", ("ctrl+t",), "Plan", "Show or hide the agent's plan.", Group.PANES, slash="plan",
            run=toggle_plan),
    Command("plan.again", (), "Plan again", "The agent changes nothing more before you approve another plan.",
            Group.QUESTIONS, leader="L", slash="replan", acts=True, run=plan_again),
)  # fmt: skip
