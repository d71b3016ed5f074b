"""The plan of a conversation: the latest list of tasks that its log has, and since when each stands as it does.

A pure fold over the results of the planning tool; live, replayed and loaded later from older pages alike. Times are
those of the events, so that they survive a restart. Texts are clean. Knows no Textual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tui.i18n import _
from tui.panes.pane import PaneModel
from tui.text import sanitize_line

if TYPE_CHECKING:
    from core.events import Envelope

MAX_TASKS = 200
"""A longer plan is cut, and says so: nobody reads it, and every change would pay for it."""
TITLE_CELLS = 200
STATES = ("todo", "in_progress", "done")


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the plan."""

    title: str
    state: str
    """One of STATES; what is not known of a task counts as todo."""
    notes: str = ""
    since: datetime | None = None
    """When it came into this state."""
    began: datetime | None = None
    """When it was begun; None where that was never told."""


class PlanModel(PaneModel):
    """The plan of one conversation."""

    def __init__(self) -> None:
        self.tasks: tuple[Task, ...] = ()
        self.told: list[dict[str, Any]] = []
        """The same as they were told, foreign."""
        self.left_out = 0
        """Tasks beyond MAX_TASKS."""
        self.version = 0
        self.shown = False
        """Whether the user wants to see it; each conversation has its own answer."""
        self._at = -1
        """The event that the list is from."""

    @property
    def is_known(self) -> bool:
        """Whether a plan was told in what is loaded."""
        return self._at >= 0

    @property
    def done(self) -> int:
        """How many are done."""
        return sum(task.state == "done" for task in self.tasks)

    @property
    def current(self) -> Task | None:
        """The one that is being done; else the next one; None where all are done."""
        for state in ("in_progress", "todo"):
            for task in self.tasks:
                if task.state == state:
                    return task
        return None

    @property
    def began(self) -> datetime | None:
        """When the first task was begun."""
        return min((task.began for task in self.tasks if task.began is not None), default=None)

    @property
    def ended(self) -> datetime | None:
        """When the last one was done; None while one is not."""
        if self.current is not None or not self.tasks:
            return None
        return max((task.since for task in self.tasks if task.since is not None), default=None)

    def apply(self, envelope: Envelope) -> None:
        """Take over a plan that is told."""
        if (told := _told(envelope)) is not None and envelope.id > self._at:
            self._take(told, envelope)

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        """An older page tells the plan where no newer one did, and since when its tasks stand as they do."""
        plans = [envelope for envelope in envelopes if _told(envelope) is not None]
        if plans and self._at < 0:
            for envelope in plans:
                self.apply(envelope)

    def _take(self, told: Sequence[Any], envelope: Envelope) -> None:
        before = {task.title: task for task in self.tasks}
        tasks = [_task(raw, before, envelope.timestamp) for raw in told[:MAX_TASKS] if isinstance(raw, dict)]
        self.told = [dict(raw) for raw in told[:MAX_TASKS] if isinstance(raw, dict)]
        self.tasks, self.left_out, self._at = tuple(tasks), max(0, len(told) - MAX_TASKS), envelope.id
        self.version += 1
        self.notify()


def _told(envelope: Envelope) -> Sequence[Any] | None:
    """The plan that an event tells; None for every other event."""
    kind, told = getattr(envelope.event, "kind", ""), getattr(envelope.event, "task_list", None)
    if kind == "plan":
        return told or None  # as the user approved it
    if kind != "task_tracking" or not hasattr(envelope.event, "content"):
        return None  # the action is a wish; its result is what came of it
    return told if isinstance(told, list) else None


def _task(raw: dict[str, Any], before: dict[str, Task], at: datetime) -> Task:
    title = sanitize_line(str(raw.get("title") or _("Untitled")), TITLE_CELLS)
    state = str(raw.get("status"))
    state = state if state in STATES else "todo"
    notes = sanitize_line(str(raw.get("notes") or ""), TITLE_CELLS)
    old = before.get(title)
    since = old.since if old is not None and old.state == state else at
    began = old.began if old is not None and old.began is not None else (at if state == "in_progress" else None)
    return Task(title, state, notes, since, began)
