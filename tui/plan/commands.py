"""The plan of a Planner: the user approves it, edits it first, or wants another. A mixin of the app's handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.plan.plan_text import plan_text, tasks_of
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from tui.workspace.conversation import ConversationTab


class Planning(Frame):
    """Commands for plans, by their ids of the command table."""

    async def edit_plan(self, tab: ConversationTab) -> None:
        """Let the user change the plan; then the agent carries out what they wrote."""
        from tui.plan.screen import PlanScreen

        before, told = tab.plan.tasks, list(tab.plan.told)
        text = await self.push_screen_wait(PlanScreen(plan_text(before)))
        if text is not None and (tasks := tasks_of(text, before, told)):
            await tab.session.planning.approve(tasks)

    def do_plan_again(self) -> None:
        if self.living is not None:
            self.attempt(self.living.session.planning.again())
