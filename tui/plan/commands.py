"""Commands for the agent's plan: show or hide it, edit it before approval, ask for a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import TextArea

from tui.dialogs.modal import Modal
from tui.i18n import _
from tui.plan.model import plan_text, tasks_of
from tui.shortcuts.command import Command, Group, keyed

if TYPE_CHECKING:
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab
    from tui.workspace.tab import Tab


class PlanScreen(Modal[str | None]):
    """An editor for the plan before it is approved: one task a line, with its notes indented below.

    The result is its text, or None if the user cancels.
    """

    DEFAULT_CSS = """
    PlanScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: 90%; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        TextArea, TextArea:focus { height: 1fr; border: none; background: $surface; padding: 0; }
    }
    """
    BINDINGS = [
        Binding("escape", "leave", "Leave", priority=True),
        Binding("ctrl+s", "carry_out", "Carry out", priority=True),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Plan: one task per line, notes indented below")
            box.border_subtitle = _("ctrl+s approves · Esc cancels")
            yield TextArea(self._text, show_line_numbers=False)

    def on_mount(self) -> None:
        """An idle screen draws nothing."""
        area = self.query_one(TextArea)
        area.cursor_blink = False
        area.focus()

    def action_carry_out(self) -> None:
        """Close with the text."""
        self.dismiss(self.query_one(TextArea).text)

    def action_leave(self) -> None:
        """Close without a result."""
        self.dismiss(None)


async def edit_plan(app: Context, tab: ConversationTab) -> None:
    """Let the user edit the plan; then the agent carries it out."""
    before, raw_tasks = tab.plan.tasks, list(tab.plan.raw_tasks)
    text = await app.push_screen_wait(PlanScreen(plan_text(before)))
    if text is not None and (tasks := tasks_of(text, before, raw_tasks)):
        await tab.session.planning.approve(tasks)


LOOK_BACK = 5_000
"""How many events before the loaded ones are searched for a plan: an older one is outdated."""
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
    """Look for the plan if the tab shows plans and has none."""
    if tab.plan.shown and not tab.plan.is_known:
        app.attempt(_look_for_plan(app, tab))


async def _look_for_plan(app: Context, tab: Tab) -> None:
    """Search the events before the loaded ones for a plan, and show the newest one."""
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
            run=toggle_plan,
            also="todo todos tasks"),
    Command("plan.again", (), "Plan again", "Ask for another plan. The agent changes nothing until you approve it.",
            Group.QUESTIONS, leader="L", slash="replan", acts=True, run=plan_again),
)  # fmt: skip
