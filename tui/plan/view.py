"""The plan on the screen: a panel beside the chat, or one line above the prompt where there is no room for it.

`panel` and `folded` are pure: plan, time and width in, text out. Every state has its word beside its glyph, so that it
can be read without colour. Nothing here has a timer: the caller of the next frame passes the time.
"""

from __future__ import annotations

from datetime import UTC, datetime

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tui.commands import keyed
from tui.dialogs.search_list import elided
from tui.i18n import _
from tui.plan.model import PlanModel, Task
from tui.workspace.footer import duration

GLYPHS = {"done": "✓", "in_progress": "→", "todo": "○"}
WORDS = {"done": _("done"), "in_progress": _("doing"), "todo": _("to do")}
COLOURS = {"done": "$text-success", "in_progress": "$text-primary", "todo": "$text-muted"}
EMPTY = _("The agent's plan appears here once it makes one.")


class PlanPanel(VerticalScroll, can_focus=True):
    """The plan beside the chat. Takes the focus, so that a long one can be read by keys."""

    DEFAULT_CSS = """
    PlanPanel {
        display: none; height: auto; max-height: 50%; padding: 0 0 0 1; background: $background;
        border-top: solid $panel; border-left: solid $panel; scrollbar-size-vertical: 1;
        border-title-color: $text-muted; border-title-style: none;
        &.-shown { display: block; }
        &:focus { border-top: heavy $accent; border-title-color: $text-accent; border-title-style: bold; }
    }
    """
    HELP = keyed(_("The agent's plan. It changes as the agent works; ↑ ↓ scroll, {tasks.toggle} hides it."))

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._drawn: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static(id="plan-text")

    def sync(self, plan: PlanModel | None, running: bool) -> None:
        """Draw the plan if it has changed."""
        now = datetime.now(UTC) if running else None
        width = max(8, self.scrollable_content_region.width)
        drawn = (id(plan), plan.version if plan else 0, width, int(now.timestamp()) if now else 0)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self.border_title = heading(plan, now)
        self.query_one("#plan-text", Static).update(panel(plan, now, width))


class PlanLine(Static):
    """The plan in one line."""

    DEFAULT_CSS = """
    PlanLine { display: none; height: 1; padding: 0 1; background: $panel; color: $foreground; }
    PlanLine.-shown { display: block; }
    """

    def sync(self, plan: PlanModel | None, running: bool) -> None:
        """Draw the plan."""
        now = datetime.now(UTC) if running else None
        self.update(folded(plan, now, max(8, self.size.width - 2)))


def heading(plan: PlanModel | None, now: datetime | None) -> str:
    """`Plan 3/7, 4m10s`."""
    if plan is None or not plan.tasks:
        return _("Plan")
    took = _took(plan.began, plan.ended or now)
    far = _("Plan {done}/{all}").format(done=plan.done, all=len(plan.tasks))
    return f"{far}, {took}" if took else far


def panel(plan: PlanModel | None, now: datetime | None, width: int) -> Content:
    """Every task with its state in a glyph and a word, and how long it took or has taken until now."""
    if plan is None or not plan.tasks:
        return Content.styled(EMPTY, "$text-muted")
    parts: list[tuple[str, str]] = []
    for number, task in enumerate(plan.tasks):
        parts += [("\n" if number else "", ""), *_line(task, now, width)]
        if task.state == "in_progress" and task.notes:
            parts.append((f"\n  {elided(task.notes, width - 2)}", "$text-muted"))
    if plan.left_out:
        parts.append(("\n" + _("… and {n} more").format(n=f"{plan.left_out:,}"), "$text-muted"))
    return Content.assemble(*parts)


def folded(plan: PlanModel | None, now: datetime | None, width: int) -> Content:
    """Progress and the task at hand in one line."""
    if plan is None or not plan.tasks:
        return Content.styled(elided(EMPTY, width), "$text-muted")
    count = f"{heading(plan, now)}  "
    task = plan.current
    if task is None:
        return Content.assemble((count, "bold"), (elided(_("✓ all done"), width - cell_len(count)), "$text-success"))
    return Content.assemble((count, "bold"), *_line(task, now, width - cell_len(count)))


def _line(task: Task, now: datetime | None, width: int) -> list[tuple[str, str]]:
    until = task.since if task.state == "done" else now
    took = _took(task.began, until) if task.state != "todo" else ""
    word = f"  {WORDS[task.state]}{f' {took}' if took else ''}"
    title = elided(task.title, width - 2 - cell_len(word))
    if cell_len(title) < min(8, cell_len(task.title)):
        title, word = elided(task.title, width - 2), ""
    gap = " " * max(0, width - 2 - cell_len(title) - cell_len(word))
    weight = "bold" if task.state == "in_progress" else "$text-muted" if task.state == "done" else ""
    return [(f"{GLYPHS[task.state]} ", COLOURS[task.state]), (title, weight), (gap + word, COLOURS[task.state])]


def _took(since: datetime | None, until: datetime | None) -> str:
    if since is None or until is None:
        return ""
    return duration(max(0, int((until - since).total_seconds())))
